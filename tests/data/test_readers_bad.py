"""Errors about bad files say what is wrong and where, without messages of other libraries."""

from __future__ import annotations

import datetime as dt
import gzip
import io
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from reader_files import archive, complaint, lines, npz, pack, parquet, read, write
from scipy import sparse

from accams.data.observations import Observations
from accams.data.readers import read_pairs
from accams.errors import InputError, MissingDataError

# -- bad files ----------------------------------------------------------------------------------------------


def test_missing_files(tmp_path: Path) -> None:
    write(tmp_path, lines(","))
    message = complaint(tmp_path / "rating.csv", MissingDataError)
    assert message.endswith("there is no file " + str(tmp_path / "rating.csv") + "; did you mean 'ratings.csv'?")
    assert "did you mean 'ratings.csv'?" in complaint(tmp_path / "RATINGS.CSV", MissingDataError)
    assert complaint(tmp_path / "zzz.parquet", MissingDataError).endswith("; check the path")
    assert "there is no folder" in complaint(tmp_path / "nowhere" / "ratings.csv", MissingDataError)
    assert "is a file, not a folder" in complaint(tmp_path / "ratings.csv" / "x", MissingDataError)


BAD_SPARSE = {
    "indptr": np.array([0, 10**6, 3, 4, 5, 12], np.int32), "indices": np.full(12, 10**6, np.int32),
    "indices below 0": np.full(12, -5, np.int32), "shape": np.array([3, 2]),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["csr", "csc"])
@pytest.mark.parametrize("what", BAD_SPARSE)
def test_positions_outside_of_a_sparse_matrix(what: str, kind: str, tmp_path: Path) -> None:
    """They crashed the process: scipy does not check them when it converts."""
    x = sparse.csr_array(np.arange(1.0, 31.0).reshape(5, 6) * (np.arange(30).reshape(5, 6) % 5 < 2))
    arrays: dict[str, Any] = {"indices": x.indices, "indptr": x.indptr, "data": x.data, "shape": np.array(x.shape)}
    assert len(x.data) == 12
    arrays[what.split()[0]] = BAD_SPARSE[what]
    np.savez(tmp_path / "r.npz", format=kind.encode(), **arrays)
    assert "is not a matrix that scipy.sparse.save_npz wrote" in complaint(tmp_path / "r.npz")
    if what != "shape":
        y = x.copy()
        setattr(y, what.split()[0], BAD_SPARSE[what])
        with pytest.raises(InputError, match=r"the sparse matrix is damaged: (its )?(row |column )?ind"):
            Observations.from_sparse(y)
        with pytest.raises(InputError, match=r"the sparse matrix is damaged: (its )?(row |column )?ind"):
            Observations.from_sparse(x, weights=y)


PATTERNS = ["ratings[1]", "b*", "q?", "n[!a]", "[a-z]*", "back\\slash", "quote'd", "~x", "{a,b}"]


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet"])
@pytest.mark.parametrize("name", PATTERNS)
def test_a_path_that_exists_is_no_pattern(
    name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that a pattern would match lie beside, and are not read."""
    monkeypatch.chdir(tmp_path)
    for other in ("ratings1", "bx", "qa", "nb", "zz", name):
        table = pd.DataFrame({"user": [1, 2], "item": [3, 4], "rating": [1.0, 2.0 if other == name else 5.0]})
        path = Path(f"{other}.{kind}")
        table.to_parquet(path) if kind == "parquet" else table.to_csv(path, index=False)
    found = Observations.from_file(f"{name}.{kind}")
    assert found.nnz == 2
    assert found.value_range == (1.0, 2.0)
    with pytest.raises(MissingDataError, match="there is no file"):
        Observations.from_file(f"ratings*.{kind}" if name != "b*" else f"zz?.{kind}")


def test_a_home_that_nobody_has() -> None:
    assert "there is no file ~nobody-is-called-so" in complaint(Path("~nobody-is-called-so/x.csv"), MissingDataError)


def test_folders(tmp_path: Path) -> None:
    write(tmp_path, lines(","))
    assert "is a folder; pass the path of a file in it: 'ratings.csv'" in complaint(tmp_path)


HEAD = "user,item,rating\n"
FIVE = "".join(f"{k},a,5\n" for k in range(16))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "ratings.csv is empty"),
        ("\n\n# nothing\n", "ratings.csv has no data"),
        (HEAD, "ratings.csv has a header line and no data"),
        (HEAD + "\n\n", "ratings.csv has a header line and no data"),
        (HEAD + FIVE + "99,b,five\n", "ratings.csv line 18: rating 'five' is not a number"),
        (FIVE + "99,b,five\n", "ratings.csv line 17: value 'five' is not a number"),
        ("1,2,five\n3,4,5\n", "ratings.csv line 1: value 'five' is not a number"),
        ("# x\n\n" + HEAD + "1,2,3\n\n4,5,six\n", "csv line 6: rating 'six' is not a number"),
        (HEAD + '1,"a\nb",3\n2,"c\n\nd",x\n', "ratings.csv line 4: rating 'x' is not a number"),
        (HEAD.replace(",", "::") + "1::2::3\n4::5::six\n", "csv line 3: rating 'six' is not a number"),
        ("# x\n1 2 3\n  4  5  six\n", "ratings.csv line 3: value 'six' is not a number"),
        ("user,item,rating\r\n1,2,3\r\n4,5,six\r\n", "ratings.csv line 3: rating 'six' is not a number"),
        (HEAD + "1,2,3\n4,5,\n", "ratings.csv line 3: the rating is missing"),
        (HEAD + "1,2,3\n4,5,NA\n", "ratings.csv line 3: the rating is missing"),
        (HEAD + "1,2,3\n4,5,nan\n", "ratings.csv line 3: the rating is missing"),
        (HEAD + "1,2,3\n4,5,inf\n", "ratings.csv line 3: rating 'inf' is too large or infinite"),
        (HEAD + "1,2,3\n4,5,1e999\n", "ratings.csv line 3: rating '1e999' is too large"),
        (HEAD + "1,2,3\n4,5,\"3,5\"\n", "ratings.csv line 3: rating '3,5' is not a number"),
        (HEAD + "1,2,5\n4,5,5\u00a0\n", "ratings.csv line 3: rating '5\\xa0' is not a number"),
        (HEAD + "1,2,3\n,5,4\n", "ratings.csv line 3: the user is missing"),
        (HEAD + "1,2,3\n4,  ,4\n", "ratings.csv line 3: the item is missing"),
        (HEAD + "1,2,3\n4,,x\n5,,\n", "ratings.csv line 3: the item is missing"),
        (HEAD + "1,2,3\n4,5\n", "ratings.csv line 3 has 2 cells where 3 are expected"),
        (HEAD + "1,2,3\n4,5,6,7\n", "ratings.csv line 3 has 4 cells where 3 are expected"),
        (HEAD + "1,2,3\n4\n", "ratings.csv line 3 has 1 cell where 3 are expected"),
        ("1 2 3\n4 5\n6 7 8\n", "ratings.csv line 2 has 2 cells where 3 are expected"),
        ("Ratings\n" + HEAD + FIVE, "ratings.csv line 1 has 1 cell where 3 are expected"),
        (HEAD + '1,"a"b,3\n', "ratings.csv line 2 cannot be split into 3 cells at ','; check its quotes"),
        (HEAD + "1,2," + "9" * 60 + "x\n", "9999...' is not a number"),
        ("hello\nworld\n", "its lines have one cell only"),
        ("a,b,c\n1,2,3\n", "ratings.csv: cannot tell which column holds the rows"),
        ("user,item,rating,rating\n1,2,3,4\n", "there are several columns 'rating'"),
        ("%%MatrixMarket matrix\n2 2 1\n1 1 5\n", "Matrix Market file (read it with scipy.io.mmread"),
        ("<!DOCTYPE html><html>404, not found, x</html>", "it looks like a web page"),
    ],
)  # fmt: skip
def test_bad_text(tmp_path: Path, text: str, message: str) -> None:
    assert message in complaint(write(tmp_path, text))


def test_bad_names(tmp_path: Path) -> None:
    path = write(tmp_path, lines(","))
    assert "there is no column 'who'; the columns are 'userId'" in complaint(path, row="who")
    assert "swap them" in complaint(path, row="movieId", col="userId")
    path = write(tmp_path, lines("::", header=False), "r.dat")
    assert "no header line, so its columns are named row, col, value, time" in complaint(path, row="who")


def test_bad_weights_and_times(tmp_path: Path) -> None:
    path = write(tmp_path, "user,item,rating,w,date\n1,2,3,1,2001-02-03\n4,5,6,x,soon\n")
    assert "ratings.csv line 3: w 'x' is not a number" in complaint(path, weight="w")
    assert "ratings.csv line 3: date 'soon' is neither a number nor a time" in complaint(path, time="date")
    assert Observations.from_file(path).times is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "not a text table; it looks like a PNG image"),
        (pickle.dumps({"a": 1}), "it looks like a Python pickle"),
        (pickle.dumps([1, 2], protocol=2), "it looks like a Python pickle"),
        (b"1,2,3\n\0\0\0", "it looks like a binary file"),
        (gzip.compress(b"x" * 257 + b"ustar" + b"\0" * 300, mtime=0), "it looks like a tar archive"),
        (gzip.compress(b"", mtime=0), "is empty"),
        (b"\xff\xfe1,2,3\n4", "begins like utf-16 text but cannot be decoded"),
    ],
)
def test_files_of_another_kind(tmp_path: Path, content: bytes, message: str) -> None:
    assert message in complaint(write(tmp_path, content))


@pytest.mark.parametrize("name", ["ratings.csv.gz", "ratings.zip", "ratings.parquet", "ratings.npz", "ratings.npy"])
def test_files_cut_off(tmp_path: Path, name: str) -> None:
    rng = np.random.default_rng(0)
    text = "".join(f"{i},{j},{x}\n" for i, j, x in zip(range(5000), range(5000), rng.random(5000), strict=True))
    out = io.BytesIO()
    np.save(out, rng.random((50, 50)))
    archived = archive(tmp_path, {"ratings.csv": text.encode()}).read_bytes()
    whole = {
        "ratings.csv.gz": gzip.compress(text.encode()),
        "ratings.zip": archived,
        "ratings.parquet": parquet(),
        "ratings.npz": npz(x=rng.random((50, 50))),
        "ratings.npy": out.getvalue(),
    }[name]
    for size in (len(whole) // 2, len(whole) - 5, 3):
        if name == "ratings.zip" and size == 3:
            continue
        message = complaint(write(tmp_path, whole[:size], name))
        assert re.search("damaged|truncated|not a table|not a text table|one cell|binary", message)


def test_a_damaged_member(tmp_path: Path) -> None:
    path = archive(tmp_path, {"ratings.csv": lines(",") * 10})
    content = bytearray(path.read_bytes())
    content[60] ^= 0xFF
    assert "damaged or truncated" in complaint(write(tmp_path, bytes(content), "data.zip"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("r.parquet", b"user,item\n", "is not a Parquet file, or it is damaged"),
        ("r.npz", b"user,item\n", "is not a NumPy file, or it is damaged"),
        ("r.npz", npz(a=np.ones(3)), r"array of shape \(3,\); a matrix has two dimensions"),
        ("r.npz", npz(a=np.ones(3), b=np.ones(3)), "r.npz: cannot tell which column holds the rows"),
        ("r.npz", npz(user=[1, 2], item=[1], rating=[1, 2]), "one-dimensional and of equal length"),
        ("r.npz", npz(user=[1], item=[1], rating=["x"]), "r.npz: entry 0: rating 'x' is not a number"),
        ("r.npz", npz(x=np.array([[1, "a"]], dtype=object)), "holds Python objects"),
        ("r.npz", npz(format=b"csr", shape=[1, 1]), "is not a matrix that scipy.sparse.save_npz wrote"),
    ],
)
def test_bad_numpy_files(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    assert re.search(message, complaint(write(tmp_path, content, name)))


def test_arrays_in_npz(tmp_path: Path) -> None:
    entries = {"rows": [0, 2], "cols": [1, 0], "values": [1.5, 2.0]}
    assert read(tmp_path, npz(**entries), "r.npz").pairs().tolist() == [[0, 1], [2, 0]]
    assert read(tmp_path, npz(**entries), "r.npz").shape == (2, 2)
    assert read(tmp_path, npz(**entries, shape=[4, 3]), "r.npz").shape == (4, 3)
    text = npz(user=["b", "a"], item=[7, 7], rating=[1, 2], w=[1, 3], time=np.array(["2001", "2002"], "M8[D]"))
    obs = read(tmp_path, text, "r.npz", weight="w")
    assert (obs.pairs().tolist(), obs.values.tolist()) == ([["a", 7], ["b", 7]], [2.0, 1.0])
    assert obs.times is not None
    assert read(tmp_path, npz(i=[0, 1], j=[1, 0]), "r.npz", zeros="observed").values.tolist() == [1.0, 1.0]


def test_options_that_a_matrix_does_not_take(tmp_path: Path) -> None:
    path = write(tmp_path, npz(x=np.eye(2)), "r.npz")
    assert "no named columns: do not pass row='user'" in complaint(path, row="user")
    assert "every cell but NaN is observed" in complaint(path, zeros="observed")


@pytest.mark.parametrize(
    ("column", "cells", "message"),
    [
        ("user", [1, None, 2], "r.parquet entry 1: the user is missing"),
        ("item", ["a", "b", None], "r.parquet entry 2: the item is missing"),
        ("rating", [1.0, None, 2.0], "r.parquet entry 1: the rating is missing"),
        ("rating", ["1", "2", "x"], "r.parquet entry 2: rating 'x' is not a number"),
        ("rating", [dt.date(2020, 1, 1)] * 3, "r.parquet entry 0: rating '2020-01-01' is not a number"),
    ],
)
def test_bad_cells_in_parquet(tmp_path: Path, column: str, cells: list[Any], message: str) -> None:
    table = pd.DataFrame({"user": [1, 2, 3], "item": ["a", "b", "c"], "rating": [1.0, 2.0, 3.0], column: cells})
    table.to_parquet(tmp_path / "r.parquet")
    assert message in complaint(tmp_path / "r.parquet")


def test_an_empty_parquet(tmp_path: Path) -> None:
    pd.DataFrame({"user": [], "item": [], "rating": []}).to_parquet(tmp_path / "r.parquet")
    assert "r.parquet has no data" in complaint(tmp_path / "r.parquet")


def test_an_encrypted_member(tmp_path: Path) -> None:
    content = bytearray(archive(tmp_path, {"ratings.csv": lines(",")}).read_bytes())
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    assert "encrypted" in complaint(write(tmp_path, bytes(content), "data.zip"))


def test_what_the_system_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "ratings.csv")

    class Full(io.BytesIO):
        def write(self, *_: object) -> int:
            raise OSError(28, "No space left on device")

    packed = pack(lines(","), "ratings.csv", "gz", tmp_path)
    with monkeypatch.context() as patch:
        usual = Path.open
        patch.setattr(Path, "open", lambda path, mode="r", **how: Full() if "w" in mode else usual(path, mode, **how))
        assert "cannot write what is in ratings.csv.gz to" in complaint(packed)
        assert "No space left on device" in complaint(packed)
    monkeypatch.setattr("accams.data.archives._unpack", refuse)
    assert "permission denied" in complaint(write(tmp_path, lines(",")))


def test_a_packed_file_with_a_wrong_checksum(tmp_path: Path) -> None:
    content = bytearray(gzip.compress(lines(",")))
    content[-6] ^= 0xFF
    assert "damaged or truncated" in complaint(write(tmp_path, bytes(content), "ratings.csv.gz"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    assert "is not a regular file" in complaint(tmp_path / "pipe.csv")


def test_a_quote_that_never_ends(tmp_path: Path) -> None:
    text = HEAD + '1,2,3\n4,"5,6\n' + "7,8,9\n" * 40_000
    assert re.search(r"line 2.*check its quotes", complaint(write(tmp_path, text)))


def test_nothing_of_duckdb_comes_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise duckdb.Error("Strange Error: no idea\nand more lines")

    path = write(tmp_path, HEAD + "1,2,five\n")
    with monkeypatch.context() as patch:
        patch.setattr("accams.data.readers.records", lambda *_: iter(()))  # as if the line could not be found
        assert complaint(path) == "ratings.csv: rating 'five' is not a number"
    monkeypatch.setattr("accams.data.scan.survey", fail)
    assert complaint(path) == "ratings.csv: the file cannot be read as a table: Strange Error: no idea"
    assert "damaged" in complaint(write(tmp_path, parquet(), "r.parquet"))


def test_duckdb_is_loaded_only_when_it_is_needed() -> None:
    code = "import sys, accams.data.readers; sys.exit(bool({'duckdb', 'scipy', 'narwhals'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_pairs_in_the_order_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "rating,item,user,time\n,b,9,soon\nx,a,7,\n,b,9,\n")
    rows, cols, names = read_pairs(path)
    assert (rows.tolist(), cols.tolist(), names) == ([9, 7, 9], ["b", "a", "b"], ("user", "item"))
    table = pd.DataFrame({"who": [9, 7], "item": ["b", "a"], "rating": [None, "x"]})
    table.to_parquet(tmp_path / "r.parquet")
    rows, cols, names = read_pairs(tmp_path / "r.parquet", row="who")
    assert (rows.tolist(), cols.tolist(), names) == ([9, 7], ["b", "a"], ("who", "item"))
    assert read_pairs(write(tmp_path, "1 2\n3 4\n", "edges.txt"))[1].tolist() == [2, 4]
    with pytest.raises(InputError, match=r"ratings.csv line 2: the user is missing"):
        read_pairs(write(tmp_path, "user,item\n,5\n"))
    with pytest.raises(InputError, match=r"r.npz: pairs must be in a text or Parquet file"):
        read_pairs(write(tmp_path, npz(x=np.eye(2)), "r.npz"))


@pytest.mark.parametrize("form", ["csr", "csc"])
@pytest.mark.parametrize("last", [-1, 0, 3, 2**31 - 1])
def test_sparse_files_whose_last_pointer_lies(form: str, last: int, tmp_path: Path) -> None:
    """With one of -1, scipy checks nothing and then corrupts memory."""
    import scipy.sparse as sp

    sp.save_npz(tmp_path / "m.npz", sp.csr_array(np.eye(6)).asformat(form))
    with np.load(tmp_path / "m.npz") as loaded:
        arrays = {name: np.array(loaded[name]) for name in loaded.files}
    arrays["indptr"][-2:] = 2**31 - 1, last
    np.savez(tmp_path / "m.npz", **arrays)
    with pytest.raises(InputError, match=r"do not ascend|Last value of index pointer"):
        Observations.from_file(tmp_path / "m.npz")


def test_sparse_files_with_very_many_empty_rows(tmp_path: Path) -> None:
    import scipy.sparse as sp

    sp.save_npz(tmp_path / "m.npz", sp.coo_array(([1.0], ([0], [2])), shape=(10**12, 5)))
    with pytest.raises(InputError, match="1,000,000,000,000 x 5 with 1 entries: leave out empty rows"):
        Observations.from_file(tmp_path / "m.npz")


def test_long_names_are_not_quoted_at_length(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x" * 50_000 + ",y\n1,2\n")
    with pytest.raises(InputError, match="pass row=") as caught:
        Observations.from_file(tmp_path / "t.csv")
    assert len(str(caught.value)) <= 900


def test_a_sparse_matrix_with_room_for_more(tmp_path: Path) -> None:
    """scipy lets arrays be longer than what is used of them."""
    import scipy.sparse as sp

    matrix = sp.csr_array(np.eye(3))
    matrix.indices, matrix.data = np.append(matrix.indices, [0, 9]).astype(np.int32), np.append(matrix.data, [7.0, 8.0])
    assert Observations.from_sparse(matrix).values.tolist() == [1.0, 1.0, 1.0]


def test_sparse_files_of_one_dimension_or_with_fractions(tmp_path: Path) -> None:
    import scipy.sparse as sp

    np.savez(tmp_path / "one.npz", format=b"coo", shape=np.array([10**12]), data=np.ones(1), coords=np.array([[3]]))
    sp.save_npz(tmp_path / "m.npz", sp.csr_array(np.eye(3)))
    with np.load(tmp_path / "m.npz") as loaded:
        arrays = {name: np.array(loaded[name]) for name in loaded.files}
    np.savez(tmp_path / "m.npz", **{**arrays, "indices": np.array([0.0, 1.5, 2.0])})
    for name, reason in (("one", ""), ("m", "its indices are not integers")):
        with pytest.raises(
            InputError, match=f"{name}.npz is not a matrix that scipy.sparse.save_npz wrote: .*{reason}"
        ):
            Observations.from_file(tmp_path / f"{name}.npz")
