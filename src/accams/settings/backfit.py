"""Settings of ACCAMS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from accams.settings import common
from accams.settings.fields import Settings, setting, settings
from accams.settings.kinds import AUTO, FLAG, Clusters, Either, Integer, Number, Words


@settings()
class ACCAMSSettings(Settings):
    """Settings of `ACCAMS`."""

    n_stencils: int = setting(
        13, Integer(0), "Number of stencils; with `early_stopping`, the most that are tried.",
        kw_only=False, flag="--stencils -s", basic=True, type="int",
    )  # fmt: skip
    n_clusters: int | tuple[int, int] | list[Any] = setting(
        10, Clusters(), "Row and column clusters of each stencil; a list is cycled through, so that stencils may differ.",
        kw_only=False, flag="--clusters -k", basic=True, type="int, (int, int) or list of those",
    )  # fmt: skip
    max_iter: int = setting(50, Integer(1), "Most alternations of rows and columns per stencil.", type="int")
    tol: float = setting(
        4e-3, Number(), "A stencil ends when an alternation adds less than this share to what it explains.", type="float"
    )
    n_relearn: int = setting(
        0, Integer(0), "Further passes over all stencils: each is taken out, fitted again and put back.",
        flag="--relearn", type="int",
    )  # fmt: skip
    refit: bool = setting(
        False, FLAG, "Solve for all templates jointly by least squares in the end, given all labels. Useful for "
        "compression; overfits where rows have few observations.", type="bool",
    )  # fmt: skip
    learning_rate: float | str = setting(
        "auto", Either(AUTO, Number(0.0, 1.0, open_low=True)), "Share of a stencil's template that enters the model. Below "
        "1, later stencils correct it, which guards against overfitting, as in boosting. 'auto' is 1 for complete "
        "matrices, where the aim is to approximate, and 0.2 where cells are missing or blanks weigh less than other "
        "cells, where the aim is to predict.", type="float or 'auto'",
    )  # fmt: skip
    shrinkage: float = setting(
        0.0, Number(), "Penalty lambda on squared template entries: a block mean becomes L / (N + lambda).", type="float"
    )
    early_stopping: bool = common.early_stopping(
        "Choose the number of stencils on held-out entries, then fit that many to all entries."
    )
    validation_fraction: float = setting(
        0.1, Number(0.0, 0.9, open_low=True), "Share of the entries held out for `early_stopping` (at most a million).",
        type="float",
    )  # fmt: skip
    patience: int = setting(
        10, Integer(1), "Stencils without improvement after which `early_stopping` ends the search.", type="int"
    )
    init: str = setting(
        "k-means++", Words("k-means++", "random"), "How clusters are seeded; 'random' (k random rows) is the paper's.",
        type="{'k-means++', 'random'}",
    )  # fmt: skip
    n_init: int = setting(1, Integer(1), "Starts per stencil; the best is kept.", type="int")
    clip: bool | tuple[float, float] = common.clip()
    engine: str = common.engine()
    n_threads: int | None = common.n_threads()
    n_shards: int | None = common.n_shards()
    random_state: Any = common.random_state()
    callbacks: Sequence[Callable[[Any], bool | None]] | None = common.callbacks("`Step` after each stencil")
    verbose: bool | str = common.verbose()
