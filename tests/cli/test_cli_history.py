"""`--history`: what users have seen, in a file of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import FAST, done_well, invoked, refusal

import accams


@pytest.fixture(scope="module")
def split(noisy: Path) -> tuple[Path, Path]:
    """A model without what its users have seen, and the history beside it."""
    path, history = noisy.parent / "without.accams", noisy.parent / "history.accams"
    done_well("fit", noisy, "-o", path, "--history", history, *FAST, "--sweeps", "40", "--test", "0")
    return path, history


def recommended(*args: str | Path) -> list[dict[str, Any]]:
    done = invoked("recommend", *args, "--json")
    assert done.exit_code == 0, f"{done.output}{done.exception!r}"
    return json.loads(done.stdout)


def test_fit_writes_it_beside_the_model(split: tuple[Path, Path], posterior: Path) -> None:
    path, history = split
    whole, model = accams.load(posterior), accams.load(path)
    assert whole.interactions is not None
    assert model.interactions is None
    assert path.stat().st_size < posterior.stat().st_size
    with_history = accams.load(path, history=history).interactions
    assert np.array_equal(with_history.starts, whole.interactions.starts)
    assert np.array_equal(with_history.columns, whole.interactions.columns)


@pytest.mark.parametrize("option", ["--history", "--seen"])
def test_recommend_takes_it(option: str, split: tuple[Path, Path], posterior: Path, noisy: Path) -> None:
    path, history = split
    wanted = recommended(posterior, "u1", "u2")
    assert recommended(path, "u1", "u2", option, history) == wanted
    assert recommended(path, "u1", "u2", option, noisy) == wanted  # the ratings tell the same
    assert recommended(path, "u1", "--include-seen") != wanted[:10]


def test_recommend_takes_a_store(split: tuple[Path, Path], posterior: Path, noisy: Path, tmp_path: Path) -> None:
    done_well("ingest", noisy, "-o", tmp_path / "s")
    assert recommended(split[0], "u1", "--history", tmp_path / "s") == recommended(posterior, "u1")


def test_without_it_nothing_is_recommended(split: tuple[Path, Path], tmp_path: Path) -> None:
    path, _ = split
    assert "name a history file or the ratings with --history" in refusal("recommend", path, "u1")
    assert "--history" in refusal("recommend", path, "--all", "-o", tmp_path / "top.parquet")


def test_recommend_to_all(split: tuple[Path, Path], posterior: Path, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    path, history = split
    for name, args in (("one", [posterior]), ("two", [path, "--history", history])):
        model, *rest = args
        assert "wrote 120 recommendations" in done_well(
            "recommend", model, "--all", "-n", "3", "-o", tmp_path / name, *rest
        )
    one, two = (pandas.read_parquet(tmp_path / name) for name in ("one", "two"))
    pandas.testing.assert_frame_equal(one, two)
    seen = accams.load(path, history=history).interactions
    items = {item: p for p, item in enumerate(accams.load(path).items.tolist())}
    for u, user in enumerate(accams.load(path).users.tolist()):
        columns = seen.columns[seen.starts[u] : seen.starts[u + 1]].tolist()
        names = [column for column in one.columns if one[column].dtype == object or "str" in str(one[column].dtype)]
        mine = one[one[names[0]] == user]
        assert len(mine) == 3
        assert not {items[item] for item in mine[names[1]]} & set(columns)


def test_a_history_of_other_data(split: tuple[Path, Path], noisy: Path, tmp_path: Path) -> None:
    """What the model knows of it counts; one that it knows nothing of is refused."""
    header, *lines = noisy.read_text().splitlines()
    args = ["--model", "accams", "-k", "2", "-s", "2", "--test", "0"]
    for name, rows in (("part", lines[:100]), ("strange", [line.replace("film", "song") for line in lines])):
        (tmp_path / f"{name}.csv").write_text("\n".join([header, *rows]) + "\n")
        done_well("fit", tmp_path / f"{name}.csv", "-o", tmp_path / "m", "--history", tmp_path / name, *args)
    seen = {line.split(",")[1] for line in lines[:100] if line.startswith("u1,")}
    found = recommended(split[0], "u1", "--history", tmp_path / "part", "-n", "30")
    assert {line["item"] for line in found} == {f"film {f}" for f in range(30)} - seen
    assert "strange has no user or no item of this model" in refusal(
        "recommend", split[0], "u1", "--history", tmp_path / "strange"
    )


def test_histories_that_cannot_be(split: tuple[Path, Path], tmp_path: Path) -> None:
    path, history = split
    assert "there is no file" in refusal("recommend", path, "u1", "--history", tmp_path / "nowhere")
    (tmp_path / "cut").write_bytes(history.read_bytes()[:-7])
    assert "damaged" in refusal("recommend", path, "u1", "--history", tmp_path / "cut")


def test_files_that_cannot_be_written(posterior: Path, noisy: Path, tmp_path: Path) -> None:
    """It is said before the fit, not after it."""
    model = tmp_path / "m.accams"
    for command in (["fit", noisy, *FAST, "--sweeps", "2"], ["compress", posterior, "--max-bytes", "2k"]):
        folder = tmp_path / "no"
        assert f"there is no folder {folder} to write h into" == refusal(
            *command, "-o", model, "--history", folder / "h"
        )
        assert refusal(*command, "-o", model, "--history", model) == (
            f"{model} cannot be both the model and the history: give one of them another name"
        )
    assert not model.exists()
