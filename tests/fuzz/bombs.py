"""Use a file that unfolds to as much as is allowed in every way: `python tests/fuzz/bombs.py both FOLDER`."""

from __future__ import annotations

import resource
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import zstandard
from targets import allowed, questions

import accams
from accams.data.ids import Index
from accams.model import container
from accams.model.limits import LABELS, NUMBERS, STENCILS
from accams.model.stencil import Stencil
from accams.model.stencils import StencilSum

MEMORY = 1 << 30  # bytes that loading and all questions may take beyond what the process had before
SECONDS = 120  # of processor time, kernels that are compiled included


def block(shape: tuple[int, int], k: tuple[int, int] = (1, 1)) -> Stencil:
    labels = (np.zeros(size, np.uint8) for size in shape)
    return Stencil(np.zeros(k, np.float32), *labels)


def columns(path: Path) -> None:
    """As many columns as a file may have, and nothing else."""
    StencilSum((9, NUMBERS.free - 9), 0.5).save(path)


def both(path: Path) -> None:
    """As many rows and columns, in one block."""
    shape = NUMBERS.free // 2, NUMBERS.free // 2
    StencilSum(shape, 0.5, (block(shape),)).save(path, coding="packed")


def labels(path: Path) -> None:
    """As many stencils and labels."""
    side = LABELS.free // STENCILS.free // 2
    StencilSum((side, side), 0.5, (block((side, side)),) * STENCILS.free).save(path, coding="packed")


def clusters(path: Path) -> None:
    """As large a template."""
    StencilSum((10, 10), 0.5, (block((10, 10), (1 << 12, NUMBERS.free >> 12)),)).save(path)


def ids(path: Path) -> None:
    """As long ids: lists within lists, which are refused."""
    model = accams.ACCAMS(1, 2, verbose=False).fit(np.eye(4)).model_
    replace(model, row_index=Index(["a", "b", "c", "d"])).save(path)
    header, tensors = container.read(path, "model", 99)
    text = b"[" + b"[[]]," * (NUMBERS.free // 5 - 1) + b"0]"
    packed = np.frombuffer(zstandard.ZstdCompressor(19).compress(text), np.uint8)
    path.write_bytes(container.to_bytes(header, {**tensors, "ids/row": packed}))


BOMBS: dict[str, Callable[[Path], None]] = {each.__name__: each for each in (columns, both, labels, clusters, ids)}


def main() -> int:
    path = Path(sys.argv[2]) / "model"
    BOMBS[sys.argv[1]](path)
    print(f"{path.stat().st_size:,} bytes")
    assert path.stat().st_size < 16_000
    warnings.simplefilter("ignore")
    accams.ACCAMS(1, 2, verbose=False).fit(np.eye(4)).predict([(0, 0)])  # what a process needs anyway
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))

    def ask() -> None:
        for question in questions(accams.load(path), path):
            allowed(question)

    allowed(ask)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    print(f"{grown >> 20:,} MB")
    return int(grown > MEMORY)


if __name__ == "__main__":
    sys.exit(main())
