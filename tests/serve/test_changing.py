"""New versions of files while the service runs, feedback, and people who are to be forgotten."""

from __future__ import annotations

import errno
import json
import logging
import shutil
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from services import Serve, model, source
from starlette.testclient import TestClient

import accams
from accams.data.eventlog import read_events
from accams.errors import WriteError
from accams.serve.guard import JsonLines
from accams.serve.serving import Serving

USER = model("small").users[3].item()


@pytest.fixture
def own(files: Path, tmp_path: Path) -> Path:
    """A folder whose files a test may change."""
    for path in files.iterdir():
        shutil.copy(path, tmp_path / path.name)
    return tmp_path


def serving(client: TestClient) -> Serving:
    return client.app.state.service.serving  # type: ignore[attr-defined, no-any-return]


def version(client: TestClient) -> str:
    return str(client.get("/v1/model").json()["version"])


def test_a_new_version_is_served(serve: Serve, own: Path) -> None:
    client = serve(source(own, "small", history=None))
    before = version(client)
    serving(client).look()
    assert version(client) == before
    model("effects").save(own / "small.accams")
    user = model("effects").users[5].item()
    assert client.get("/v1/model").json()["version"] == before
    serving(client).look()
    assert version(client) != before
    assert client.get(f"/v1/users/{user}").status_code == 200
    assert 'accams_loads_total{model="small",result="loaded"} 2.0' in client.get("/metrics").text


def test_a_version_is_loaded_once(serve: Serve, own: Path) -> None:
    client = serve(source(own, "small", history=None))
    model("effects").save(own / "small.accams")
    assert serving(client).reload("small")
    assert serving(client).reload("small")  # as a thread does that has waited for the first one
    assert 'accams_loads_total{model="small",result="loaded"} 2.0' in client.get("/metrics").text


def test_titles_and_history_are_watched_too(serve: Serve, own: Path) -> None:
    titles = own / "titles.csv"
    titles.write_text("item,title\n0,Alien\n")
    client = serve(source(own, "small", titles=str(titles)))
    assert client.get("/v1/items/0").json()["title"] == "Alien"
    titles.write_text("item,title\n0,Aliens\n")
    serving(client).look()
    assert client.get("/v1/items/0").json()["title"] == "Aliens"


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "another file", "gone"])
def test_a_damaged_file_leaves_the_old_version(
    serve: Serve, own: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = serve(source(own, "small"))
    before, path = version(client), own / "small.accams"
    content = bytearray(path.read_bytes())
    if damage == "gone":
        path.unlink()
    elif damage == "another file":
        path.write_text("user,item,rating\n1,2,3\n")
    else:
        content[len(content) // 2] ^= 0x55
        path.write_bytes({"cut": content[:-100], "flipped": content, "empty": b""}[damage])
    with caplog.at_level(logging.INFO, logger="accams.serve"):
        for _ in range(3):
            serving(client).look()
    assert version(client) == before
    assert client.post("/v1/recommend", json={"user": USER}).status_code == 200
    if damage == "gone":
        assert not caplog.records
    else:  # said once, not at each look
        [record] = caplog.records
        line = json.loads(JsonLines().format(record))
        assert (line["event"], line["model"], line["still_serving"]) == ("model_refused", "small", before)
        assert str(path) in line["reason"]
        assert 'result="refused"} 1.0' in client.get("/metrics").text
    model("small").save(path, history=False)
    serving(client).look()
    assert client.post("/v1/recommend", json={"user": USER}).status_code == 200


def test_watching_swaps_without_a_failed_request(serve: Serve, own: Path) -> None:
    client = serve(source(own, "small"), watch=0.05)
    other = model("bayesian").compress(3000, random_state=1)
    seen, failed, done = set[str](), list[int](), threading.Event()

    def ask() -> None:
        while not done.is_set():
            answer = client.post("/v1/recommend", json={"user": USER, "explain": True})
            failed.extend([answer.status_code] if answer.status_code != 200 else [])
            seen.add(answer.json()["version"])

    asking = threading.Thread(target=ask)
    asking.start()
    for number in range(6):
        (model("small") if number % 2 else other).save(own / "small.accams", history=False)
        time.sleep(0.15)
    done.set()
    asking.join()
    assert not failed
    assert len(seen) == 2


# -- feedback ---------------------------------------------------------------------------------------------


def test_feedback_is_written_to_the_log(serve: Serve, own: Path) -> None:
    log = own / "feedback.log"
    client = serve(source(own, "small", feedback=str(log)))
    events = [{"user": 1, "item": 2, "value": 4.5}, {"user": "new one", "item": "<script>", "value": 1}]
    answer = client.post("/v1/feedback", json={"events": [*events, {"user": 1, "item": 2, "value": 77}]})
    assert (answer.status_code, len(read_events(log).users)) == (422, 0)  # an update would refuse it
    assert client.post("/v1/feedback", json={"events": events}).json() == {"accepted": 2}
    assert client.post("/v1/feedback", json={"events": [{"user": 1, "item": 3}]}).json() == {"accepted": 1}
    found = read_events(log)
    assert list(found.users) == [1, "new one", 1]
    assert list(found.items) == [2, "<script>", 3]
    assert found.values.tolist() == [4.5, 1.0, 1.0]
    assert "accams_feedback_events_total 3.0" in client.get("/metrics").text


def test_feedback_about_the_ids_of_the_model(serve: Serve, own: Path) -> None:
    log = own / "feedback.log"
    client = serve(source(own, "small", feedback=str(log)))
    events = [
        {"user": "3", "item": "2"},
        {"user": 3.0, "item": 2},
        {"user": "1000", "item": "x"},
        {"user": "07", "item": 1},
    ]
    assert client.post("/v1/feedback", json={"events": events}).json() == {"accepted": 4}
    found = read_events(log)
    assert (list(found.users), list(found.items)) == ([3, 3, 1000, "07"], [2, 2, "x", 1])


@pytest.mark.parametrize(
    ("event", "status"),
    [
        ({"user": 1}, 422), ({"user": 1, "item": 2, "value": None}, 422), ({"user": 1.5, "item": 2}, 422),
        ({"user": 1, "item": "x" * 10_001}, 422), ({"user": 1, "item": 2, "value": 3, "when": 0}, 422),
    ],
)  # fmt: skip
def test_bad_feedback_is_refused_whole(serve: Serve, own: Path, event: dict[str, object], status: int) -> None:
    log = own / "feedback.log"
    client = serve(source(own, "small", feedback=str(log)))
    answer = client.post("/v1/feedback", json={"events": [{"user": 1, "item": 2}, event]})
    assert answer.status_code == status
    assert not log.exists() or not len(read_events(log).users)


def test_a_log_that_cannot_be_written(serve: Serve, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WriteError, match="cannot write"):
        serve(source(own, "small", feedback=str(own / "no such folder" / "feedback.log")))
    client = serve(source(own, "small", feedback=str(own / "feedback.log")))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr("accams.data.eventlog.os.fsync", full)
    answer = client.post("/v1/feedback", json={"events": [{"user": 1, "item": 2}]})
    assert answer.status_code == 507
    assert "cannot write" in answer.json()["detail"]


# -- forgetting -------------------------------------------------------------------------------------------


@pytest.mark.some(2)
@pytest.mark.parametrize("kind", ["small", "bayesian", "lists", "both"])
def test_a_person_is_forgotten_everywhere(serve: Serve, own: Path, kind: str) -> None:
    log = own / "feedback.log"
    client = serve(source(own, kind, feedback=str(log)))
    user, other = (model(kind).users[p].item() for p in (3, 5))
    events = [{"user": who, "item": 1, "value": 2} for who in (user, other, str(user))]
    client.post("/v1/feedback", json={"events": events})
    kept = client.post("/v1/recommend", json={"user": other}).json()
    answer = client.delete(f"/v1/users/{user}").json()
    assert (answer["user"], answer["events"]) == (user, 2)
    assert answer["version"] == version(client) != kept["version"] or kind == "lists"
    assert client.get(f"/v1/users/{user}").status_code == 404
    assert client.delete(f"/v1/users/{user}").status_code == 404
    assert list(read_events(log).users) == [other]
    after = client.post("/v1/recommend", json={"user": other}).json()
    assert [x["item"] for x in after["items"]] == [x["item"] for x in kept["items"]]
    np.testing.assert_allclose([x["score"] for x in after["items"]], [x["score"] for x in kept["items"]], rtol=1e-12)
    again = accams.load(own / f"{kind}.accams", history=own / f"{kind}.history")
    assert user not in again.users.tolist()
    assert other in again.users.tolist()


def test_a_damaged_log_keeps_nobody(serve: Serve, own: Path) -> None:
    log = own / "feedback.log"
    client = serve(source(own, "small", feedback=str(log)))
    client.post(
        "/v1/feedback", json={"events": [{"user": USER, "item": 1, "value": 2}, {"user": 5, "item": 1, "value": 2}]}
    )
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:-1], b"damage" + lines[-1], lines[-1]]))
    assert client.delete(f"/v1/users/{USER}").json()["events"] == 1
    assert client.get(f"/v1/users/{USER}").status_code == 404
    assert list(read_events(log).users) == [5]


def test_whatever_happens_the_service_goes_on_looking(
    serve: Serve, own: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = serve(source(own, "small"), watch=0.05)
    before = version(client)

    def fails(*_: object) -> None:
        raise ZeroDivisionError("odd")

    monkeypatch.setattr("accams.serve.serving._warm_up", fails)
    model("small").save(own / "small.accams", history=False)
    time.sleep(0.4)
    assert version(client) == before
    assert "odd" in [record.reason for record in caplog.records if record.message == "model_refused"]  # type: ignore[attr-defined]
    monkeypatch.undo()
    model("bayesian").compress(3000).save(own / "small.accams", history=False)
    for _ in range(100):
        time.sleep(0.05)
        if version(client) != before:
            return
    raise AssertionError("the new version is not served")


def test_somebody_known_by_the_log_alone(serve: Serve, own: Path) -> None:
    log = own / "feedback.log"
    client = serve(source(own, "small", feedback=str(log)))
    client.post("/v1/feedback", json={"events": [{"user": "new one", "item": 1, "value": 2}]})
    before = version(client)
    assert client.delete("/v1/users/new%20one").json()["events"] == 1
    assert version(client) == before
    assert client.delete("/v1/users/new%20one").status_code == 404


def test_tables_are_not_rewritten(serve: Serve, own: Path) -> None:
    table = own / "seen.csv"
    table.write_text("user,item\n3,1\n3,2\n4,2\n")
    client = serve(source(own, "small", history=str(table)))
    answer = client.delete("/v1/users/3")
    assert answer.status_code == 409
    assert "take the user out of it" in answer.json()["detail"]
    assert client.get("/v1/users/3").status_code == 200
