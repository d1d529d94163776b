"""Errors about a missing GPU are one sentence that says what to do."""

from __future__ import annotations

import importlib
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from accams import ACCAMS
from accams.cli import doctor
from accams.engine import cuda
from accams.engine.cuda import device
from accams.engine.cuda.labels import label_bytes
from accams.errors import InputError

pytest.importorskip("numba.cuda")


def broken(message: str) -> Any:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError(message)

    return fail


@pytest.fixture
def no_simulator(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imitate a computer without the simulator; numba's answers are given by the test."""
    there = SimpleNamespace(MULTIPROCESSOR_COUNT=132, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN=1 << 17)
    context = SimpleNamespace(get_memory_info=lambda: (1 << 30, 1 << 31))
    fake = SimpleNamespace(get_current_device=lambda: there, current_context=lambda: context)
    monkeypatch.setattr(device, "config", SimpleNamespace(ENABLE_CUDASIM=False))
    monkeypatch.setattr(device, "find_spec", lambda name: name)
    monkeypatch.setattr(device, "cuda", fake)
    monkeypatch.setattr(device, "_nothing", {(1, 1): lambda: None})
    return fake


def test_a_gpu(no_simulator: Any) -> None:
    assert device.find_device() == (132, 1 << 17, 1 << 30, 128, False)


def test_a_small_gpu(no_simulator: Any) -> None:
    """One with 64 KB of shared memory has smaller blocks, in which labels of 32 clusters fit."""
    no_simulator.get_current_device = lambda: SimpleNamespace(
        MULTIPROCESSOR_COUNT=40, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN=64 << 10
    )
    found = device.find_device()
    assert found.threads == 64
    assert label_bytes((32, 32), found.threads) + 8 * 32 * 32 + 16 * found.threads + 1024 < found.shared


def test_without_numba_cuda(no_simulator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"^engine='cuda' needs numba-cuda: pip install 'accams\[cuda\]', or use"):
        device.find_device()


def test_without_a_gpu_or_its_driver(no_simulator: Any) -> None:
    no_simulator.get_current_device = broken("\nError at driver init:\n\nlibcuda.so not found:\nmore\n")
    with pytest.raises(
        InputError, match=r"GPU and its driver, and finds none \(Error at driver init\): install"
    ) as told:
        device.find_device()
    assert "\n" not in str(told.value)


def test_with_a_driver_that_is_too_old(no_simulator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "_nothing", {(1, 1): broken("CUDA_ERROR_UNSUPPORTED_PTX_VERSION")})
    with pytest.raises(InputError, match=r"cannot compile .*UNSUPPORTED_PTX_VERSION\): update NVIDIA's driver"):
        device.find_device()


def test_what_the_driver_refuses_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="the GPU's driver reports 700"):
        device._checked((700, None))
    assert device._checked((0, "found")) == ["found"]


def test_a_name_that_numpy_has_removed_is_there_for_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "row_stack", None, raising=False)
    monkeypatch.delattr(np, "row_stack")
    importlib.reload(cuda)
    assert vars(np)["row_stack"] is np.vstack


def test_a_runtime_that_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """numba-cuda without CUDA's libraries fails as soon as it is imported."""
    for name in [name for name in sys.modules if name.startswith("accams.engine.cuda")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "numba.cuda", None)
    with pytest.raises(InputError, match=r"engine='cuda' cannot load CUDA \(.+\): pip install 'accams\[cuda\]'"):
        ACCAMS(1, 2, engine="cuda", verbose=False).fit(np.eye(4))
    assert "cannot load CUDA" in doctor._gpu()
