"""Compress a model: distil its sums, and keep a calibrated predictive spread."""

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from accams.errors import InputError
from accams.fitted.distilling import chosen_weights, distilled
from accams.fitted.files import to_bytes
from accams.fitted.parts import FitInfo, Parts
from accams.model import file
from accams.model.spread import Spread
from accams.model.stencils import StencilSum
from accams.settings.backfit import ACCAMSSettings
from accams.settings.bayesian import BayesianSettings
from accams.settings.fields import same
from accams.settings.items import ItemSettings
from accams.settings.kinds import Integer

P = TypeVar("P", bound=Parts)
Floats = NDArray[np.float64]
SPARE = 32  # bytes, for numbers in the header that may become longer
SHARE_FOR_SPREAD = 0.04  # of the file, at most, unless a single number takes more
CLASSES = (8, 4, 2, 1)  # classes of rows and of columns in the spread, most first
DRAWS, CELLS_PER_ROW = 32, 8  # by which the spread is measured
MOST_CELLS = 2_000_000


def compressed(
    model: P, max_bytes: int, ids: bool, weights: Any, random_state: Any, n_threads: int | None, verbose: bool | str
) -> P:
    """Return a model of one sum whose file has at most `max_bytes`."""
    Integer(1).check("max_bytes", max_bytes)
    info = FitInfo(model.info.estimator, changed_parameters(model.info), {}, model.info.names)
    bare = replace(
        model, posterior=None, spread=None, fit_history=(), evaluation=None, info=info, sigma=model.sigma,
        knowledge=(None, None),
    )  # fmt: skip
    classes = _classes_that_fit(model, max_bytes)
    draft = _spread_of(model, model.stencils, classes) if classes else model.spread
    room = _room_for_stencils(bare, draft, max_bytes, ids)
    both = chosen_weights(weights, model.activity)
    while True:
        small = distilled(model.stencils, model.codes, room, both, random_state, n_threads, verbose, model.linear)
        spread = _spread_of(model, small, classes) if classes else model.spread
        made = replace(bare, stencils=small, spread=spread)
        excess = len(to_bytes(made, ids=ids, interactions=False)) - max_bytes
        if excess <= 0:
            return made
        room -= excess


def changed_parameters(info: FitInfo) -> dict[str, Any]:
    """Return the parameters of the fit that were not at their defaults, to save bytes."""
    kinds = {"ACCAMS": ACCAMSSettings, "BayesianACCAMS": BayesianSettings, "ItemACCAMS": ItemSettings}
    kind = kinds.get(info.estimator)
    defaults: dict[str, Any] = {} if kind is None else kind().get_params()
    return {name: x for name, x in info.parameters.items() if name not in defaults or not same(x, defaults[name])}


def _room_for_stencils(bare: Parts, spread: Spread | None, max_bytes: int, ids: bool) -> int:
    """Return the bytes that are left for the stencils in a file of at most `max_bytes`."""
    one = bare.stencils
    empty = StencilSum(one.shape, one.offset, (), one.unseen_rows, one.unseen_cols)
    without = replace(bare, stencils=empty, spread=spread)
    alone, whole = len(file.to_bytes(empty)), len(to_bytes(without, ids=ids, interactions=False))
    if max_bytes < whole + SPARE:
        for_ids = whole - len(to_bytes(without, ids=False, interactions=False)) if ids else 0
        advice = f", {for_ids:,} of them for ids, which can be left out with ids=False" if for_ids else ""
        if bare.item_map is not None:
            for_lists = whole - len(to_bytes(replace(without, item_map=None), ids=ids, interactions=False))
            advice += f", {for_lists:,} for lists by choice, which can be left out with lists=False"
        raise InputError(
            f"max_bytes={max_bytes:,} is too small: a file without any stencil takes {whole + SPARE:,}{advice}"
        )
    return max_bytes - (whole - alone) - SPARE


def _classes_that_fit(model: Parts, max_bytes: int) -> int:
    """Return how many classes of rows and columns the spread may have; 0 where the model has no draws."""
    if model.posterior is None:
        return 0
    for classes in CLASSES:
        size = sum(model.shape) * np.log2(classes) / 8 + 4 * (classes + 1) ** 2
        if classes == 1 or size <= SHARE_FOR_SPREAD * max_bytes:
            return classes
    return 1


def _spread_of(model: Parts, small: StencilSum, classes: int) -> Spread:
    """Measure the predictive variance of `small` by that of the model it stands for.

    The variance of a block of cells is the mean over random cells in it of the model's own predictive variance, which
    was calibrated on held-out data, and of the squared difference that distilling makes. Columns are drawn by their
    activity, as observations are. Rows, and columns, are cut into classes of equal size by their mean variance.
    """
    thin, (m, n) = model.thin(DRAWS), model.shape
    random = np.random.default_rng(0)
    weights = np.ones(n) if model.activity is None else model.activity[1]
    each = max(1, min(CELLS_PER_ROW, MOST_CELLS // max(m, 1)))
    rows = np.repeat(np.arange(m), each)[:MOST_CELLS]
    cols = random.choice(n, size=len(rows), p=weights / weights.sum())
    variance = _total(thin, small, rows, cols)
    row_classes = _cut(rows, variance, m, classes, model.unseen[0])
    col_classes = _cut(cols, variance, n, classes, model.unseen[1])
    table = np.full((classes + 1, classes + 1), float(variance.mean()) if len(variance) else 1.0)
    known = np.ix_(range(classes), range(classes))
    table[known] = _block_means(row_classes[rows], col_classes[cols], variance, classes, table[known])
    new = np.full(len(cols), -1, np.int64)
    table[classes, :classes] = _means(col_classes[cols], _total(thin, small, new, cols), classes)
    table[:classes, classes] = _means(row_classes[rows], _total(thin, small, rows, new), classes)
    table[classes, classes] = _total(thin, small, new[:1], new[:1]).mean()
    return Spread(table.astype(np.float32).astype(np.float64), row_classes, col_classes)


def _total(model: Parts, small: StencilSum, i: NDArray[np.int64], j: NDArray[np.int64]) -> Floats:
    mean, variance = model.moments(i, j)
    return np.maximum(variance + np.square(mean - small.codes.predict(i, j)), 1e-12)


def _cut(
    at: NDArray[np.int64], variance: Floats, size: int, classes: int, unseen: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """Return a class for each row (column) by its mean variance; those without data get the last one."""
    counts = np.bincount(at, minlength=size)
    means = np.bincount(at, weights=variance, minlength=size) / np.maximum(counts, 1)
    means[counts == 0] = np.median(variance) if len(variance) else 1.0
    bounds = np.quantile(means, np.arange(1, classes) / classes) if size else np.zeros(0)
    labels = np.searchsorted(bounds, means, side="right").astype(np.uint8)
    labels[unseen] = classes
    return labels


def _means(labels: NDArray[np.uint8], values: Floats, classes: int) -> Floats:
    counts = np.bincount(labels, minlength=classes + 1)[:classes]
    sums = np.bincount(labels, weights=values, minlength=classes + 1)[:classes]
    return np.where(counts > 0, sums / np.maximum(counts, 1), values.mean() if len(values) else 1.0)


def _block_means(
    rows: NDArray[np.uint8], cols: NDArray[np.uint8], values: Floats, classes: int, default: Floats
) -> Floats:
    inside = (rows < classes) & (cols < classes)
    block = rows[inside].astype(np.int64) * classes + cols[inside]
    counts = np.bincount(block, minlength=classes**2).reshape(classes, classes)
    sums = np.bincount(block, weights=values[inside], minlength=classes**2).reshape(classes, classes)
    return np.where(counts > 0, sums / np.maximum(counts, 1), default)
