"""Who may ask how much, and what is noted of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from services import Serve, model, source
from starlette.testclient import TestClient

from accams.errors import InputError
from accams.serve.guard import Rates
from accams.serve.settings import Settings, parse_sources, read_tokens

USER = model("small").users[3].item()


def test_tokens(serve: Serve, files: Path) -> None:
    client = serve(source(files, "small"), tokens=frozenset({"secret", "other"}))
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "secret"}, {"Authorization": "Bearer é"}):
        for path in ("/v1/model", "/v1/recommend?user=1", "/metrics", "/openapi.json"):
            answer = client.get(path, headers={k: v.encode() for k, v in headers.items()})
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
    for token in ("secret", "other"):
        assert client.get("/v1/model", headers={"Authorization": f"Bearer {token}"}).status_code == 200
    assert client.get("/health/ready").status_code == 200


def test_tokens_below_another_path(serve: Serve, files: Path) -> None:
    app = serve(source(files, "small"), tokens=frozenset({"secret"})).app
    client, bearing = (
        TestClient(app, base_url="http://localhost", root_path="/films"),
        {"Authorization": "Bearer secret"},
    )
    for path in ("/v1/model", "/metrics", "/openapi.json"):
        assert client.get(f"/films{path}").status_code == 401
        assert client.get(f"/films{path}", headers=bearing).status_code == 200
    assert client.post("/films/v1/recommend", json={"user": USER}).status_code == 401
    assert client.post("/films/v1/recommend", json={"user": USER}, headers=bearing).status_code == 200
    assert client.post("/films/v1/recommend", content="{}", headers=bearing).status_code == 415
    assert client.get("/films/health/live").status_code == 200


@pytest.mark.parametrize(
    ("content", "message"), [("", "holds no token"), ("# none\n", "holds no token"), ("two words", "with blanks")]
)
def test_token_files(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "tokens"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        read_tokens(str(path))
    with pytest.raises(InputError, match="cannot read the tokens"):
        read_tokens(str(tmp_path / "none"))
    path.write_text("# of the shop\nabc\n\ndef\n")
    assert read_tokens(str(path)) == {"abc", "def"}


def test_a_local_service_answers_to_local_names_alone(serve: Serve, files: Path) -> None:
    client = serve(source(files, "small"))
    for host in ("localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]:8000"):
        assert client.get("/v1/model", headers={"Host": host}).status_code == 200
    for host in ("evil.example", "localhost.evil.example", "", "10.0.0.1"):
        answer = client.get("/v1/model", headers={"Host": host})
        assert answer.status_code == 421
    named = serve(source(files, "small"), hosts=("films.example",))
    assert named.get("/v1/model", headers={"Host": "films.example:8000"}).status_code == 200
    assert named.get("/v1/model", headers={"Host": "evil.example"}).status_code == 421
    public = serve(source(files, "small"), host="0.0.0.0")
    assert public.get("/v1/model", headers={"Host": "films.example"}).status_code == 200


def test_other_origins_may_not_read_unless_allowed(serve: Serve, files: Path) -> None:
    origin = {"Origin": "https://shop.example"}
    answer = serve(source(files, "small")).get("/v1/model", headers=origin)
    assert "access-control-allow-origin" not in answer.headers
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    client = serve(source(files, "small"), origins=("https://shop.example",))
    assert client.get("/v1/model", headers=origin).headers["access-control-allow-origin"] == "https://shop.example"
    answer = client.get("/v1/model", headers={"Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in answer.headers
    asked = {**origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    assert client.options("/v1/recommend", headers=asked).status_code == 200
    assert client.post("/v1/recommend", json={"user": USER}, headers=origin).headers["access-control-allow-origin"]


def test_bodies_are_limited(serve: Serve, files: Path) -> None:
    client = serve(source(files, "small"), max_body=1000)
    large = {"user": USER, "exclude": list(range(1000))}
    for path in ("recommend", "batch", "feedback"):
        answer = client.post(f"/v1/{path}", json=large)
        assert (answer.status_code, answer.json()["status"]) == (413, 413)
        parts = iter([b'{"user": "', *[b"x" * 100] * 50, b'"}'])
        answer = client.post(f"/v1/{path}", content=parts, headers={"Content-Type": "application/json"})
        assert answer.status_code == 413  # though it did not say how long it would be
        assert "more than 1,000 bytes" in answer.json()["detail"]
    assert client.post("/v1/recommend", json={"user": USER}).status_code == 200


def test_rates(serve: Serve, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = serve(source(files, "small"), rate=2.0)
    codes = [client.get("/v1/model").status_code for _ in range(20)]
    assert codes[:4] == [200] * 4
    assert codes[-1] == 429
    now = 0.0
    monkeypatch.setattr("accams.serve.guard.time.monotonic", lambda: now)
    rates = Rates(2.0)
    assert [rates.allows("a") for _ in range(5)] == [True] * 4 + [False]
    assert rates.allows("b")
    now = 0.5
    assert [rates.allows("a") for _ in range(2)] == [True, False]
    for number in range(20_000):
        rates.allows(str(number))
    assert len(rates._clients) <= 10_000


def test_headers(serve: Serve, files: Path) -> None:
    client = serve(source(files, "small"))
    for path in ("/v1/model", "/v1/nothing", "/health/live"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert "server" not in headers


def test_the_log_holds_no_personal_data(serve: Serve, files: Path, capfd: pytest.CaptureFixture[str]) -> None:
    client = serve(source(files, "small"), access_log=True)
    client.get("/v1/users/4242")
    client.get("/v1/recommend?user=4242")
    client.post("/v1/recommend", json={"user": 4242})
    client.get("/secret/4242")
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert [line["route"] for line in lines] == ["/v1/users/{user:path}", "/v1/recommend", "/v1/recommend", "other"]
    assert [line["status"] for line in lines] == [404] * 4
    assert all(set(line) == {"time", "level", "event", "method", "route", "status", "bytes", "ms"} for line in lines)
    assert "4242" not in json.dumps(lines)


def test_metrics(serve: Serve, files: Path) -> None:
    client = serve(source(files, "small"), source(files, "text ids"))
    for _ in range(3):
        client.post("/v1/recommend", json={"user": USER})
    client.post("/v1/recommend", json={"user": "nobody"})
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    text = answer.text
    assert 'accams_requests_total{method="POST",route="/v1/recommend",status="200"} 3.0' in text
    assert 'accams_requests_total{method="POST",route="/v1/recommend",status="404"} 1.0' in text
    assert 'accams_request_seconds_count{route="/v1/recommend"} 4.0' in text
    assert 'accams_loads_total{model="small",result="loaded"} 1.0' in text
    assert "accams_in_flight 1.0" in text
    assert "nobody" not in text


def test_sources(tmp_path: Path) -> None:
    odd = tmp_path / "a=b.accams"
    odd.write_bytes(b"")
    assert parse_sources([str(odd)])[0].model == str(odd)
    with pytest.raises(InputError, match=r"two models are called a: name them, as in first=a.accams second=x/a.accams"):
        parse_sources(["a.accams", "x/a.accams"])
    with pytest.raises(InputError, match=r"--titles must say for which model it is: --titles a=t.csv"):
        parse_sources(["a.accams", "b.accams"], titles=["t.csv"])
    with pytest.raises(InputError, match="--history names a model 'c' that is not served: a, b"):
        parse_sources(["a.accams", "b.accams"], history=["c=t.csv"])
    settings = Settings(sources=parse_sources(["a.accams"]), watch=1.0, origins=("https://x.example",))
    settings.to_environment()
    assert Settings.from_environment() == settings
