"""The error of a compressed matrix against its bytes, stencil by stencil."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from accams.model.matrix import CompressedMatrix
from accams.model.panel import Base
from accams.report.figures import COLOURS, INK, new_figure, save_figure
from accams.threads import Threads
from accams.writing import replacing

CELLS = 1 << 22  # of the first rows, by which errors are measured


class CurvePoint(NamedTuple):
    """Error with so many stencils, the largest first, in so many bytes."""

    bytes: float
    rmse: float
    what: str


def curve_of(matrix: CompressedMatrix) -> list[CurvePoint]:
    """Return the errors with no stencil, with the largest, with the two largest, and so on, and at last with all bytes.

    They are measured on the first rows. The error that the whole file leaves is part of each, as if the two had nothing
    to do with each other.

    Examples
    --------
    >>> import numpy as np
    >>> from accams import compress
    >>> x = np.add.outer(np.sin(np.arange(200) / 20), np.cos(np.arange(150) / 9))
    >>> curve = curve_of(compress(x, max_error=0.05))
    >>> curve[0].rmse > curve[-1].rmse, curve[-1].what
    (True, 'all')
    """
    panel, left = matrix.panel(0), matrix.summary.rmse
    rows = slice(0, min(panel.shape[0], max(1, CELLS // panel.shape[1])))
    cols = slice(0, panel.shape[1])
    whole = panel.block(rows, cols, Threads()).astype(np.float64)
    finite = np.isfinite(whole)
    sums, arithmetic = panel.stencils, panel.arithmetic
    squares = [float(np.mean(np.square(s.template[s.row_labels][:, s.col_labels]))) for s in sums.stencils]
    order = np.argsort(squares)[::-1]
    bits = [each.row_entropy + each.col_entropy + each.template_entropy for each in sums.size.stencils]
    ticks = np.zeros(whole.shape, np.int32)
    n_panels, header = len(matrix.n_stencils), matrix.parts()["header"]
    points, size = list[CurvePoint](), float(header)

    def add(n: int) -> None:
        read = arithmetic.values(arithmetic.predicted(ticks), None).astype(np.float64)
        square = float(np.mean(np.square((read - whole)[finite]))) if finite.any() else 0.0
        points.append(CurvePoint(size, float(np.sqrt(square + left**2)), f"{n} stencils"))

    add(0)
    for n, p in enumerate(order.tolist(), start=1):
        one = Base.of(type(sums)(sums.shape, 0.0, (sums.stencils[p],)), arithmetic.tick)
        ticks += one.block(rows, cols, Threads())
        size += n_panels * bits[p] / 8.0
        add(n)
    points.append(CurvePoint(float(matrix.nbytes), left, "all"))
    return points


def draw_curve(points: list[CurvePoint], path: Path) -> None:
    """Write a figure of errors against bytes."""
    figure, (ax,) = new_figure(1, [4.0], 6.4)
    kilobytes = [point.bytes / 1000.0 for point in points]
    ax.plot(
        kilobytes[:-1],
        [point.rmse for point in points[:-1]],
        "o-",
        color=COLOURS["$accent"],
        markersize=3,
        linewidth=1.2,
    )
    ax.plot(kilobytes[-2:], [point.rmse for point in points[-2:]], ":", color=COLOURS["$warm"], linewidth=1.2)
    ax.plot(kilobytes[-1:], [points[-1].rmse], "s", color=COLOURS["$warm"], markersize=6)
    ax.annotate("the file", (kilobytes[-1], points[-1].rmse), (-6, 8), textcoords="offset points", ha="right")
    ax.set_xlabel("KB, with the largest stencils only", color=INK)
    ax.set_ylabel("root mean squared error", color=INK)
    ax.set_ylim(bottom=0.0)
    with replacing(path) as file:
        save_figure(figure, file, path.suffix.lstrip(".") or "png")
