"""Compressed matrices that are damaged or lie, and files of matrices to be compressed."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path

import numpy as np
from mutate import Random, changed_array, changed_arrays, changed_bytes, changed_text, pick

import accams
from accams import CompressedMatrix, compress, decompress
from accams.data.matrices import open_matrix

CELLS = 1 << 20  # of a matrix that is decoded as a whole


@cache
def compressed() -> list[bytes]:
    """Matrices of several types: with and without stencils, gaps, values kept as they are, names and images."""
    random = np.random.default_rng(0)
    smooth = np.outer(random.normal(size=30), random.normal(size=24)) + 0.1 * random.normal(size=(30, 24))
    gaps = np.where(random.random(smooth.shape) < 0.1, np.nan, smooth).astype(np.float32)
    gaps[3, 4] = np.inf
    levels = np.clip(128 + 40 * smooth, 0, 255).astype(np.uint8)
    named = frame_of(levels[:, :5])
    made = [
        compress(smooth, max_rmse=0.5, verbose=False), compress(gaps, max_error=0.05, verbose=False),
        compress(levels, max_error=0, verbose=False), compress(named, max_error=2, verbose=False),
        compress(levels.reshape(6, 5, 24), max_error=3, verbose=False),
        compress(np.where(random.random((40, 30)) < 0.1, 1e6, 0.0), max_bytes=1500, verbose=False),
    ]  # fmt: skip
    return [each.to_bytes() for each in made]


def frame_of(values: np.ndarray) -> object:
    import pandas as pd

    return pd.DataFrame(values, columns=[f"é{j}" for j in range(values.shape[1])])


def use_matrix(path: Path, random: Random) -> None:
    """Open it, ask for a block and for everything, and see that both say the same, and again when saved."""
    matrix = CompressedMatrix.open(path)
    assert isinstance(accams.load(path), CompressedMatrix)
    repr(matrix)
    assert matrix.row_names is None or len(matrix.row_names) == len(matrix)
    assert matrix.column_names is None or len(matrix.column_names) == matrix.columns
    assert sum(matrix.parts().values()) <= matrix.nbytes
    assert len(matrix.n_stencils) >= 1
    if matrix.size > CELLS:
        return
    everything = matrix.decompress()
    assert (everything.shape, everything.dtype) == (matrix.shape, matrix.dtype)
    rows = slice(*sorted(random.integers(0, len(matrix) + 1, 2).tolist()))
    np.testing.assert_array_equal(matrix[rows], everything[rows])
    if matrix.ndim == 2:
        j = int(random.integers(matrix.columns))
        np.testing.assert_array_equal(matrix[:, j], everything[:, j])
    np.testing.assert_array_equal(decompress(matrix.to_bytes()), everything)


def use_matrix_file(folder: Path, random: Random) -> None:
    """Read a table, an array or an image that is damaged, as `accams compress` does, and compress what comes out."""
    path = folder / f"x{pick(random, ['.csv', '.npy', '.npz', '.png', '.parquet'])}"
    values = np.random.default_rng(0).normal(size=(12, 5)).round(2)
    if path.suffix == ".csv":
        lines = ["name,a,b,c,d,e", *(",".join([f"r{i}", *map(str, row)]) for i, row in enumerate(values))]
        path.write_bytes(changed_text("\n".join(lines), random).encode("utf-8", "surrogatepass"))
    elif path.suffix == ".npz" and random.random() < 0.7:
        np.savez(path, **changed_arrays({"matrix": values, "other": values[0]}, random))
    elif path.suffix == ".npy" and random.random() < 0.7:
        np.save(path, changed_array(values, random))
    else:
        path.write_bytes(changed_bytes(whole_file(path.suffix), random))
    with open_matrix(path) as found:
        rows = np.asarray(found.rows)
        if rows.size > CELLS:
            return
        assert decompress(compress(rows, max_rmse=0.3, verbose=False).to_bytes()).shape == rows.shape


@cache
def whole_file(ending: str) -> bytes:
    values, out = np.random.default_rng(0).normal(size=(12, 5)), io.BytesIO()
    if ending == ".npy":
        np.save(out, values)
    elif ending == ".npz":
        np.savez(out, matrix=values)
    elif ending == ".png":
        from PIL import Image

        Image.fromarray(np.arange(120, dtype=np.uint8).reshape(12, 10)).save(out, format="PNG")
    else:
        import polars as pl

        pl.DataFrame({f"c{j}": values[:, j] for j in range(5)}).write_parquet(out)
    return out.getvalue()
