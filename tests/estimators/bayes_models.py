"""Small, quick Bayesian models, and what it means that two of them are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from shared_inputs import model_of, same_sums

from accams import BayesianACCAMS, Observations
from accams.settings.bayesian import BayesianSettings
from accams.settings.fields import every

SAMPLERS = [("blocked", "dirichlet"), ("collapsed", "dirichlet"), ("collapsed", "crp")]
GRAPH = Observations.from_sparse(sparse.csr_array(np.eye(20) + np.eye(20, k=1)), zeros="observed")
QUICK: dict[str, Any] = {
    "n_stencils": 3, "n_clusters": (4, 3), "noise": 0.8, "n_chains": 2, "n_sweeps": 4, "n_burn_in": 1, "thin": 1,
}  # fmt: skip
PLACES = {name.rpartition("__")[2]: name for name, _ in every(BayesianSettings)}


def placed(**parameters: Any) -> dict[str, Any]:
    """Return parameters with those of `Priors` and `Schedule` by their full names, such as `priors__alpha`."""
    return {PLACES[name]: value for name, value in parameters.items()}


def make(**parameters: Any) -> BayesianACCAMS:
    """Two chains of four sweeps, of which the last three are kept; nothing is calibrated."""
    return BayesianACCAMS().set_params(**placed(**{**QUICK, **parameters}))


def same_draws(one: Any, two: Any) -> bool:
    """Whether two draws are equal, bit for bit."""
    arrays = ("rows", "cols", "flat", "starts", "widths", "row_effects", "col_effects")
    return (one.chain, one.sweep, one.codes.offset) == (two.chain, two.sweep, two.codes.offset) and all(
        _equal(a, b)
        for a, b in [
            *((getattr(one.codes, name), getattr(two.codes, name)) for name in arrays),
            (one.row_shares, two.row_shares),
            (one.row_noise, two.row_noise),
        ]
    )


def same_posteriors(one: Any, two: Any) -> bool:
    """Whether draws, noise and traces are equal, bit for bit."""
    return (
        (one.shape, one.noise, len(one)) == (two.shape, two.noise, len(two))
        and all(same_draws(a, b) for a, b in zip(one.draws, two.draws, strict=True))
        and one.traces.keys() == two.traces.keys()
        and all(_equal(one.traces[name], two.traces[name]) for name in one.traces)
        and _equal(one.probes, two.probes)
    )


def same(one: Any, two: Any) -> bool:
    """Whether two fitted estimators or models are equal, bit for bit."""
    numbers = ("sigma_", "predictive_sigma_", "n_sweeps_", "train_rmse_")
    asked = ("predicted_at_", "predicted_at_std_")
    models = model_of(one), model_of(two)
    return (
        same_sums(*(each.stencils for each in models))
        and same_posteriors(*(each.posterior for each in models))
        and all(models[0].info.training[name] == models[1].info.training[name] for name in numbers)
        and all(_equal(vars(one).get(name), vars(two).get(name)) for name in asked)
    )


def _equal(a: Any, b: Any) -> bool:
    return (a is None) == (b is None) and (a is None or np.array_equal(a, b))
