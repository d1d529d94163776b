"""The plot of a compressed matrix's error against bytes."""

from __future__ import annotations

import numpy as np
import pytest

from accams import compress
from accams.errors import InputError
from accams.model.matrix import CompressedMatrix
from accams.report import plot_bytes
from accams.report.curves import curve_of


@pytest.fixture(scope="module")
def small() -> CompressedMatrix:
    x = np.add.outer(np.sin(np.arange(120) / 20), np.cos(np.arange(90) / 9))
    return compress(x + np.random.default_rng(0).normal(0, 0.05, x.shape), max_error=0.1, verbose=False)


def test_it_ends_with_the_file(small: CompressedMatrix) -> None:
    first, *_, last = curve_of(small)
    assert (last.bytes, last.rmse) == (small.nbytes, small.summary.rmse)
    assert first.rmse > last.rmse
    assert first.bytes < last.bytes


def test_both_backends_draw_the_same_points(small: CompressedMatrix) -> None:
    pytest.importorskip("matplotlib.pyplot").switch_backend("Agg")
    pytest.importorskip("plotly")
    ax, traces = plot_bytes(small), plot_bytes(small, backend="plotly").data
    drawn = [line.get_xydata() for line in ax.lines] + [points.get_offsets() for points in ax.collections]
    for points, trace in zip(drawn, traces, strict=True):
        np.testing.assert_array_equal(points, np.column_stack([trace.x, trace.y]))
    assert [trace.x[-1] for trace in traces[1:]] == [small.nbytes, small.nbytes]


def test_draw_into_given_axes(small: CompressedMatrix) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    _, ax = pyplot.subplots()
    assert plot_bytes(small, ax=ax) is ax
    with pytest.raises(InputError, match="ax is for matplotlib"):
        plot_bytes(small, backend="plotly", ax=ax)
    with pytest.raises(InputError, match="backend"):
        plot_bytes(small, backend="gnuplot")
    pyplot.close("all")
