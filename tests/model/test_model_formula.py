"""A file is at most as large as the paper's formula says, and 2 KiB."""

from __future__ import annotations

import numpy as np
import pytest

from accams import StencilSum
from accams.model import file
from accams.model.stencils import Stencil

SIZES = [
    ((30, 20), 5, 300), ((100, 100), 3, 3000), ((200, 100), 7, 200), ((9, 7), 6, 500), ((2000, 1500), 10, 30),
    ((40, 30), 1, 50),
]  # fmt: skip


@pytest.mark.some(2)
@pytest.mark.parametrize(("shape", "k", "s"), SIZES)
def test_labels_without_any_structure(shape, k, s):
    """Drawn evenly: nothing is to be gained by knowing how frequent they are."""
    random = np.random.default_rng(0)
    parts = [Stencil(random.normal(size=(k, k)), *(random.integers(0, k, size) for size in shape)) for _ in range(s)]
    model = StencilSum(shape, 0.0, tuple(parts))
    assert len(file.to_bytes(model)) <= model.bits / 8 + 2048


def test_stencils_of_different_shapes():
    random, shape = np.random.default_rng(1), (60, 50)
    parts = []
    for _ in range(400):
        k = random.integers(1, 9, 2)
        labels = (random.integers(0, k[axis], shape[axis]) for axis in (0, 1))
        parts.append(Stencil(random.normal(size=k), *labels))
    model = StencilSum(shape, 0.0, tuple(parts))
    assert len(file.to_bytes(model)) <= model.bits / 8 + 2048
