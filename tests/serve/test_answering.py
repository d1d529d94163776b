"""Answers of the service: those of the model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from services import Serve, model
from starlette.testclient import TestClient

from accams import ACCAMS, Model
from accams.data.ids import Index
from accams.serve.settings import Source

KINDS = ["accams", "small", "bayesian", "both", "text ids", "effects"]


def ask(client: TestClient, what: str, **request: Any) -> dict[str, Any]:
    answer = client.post(f"/v1/{what}", json=request)
    assert answer.status_code == 200, answer.text
    return answer.json()


def rated(of: Model) -> dict[Any, float]:
    return dict(zip(of.items[[2, 5, 7, 11]].tolist(), [5.0, 1.0, 4.0, 2.0], strict=True))


def as_text(history: dict[Any, float]) -> dict[str, float]:
    return {str(item): value for item, value in history.items()}


def total(why: dict[str, Any]) -> float:
    """The sum of an explanation from left to right."""
    sum_of = why["offset"] if why["by"] == "value" else why["popularity"]
    for term in why["terms"]:
        sum_of += term["value"]
    rest = (
        ("others", "effects", "remainder", "clipping", "rounding") if why["by"] == "value" else ("others", "rounding")
    )
    for name in rest:
        sum_of += why[name]
    return sum_of


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("new", [False, True])
def test_lists(client: TestClient, kind: str, new: bool) -> None:
    of, how = model(kind), {"by": "value", "n": 7}
    who = {"rated": as_text(rated(of))} if new else {"user": of.users[3].item() if kind != "text ids" else of.users[3]}
    informed = new or of.interactions is not None
    expected = of.recommend(rated(of) if new else who["user"], 7, by="value", exclude_seen=informed)
    answer = ask(client, "recommend", model=kind, **who, **how)
    assert [line["item"] for line in answer["items"]] == expected["item"].tolist()
    assert [line["score"] for line in answer["items"]] == expected["score"].tolist()
    assert [line["prediction"] for line in answer["items"]] == expected["score"].tolist()
    assert [line["rank"] for line in answer["items"]] == list(range(1, len(expected) + 1))
    assert answer["excluded_seen"] is informed
    assert answer["user"] == (None if new else who["user"])
    assert (answer["model"], len(answer["version"])) == (kind, 12)


@pytest.mark.parametrize("kind", ["lists", "both"])
@pytest.mark.parametrize("new", [False, True])
def test_lists_by_choice(client: TestClient, kind: str, new: bool) -> None:
    of = model(kind)
    who = {"rated": as_text(rated(of))} if new else {"user": of.users[3].item()}
    expected = of.recommend(rated(of) if new else who["user"], 5)
    answer = ask(client, "recommend", model=kind, n=5, explain=True, **who)
    assert answer["by"] == "choice"
    assert [line["item"] for line in answer["items"]] == expected["item"].tolist()
    assert [line["score"] for line in answer["items"]] == expected["score"].tolist()
    for line in answer["items"]:
        assert (line["prediction"] is None) == (kind == "lists")
        assert total(line["explanation"]) == line["score"]
    assert ask(client, "recommend", model=kind, user="nobody", unknown="average")["rule"] == "popular items"


@pytest.mark.parametrize("kind", ["small", "bayesian"])
def test_intervals(client: TestClient, kind: str) -> None:
    of = model(kind)
    user = of.users[3].item()
    answer = ask(client, "recommend", model=kind, user=user, interval=0.8)
    pairs = [(user, line["item"]) for line in answer["items"]]
    _, ends = of.predict(pairs, quantiles=[0.1, 0.9])
    np.testing.assert_allclose([[line["low"], line["high"]] for line in answer["items"]], ends, rtol=1e-12)
    predicted = ask(client, "predict", model=kind, pairs=pairs, interval=0.8)["predictions"]
    assert [[x["low"], x["high"], x["prediction"]] for x in predicted] == [
        [line["low"], line["high"], line["prediction"]] for line in answer["items"]
    ]
    guest = of.fold_in(rated(of))
    answer = ask(client, "predict", model=kind, rated=as_text(rated(of)), items=of.items.tolist(), interval=0.5)
    mean, ends = guest.predict(of.items, quantiles=[0.25, 0.75])
    np.testing.assert_allclose([x["prediction"] for x in answer["predictions"]], mean, rtol=1e-12)
    np.testing.assert_allclose([[x["low"], x["high"]] for x in answer["predictions"]], ends, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("terms", [None, 2])
@pytest.mark.parametrize("new", [False, True])
def test_explanations_add_up(client: TestClient, kind: str, terms: int | None, new: bool) -> None:
    of = model(kind)
    who: Any = rated(of) if new else of.users[:4].tolist()[3]
    named = {"rated": as_text(who)} if new else {"user": who}
    for item in of.items[:6].tolist():
        why = ask(client, "explain", model=kind, item=item, by="value", terms=terms, **named)
        expected = of.explain(who, item, by="value")
        assert total(why) == why["prediction"] == pytest.approx(expected.prediction, abs=1e-12)
        values = {term["stencil"]: term["value"] for term in why["terms"]}
        largest = expected.terms if terms is None else expected.largest(terms)
        assert values == pytest.approx({term.stencil: term.value for term in largest}, abs=1e-12)
        for term in why["terms"]:
            assert item not in [ref["item"] for ref in term["items"]["members"]]


def test_what_is_left_out(client: TestClient) -> None:
    of = model("small")
    user = of.users[3].item()
    plain = [line["item"] for line in ask(client, "recommend", user=user, n=20)["items"]]
    seen = set(of.items[model("small").interactions.of(np.array([3]))[1]].tolist())  # type: ignore[union-attr]
    assert seen.isdisjoint(plain)
    everything = ask(client, "recommend", user=user, n=100, exclude_seen=False)
    assert seen <= {line["item"] for line in everything["items"]}
    assert everything["excluded_seen"] is False
    less = ask(client, "recommend", user=user, n=4, exclude=[plain[0], str(plain[2]), "no such item"])
    assert [line["item"] for line in less["items"]] == [plain[1], *plain[3:6]]
    some = ask(client, "recommend", user=user, candidates=[plain[5], str(plain[1])])
    assert [line["item"] for line in some["items"]] == [plain[1], plain[5]]
    by_text = ask(client, "recommend", user=str(user), n=20)
    assert by_text["items"][0]["item"] == plain[0]
    assert by_text["user"] == user


def test_quantiles_rank(client: TestClient) -> None:
    of = model("bayesian")
    user = of.users[5].item()
    answer = ask(client, "recommend", model="bayesian", user=user, quantile=0.1)
    assert [x["item"] for x in answer["items"]] == of.recommend(user, quantile=0.1)["item"].tolist()


def test_unknown_users_are_average_if_asked(client: TestClient) -> None:
    answer = ask(client, "recommend", user="nobody", unknown="average", exclude_seen=False)
    assert (answer["rule"], answer["user"]) == ("average user", "nobody")
    pairs = ask(client, "predict", pairs=[["nobody", "nothing"]], unknown="average")["predictions"]
    assert pairs[0]["prediction"] == pytest.approx(float(model("small").predict([("nobody", "nothing")])[0]))


@pytest.mark.parametrize("kind", ["accams", "lists", "bayesian"])
@pytest.mark.parametrize("by", ["weighted", "hamming"])
def test_similar(client: TestClient, kind: str, by: str) -> None:
    of = model(kind)
    item = of.items[4].item()
    answer = client.get("/v1/similar", params={"model": kind, "item": item, "n": 5, "by": by}).json()
    expected = of.similar(item, 5, by=by)
    assert [line["item"] for line in answer["items"]] == expected["item"].tolist()
    assert [line["score"] for line in answer["items"]] == expected["score"].tolist()
    assert answer["item"] == item
    if kind != "lists":
        user = of.users[4].item()
        answer = client.get("/v1/similar", params={"model": kind, "user": user, "by": by}).json()
        assert [line["user"] for line in answer["users"]] == of.similar(user, side="users", by=by)["user"].tolist()


def test_queries_say_the_same_as_bodies(client: TestClient) -> None:
    of = model("small")
    user, item = of.users[3].item(), of.items[4].item()
    got = client.get("/v1/recommend", params={"user": user, "n": 3, "interval": 0.9, "explain": True}).json()
    assert got == ask(client, "recommend", user=user, n=3, interval=0.9, explain=True)
    got = client.get("/v1/explain", params={"user": user, "item": item, "terms": 2}).json()
    assert got == ask(client, "explain", user=user, item=item, terms=2)


def test_batches(client: TestClient) -> None:
    of = model("small")
    user, item = of.users[3].item(), of.items[4].item()
    requests = [
        {"kind": "recommend", "user": user, "n": 3},
        {"kind": "similar", "item": item},
        {"kind": "predict", "pairs": [[user, item]]},
        {"kind": "explain", "user": user, "item": item},
        {"kind": "recommend", "user": "nobody"},
        {"kind": "recommend", "user": user, "model": "no such model"},
    ]
    answers = ask(client, "batch", requests=requests)["answers"]
    assert [answer["status"] for answer in answers] == [200, 200, 200, 200, 404, 404]
    assert answers[0]["answer"] == ask(client, "recommend", user=user, n=3)
    assert answers[4]["problem"]["detail"].startswith("there is no user 'nobody' in this model")
    assert "no such model" in answers[5]["problem"]["detail"]


def test_looking_around(client: TestClient) -> None:
    models = client.get("/v1/models").json()["models"]
    assert [one["model"] for one in models] == ["small", "accams", "bayesian", "lists", "both", "text ids", "effects"]
    for kind in ("small", "text ids", "bayesian"):
        of = model(kind)
        item, user = str(of.items[4]), str(of.users[4])
        how = {"model": kind}
        assert client.get(f"/v1/items/{item}", params=how).json()["item"] == of.items[4]
        assert client.get(f"/v1/users/{user}", params=how).json()["user"] == of.users[4]
        assert len(client.get("/v1/map", params=how).json()["x"]) == len(of.with_data(1))
        for path in ("model", "stencils", "stencils/0", "hierarchy", f"search?q={item}"):
            answer = client.get(f"/v1/{path}", params=None if "?" in path else how)
            assert answer.status_code == 200
            assert len(answer.json()["version"]) == 12


ODD = [".", "..", "a\nb", "a/b", "/", "../../v1/model", " ", "?id=x&n=1", "é%2F#"]


def test_ids_that_no_path_can_hold(serve: Serve, tmp_path: Path) -> None:
    """Clients take dots out of paths, and routes have no newlines; queries hold anything."""
    of = model("text ids")
    names = [
        Index([*ODD, *(f"{side}{p}" for p in range(size - len(ODD)))])
        for side, size in zip("ui", of.shape, strict=True)
    ]
    replace(of, row_index=names[0], col_index=names[1]).save(tmp_path / "odd.accams")
    client = serve(Source("odd", str(tmp_path / "odd.accams")))
    for name in ODD:
        assert client.get("/v1/items", params={"id": name}).json()["item"] == name
        assert client.get("/v1/users", params={"id": name}).json()["user"] == name
    for name in ODD:
        assert client.delete("/v1/users", params={"id": name}).json()["user"] == name
        assert client.get("/v1/users", params={"id": name}).status_code == 404


def test_ids_that_javascript_would_round_are_text(serve: Serve, tmp_path: Path) -> None:
    large = 2**53 + 1
    of = replace(model("effects"), row_index=Index(large + np.arange(40)), col_index=Index(large + np.arange(24)))
    of.save(tmp_path / "m.accams")
    client = serve(Source("m", str(tmp_path / "m.accams")))
    for user in (large + 2, str(large + 2)):
        answer = ask(client, "recommend", user=user)
        assert answer["user"] == str(large + 2)
        assert answer["items"][0]["item"] == str(of.recommend(large + 2, exclude_seen=False)[0].item)
    assert ask(client, "predict", pairs=[[large, large + 1]])["predictions"][0]["item"] == str(large + 1)
    assert client.get(f"/v1/items/{large + 3}").json()["item"] == str(large + 3)
    similar = client.get("/v1/similar", params={"user": large + 3}).json()
    assert all(isinstance(line["user"], str) for line in [similar, *similar["users"]])


@pytest.mark.parametrize("name", ["017", "+17", "1_7", " 17", "１７", "17.0", "-0", "", "1e1"])
def test_what_only_looks_like_an_id_is_none(client: TestClient, name: str) -> None:
    for request in ({"user": name}, {"user": 17, "candidates": [name]}, {"rated": {name: 3.0}}):
        answer = client.post("/v1/recommend", json=request)
        assert answer.status_code == 404, request
    for path in (f"users/{name}", f"items/{name}", f"similar?item={name}"):
        if name and "+" not in path:
            assert client.get(f"/v1/{path}").status_code == 404, path
    assert client.post("/v1/predict", json={"pairs": [[name, 1]]}).status_code == 404


def test_unknown_users_are_explained_by_popularity(client: TestClient) -> None:
    answer = ask(client, "recommend", model="lists", user="nobody", unknown="average", explain=True)
    for line in answer["items"]:
        assert (line["explanation"]["terms"], line["explanation"]["popularity"]) == ([], line["score"])


@pytest.mark.parametrize(
    ("what", "request_"),
    [
        ("recommend", {"user": 3, "n": 1000, "explain": True, "terms": 100}),
        ("batch", {"requests": [{"kind": "recommend", "user": 3, "n": 1000}] * 51}),
    ],
)
def test_answers_are_not_endless(client: TestClient, what: str, request_: dict[str, Any]) -> None:
    answer = client.post(f"/v1/{what}", json=request_)
    assert answer.status_code == 413
    assert "more than 50,000 items and terms" in answer.json()["detail"]


def test_odd_models_are_served(serve: Serve, tmp_path: Path) -> None:
    """Ids that are no integers, values without bounds, and a model whose only user is forgotten."""
    of = model("effects")
    odd = {
        "floats": replace(of, row_index=Index(np.arange(40) + 0.5), col_index=Index(np.arange(24) + 0.25)),
        "endless": replace(of, value_range=(-np.inf, np.inf), clip=None),
        "one": ACCAMS(n_stencils=1, n_clusters=1).fit(np.array([[1.0, 2.0, 3.0]])).model_,
    }
    for name, each in odd.items():
        each.save(tmp_path / f"{name}.accams")
    client = serve(*(Source(name, str(tmp_path / f"{name}.accams")) for name in odd))
    assert ask(client, "recommend", model="floats", user=3.5)["items"][0]["item"] % 1 == 0.25
    assert len(ask(client, "recommend", model="endless", user=of.users[3].item())["items"]) == 10
    assert client.delete("/v1/users/0", params={"model": "one"}).status_code == 200
    assert ask(client, "predict", model="one", pairs=[[0, 1]], unknown="average")["predictions"][0]["user"] == 0
