"""Plots of a model: what they show against the model itself, by both backends, and what they refuse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from accams import ACCAMS, BayesianACCAMS, InputError, ItemACCAMS, Model, Observations
from accams.data.splits import random_split
from accams.report import Plots

pyplot = pytest.importorskip("matplotlib.pyplot")
pytest.importorskip("plotly")
NAMES = ("templates", "sizes", "error_by_size", "trace", "map", "hierarchy")


@pytest.fixture(autouse=True)
def closed() -> Any:
    pyplot.switch_backend("Agg")
    yield
    pyplot.close("all")


@pytest.fixture(scope="module", autouse=True)
def compressed_once() -> Iterator[None]:
    """Plots of the same sizes of the same model share the small models."""
    made, compress = dict[Any, Any](), Model.compress

    def kept(self: Model, *sizes: Any, **how: Any) -> Any:
        asked = id(self), sizes, tuple(sorted(how.items()))
        if asked not in made:
            made[asked] = self, compress(self, *sizes, **how)
        return made[asked][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Model, "compress", kept)
        yield


@pytest.fixture(scope="module")
def data() -> tuple[Observations, Observations]:
    random = np.random.default_rng(0)
    taste, kind = random.integers(0, 3, 90), random.integers(0, 3, 40)
    cells = 1.0 + (taste[:, None] + kind) % 3 + random.normal(0, 0.2, (90, 40))
    cells[random.random(cells.shape) < 0.5] = np.nan
    return random_split(Observations.from_dense(cells), 0.1, 0)


@pytest.fixture(scope="module", params=["ACCAMS", "BayesianACCAMS"])
def model(request: pytest.FixtureRequest, data: tuple[Observations, Observations]) -> Any:
    if request.param == "ACCAMS":
        return ACCAMS(n_stencils=5, n_clusters=4, random_state=0, verbose=False).fit(data[0])
    how = {"n_stencils": 4, "n_clusters": 3, "n_chains": 2, "n_sweeps": 20, "noise": 0.2}
    return BayesianACCAMS(**how, random_state=0, verbose=False).fit(data[0])


def drawn(model: Any, name: str, test: Observations, **how: Any) -> Any:
    given = (test, None, [2500, 3500]) if name == "error_by_size" else ()
    if name == "error_by_size":
        how["verbose"] = False
    return getattr(model.plot, name)(*given, **how)


@pytest.mark.parametrize("name", NAMES)
def test_matplotlib_returns_axes_of_pyplot(model: Any, data: Any, name: str) -> None:
    axes = np.ravel(drawn(model, name, data[1]))
    assert axes[0].figure.number in pyplot.get_fignums()
    axes[0].figure.canvas.draw()


@pytest.mark.parametrize("name", NAMES)
def test_plotly_returns_a_figure_without_names_of_colours(model: Any, data: Any, name: str) -> None:
    text = drawn(model, name, data[1], backend="plotly").to_json()
    assert not any(f'"${colour}"' in text for colour in ("accent", "warm", "ink", "panel", "faint"))


@pytest.mark.parametrize("name", ["sizes", "error_by_size", "map"])
def test_draw_into_given_axes(model: Any, data: Any, name: str) -> None:
    _, ax = pyplot.subplots()
    assert drawn(model, name, data[1], ax=ax) is ax
    assert ax.has_data()
    with pytest.raises(InputError, match="ax is for matplotlib"):
        drawn(model, name, data[1], ax=ax, backend="plotly")


def test_templates_hold_the_entries_of_the_stencils(data: Any) -> None:
    fitted = ACCAMS(n_stencils=2, n_clusters=(3, 4), random_state=0, verbose=False).fit(data[0])
    figure = fitted.plot.templates([1, 0], backend="plotly")
    for trace, number in zip(figure.data, (1, 0), strict=True):
        stencil = fitted.stencils_.stencils[number]
        found = np.sort(np.array(trace.z, float).ravel())
        np.testing.assert_allclose(found, np.sort(stencil.template.ravel()), rtol=1e-3, atol=1e-4)
    with pytest.raises(InputError, match="there is no stencil 2"):
        fitted.plot.templates([2])


def test_error_by_size_shows_what_score_tells(model: Any, data: Any) -> None:
    line, itself = drawn(model, "error_by_size", data[1], backend="plotly").data
    small = model.compress(3500, verbose=False)
    assert line.x == (2500, 3500)
    assert line.y[1] == pytest.approx(-small.score(data[1]), rel=1e-4)
    assert itself.y[0] == pytest.approx(-model.score(data[1]), rel=1e-4)


def test_error_by_size_chooses_sizes(model: Any, data: Any) -> None:
    line, itself = model.plot.error_by_size(data[1], backend="plotly", verbose=False).data
    assert len(line.x) >= 1
    assert max(line.x) < itself.x[0]
    with pytest.raises(InputError, match="pass sizes"):
        ACCAMS(n_stencils=1, n_clusters=2, verbose=False).fit(np.eye(9)).plot.error_by_size(np.eye(9))
    with pytest.raises(InputError):
        model.plot.error_by_size(data[1], sizes=[10], verbose=False)


def test_names_of_columns_are_text() -> None:
    import pandas as pd

    table = pd.DataFrame({"user": [0, 0, 1, 1], "<b>film</b>": [0, 1, 0, 1], "rating": [1.0, 2.0, 3.0, 5.0]})
    fitted = ACCAMS(n_stencils=1, n_clusters=2, verbose=False).fit(table[["user", "<b>film</b>"]], table["rating"])
    assert "<b>" not in fitted.plot.map(backend="plotly").to_json().lower()


def test_the_map_names_the_most_active_items_and_no_others(model: Any) -> None:
    titles = {p: f"film {p}" for p in range(40)}
    figure = model.plot.map(titles=titles, names=3, backend="plotly")
    told = figure.data[-1].text
    points = [name for trace in figure.data[:-1] for name in trace.text]
    assert 1 <= len(told) <= 3
    assert set(told) < set(points) == set(titles.values())


def test_titles_are_text(model: Any) -> None:
    figure = model.plot.map(titles=dict.fromkeys(range(40), "<b>bold</b> $x$"), backend="plotly")
    assert "<b>" not in figure.to_json()
    axes = model.plot.map(titles=dict.fromkeys(range(40), "$\\frac{1}"))
    axes.figure.canvas.draw()


def test_refusals(data: Any) -> None:
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError, match="call fit first"):
        ACCAMS().plot.sizes()
    fitted = ACCAMS(n_stencils=2, n_clusters=2, verbose=False).fit(data[0])
    with pytest.raises(InputError, match="backend must be"):
        fitted.plot.sizes(backend="ggplot")
    small = fitted.model_.compress(3000, verbose=False)
    with pytest.raises(InputError, match="does not know how it was fitted"):
        small.plot.trace()
    lists = ItemACCAMS(verbose=False).fit(data[0])
    with pytest.raises(InputError, match="makes lists only"):
        lists.plot.templates()
    assert (
        repr(fitted.plot) == f"plots: {', '.join(['templates', 'sizes', 'error_by_size', 'trace', 'map', 'hierarchy'])}"
    )
    assert isinstance(fitted.plot, Plots)
