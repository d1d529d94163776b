"""Settings of ACCAMS."""

from collections.abc import Callable, Sequence
from typing import Any

from accams.settings import common
from accams.settings.fields import Settings, setting, settings
from accams.settings.kinds import AUTO, FLAG, Clusters, Either, Integer, Number, Words


@settings()
class ACCAMSSettings(Settings):
    """Settings of `ACCAMS`."""

    n_stencils: int = setting(
        Integer(0),
        "Number of stencils; with `early_stopping`, the most that are tried.",
        default=13,
        kw_only=False,
        flag="--stencils -s",
        brief="Number of stencils.",
    )
    n_clusters: int | tuple[int, int] | list[Any] = setting(
        Clusters(),
        "Row and column clusters of each stencil; a list is cycled through, so that stencils may differ.",
        default=10,
        kw_only=False,
        flag="--clusters -k",
        brief="Clusters per stencil: K or ROWSxCOLUMNS.",
    )
    max_iter: int = setting(Integer(1), "Most alternations of rows and columns per stencil.", default=50)
    tol: float = setting(
        Number(), "A stencil ends when an alternation adds less than this share to what it explains.", default=4e-3
    )
    n_relearn: int = setting(
        Integer(0),
        "Further passes over all stencils: each is taken out, fitted again and put back.",
        default=0,
        flag="--relearn",
    )
    refit: bool = setting(
        FLAG,
        "Solve for all templates jointly by least squares in the end, given all labels. Useful for "
        "compression; overfits where rows have few observations.",
        default=False,
    )
    learning_rate: float | str = setting(
        Either(AUTO, Number(0.0, 1.0, open_low=True)),
        "Share of a stencil's template that enters the model. Below 1, later stencils correct it, which "
        "guards against overfitting, as in boosting. 'auto' is 1 for complete matrices, where the aim is to "
        "approximate, and 0.2 where cells are missing or blanks weigh less than other cells, where the aim is "
        "to predict.",
        default="auto",
    )
    shrinkage: float = setting(
        Number(), "Penalty lambda on squared template entries: a block mean becomes L / (N + lambda).", default=0.0
    )
    early_stopping: bool = common.early_stopping(
        "Choose the number of stencils on held-out entries, then fit that many to all entries."
    )
    validation_fraction: float = setting(
        Number(0.0, 0.9, open_low=True),
        "Share of the entries held out for `early_stopping` (at most a million).",
        default=0.1,
    )
    patience: int = setting(
        Integer(1), "Stencils without improvement after which `early_stopping` ends the search.", default=10
    )
    init: str = setting(
        Words("k-means++", "random"),
        "How clusters are seeded; 'random' (k random rows) is the paper's.",
        default="k-means++",
    )
    n_init: int = setting(Integer(1), "Starts per stencil; the best is kept.", default=1)
    clip: bool | tuple[float, float] = common.clip()
    engine: str = common.engine()
    n_threads: int | None = common.n_threads()
    n_shards: int | None = common.n_shards()
    random_state: Any = common.random_state()
    callbacks: Sequence[Callable[[Any], bool | None]] | None = common.callbacks("`Step` after each stencil")
    verbose: bool | str = common.verbose()
