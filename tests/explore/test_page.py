"""The page's answers are those of the library and of the service, in the same order."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from explored_models import KINDS, M, N, model, titles
from pages import ask, different, needs_node

from accams import ACCAMS, ItemACCAMS, Model, load
from accams.data.datasets import movielens
from accams.errors import InputError
from accams.explore import Explorer, export

pytest.importorskip("pydantic", reason="the service's extra is not installed")
from accams.serve import schemas
from accams.serve.answers import Answers
from accams.serve.problems import Problem

ASKS = {
    "recommend": schemas.RecommendAsk,
    "predict": schemas.PredictAsk,
    "similar": schemas.SimilarAsk,
    "explain": schemas.ExplainAsk,
}
Request = tuple[str, Any]
LEFT = ("accams", "lists", "both", "updated map", "one stencil")
pytestmark = pytest.mark.filterwarnings("ignore:n=")


class Twin:
    """The page of a model, and the same model in Python."""

    def __init__(self, folder: Path, source: Model, named: dict[Any, str]) -> None:
        self.folder, self.source = folder / "site", source
        export(source, self.folder, titles=named, name="films", users=True)
        self.model: Model = load(self.folder / "model.accams")
        site = json.loads((self.folder / "site.json").read_text(encoding="utf-8"))
        head = site["model"]
        self.explorer = Explorer(self.model, named, "films", head["version"], head["bytes"])
        self.answers = Answers(self.model, self.explorer)

    @cached_property
    def found(self) -> dict[str, Any]:
        """What the page answers to all requests of these tests: starting node takes longer than they do."""
        requests = [request for each in (recommended, asked, explored, adding) for request in each(self.model)]
        answers = ask(self.folder, requests)
        return {json.dumps(request): answer for request, answer in zip(requests, answers, strict=True)}

    def expected(self, request: Request) -> dict[str, Any]:
        method, argument = request
        try:
            if method in ASKS:
                return {"answer": getattr(self.answers, method)(ASKS[method](**argument))}
            if method in ("item", "user", "stencil"):
                return {"answer": getattr(self.explorer, method)(argument)}
            given = {"query" if key == "q" else key: x for key, x in (argument or {}).items()}
            return {"answer": getattr(self.explorer, method)(**given)}
        except (Problem, InputError) as error:
            problem = error if isinstance(error, Problem) else Problem.of(error)
            return {"problem": {"status": problem.status, "detail": problem.detail}}


def thinned(kind: str) -> Any:
    """Kinds that others stand for are left to the full run."""
    return pytest.param(kind, marks=pytest.mark.full) if kind in LEFT else kind


@pytest.fixture(scope="module", params=map(thinned, KINDS))
def twin(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Twin:
    of = model(request.param)
    return Twin(tmp_path_factory.mktemp("page"), of, titles(of))


def people(of: Model) -> Iterator[dict[str, Any]]:
    """Known users, one without data among them, and guests."""
    for row in (0, 7, M - 1):
        yield {"user": of.users[row : row + 1].tolist()[0]}
    yield {"user": str(of.users[3])}
    items = of.items.tolist()
    yield {"rated": {str(items[2]): 5.0}}
    yield {"rated": {str(items[p]): float(value) for p, value in ((1, 1), (4, 5), (5, 2), (9, 4), (16, 3))}}
    yield {"rated": {str(x): 1.0 + p % 5 for p, x in enumerate(items[:-1])}}


def recommended(of: Model) -> Iterator[Request]:
    items = of.items.tolist()
    for who in people(of):
        yield "recommend", {**who, "n": N + 10, "exclude_seen": False}
        yield "recommend", {**who, "n": 7}
        yield "recommend", {**who, "by": "value", "explain": True, "n": 3, "interval": 0.8}
        yield "recommend", {**who, "by": "value", "explain": True, "n": 4, "exclude_seen": False, "terms": 1}
        yield "recommend", {**who, "by": "choice", "explain": True, "n": 5}
        yield "recommend", {**who, "quantile": 0.1, "n": 9, "exclude_seen": False, "interval": 0.5}
        yield "recommend", {**who, "candidates": items[::-2], "exclude": [items[2], "nothing"], "exclude_seen": False}
    yield "recommend", {"user": "nobody", "unknown": "average", "exclude_seen": False}
    yield "recommend", {"user": "nobody"}
    yield "recommend", {"rated": {"nothing": 3.0}}
    yield "recommend", {"rated": {str(items[1]): 99.0}}


def asked(of: Model) -> Iterator[Request]:
    items, users = of.items.tolist(), of.users.tolist()
    for who in people(of):
        for item in (items[0], str(items[1]), items[6]):
            for by in ("auto", "value", "choice"):
                yield "explain", {**who, "item": item, "by": by, "terms": 2}
            yield "explain", {**who, "item": item}
        if "rated" in who:
            yield "predict", {**who, "items": items}
            yield "predict", {**who, "items": [*items[:4], "nothing"], "interval": 0.9, "unknown": "average"}
    pairs = [[user, item] for user in users[:3] + users[-1:] for item in items]
    yield "predict", {"pairs": pairs}
    yield "predict", {"pairs": pairs, "interval": 0.95}
    yield (
        "predict",
        {"pairs": [["nobody", items[3]], [users[2], "nothing"], ["nobody", "nothing"]], "unknown": "average"},
    )
    yield "predict", {"pairs": [["nobody", items[3]]]}
    for by in ("weighted", "hamming"):
        for p in (0, 1, 5, N - 1):
            yield "similar", {"item": items[p], "n": 30, "by": by}
            yield "similar", {"user": str(users[p]), "n": 6, "by": by}


def explored(of: Model) -> Iterator[Request]:
    for item in (*of.items.tolist(), "nothing"):
        yield "item", item
    for user in (*of.users[[0, 5, M - 1]].tolist(), "nobody"):
        yield "user", user
    for s in range(len(of.stencils) + 1):
        yield "stencil", s
    for query in ("star", "wras", "ETERNITE", "matrix love", str(of.items[3]), "🎬", ""):
        yield "search", {"q": query, "n": 7}
    for method in ("model", "stencils", "map"):
        yield method, None
    yield "hierarchy", {}
    yield "hierarchy", {"side": "users", "depth": 2, "members": 3}
    yield "hierarchy", {"depth": 6, "branches": 3, "members": 20}


def adding(of: Model) -> Iterator[Request]:
    for who in people(of):
        for item in of.items[:5].tolist():
            yield from (("explain", {**who, "item": item, "terms": n}) for n in (1, 2, None))


def compare(twin: Twin, requests: Iterable[Request]) -> None:
    for request in requests:
        answer = twin.found[json.dumps(request)]
        expected = json.loads(json.dumps(twin.expected(request)))
        if "problem" in expected:
            assert answer.get("problem", answer)["status"] == expected["problem"]["status"], (request, answer, expected)
        else:
            assert "answer" in answer, (request, answer)
            assert (where := different(expected["answer"], answer["answer"])) is None, (request, where)


@needs_node
def test_recommendations(twin: Twin) -> None:
    compare(twin, recommended(twin.model))


@needs_node
def test_predictions_explanations_and_what_is_similar(twin: Twin) -> None:
    compare(twin, asked(twin.model))


@needs_node
def test_items_users_stencils_tree_and_map(twin: Twin) -> None:
    compare(twin, explored(twin.model))


@needs_node
def test_explanations_add_up_exactly(twin: Twin) -> None:
    for request in adding(twin.model):
        answer = twin.found[json.dumps(request)]
        if "problem" in answer:
            continue
        why = answer["answer"]
        by_value = why["by"] == "value"
        total = why["offset" if by_value else "popularity"]
        rest = ("others", "effects", "remainder", "clipping") if by_value else ("others",)
        for x in (*(term["value"] for term in why["terms"]), *(why[name] for name in rest), why["rounding"]):
            total += x
        assert total == why["prediction" if by_value else "score"]
        assert abs(why["rounding"]) < 1e-9


def test_the_page_of_a_public_model_tells_nothing_of_users(tmp_path: Path) -> None:
    of = model("accams")
    export(of, tmp_path / "site", titles=titles(of))
    public = load(tmp_path / "site" / "model.accams")
    assert public.interactions is None
    assert public.row_index.is_positional
    assert "users" not in json.loads((tmp_path / "site" / "ids.json").read_text(encoding="utf-8"))
    for s, stencil in enumerate(public.stencils.stencils):
        seen = np.setdiff1d(np.arange(M), public.stencils.unseen_rows)
        labels = stencil.row_labels[seen].astype(int)
        assert (np.diff(labels) >= 0).all()
        own = of.stencils.stencils[s].row_labels[of.with_data(0)]
        assert np.array_equal(np.bincount(labels), np.bincount(own))


@needs_node
@pytest.mark.some(1)
@pytest.mark.parametrize("kind", ["accams", "effects", "small", "both"])
def test_a_public_page_says_the_same_to_guests(kind: str, tmp_path: Path) -> None:
    of = model(kind)
    for users in (True, False):
        export(of, tmp_path / str(users), titles=titles(of), users=users)
    guests: list[Request] = [("recommend", {**who, "n": 9}) for who in people(of) if "rated" in who]
    guests += [("item", item) for item in of.items.tolist()] + [("stencils", None), ("map", None)]
    guests += [("stencil", s) for s in range(len(of.stencils))]
    told, public = ask(tmp_path / "True", guests), ask(tmp_path / "False", guests)
    for request, one, two in zip(guests, told, public, strict=True):
        one["answer"]["version"] = two["answer"]["version"]
        assert (where := different(one["answer"], two["answer"])) is None, (request, where)
    refused = ask(tmp_path / "False", [("user", of.users.tolist()[0]), ("recommend", {"user": of.users.tolist()[0]})])
    assert [x["problem"]["status"] for x in refused] == [404, 404]


@needs_node
def test_many_draws_become_one_sum_with_intervals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accams.explore.site.LEAST_BYTES", 2500)
    of = model("bayesian")
    export(of, tmp_path / "site", titles=titles(of))
    site = json.loads((tmp_path / "site" / "site.json").read_text(encoding="utf-8"))
    assert site["distilled"] == {"draws": len(of.posterior)}  # type: ignore[arg-type]
    guest = {str(of.items[p]): 5.0 - p for p in range(4)}
    [answer] = ask(tmp_path / "site", [("recommend", {"rated": guest, "interval": 0.8})])
    assert all(
        line["low"] < line["prediction"] < line["high"] or line["prediction"] in (1, 5)
        for line in answer["answer"]["items"]
    )


def test_a_folder_that_exists_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "mine.txt").write_text("kept")
    with pytest.raises(InputError, match="exists already"):
        export(model("accams"), tmp_path / "site")
    assert [x.name for x in (tmp_path / "site").iterdir()] == ["mine.txt"]


@needs_node
@pytest.mark.data
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["values", pytest.param("lists", marks=pytest.mark.full)])
def test_movielens(real_data: Path, tmp_path: Path, kind: str) -> None:
    data = movielens("100k", path=real_data)
    fitted = ACCAMS(n_stencils=8, n_clusters=12) if kind == "values" else ItemACCAMS(max_bytes=40_000, penalty=500.0)
    twin = Twin(tmp_path, fitted.fit(data.observations).model_, data.titles)
    items, random = twin.model.items.tolist(), np.random.default_rng(0)
    requests: list[Request] = [("recommend", {"user": user, "n": 50}) for user in range(1, 40)]
    for size in (1, 3, 10, 40, 200):
        rated = {str(items[p]): float(random.integers(1, 6)) for p in random.choice(len(items), size, replace=False)}
        requests += [
            ("recommend", {"rated": rated, "n": 100, "explain": True}),
            ("explain", {"rated": rated, "item": 50}),
        ]
    requests += [("similar", {"item": item, "n": 30}) for item in items[:20]] + [("item", item) for item in items[:20]]
    requests += [("search", {"q": q}) for q in ("star wras", "godfahter", "terminator 2", "amelie", "les", "(1994)")]
    requests += [("map", None), ("hierarchy", {})]
    twin.found = {json.dumps(x): answer for x, answer in zip(requests, ask(twin.folder, requests), strict=True)}
    compare(twin, requests)
