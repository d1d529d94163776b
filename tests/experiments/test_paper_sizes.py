"""Every size of the paper's Table 1, by its conventions."""

from __future__ import annotations

import pytest

from paper.table import PRINTED, paper_size

SIZES = {  # MB, as printed
    ("SVD++", 25): "49.8", ("LLORMA", 1): "3.98", ("LLORMA", 5): "19.9", ("LLORMA", 10): "39.8", ("LLORMA", 20): "79.7",
    ("ACCAMS", 10, 13): "2.69", ("ACCAMS", 100, 5): "2.27",
    ("bACCAMS", 10, 50): "10.4", ("bACCAMS", 10, 70): "14.5", ("bACCAMS", 10, 125): "25.9",
}  # fmt: skip


@pytest.mark.parametrize(("method", "parameters"), [(method, of) for method, of, _ in PRINTED if of])
def test_a_cell(method: str, parameters: dict[str, int]) -> None:
    key = (method, *(value for name, value in parameters.items() if name != "copies"))
    size = paper_size(parameters)
    assert size is not None
    assert f"{size / 1e6:.3g}" == SIZES.pop(key)  # type: ignore[index]


def test_all_cells_were_there() -> None:
    assert not SIZES
    assert paper_size({}) is None
