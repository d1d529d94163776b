"""Every size of the paper's Table 1, by its conventions."""

from __future__ import annotations

import pytest

from paper.table import PRINTED, paper_size

SIZES = {  # MB, as printed
    ("SVD++", 25): "49.8", ("LLORMA", 1): "3.98", ("LLORMA", 5): "19.9", ("LLORMA", 10): "39.8", ("LLORMA", 20): "79.7",
    ("ACCAMS", 10, 13): "2.69", ("ACCAMS", 100, 5): "2.27",
    ("bACCAMS", 10, 50): "10.4", ("bACCAMS", 10, 70): "14.5", ("bACCAMS", 10, 125): "25.9",
}  # fmt: skip


CELLS = {(method, *(value for name, value in of.items() if name != "copies")): of for method, of, _ in PRINTED if of}


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_a_cell(cell: tuple[str, int]) -> None:
    size = paper_size(CELLS[cell])
    assert size is not None
    assert f"{size / 1e6:.3g}" == SIZES[cell]  # type: ignore[index]


def test_all_cells_are_there() -> None:
    assert CELLS.keys() == SIZES.keys()
    assert paper_size({}) is None
