"""A cluster that a fit starts obeys nobody else: whoever listens beyond this machine asks for a token."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from http.client import HTTPException
from pathlib import Path
from types import SimpleNamespace
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from accams.engine.ray import cluster

LOCAL = {"0100007F", "00000000000000000000000001000000"}  # 127.0.0.1 and ::1, as /proc/net has them
CLIENT = """
import logging, sys, ray
ray.init(address=sys.argv[1], logging_level=logging.CRITICAL)
"""


class Ray:
    """What `connect` asks of Ray, without a cluster."""

    def __init__(self, version: str) -> None:
        self.__version__ = version

    def is_initialized(self) -> bool:
        return False

    def init(self, **how: object) -> None:
        assert how["address"] == "local"
        assert how["include_dashboard"] is False

    def nodes(self) -> list[object]:
        return []


@pytest.mark.parametrize(
    ("version", "mode", "is_open"),
    [("2.60.0", "token", False), ("2.52.1", "TOKEN", False), ("2.60.0", "disabled", True), ("2.40.0", "token", True)],
)
def test_an_open_cluster_is_told(version: str, mode: str, is_open: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", mode)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(cluster, "_library", lambda: Ray(version))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cluster.connect()
    assert ["obeys everyone" in str(each.message) for each in caught] == [True] * is_open


@pytest.mark.parametrize("imported", [False, True])
def test_a_token_is_asked_for_before_ray_is_imported(imported: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_AUTH_MODE", "")
    del os.environ["RAY_AUTH_MODE"]
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace())
    if not imported:
        monkeypatch.delitem(sys.modules, "ray")
    monkeypatch.setattr(cluster, "_library", lambda: Ray("2.60.0"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cluster.connect()
    assert os.environ.get("RAY_AUTH_MODE") == (None if imported else "token")


def family(pid: int) -> list[int]:
    """Return a process and all that descend from it."""
    parents = dict[int, int]()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:  # it has ended
            continue
    found = [pid]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found


def listening(pid: int) -> set[tuple[str, int]]:
    """Return address (as /proc/net has it) and port of the sockets on which a process listens."""
    links = (os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink())
    own = {match[1] for link in links if (match := re.fullmatch(r"socket:\[(\d+)\]", link))}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            _, place, _, state, *rest = line.split()
            if state == "0A" and rest[5] in own:
                address, _, port = place.partition(":")
                found.add((address, int(port, 16)))
    return found


def asks_for_token(pid: int) -> bool:
    return b"RAY_AUTH_MODE=token" in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")


@pytest.mark.full
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_strangers_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    code = "import sys; from accams.engine.ray.cluster import connect; c = connect(); import ray; "
    code += "print(ray.get_runtime_context().gcs_address, flush=True); sys.stdin.read(); c.leave()"
    kept = {name: x for name, x in os.environ.items() if not name.startswith("RAY_")} | {"HOME": str(tmp_path)}
    driver = subprocess.Popen(
        [sys.executable, "-c", code], env=kept, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert driver.stdout is not None
        address = driver.stdout.readline().strip()
        processes = family(driver.pid)
        beyond = {pid: {place for place in listening(pid) if place[0] not in LOCAL} for pid in processes}
        assert any(port == int(address.rpartition(":")[2]) for places in beyond.values() for _, port in places)
        # processes of Python write their titles over what /proc would tell
        servers = [
            pid for pid in processes if Path(f"/proc/{pid}/comm").read_text().strip() in ("gcs_server", "raylet")
        ]
        assert len(servers) == 2
        assert all(map(asks_for_token, servers))
        stranger = kept | {"RAY_AUTH_MODE": "disabled"}
        asked = subprocess.run(
            [sys.executable, "-c", CLIENT, address], env=stranger, capture_output=True, text=True, timeout=120
        )
        assert asked.returncode != 0
        assert "uthentication" in asked.stderr
        refused = [answer(address_of(place), port) for places in beyond.values() for place, port in places]
        assert 401 in refused
        assert set(refused) <= {401, None}
    finally:
        driver.communicate("")


def address_of(place: str) -> str:
    if len(place) == 8 and set(place) != {"0"}:
        return ".".join(str(byte) for byte in reversed(bytes.fromhex(place)))
    return "127.0.0.1"


def answer(host: str, port: int) -> int | None:
    """Return the status of an HTTP server; None where something else listens."""
    try:
        return int(urlopen(f"http://{host}:{port}/", timeout=5).status)
    except HTTPError as error:
        return error.code
    except (OSError, HTTPException):  # gRPC, say
        return None
