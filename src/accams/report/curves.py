"""The error of a compressed matrix against its bytes, stencil by stencil."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from accams.model.matrix import CompressedMatrix
from accams.model.panel import Base
from accams.report import figures
from accams.report.plots import Panel, curve_plot
from accams.report.plotting import drawn_one
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


def plot_bytes(matrix: CompressedMatrix, *, backend: str = "matplotlib", ax: Any = None) -> Any:
    """Draw the error of a compressed matrix against bytes, with its largest stencils alone.

    Parameters
    ----------
    matrix : CompressedMatrix
    backend : {"matplotlib", "plotly"}, default "matplotlib"
    ax : Axes, optional
        Where to draw, with matplotlib.

    Returns
    -------
    Axes, or Figure

    Examples
    --------
    >>> import numpy as np
    >>> from accams import compress
    >>> from accams.report import plot_bytes
    >>> x = np.add.outer(np.sin(np.arange(200) / 20), np.cos(np.arange(150) / 9))
    >>> plot_bytes(compress(x, max_error=0.05)).get_xlabel()
    'bytes'
    """
    return drawn_one(_panel(matrix), backend, ax)


def write_curve(matrix: CompressedMatrix, path: Path) -> None:
    """Write that figure as a file."""
    figure = figures.drawn([_panel(matrix)], 1, 6.4)[0]
    with replacing(path) as file:
        figures.save_figure(figure, file, path.suffix.lstrip(".") or "png")


def _panel(matrix: CompressedMatrix) -> Panel:
    return Panel("curve", "Error by bytes", curve_plot(curve_of(matrix)), "")
