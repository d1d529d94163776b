"""Matrices from and to files: arrays, tables, images, and what is none of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from accams.data.matrices import open_matrix, write_matrix
from accams.errors import InputError

MATRIX = np.arange(12.0).reshape(4, 3) / 4
NO_NAMES = (None, None)


def read(path: Path, array: str | None = None):
    with open_matrix(path, array) as found:
        return np.array(found.rows), [None if x is None else x.ids.tolist() for x in found.names]


def test_arrays(tmp_path):
    np.save(tmp_path / "a.npy", MATRIX)
    np.savez(tmp_path / "b.npz", matrix=MATRIX, ids=np.arange(4))
    np.savez_compressed(tmp_path / "c.npz", one=MATRIX, two=-MATRIX)
    for path, name in (("a.npy", None), ("b.npz", None), ("c.npz", "one")):
        values, names = read(tmp_path / path, name)
        np.testing.assert_array_equal(values, MATRIX)
        assert names == [None, None]
    with pytest.raises(InputError, match=r"several matrices \(one, two\): choose one"):
        read(tmp_path / "c.npz")
    with pytest.raises(InputError, match="no array 'three', but one, two"):
        read(tmp_path / "c.npz", "three")


def test_tables(tmp_path):
    frame = pd.DataFrame(MATRIX, columns=["x", "y", "z"])
    frame.loc[1, "y"] = np.nan
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.insert(0, "gene", ["a", "b", "c", "d"])
    frame.to_csv(tmp_path / "b.csv", index=False)
    frame.to_parquet(tmp_path / "c.parquet")
    for path, rows in (("a.csv", None), ("b.csv", ["a", "b", "c", "d"]), ("c.parquet", ["a", "b", "c", "d"])):
        values, names = read(tmp_path / path)
        np.testing.assert_array_equal(values, frame[["x", "y", "z"]].to_numpy())
        assert names == [rows, ["x", "y", "z"]]
    frame["kind"] = "text"
    frame.to_csv(tmp_path / "d.csv", index=False)
    with pytest.raises(InputError, match="column 'kind' holds no numbers"):
        read(tmp_path / "d.csv")
    frame[["kind"]].to_csv(tmp_path / "e.csv", index=False)
    with pytest.raises(InputError, match=r"e\.csv"):
        read(tmp_path / "e.csv")


def test_ragged_tables_are_refused(tmp_path):
    (tmp_path / "r.csv").write_text("a,b,c\n1,2,3\n4,5\n6,7,8,9\n")
    with pytest.raises(InputError, match=r"r\.csv"):
        read(tmp_path / "r.csv")


def test_images_keep_what_they_hold(tmp_path):
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 256, (5, 4, 4), dtype=np.uint8)
    image.fromarray(pixels).save(tmp_path / "a.png")
    np.testing.assert_array_equal(read(tmp_path / "a.png")[0], pixels)
    write_matrix(tmp_path / "b.png", [pixels], pixels.shape, pixels.dtype, NO_NAMES)
    np.testing.assert_array_equal(read(tmp_path / "b.png")[0], pixels)
    for name in ("x/0.png", "x/0.bmp"):
        (tmp_path / "x").mkdir(exist_ok=True)
        image.fromarray(pixels[..., 0]).save(tmp_path / name)
    assert read(tmp_path / "x")[1] == [["0.bmp", "0.png"], None]
    frames = [image.fromarray(pixels[..., k]) for k in range(2)]
    frames[0].save(tmp_path / "two.gif", save_all=True, append_images=frames[1:])
    with pytest.raises(InputError, match="has 2 frames"):
        read(tmp_path / "two.gif")


def test_images(tmp_path):
    image = pytest.importorskip("PIL.Image")
    stack = np.random.default_rng(0).integers(0, 256, (3, 8, 6), dtype=np.uint8)
    folder = tmp_path / "images"
    folder.mkdir()
    for name, each in zip("cab", stack, strict=True):
        image.fromarray(each).save(folder / f"{name}.png")
    values, names = read(folder)
    np.testing.assert_array_equal(values, stack[[1, 2, 0]])
    assert names == [["a", "b", "c"], None]
    np.testing.assert_array_equal(read(folder / "a.png")[0], stack[1])
    write_matrix(
        tmp_path / "back", [values[:2], values[2:]], values.shape, values.dtype, (np.array(["a", "b", "c"]), None)
    )
    np.testing.assert_array_equal(read(tmp_path / "back")[0], values)
    image.fromarray(stack[0][:4]).save(folder / "d.png")
    with pytest.raises(InputError, match=r"images of one size .* d.png \(4, 6\)"):
        read(folder)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="has no images"):
        read(tmp_path / "empty")
    (tmp_path / "bad.png").write_bytes(b"\x89PNG and nothing")
    with pytest.raises(InputError, match=r"bad\.png is damaged"):
        read(tmp_path / "bad.png")


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".tsv", ".parquet"])
def test_what_is_written_is_read(tmp_path, suffix):
    path = tmp_path / f"it's{suffix}"
    names = np.array(["a", "b", "c", "d"], object), np.array(["x", "y", "z"], object)
    write_matrix(path, [MATRIX[:3], MATRIX[3:]], MATRIX.shape, MATRIX.dtype, names)
    values, found = read(path)
    np.testing.assert_array_equal(values, MATRIX)
    if suffix not in (".npy", ".npz"):
        assert found == [each.tolist() for each in names]


def test_what_is_no_matrix(tmp_path):
    (tmp_path / "page.csv").write_text("<html>no</html>")
    with pytest.raises(InputError, match="a web page"):
        read(tmp_path / "page.csv")
    (tmp_path / "cut.npy").write_bytes(b"\x93NUMPY\x01")
    with pytest.raises(InputError, match="damaged or truncated"):
        read(tmp_path / "cut.npy")
    np.save(tmp_path / "objects.npy", np.array([[1, None]]), allow_pickle=True)
    with pytest.raises(InputError, match=r"objects\.npy"):
        read(tmp_path / "objects.npy")
    with pytest.raises(InputError, match="a matrix is written as"):
        write_matrix(tmp_path / "x.xlsx", [MATRIX], MATRIX.shape, MATRIX.dtype, NO_NAMES)
    with pytest.raises(InputError, match="is no stack of images"):
        write_matrix(tmp_path / "folder", [MATRIX], MATRIX.shape, MATRIX.dtype, NO_NAMES)
    with pytest.raises(InputError, match="is no table"):
        write_matrix(tmp_path / "x.csv", [np.zeros((2, 3, 4))], (2, 3, 4), MATRIX.dtype, NO_NAMES)
    with pytest.raises(InputError, match="PNG holds no 3 x 4 image of float64"):
        write_matrix(tmp_path / "x.png", [np.zeros((3, 4))], (3, 4), np.dtype(float), NO_NAMES)


def test_dates_name_rows(tmp_path):
    (tmp_path / "days.csv").write_text("day,a\n2024-01-01,1\n2024-01-02,2\n")
    values, (rows, columns) = read(tmp_path / "days.csv")
    assert (values.tolist(), rows, columns) == ([[1], [2]], ["2024-01-01", "2024-01-02"], ["a"])
    (tmp_path / "times.csv").write_text("at,a\n2024-01-01 10:30:00,1\n2024-01-02 00:00:00,2\n")
    assert read(tmp_path / "times.csv")[1][0] == ["2024-01-01T10:30:00", "2024-01-02"]
    (tmp_path / "gap.csv").write_text("name,a\nx,1\n,2\n")
    with pytest.raises(InputError, match="column 'name' names the rows, but row 2 has no name"):
        read(tmp_path / "gap.csv")


def test_errors_of_what_is_done_with_a_matrix_are_not_of_its_file(tmp_path):
    np.save(tmp_path / "x.npy", MATRIX)
    with pytest.raises(OSError, match="disk full"), open_matrix(tmp_path / "x.npy"):
        raise OSError("disk full")
