"""Tables that the commands print."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from accams import metrics
from accams.data.observations import Observations
from accams.fitted.model import Model
from accams.model.size import bytes_text
from accams.use.evaluation import Evaluation

COVERAGE = 0.9


def fit_report(model: Model, held_out: Observations | None, seconds: float, output: Path) -> Table:
    """Return the table that `accams fit` prints."""
    table, training, result = two_columns(), model.info.training, model.evaluation
    single = model.posterior is None
    table.add_row("train RMSE", number(training["train_rmse_"]) + ("" if single else "  (of single draws)"))
    if held_out is not None and result is not None:
        what = "" if single else "of the posterior mean; "
        table.add_row("test RMSE", f"{result.rmse:.4f}  ({what}{held_out.nnz:,} entries held out)")
        if not single:
            table.add_row("", f"{error_of_one_draw(model, held_out):.4f}  (of one draw)")
            table.add_row("coverage", coverage_text(result))
    if single:
        table.add_row("stencils", f"{len(model.stencils)}")
        table.add_row("size", f"{bytes_text(model.stencils.bits / 8)} by the paper's formula")
    else:
        posterior_rows(table, model)
    table.add_row("time", f"{seconds:.1f} s on engine {training.get('engine_', '-')}")
    table.add_row("saved", f"{output} ({bytes_text(output.stat().st_size)})")
    return table


def coverage_text(result: Evaluation) -> str:
    """Return the share of observations inside their intervals."""
    return f"{100 * (result.covered(COVERAGE) or 0.0):.1f}%  (of the entries, by {COVERAGE:.0%} intervals)"


def posterior_rows(table: Table, model: Model) -> None:
    """Add noise, length and agreement of the chains."""
    assert model.posterior is not None
    draws, training = model.posterior.draws, model.info.training
    table.add_row("sigma", f"{number(training.get('sigma_'))}  (noise of the sampler)")
    table.add_row("predictive sigma", f"{model.posterior.noise:.4f}  (noise of a new observation)")
    table.add_row("sweeps", f"{training.get('n_sweeps_', 0):,}")
    table.add_row("draws", f"{len(draws):,}")
    table.add_row("chains", f"{len({draw.chain for draw in draws}):,}")
    table.add_row("R-hat", f"{number((training.get('r_hat_') or {}).get('probes'), 2)}  (of the probes, median)")


def error_of_one_draw(model: Model, held_out: Observations) -> float:
    """Return the RMSE of the draw that is kept as `stencils`, on data of the same shape as the training data."""
    i, j, values = held_out.coo()
    prediction: NDArray[np.float64] = np.clip(model.stencils.predict(i, j), *model.value_range)
    return metrics.rmse(values, prediction, held_out.weights)


def two_columns() -> Table:
    """Return an empty table of names and values."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    return table


def number(x: Any, digits: int = 4) -> str:
    """Return a number as text, or a dash for None."""
    return "-" if x is None else f"{x:.{digits}f}"
