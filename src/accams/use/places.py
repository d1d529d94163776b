"""Items in the plane: the two principal axes of what a stencil sum says about them."""

import numpy as np
from numpy.typing import NDArray

from accams.model.codes import THREADS, Codes
from accams.use.hierarchy import centred_lines
from accams.use.scoring import Floats, Positions

AXES = 2
MORE = 6  # vectors beyond those, so that few rounds are enough
ROUNDS = 20


def places(codes: Codes, items: Positions) -> Floats:
    """Return two coordinates for each of these columns, the largest 1 in magnitude.

    Columns are compared as similar ones are: by their lines in all templates, each less its mean. The axes are found by
    subspace iteration, which needs sums by label only, never all lines of all columns.
    """
    labels, tables = codes.cols[items], list[Floats]()
    for s in range(len(codes.starts)):
        lines, _, across = centred_lines(codes, s, 1)
        tables.append(np.concatenate([lines, np.zeros((1, lines.shape[1]))]) * np.sqrt(across))
    size = sum(table.shape[1] for table in tables)
    if not size or not len(items):
        return np.zeros((len(items), AXES))
    basis = np.random.default_rng(0).standard_normal((size, min(size, AXES + MORE)))
    for _ in range(ROUNDS):
        basis = np.linalg.qr(_back(tables, labels, _along(tables, labels, basis)))[0]
    found = _along(tables, labels, basis)
    turn = np.linalg.eigh(found.T @ found)[1][:, ::-1][:, :AXES]
    plane = np.zeros((len(items), AXES))
    plane[:, : turn.shape[1]] = found @ turn
    furthest = plane[np.abs(plane).argmax(axis=0), np.arange(AXES)]
    return np.asarray(plane * np.where(furthest < 0, -1.0, 1.0) / (np.abs(plane).max() or 1.0))


def _along(tables: list[Floats], labels: NDArray[np.unsignedinteger], basis: Floats) -> Floats:
    """Return the coordinates of all columns along these vectors."""
    from accams.kernels.encode import subtract_lines

    parts = np.split(basis, np.cumsum([table.shape[1] for table in tables])[:-1])
    lines = -np.concatenate([table @ part for table, part in zip(tables, parts, strict=True)])
    out = np.zeros((len(labels), basis.shape[1]))
    THREADS.run(subtract_lines, THREADS.split_evenly(len(labels), lines.shape[1]), labels, _first(tables), lines, out)
    return out


def _back(tables: list[Floats], labels: NDArray[np.unsignedinteger], found: Floats) -> Floats:
    """Return the sum of the lines of all columns, weighted by their coordinates."""
    from accams.kernels.encode import code_sums

    first = _first(tables)
    sums = np.zeros((int(first[-1]), found.shape[1]))
    code_sums(labels, first, np.ones(len(labels)), found, sums)
    parts = np.split(sums, first[1:-1])
    return np.concatenate([table.T @ part for table, part in zip(tables, parts, strict=True)])


def _first(tables: list[Floats]) -> Positions:
    """Return where the labels of each stencil begin among those of all."""
    return np.cumsum([0, *map(len, tables)])
