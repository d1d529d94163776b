"""`accams compress`, `decompress` and `info` on matrices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import done_well, invoked, refusal

MATRIX = np.add.outer(np.arange(60.0) % 5, np.arange(40.0) % 7)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("matrices")
    np.save(path / "x.npy", MATRIX)
    shown = done_well("compress", path / "x.npy", "--max-error", "0.25", "-o", path / "x.accams")
    for part in ("60 x 40 float64", "max error 0.25", "largest error", "stencils", "saved"):
        assert part in shown
    return path


def test_it_comes_back(folder):
    done_well("decompress", folder / "x.accams", "-o", folder / "back.npy")
    assert np.abs(np.load(folder / "back.npy") - MATRIX).max() <= 0.25
    shown = done_well("decompress", folder / "x.accams", "-o", folder / "some.csv", "--rows", "10:20", "--columns", "3")
    assert "10 x 1 float64" in shown
    np.testing.assert_allclose(pd.read_csv(folder / "some.csv").to_numpy(), MATRIX[10:20, 3:4], atol=0.25)


def test_info_tells_where_bytes_go(folder):
    shown = done_well("info", folder / "x.accams", "--plot", folder / "curve.png")
    for part in ("compressed matrix", "max error 0.25", "bits a cell", "header", "curve.png"):
        assert part in shown
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_a_table_keeps_its_names(folder):
    frame = pd.DataFrame(MATRIX[:6, :3], columns=["x", "y", "z"], index=list("abcdef")).rename_axis("name")
    frame.to_csv(folder / "t.csv")
    done_well("compress", folder / "t.csv", "--max-error", "0", "-o", folder / "t.accams")
    done_well("decompress", folder / "t.accams", "-o", folder / "u.csv")
    back = pd.read_csv(folder / "u.csv", index_col=0)
    np.testing.assert_array_equal(back.to_numpy(), frame.to_numpy())
    assert back.columns.tolist() == ["x", "y", "z"]
    assert back.index.tolist() == list("abcdef")


def test_sizes_and_mean_errors(folder):
    done_well("compress", folder / "x.npy", "--max-bytes", "2k", "-o", folder / "two.accams")
    assert (folder / "two.accams").stat().st_size <= 2000
    assert "max rmse 0.5" in done_well("compress", folder / "x.npy", "--max-rmse", "0.5", "-o", folder / "r.accams")


def test_which_of_both_the_file_tells(folder, posterior):
    out = folder / "out.accams"
    assert "give one promise" in refusal("compress", folder / "x.npy", "-o", out)
    assert "give one promise" in refusal("compress", folder / "x.npy", "--max-error", "1", "--max-rmse", "1", "-o", out)
    assert "are for matrices" in refusal("compress", posterior, "--max-error", "1", "-o", out)
    assert "compressed already" in refusal("compress", folder / "x.accams", "--max-error", "1", "-o", out)
    assert "this is a matrix" in refusal("compress", folder / "x.npy", "--max-bytes", "1k", "--no-ids", "-o", out)
    assert "holds a compressed matrix, not a model" in refusal("recommend", folder / "x.accams", "1")
    assert "it is an accams model" in refusal("decompress", posterior, "-o", folder / "m.npy")
    assert "the matrix is written to a file" in refusal("decompress", folder / "x.accams", "-o", "-")
    assert "this is a model" in refusal("info", posterior, "--plot", folder / "m.png")
    assert "--plot draws .png" in refusal("info", folder / "x.accams", "--plot", folder / "curve.foo")
    np.savez(folder / "two.npz", a=MATRIX, b=MATRIX)
    assert "choose one with --array a" in refusal("compress", folder / "two.npz", "--max-error", "1", "-o", out)
    wrong = invoked("decompress", folder / "x.accams", "--rows", "50:70", "-o", out)
    assert wrong.exit_code == 2
    assert "no range within 0:60" in wrong.output
    assert not out.exists()
    assert "what is to be read" in refusal("compress", folder / "x.npy", "--max-error", "1", "-o", folder / "x.npy")
    assert "there is no file" in refusal("compress", folder / "none", "--max-error", "1", "-o", out)
