"""What a report tells: facts against the model itself, the page, figures for print, and the command."""

from __future__ import annotations

import builtins
import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from report_models import HARM, KINDS, data, model, titles
from typer.testing import CliRunner

import accams
from accams import ACCAMS, InputError, report
from accams.cli.main import app
from accams.report import figures, plots
from accams.report.page import html
from accams.use import evaluation
from accams.use.evaluation import Evaluation


def command(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module", params=KINDS)
def facts(request: pytest.FixtureRequest) -> report.Facts:
    one = model(request.param)
    return report.gather(one, titles(), one.evaluate(data()[1]), size=12345)


@pytest.mark.some(1)
def test_facts_are_those_of_the_model(facts: report.Facts, request: pytest.FixtureRequest) -> None:
    kind = request.node.callspec.params["facts"]
    one = model(kind)
    assert facts.kind == ("BayesianACCAMS" if kind == "bayesian" else "ACCAMS")
    assert facts.shape == one.stencils.shape
    assert facts.sides == ("users", "movies")
    assert facts.n_stencils == len(one.stencils)
    assert facts.weights[0].bytes == 12345
    assert (facts.n_draws is None) == (kind != "bayesian")
    assert (facts.course is None) == (kind == "small")
    for picture in facts.pictures:
        assert picture.table.shape == (len(picture.row_sizes), len(picture.col_sizes))
        assert picture.table.shape[0] <= 6
        assert sum(picture.row_sizes) == facts.shape[0]
        assert sum(picture.col_sizes) == facts.shape[1]
    assert len(facts.similar) == 8
    for _, alike in facts.similar:
        scores = [score for _, score in alike]
        assert scores == sorted(scores, reverse=True)


def test_groups_stand_for_features() -> None:
    """Of a model that knows features; their names come from outside."""
    random = np.random.default_rng(0)
    genre, pairs = random.integers(0, 2, 60), pd.DataFrame({"user": np.repeat(range(80), 30)})
    pairs["item"] = np.concatenate([random.permutation(60)[:30] for _ in range(80)])
    likes = np.where((pairs["user"] % 2).to_numpy() == genre[pairs["item"]], 1.0, -1.0)
    films = pd.DataFrame({"item": range(60), "genre": np.array([HARM, "Drama"])[genre]})
    made = accams.BayesianACCAMS(n_stencils=3, n_clusters=3, n_chains=2, n_sweeps=30, noise=0.4, verbose=False)
    made.fit(pairs, 3.0 + likes + random.normal(0.0, 0.3, len(pairs)), item_features=films)
    facts = report.gather(made)
    told = {text for picture in facts.pictures for texts in picture.traits[1] for text in texts}
    assert any(text.startswith("genre Drama 100 % (of all ") for text in told)
    assert all(picture.traits[0] == () for picture in facts.pictures)
    page = html(facts, "m", "")
    assert "What these groups of items stand for" in page
    assert "What these groups of users stand for" not in page
    assert HARM not in page


def test_a_picture_is_the_mean_over_its_blocks() -> None:
    one = model("accams")
    [picture, *_] = report.gather(one).pictures
    stencil = one.stencils.stencils[picture.stencil]
    whole = stencil.template[stencil.row_labels][:, stencil.col_labels].mean()
    shares = np.outer(picture.row_sizes, picture.col_sizes) / np.prod(one.stencils.shape)
    assert np.sum(picture.table * shares) == pytest.approx(whole, rel=1e-5)


def evaluation_twin(one: Any, held: pd.DataFrame) -> tuple[float, NDArray[np.bool_]]:
    mean, ends = one.predict(held[["userId", "movieId"]], quantiles=[0.05, 0.95])
    y = held["rating"].to_numpy()
    return float(np.sqrt(np.mean((mean - y) ** 2))), (ends[:, 0] <= y) & (y <= ends[:, 1])


def test_evaluation_is_what_predictions_say() -> None:
    one, (_, held) = model("bayesian"), data()
    found = one.evaluate(held[["userId", "movieId"]], held["rating"])
    error, inside = evaluation_twin(one, held)
    assert found.rmse == pytest.approx(error)
    assert found.covered(0.9) == pytest.approx(inside.mean())
    assert found.n == len(held) == sum(group.n for group in found.by_row) == sum(group.n for group in found.by_col)
    squares = sum(group.n * group.rmse**2 for group in found.by_col)
    assert squares / found.n == pytest.approx(found.rmse**2)
    counts = one.activity[1][one.col_index.positions(held["movieId"].to_numpy())]
    for group in found.by_col:
        assert np.sum((counts >= group.low) & (counts < group.high)) == group.n


def test_evaluation_of_what_was_never_seen() -> None:
    one = model("accams")
    found = one.evaluate(pd.DataFrame({"userId": [990, 0], "movieId": [2, 991], "rating": [3.0, 4.0]}))
    assert found.n == 2
    assert found.coverage == ()
    assert {group.low for group in found.by_row} >= {0.0}
    assert one.evaluate([[0, 1]], [3.0], [2.0]).rmse == pytest.approx(abs(one.predict([[0, 1]])[0] - 3.0))


def test_evaluation_counts_weights() -> None:
    held = data()[1]
    pairs, y = held[["userId", "movieId"]].to_numpy(), held["rating"].to_numpy()
    weights = np.where(np.arange(len(y)) < 50, 1.0, 0.0)
    heavy = model("small").evaluate(pairs, y, weights)
    assert heavy.rmse == pytest.approx(model("small").evaluate(pairs[:50], y[:50]).rmse)


def test_evaluation_needs_observations() -> None:
    with pytest.raises(InputError, match="there are no pairs"):
        model("accams").evaluate(np.zeros((0, 2)), [])


def test_groups_are_by_how_many_observations_there_were() -> None:
    pairs = [(row, col) for row, n in enumerate([1, 3, 15, 31]) for col in range(n)]
    one = ACCAMS(n_stencils=1, n_clusters=2).fit(pairs, [1.0 + (i + j) % 3 for i, j in pairs])
    found = one.evaluate([(-1, 0), (0, 20), (1, 20), (2, 20), (3, 20)], [2.0] * 5)
    assert [(group.low, group.high) for group in found.by_row] == [(0, 1), (1, 3), (3, 7), (15, 31), (31, 63)]
    assert [group.n for group in found.by_row] == [1] * 5
    assert found.new == (0.2, 0.0)


def test_small_groups_join_their_neighbours() -> None:
    activity = np.array([1.0] + [4.0] * 2 + [16.0] * 500 + [256.0])
    found = evaluation._groups(activity, np.ones(len(activity)), None)
    assert [(group.low, group.high, group.n) for group in found] == [(0, 1, 1), (3, 511, 503)]


def test_evaluation_takes_repeated_pairs_and_weighs_coverage() -> None:
    one, held = model("bayesian"), data()[1].iloc[:40]
    pairs, y = held[["userId", "movieId"]].to_numpy(), held["rating"].to_numpy()
    twice = one.evaluate(np.concatenate([pairs, pairs[:10]]), np.append(y, y[:10]))
    heavy = one.evaluate(pairs, y, np.where(np.arange(40) < 10, 2.0, 1.0))
    assert twice.n == 50
    assert heavy.rmse == pytest.approx(twice.rmse)
    np.testing.assert_allclose(heavy.coverage, twice.coverage)


def test_a_changed_model_forgets_its_evaluation() -> None:
    train, held = data()
    one = ACCAMS(n_stencils=1, n_clusters=2).fit(train[["userId", "movieId"]], train["rating"])
    measured = replace(one.model_, evaluation=one.evaluate(held))
    assert one.model_.evaluation is None
    assert measured.evaluation is not None
    assert measured.update(train[train["userId"] == 3]).evaluation is None
    assert measured.compress(3000).evaluation is None
    assert measured.refine(held).evaluation is None
    one.model_ = measured
    assert one.quality_ == measured.evaluation
    assert not hasattr(one.fit(held), "quality_")


def test_an_evaluation_is_saved(tmp_path: Path) -> None:
    train, held = data()
    one = ACCAMS(n_stencils=2, n_clusters=2).fit(train[["userId", "movieId"]], train["rating"])
    measured = replace(one.model_, evaluation=one.evaluate(held))
    measured.save(tmp_path / "m.accams")
    loaded = accams.load(tmp_path / "m.accams")
    assert isinstance(loaded.evaluation, Evaluation)
    assert loaded.evaluation == measured.evaluation
    assert report.gather(loaded).evaluation == measured.evaluation


def test_former_names_of_evaluations() -> None:
    one, held = model("accams"), data()[1]
    with pytest.warns(FutureWarning, match="use .*evaluate"):
        assert one.quality(held) == one.evaluate(held)
    with pytest.warns(FutureWarning, match="use .*evaluation"):
        assert one.quality_ is one.evaluation


def test_a_fitted_estimator_is_reported_as_its_model(tmp_path: Path) -> None:
    train, held = data()
    one = ACCAMS(n_stencils=2, n_clusters=2).fit(train[["userId", "movieId"]], train["rating"])
    of_estimator, of_model = (
        report.page.html(report.gather(each, titles(), one.evaluate(held)), "m", "") for each in (one, one.model_)
    )
    assert of_estimator == of_model
    report.write(one, tmp_path / "one.html")
    one.report(tmp_path / "other.html")
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "other.html").read_bytes()


def test_intervals_of_a_compressed_model_are_reported() -> None:
    small, held = model("bayesian").compress(6000), data()[1]
    measured = small.evaluate(held)
    assert len(measured.coverage) == 6
    error, inside = evaluation_twin(small, held)
    assert measured.rmse == pytest.approx(error)
    assert measured.covered(0.9) == pytest.approx(inside.mean())
    assert report.gather(small, evaluation=measured).evaluation == measured


def test_the_page_needs_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    report.write(model("small"), path, titles=titles(), name="<films>")
    text = path.read_text("utf-8")
    page = text.replace(report.page.plotly_js(), "")
    assert not re.search(r"(src|href)\s*=\s*[\"'](?!#)", page)
    assert "&lt;films&gt;" in page
    assert HARM not in page
    found = json.loads(re.search(r'id="figures">(.*?)</script>', page, re.DOTALL)[1])  # type: ignore[index]
    assert set(re.findall(r'class="plot" id="(\w+)"', page)) == set(found)


def test_the_page_says_what_is_missing(tmp_path: Path) -> None:
    text = report.page.html(report.gather(model("small")), "m", "")
    assert "accams report --test FILE" in text
    assert "does not remember it" in text


def test_a_model_of_one_stencil(tmp_path: Path, is_quick: bool) -> None:
    matrix = np.kron(np.array([[1.0, -1.0], [-1.0, 1.0]]), np.ones((6, 6)))
    one = ACCAMS(n_stencils=1, n_clusters=2).fit(matrix)
    report.write(one, tmp_path / "report.html")
    formats = ("svg",) if is_quick else ("png", "svg")
    assert len(figures.save_all(report.gather(one), tmp_path / "figures", formats)) == 4 * len(formats)


@pytest.mark.full
def test_figures_are_written(facts: report.Facts, tmp_path: Path) -> None:
    written = figures.save_all(facts, tmp_path / "figures")
    names = {path.stem for path in written}
    assert names == {"hierarchy", "stencils", "quality", "size"} | ({"fit"} if facts.course is not None else set())
    for path in written:
        if path.suffix == ".png":
            assert path.read_bytes().startswith(b"\x89PNG")
        else:
            assert ET.parse(path).getroot().tag.endswith("svg")


def test_nothing_to_report() -> None:
    with pytest.raises(InputError, match="no stencils"):
        report.gather(ACCAMS(n_stencils=0).fit(np.eye(3)))


def test_without_the_libraries_that_draw(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plain = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.split(".")[0] in ("matplotlib", "plotly"):
            raise ModuleNotFoundError(name)
        return plain(name, *rest)

    known = report.gather(model("small"))
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=r"figures need matplotlib: pip install 'accams\[plot\]'"):
        figures.save_all(known, tmp_path)
    monkeypatch.setattr("importlib.resources.files", lambda name: plain("nowhere." + name))
    with pytest.raises(InputError, match=r"a report needs Plotly: pip install 'accams\[plot\]'"):
        report.write(model("small"), tmp_path / "report.html")


def test_figures_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="cannot write figures into"):
        figures.save_all(report.gather(model("small")), tmp_path / "file")


def test_numbers_in_figures_are_finite() -> None:
    assert plots.rounded(np.array([np.nan, np.inf, 1.23456])) == [None, None, 1.235]


class TestCommand:
    @pytest.fixture(scope="class")
    @classmethod
    def saved(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("models")
        model("accams").save(folder / "films.accams")
        data()[1].to_csv(folder / "test.csv", index=False)
        pd.DataFrame({"movieId": range(150), "title": [f"Film {j}" for j in range(150)]}).to_csv(
            folder / "movies.csv", index=False
        )
        return folder

    def test_it_writes_page_and_figures(self, saved: Path, tmp_path: Path) -> None:
        answer = command(
            "report", saved / "films.accams", "--titles", saved / "movies.csv", "--test", saved / "test.csv",
            "-o", tmp_path / "r.html", "--figures", tmp_path / "figures",
        )  # fmt: skip
        assert answer.exit_code == 0, answer.output
        assert "and 10 figures into" in answer.output
        assert (tmp_path / "figures" / "stencils.png").read_bytes().startswith(b"\x89PNG")
        assert ET.parse(tmp_path / "figures" / "size.svg").getroot().tag.endswith("svg")
        assert "Film 7" in (tmp_path / "r.html").read_text("utf-8")

    def test_it_is_named_after_the_model(self, saved: Path) -> None:
        assert command("report", saved / "films.accams").exit_code == 0
        text = (saved / "films.html").read_text("utf-8")
        assert "<title>films: accams report</title>" in text
        assert "Nothing was held out" in text

    def test_bad_input(self, saved: Path, tmp_path: Path) -> None:
        for words, message in (
            ((saved / "films.accams", "-o", saved / "films.accams"), "is what is to be read"),
            ((saved / "films.accams", "-o", tmp_path / "no" / "r.html"), "there is no folder"),
            ((saved / "films.accams", "--test", saved / "test.csv", "-o", saved / "test.csv"), "is what is to be read"),
            ((tmp_path / "none.accams",), "there is no"),
            ((saved / "films.accams", "--titles", saved / "test.csv"), "has no text column beside the ids"),
        ):
            answer = command("report", *words)
            assert answer.exit_code != 0
            assert message in str(answer.exception)
        assert accams.load(saved / "films.accams") is not None

    def test_a_fit_remembers_what_it_held_out(self, saved: Path, tmp_path: Path) -> None:
        answer = command("fit", saved / "test.csv", "-o", tmp_path / "m.accams", "--model", "accams", "--stencils", 2)
        assert answer.exit_code == 0, answer.output
        assert accams.load(tmp_path / "m.accams").evaluation.n > 0
