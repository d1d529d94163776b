"""Tables that the commands print."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from accams import metrics
from accams.data.observations import Observations
from accams.estimators.accams import ACCAMS
from accams.estimators.base import StencilEstimator
from accams.estimators.bayesian import BayesianACCAMS
from accams.estimators.quality import Quality
from accams.model.size import bytes_text

COVERAGE = 0.9


def fit_report(model: StencilEstimator, held_out: Observations | None, seconds: float, output: Path) -> Table:
    """What a fit has come to."""
    table = two_columns()
    if isinstance(model, BayesianACCAMS):
        _bayes_rows(table, model, held_out)
    elif isinstance(model, ACCAMS):
        _accams_rows(table, model, held_out)
    table.add_row("time", f"{seconds:.1f} s on engine {getattr(model, 'engine_', '-')}")
    table.add_row("saved", f"{output} ({bytes_text(output.stat().st_size)})")
    return table


def _accams_rows(table: Table, model: ACCAMS, held_out: Observations | None) -> None:
    table.add_row("train RMSE", number(model.train_rmse_))
    if held_out is not None:
        table.add_row("test RMSE", f"{model.quality_.rmse:.4f}  ({held_out.nnz:,} entries held out)")
    table.add_row("stencils", f"{model.n_stencils_}")
    table.add_row("size", f"{bytes_text(model.stencils_.bits / 8)} by the paper's formula")


def _bayes_rows(table: Table, model: BayesianACCAMS, held_out: Observations | None) -> None:
    table.add_row("train RMSE", f"{number(model.train_rmse_)}  (of single draws)")
    if held_out is not None:
        found = model.quality_
        table.add_row("test RMSE", f"{found.rmse:.4f}  (of the posterior mean; {held_out.nnz:,} entries held out)")
        table.add_row("", f"{error_of_one_draw(model, held_out):.4f}  (of one draw)")
        table.add_row("coverage", coverage_text(found))
    posterior_rows(table, model)


def coverage_text(found: Quality) -> str:
    """How many observations lie within their intervals."""
    return f"{100 * (found.covered(COVERAGE) or 0.0):.1f}%  (of the entries, by {COVERAGE:.0%} intervals)"


def posterior_rows(table: Table, model: BayesianACCAMS) -> None:
    """Noise, length and agreement of the chains."""
    draws = model.posterior_.draws
    table.add_row("sigma", f"{model.sigma_:.4f}  (noise of the sampler)")
    table.add_row("predictive sigma", f"{model.predictive_sigma_:.4f}  (noise of a new observation)")
    table.add_row("sweeps", f"{model.n_sweeps_:,}")
    table.add_row("draws", f"{len(draws):,}")
    table.add_row("chains", f"{len({draw.chain for draw in draws}):,}")
    table.add_row("R-hat", f"{number(model.r_hat_.get('probes'), 2)}  (of the probes, median)")


def error_of_one_draw(model: BayesianACCAMS, held_out: Observations) -> float:
    """RMSE of the draw that is kept as `stencils_`, on data of the same shape as the training data."""
    i, j, values = held_out.coo()
    prediction: NDArray[np.float64] = np.clip(model.stencils_.predict(i, j), *model.value_range_)
    return metrics.rmse(values, prediction, held_out.weights)


def two_columns() -> Table:
    """A table of names and what they are."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    return table


def number(x: Any, digits: int = 4) -> str:
    """A number, or a dash where there is none."""
    return "-" if x is None else f"{x:.{digits}f}"
