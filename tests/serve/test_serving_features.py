"""A model that knows features behind HTTP: somebody is told by them, alone or beside ratings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

import accams
from accams.serve import Settings, Source, create_app

PATH = Path(__file__).parent.parent / "model" / "golden" / "features-2.accams"
PLAIN = PATH.with_name("slopes-2.accams")


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    sources = tuple(Source(path.stem, str(path)) for path in (PATH, PLAIN))
    with TestClient(create_app(Settings(sources=sources, access_log=False)), base_url="http://127.0.0.1") as made:
        yield made


@pytest.mark.parametrize("rated", [{}, {"1": 5.0}])
def test_the_numbers_are_those_of_the_library(client: TestClient, rated: dict[str, float]) -> None:
    model = accams.load(PATH)
    items = model.items[:3].tolist()
    told = {model.items[0].item(): 5.0} if rated else {}
    who: dict[str, Any] = {"features": {"age": 22}}
    if rated:
        who["rated"] = {str(item): value for item, value in told.items()}
    guest = model.fold_in(told, features={"age": 22})
    found = client.post("/v1/predict", json={**who, "items": items, "interval": 0.9}).json()["predictions"]
    assert [x["prediction"] for x in found] == pytest.approx(guest.predict(items).tolist(), abs=1e-12)
    best = client.post("/v1/recommend", json={**who, "n": 2, "explain": True}).json()["items"]
    assert [x["item"] for x in best] == [x.item for x in guest.recommend(2)]
    expected = guest.explain(items[1])
    why = client.post("/v1/explain", json={**who, "item": items[1]}).json()
    assert [x["value"] for x in why["terms"]] == pytest.approx([x.value for x in expected.terms], abs=1e-12)
    assert why["prediction"] == expected.prediction
    for term, right in zip(why["terms"], expected.terms, strict=True):
        assert (tuple(term["user_traits"]), tuple(term["item_traits"])) == (right.users.traits, right.items.traits)


def test_models_name_their_features(client: TestClient) -> None:
    told = {x["model"]: x["features"] for x in client.get("/v1/models").json()["models"]}
    assert told == {"features-2": ["age"], "slopes-2": []}


def test_what_is_refused(client: TestClient) -> None:
    for asked, message in (
        ({"features": {"age": "old"}}, "feature 'age' held numbers when the model was fitted"),
        ({"features": {"height": 180}}, "none of the features that the model knows is given: age"),
        ({"features": {"age": 20}, "model": "slopes-2"}, "the model knows no features of these"),
        ({"features": {"age": 20}, "user": 1}, "give either user"),
        ({"features": {}}, "at least 1 item"),
        ({"features": {"age": {"of": 20}}}, "a feature is a number, text"),
        ({"features": {"agee": 20}}, "no feature is called 'agee': do you mean 'age'?"),
        ({"features": {"age": 20}, "by": "choice"}, "lists by choice need what somebody has rated"),
    ):
        answer = client.post("/v1/recommend", json=asked)
        assert answer.status_code == 422
        assert message in answer.text
