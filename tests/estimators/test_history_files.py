"""What users have seen, in a file of its own: written beside a model, read back, and refused where it does not fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bayes_models import make
from forms import MATRIX
from shared_use import SEEN, TABLE

import accams
from accams import ACCAMS, InputError, Model, ModelFileError
from accams.model import container


@pytest.fixture(scope="module")
def model() -> Model:
    return ACCAMS(2, 3).fit(TABLE).model_


@pytest.fixture
def paths(model: Model, tmp_path: Path) -> tuple[Path, Path]:
    """A model file and a history file."""
    model.save(tmp_path / "m.accams", history=tmp_path / "m.history")
    return tmp_path / "m.accams", tmp_path / "m.history"


def test_saved_apart_and_loaded_back(model: Model, paths: tuple[Path, Path], tmp_path: Path) -> None:
    alone, both = accams.load(paths[0]), accams.load(paths[0], history=str(paths[1]))
    assert alone.interactions is None
    with pytest.raises(
        InputError, match=r"does not know what its users have seen: pass seen .* load it with its history"
    ):
        alone.recommend("user 00")
    for user in ("user 00", "user 31"):
        assert list(both.recommend(user)) == list(model.recommend(user))
        assert not set(both.recommend(user, 40)["item"]) & SEEN[user]
    np.testing.assert_array_equal(both.interactions.starts, model.interactions.starts)
    model.save(tmp_path / "without", history=False)
    assert paths[0].read_bytes() == (tmp_path / "without").read_bytes()


def test_with_draws(tmp_path: Path) -> None:
    """There the history is in the model file by default; with a path it is not."""
    bayes = make(n_stencils=2).fit(TABLE)
    bayes.save(tmp_path / "m", history=str(tmp_path / "h"))
    assert accams.load(tmp_path / "m").interactions is None
    assert list(accams.load(tmp_path / "m", history=tmp_path / "h").recommend("user 00")) == list(
        bayes.recommend("user 00")
    )


def test_by_position(tmp_path: Path) -> None:
    model = ACCAMS(2, 3).fit(MATRIX)
    model.save(tmp_path / "m", history=tmp_path / "h")
    assert list(accams.load(tmp_path / "m", history=tmp_path / "h").recommend(3)) == list(model.recommend(3))


def test_a_history_in_place_of_the_one_in_the_file(model: Model, paths: tuple[Path, Path], tmp_path: Path) -> None:
    more = model.update(pd.concat([TABLE[TABLE.user == "user 00"].iloc[:1], TABLE[TABLE.user == "user 31"]]))
    more.save(tmp_path / "full", history=True)
    assert len(accams.load(tmp_path / "full").interactions) < len(TABLE)
    assert len(accams.load(tmp_path / "full", history=paths[1]).interactions) == len(TABLE)


def test_of_more_users_and_in_another_order(model: Model, tmp_path: Path) -> None:
    """A history joins the model by ids; whom the model does not know is left out."""
    some = TABLE[TABLE.user.isin(["user 31", "user 00"])].sort_values("user", ascending=False)
    extra = pd.DataFrame({"user": ["user 31", "stranger"], "item": ["new item", "item 00"], "rating": [3.0, 4.0]})
    ACCAMS(1, 2).fit(pd.concat([extra, some])).save(tmp_path / "other", history=tmp_path / "h")
    model.save(tmp_path / "m")
    loaded = accams.load(tmp_path / "m", history=tmp_path / "h")
    assert len(loaded.interactions) == len(some)
    assert list(loaded.recommend(["user 31", "user 00"])) == list(model.recommend(["user 31", "user 00"]))


def test_of_other_data(paths: tuple[Path, Path], tmp_path: Path) -> None:
    for change in ({"user": "x" + TABLE.user}, {"item": "x" + TABLE.item}):
        ACCAMS(1, 2).fit(TABLE.assign(**change)).save(tmp_path / "other", history=tmp_path / "h")
        with pytest.raises(
            InputError, match="has no user or no item of this model: is it the history of the same data"
        ):
            accams.load(paths[0], history=tmp_path / "h")


def test_files_of_another_kind(paths: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "table").write_text("user,item\na,b\n")
    for wrong in (paths[0], tmp_path / "table", tmp_path / "nowhere"):
        with pytest.raises(ModelFileError, match=str(wrong)):
            accams.load(paths[0], history=wrong)
    with pytest.raises(ModelFileError, match=r"m\.history"):
        accams.load(paths[1])


def test_damaged(paths: tuple[Path, Path]) -> None:
    """Checksums tell where a bit is wrong, and lengths where the end is missing; each in one sentence."""
    whole = paths[1].read_bytes()
    damaged = [whole[:size] for size in range(0, len(whole), max(1, len(whole) // 15))]
    for position in np.linspace(0, len(whole) - 1, 60).astype(int):
        wrong = bytearray(whole)
        wrong[position] ^= 0x10
        damaged.append(bytes(wrong))
    for content in damaged:
        paths[1].write_bytes(content)
        with pytest.raises(ModelFileError) as caught:
            accams.load(paths[0], history=paths[1])
        assert str(paths[1]) in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("field", ["shape", "sizes", "row", "col"])
def test_headers_that_lie(field: str, paths: tuple[Path, Path]) -> None:
    """Checksums are right, and still nothing is believed."""
    header, tensors = container.read(paths[1], "history", 1)
    for value in (None, [1, 1], [-3, 10**12], "positions", 10**15, [[1, 1]]):
        changed = {**header, field: value}
        paths[1].unlink(missing_ok=True)
        paths[1].write_bytes(container.to_bytes(changed, tensors))
        if changed == header or (field in ("row", "col") and value == "positions"):
            continue
        with pytest.raises(ModelFileError, match="damaged"):
            accams.load(paths[0], history=paths[1])
    header.pop(field)
    paths[1].unlink()
    paths[1].write_bytes(container.to_bytes(header, tensors))
    with pytest.raises(ModelFileError, match="damaged"):
        accams.load(paths[0], history=paths[1])


def test_a_newer_format(paths: tuple[Path, Path]) -> None:
    header, tensors = container.read(paths[1], "history", 1)
    paths[1].unlink()
    paths[1].write_bytes(container.to_bytes({**header, "format": 2, "version": "9.9.9"}, tensors))
    with pytest.raises(ModelFileError, match=r"was written by accams 9.9.9, which is newer than this one"):
        accams.load(paths[0], history=paths[1])


def test_there_is_nothing_to_write(paths: tuple[Path, Path], tmp_path: Path) -> None:
    alone = accams.load(paths[0])
    with pytest.raises(InputError, match="there is no history to write"):
        alone.save(tmp_path / "again", history=tmp_path / "again.history")
    assert not (tmp_path / "again").exists()
    assert not (tmp_path / "again.history").exists()


def test_ids_that_cannot_be_saved(tmp_path: Path) -> None:
    days = np.array(["2020-01-01", "2020-01-02"], "datetime64[ns]")
    model = ACCAMS(1, 2).fit(pd.DataFrame({"user": days, "item": ["x", "y"], "rating": [1.0, 2.0]}))
    with pytest.raises(InputError, match="cannot be saved"):
        model.save(tmp_path / "m", ids=False, history=tmp_path / "h")
    assert list(tmp_path.iterdir()) == []
