"""Settings of BayesianACCAMS: what most users set, and two records for experts."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from accams.settings import common
from accams.settings.fields import Settings, place_moved, setting, settings
from accams.settings.kinds import (
    AUTO,
    FLAG,
    NONE,
    POSITIVE,
    Bytes,
    Clusters,
    Either,
    FilePath,
    Instance,
    Integer,
    Number,
    Pair,
    Several,
    Words,
)

BACKFIT_VISITS = 20  # per stencil, where the deprecated schedule="backfit" does not say


@settings(frozen=True)
class Priors(Settings):
    """Prior distributions of `BayesianACCAMS`, for experts.

    Examples
    --------
    >>> from accams import BayesianACCAMS, Priors
    >>> BayesianACCAMS(priors=Priors(tau="sampled", gamma=(5.0, 0.3))).get_params()["priors__tau"]
    'sampled'
    """

    labels: str = setting(
        Words("dirichlet", "crp"),
        "Prior of labels: symmetric Dirichlet(alpha / k), or a Chinese restaurant process with at most k "
        "clusters, the paper's (collapsed sampler only).",
        default="dirichlet",
        flag="--prior",
    )
    alpha: float | Sequence[float] = setting(
        Several(POSITIVE),
        "Concentration of row labels; a list has one number per stencil, the last one for the rest (falling "
        "numbers make later stencils simpler, as the paper suggests).",
        default=1.0,
    )
    beta: float | Sequence[float] | None = setting(
        Either(NONE, Several(POSITIVE)), "Concentration of column labels; None is the same as `alpha`.", default=None
    )
    eta: tuple[float, float] | None = setting(
        Either(NONE, Pair()),
        "Shape and scale of the inverse gamma prior of sigma^2, the noise variance; None is a weak prior on "
        "the scale of the data.",
        default=None,
    )
    sigma_max: float | None = setting(
        Either(NONE, POSITIVE), "Upper bound of sigma where it is sampled or calibrated.", default=None
    )
    row_noise: float | str | None = setting(
        Either(Words(None, "auto"), POSITIVE),
        "Degrees of freedom of each row's own noise level (some users rate more erratically than others); "
        "None gives all rows the same noise. 'auto' is 30, and None with observed zeros.",
        default="auto",
    )
    tau: float | str = setting(
        Either(Words("scaled", "sampled"), POSITIVE),
        "Standard deviation of template entries: scaled such that all stencils together have 0.4 of the "
        "data's variance, each less than the one before (as 1, 1/2, 1/3, ...); sampled for each stencil, as "
        "in the paper; or this value.",
        default="scaled",
    )
    gamma: tuple[float, float] | None = setting(
        Either(NONE, Pair()),
        "Shape and scale of the inverse gamma prior of tau^2 where it is sampled, and of the variance of "
        "continuous effects; None is a prior on the scale of the data.",
        default=None,
    )
    effects: str | None = setting(
        Words("auto", None, "stencils", "continuous"),
        "Row and column effects beside the stencils. 'auto': where rows and columns have few observations and "
        "`n_stencils` is 'auto', stencils are blended with shrunken effects, by a weight that is calibrated with the "
        "noise, and left out if they add nothing; elsewhere, where the noise is calibrated, that weight, at least 1, "
        "multiplies the interactions of their templates. None: neither. 'stencils': two stencils of shape 20 x 1 and "
        "1 x 20. 'continuous': one number per row and column, sampled with its variance.",
        default="auto",
    )

    implicit: int | str | None = setting(
        Either(Words(None, "auto"), Integer(1)),
        "What was rated, whatever the value: every user has coefficients on so many features of the items, the leading "
        "singular vectors of who rated what. 'auto': twice as many as chance does not explain (perhaps none), at most "
        "32; None with observed zeros or without missing cells. It says little of later ratings: None there.",
        default="auto",
    )


@settings(frozen=True)
class Schedule(Settings):
    """How `BayesianACCAMS` samples, what it keeps and when it stops, for experts.

    Examples
    --------
    >>> from accams import BayesianACCAMS, Schedule
    >>> model = BayesianACCAMS(schedule=Schedule(max_draws=100)).set_params(schedule__n_sub=3)
    >>> model.schedule
    Schedule(max_draws=100, n_sub=3)
    """

    sampler: str = setting(
        Words("blocked", "collapsed"),
        "'blocked' draws the template and then all labels at once, on all cores. 'collapsed' is the paper's: "
        "labels one after another, with the template integrated out. Both are exact.",
        default="blocked",
    )
    init: str = setting(
        Words("accams", "prior"),
        "How stencils are initialised: by ACCAMS on the residual, or from the prior.",
        default="accams",
    )
    n_burn_in: int | str = setting(
        Either(AUTO, Integer(0)),
        "Sweeps left out of all averages. 'auto' is the first quarter.",
        default="auto",
        flag="--burn-in",
    )
    thin: int | str = setting(
        Either(AUTO, Integer(1)),
        "Sweeps from one kept draw to the next. 'auto' keeps at most `max_draws`, evenly spaced.",
        default="auto",
    )
    max_draws: int = setting(
        Integer(1),
        "Most draws kept, over all chains; where the noise is calibrated, fewer if those predict as well.",
        default=600,
    )
    n_sub: int | Sequence[int] = setting(
        Several(Integer(1)),
        "Label updates per visit of a stencil; a list gives those of the first sweeps, its last number those "
        "of the rest.",
        default=1,
        flag="--sub",
    )
    backfit: int | None = setting(
        Either(NONE, Integer(1)),
        "Fit one stencil after another, by so many visits each, and leave each as it is; None visits all "
        "stencils in each sweep. With it, `n_sweeps` is not used.",
        default=None,
    )
    tol: float = setting(
        Number(),
        "The run ends when its last fifth changed the running mean by less than this share of the squared error.",
        default=1e-4,
    )
    validation_fraction: float = setting(
        Number(0.0, 0.9, open_low=True),
        "Share of the entries held out for `early_stopping` (at most a million).",
        default=0.1,
    )
    patience: int = setting(
        Integer(1), "Sweeps without improvement after which `early_stopping` ends the run.", default=50
    )
    rao_blackwell: bool = setting(
        FLAG,
        "Keep probabilities of row labels with each draw and predict with those: better where draws are few, "
        "and larger.",
        default=False,
    )
    checkpoint_every: int = setting(Integer(1), "Sweeps from one checkpoint to the next.", default=50)
    memory_limit: float | None = setting(
        Either(NONE, Bytes()),
        "Bytes; a fit that would need more is refused before it begins. None is what the machine has. A store "
        "that would not fit is streamed instead (engine `disk`).",
        default=None,
    )
    n_shards: int | None = common.n_shards()


MOVED = {
    "prior": "priors__labels",
    **{
        name: f"priors__{name}"
        for name in ("alpha", "beta", "eta", "sigma_max", "row_noise", "tau", "gamma", "effects")
    },
    "schedule": "schedule__backfit",
    **{
        name: f"schedule__{name}"
        for name in (
            "sampler", "init", "n_burn_in", "thin", "max_draws", "n_sub", "tol", "validation_fraction", "patience",
            "rao_blackwell", "checkpoint_every", "memory_limit", "n_shards"
        )
    },
}  # fmt: skip


@settings(moved=MOVED)
class BayesianSettings(Settings):
    """Settings of `BayesianACCAMS`."""

    n_stencils: int | str = setting(
        Either(AUTO, Integer(1)),
        "Number of stencils. 'auto': 10, 15, ... or 30, about ten for every 13 observations of the average row and "
        "column (more if they have fewer than ten clusters), or none where row and column effects predict as well.",
        default="auto",
        kw_only=False,
        flag="--stencils -s",
        brief="Number of stencils.",
    )
    n_clusters: int | tuple[int, int] | list[Any] | str | None = setting(
        Either(Words("auto", None), Clusters()),
        "Row and column clusters of each stencil; a list is cycled through. None: no bound (needs `sampler` "
        "'collapsed' and `labels` 'crp'). 'auto': about 100 blocks, with more clusters on the side that has "
        "more observations each.",
        default="auto",
        kw_only=False,
        flag="--clusters -k",
        brief="Clusters per stencil: K or ROWSxCOLUMNS.",
    )
    noise: str | float = setting(
        Either(Words("auto", "calibrated", "sampled"), POSITIVE),
        "How sigma, the noise level, is set: 'calibrated' on held-out observations and then held; 'sampled' "
        "with the rest (the paper's); or held at this value. 'auto' is 'sampled' with observed zeros, where "
        "nothing can be held out, and where there are 50 observations or more per label, else 'calibrated'.",
        default="auto",
    )
    likelihood: str = setting(
        Words("gaussian", "ordinal", "auto"),
        "How observations depend on the model. 'gaussian': with normal noise. 'ordinal': as steps of a scale, such as "
        "stars, by an ordered probit model; for at most 50 different values. 'auto': half of the chains each, which "
        "predicts ratings a little better than either, where there are 3 to 50 different values and the noise is "
        "calibrated; else 'gaussian'.",
        default="gaussian",
    )
    n_chains: int = setting(
        Integer(1),
        "Independent chains, run side by side. Their average is what predicts well.",
        default=8,
        flag="--chains",
        brief="Independent chains (bayes).",
    )
    n_sweeps: int | str = setting(
        Either(AUTO, Integer(1)),
        "Sweeps of each chain after calibration. 'auto' goes on until the running mean settles, for at most "
        "500 sweeps, and on large data 150.",
        default="auto",
        flag="--sweeps",
        brief="Sweeps per chain (bayes).",
    )
    early_stopping: bool = common.early_stopping(
        "Hold out some entries, and end the run when their error has not improved for `patience` sweeps."
    )
    clip: bool | tuple[float, float] = common.clip()
    engine: str = common.engine()
    n_threads: int | None = common.n_threads()
    checkpoint: str | Path | None = setting(
        Either(NONE, FilePath()),
        "File to which the run is saved from time to time, so that it can be resumed from there.",
        default=None,
        brief="Save the run now and then (bayes).",
    )
    random_state: Any = common.random_state()
    callbacks: Sequence[Callable[[Any], bool | None]] | None = common.callbacks(
        "`Sweep` after each sweep of all chains"
    )
    verbose: bool | str = common.verbose()
    priors: Priors | None = setting(
        Instance(Priors),
        "Prior distributions, for experts; None is `Priors()`. Search them as ``priors__alpha``.",
        default=None,
        flag="-",
    )
    schedule: Schedule | None = setting(
        Instance(Schedule),
        "How to sample, what to keep and when to stop, for experts; None is `Schedule()`. Search it as "
        "``schedule__n_sub``.",
        default=None,
        flag="-",
    )

    def _translate_moved(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return parameters by their new names; ``schedule="backfit"`` used to take its visits from `n_sweeps`."""
        order = params.get("schedule__backfit")
        if isinstance(order, str):
            visits = BACKFIT_VISITS if isinstance(self.n_sweeps, str) else self.n_sweeps
            params["schedule__backfit"] = visits if order == "backfit" else None
        return params


def present_names(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return encoded parameters of an earlier version by their present names."""
    given = dict(parameters)
    if isinstance(given.get("schedule"), str):
        visits = BACKFIT_VISITS if isinstance(given.get("n_sweeps"), str) else given.get("n_sweeps")
        given["schedule"] = visits if given["schedule"] == "backfit" else None
    if "schedule" in given or "alpha" in given:  # flat, as in 0.1.0, which called "auto" noise "calibrated"
        given["noise"] = "auto" if given.get("noise") == "calibrated" else given.get("noise", "auto")
    return place_moved(given, MOVED)
