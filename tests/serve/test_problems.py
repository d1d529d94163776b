"""Requests that cannot be answered: one clear sentence each, and the service goes on."""

from __future__ import annotations

from typing import Any

import pytest
from services import model
from starlette.testclient import TestClient

JSON = {"Content-Type": "application/json"}
USER = model("small").users[3].item()
ITEM = model("small").items[4].item()


def check(answer: Any, status: int, detail: str) -> None:
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (answer.status_code, problem["status"]) == (status, status)
    assert detail in problem["detail"]
    assert "\n" not in problem["detail"]
    assert len(problem["detail"]) <= 900


@pytest.mark.parametrize(
    ("what", "request_", "status", "detail"),
    [
        ("recommend", {}, 422, "give either user, the id of a known one, or rated, what somebody new has rated"),
        ("recommend", {"user": 1, "rated": {"1": 2}}, 422, "give either user"),
        ("recommend", {"user": 99999}, 404, "there is no user 99999 in this model; the nearest ids are"),
        ("recommend", {"user": "x" * 10_001}, 422, "user: an id is an integer of 64 bits, or text of at most 10,000"),
        ("recommend", {"user": "9" * 5000}, 404, "there is no user"),
        ("recommend", {"user": 2**70}, 422, "user: an id is an integer of 64 bits"),
        ("recommend", {"user": True}, 422, "user: an id is an integer of 64 bits"),
        ("recommend", {"user": [1]}, 422, "user: an id is an integer of 64 bits"),
        ("recommend", {"user": USER, "n": 0}, 422, "n: Input should be greater than or equal to 1"),
        ("recommend", {"user": USER, "n": 1001}, 422, "n: Input should be less than or equal to 1000"),
        ("recommend", {"user": USER, "n": "5"}, 422, "n: Input should be a valid integer"),
        ("recommend", {"user": USER, "nn": 5}, 422, "nn: Extra inputs are not permitted"),
        ("recommend", {"user": USER, "candidates": ["nothing"]}, 404, "there is no item 'nothing' in this model"),
        ("recommend", {"user": USER, "candidates": []}, 422, "candidates: "),
        ("recommend", {"user": USER, "interval": 1.0}, 422, "interval: Input should be less than 1"),
        ("recommend", {"user": USER, "by": "magic"}, 422, "by: Input should be 'auto', 'value' or 'choice'"),
        ("recommend", {"user": USER, "by": "choice"}, 422, "this model has no item map"),
        ("recommend", {"user": USER, "model": "none"}, 404, "there is no model 'none': this service has small, accams"),
        ("recommend", {"user": USER, "model": "accams", "interval": 0.8}, 422, "interval needs a model that knows its"),
        ("recommend", {"rated": {}}, 422, "rated: Dictionary should have at least 1 item"),
        ("recommend", {"rated": {"nothing": 3}}, 404, "there is no item 'nothing' in this model"),
        ("recommend", {"rated": {str(ITEM): 77}}, 422, "the value 77 lies outside the range of the training values"),
        ("recommend", {"rated": {str(ITEM): "5"}}, 422, "Input should be a valid number"),
        ("recommend", {"rated": {str(ITEM): None}}, 422, "Input should be a valid number"),
        ("recommend", {"rated": [[ITEM, 5]]}, 422, "rated: Input should be an object"),
        ("predict", {"pairs": []}, 422, "pairs: List should have at least 1 item"),
        ("predict", {"pairs": [[USER]]}, 422, "pairs.0: List should have at least 2 items"),
        ("predict", {"pairs": [[USER, 98765]]}, 404, "there is no item 98765"),
        (
            "predict",
            {"items": [ITEM]},
            422,
            "give either pairs of user and item, or rated (or features, or both) and items",
        ),
        ("predict", {"model": "lists", "pairs": [[USER, ITEM]]}, 422, "predict needs a model that predicts values"),
        ("explain", {"user": USER}, 422, "item: Field required"),
        ("explain", {"user": USER, "item": 98765}, 404, "there is no item 98765"),
        ("batch", {"requests": []}, 422, "requests: List should have at least 1 item"),
        ("batch", {"requests": [{"kind": "magic"}]}, 422, "'recommend', 'predict', 'similar', 'explain'"),
        ("batch", {"requests": [{"kind": "similar", "item": 1}] * 1001}, 413, "1,001 requests are too many for one"),
        ("feedback", {"events": [{"user": 1, "item": 2}]}, 409, "this service keeps no feedback: start it with"),
    ],
)
def test_bodies(client: TestClient, what: str, request_: dict[str, Any], status: int, detail: str) -> None:
    check(client.post(f"/v1/{what}", json=request_), status, detail)


@pytest.mark.parametrize(
    ("path", "status", "detail"),
    [
        ("recommend", 422, "user: Field required"),
        ("recommend?user=nobody", 404, "there is no user 'nobody'"),
        (f"recommend?user={USER}&n=many", 422, "n: Input should be a valid integer"),
        (f"recommend?user={USER}&interval=2", 422, "interval: Input should be less than 1"),
        ("similar", 422, "give either an item or a user"),
        ("similar?item=1&user=2", 422, "give either an item or a user"),
        ("similar?item=98765", 404, "there is no item 98765"),
        ("items/98765", 404, "there is no item 98765"),
        ("items/a%2Fb%20c", 404, "there is no item 'a/b c'"),
        ("users/nobody", 404, "there is no user 'nobody'"),
        ("users", 422, "id: Field required"),
        ("users?id=..", 404, "there is no user '..'"),
        ("items?id=", 404, "there is no item ''"),
        ("stencils/999", 404, "there is no stencil 999 in this model"),
        ("stencils/one", 422, "stencil: Input should be a valid integer"),
        ("hierarchy?depth=99", 422, "depth: Input should be less than or equal to 6"),
        ("model?model=none", 404, "there is no model 'none'"),
        ("nothing", 404, "there is nothing at this path"),
    ],
)
def test_queries(client: TestClient, path: str, status: int, detail: str) -> None:
    check(client.get(f"/v1/{path}"), status, detail)


@pytest.mark.parametrize("path", ["recommend", "batch"])
@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[1]", b'"text"', b'{"user": NaN}', b'{"rated": {"1": Infinity}}', b"\xff\xfe", b"null", b"[" * 5000],
)
def test_bodies_that_are_no_requests(client: TestClient, path: str, body: bytes) -> None:
    answer = client.post(f"/v1/{path}", content=body, headers=JSON)
    assert answer.status_code in (400, 422)
    check(answer, answer.status_code, "")


def test_methods_and_types(client: TestClient) -> None:
    answer = client.put("/v1/recommend")
    check(answer, 405, "PUT is not possible here")
    assert answer.headers["allow"] == "GET, POST"
    check(client.post("/v1/recommend", content=b"{}", headers={"Content-Type": "text/plain"}), 415, "send JSON")


def test_an_error_of_ours_is_told_without_details(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    served = client.app.state.service.serving.named(None)  # type: ignore[attr-defined]

    def fails(*_: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(served.answers, "recommend", fails)
    monkeypatch.setattr(served.explorer, "model", fails)
    for answer in (client.post("/v1/recommend", json={"user": 1}), client.get("/v1/model")):
        check(answer, 500, "the service failed to answer this request: its log says why")
        assert "secret" not in answer.text
    assert client.get("/health/live").status_code == 200
