"""The model file: what was saved comes back, however its labels are coded, and a save is all or nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from damage import parts, refused
from hypothesis import given, settings
from hypothesis import strategies as st
from posteriors import random_sum

import accams
from accams import __version__, writing
from accams.errors import InputError, ModelFileError
from accams.model import file
from accams.model.coding import MOST_LABELS
from accams.model.stencils import StencilSum

CODINGS = ["auto", "entropy", "packed"]


def model(shape=(9, 7), shapes=((3, 2), (1, 4), (300, 2)), **kind) -> StencilSum:
    unseen = [np.array([1, 5])[np.array([1, 5]) < size] for size in shape]
    return random_sum(0, shape, shapes, unseen, offset=0.1 + 0.2, **kind)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "model.accams"
    file.save(path, model())
    return path


def assert_same(read: StencilSum, made: StencilSum) -> None:
    """Bit for bit, types included."""
    assert (read.shape, read.offset, len(read), read.bits) == (made.shape, made.offset, len(made), made.bits)
    for name in ("templates", "row_labels", "col_labels"):
        for one, other in zip(getattr(read, name), getattr(made, name), strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
    assert [s.step for s in read.stencils] == [s.step for s in made.stencils]
    for name in ("unseen_rows", "unseen_cols", "row_effects", "col_effects"):
        one, other = getattr(read, name), getattr(made, name)
        assert (one is None) == (other is None)
        assert one is None or (one.dtype == other.dtype and np.array_equal(one, other))


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize(
    "made",
    [
        model(), model(shapes=()), model((1, 1), [(1, 1)]), model((400, 3), [(300, 3), (2, 2)]), model(effects=True),
        model((0, 4), [(2, 3)]), model((0, 0), [(1, 1)]), model((0, 0), ()), model((300, 200), [(10, 10)] * 20),
        model((5, 3), [(1, 1)] * 3), model((70_000, 2), [(257, 2), (300, 1)]),
    ],
    ids=lambda made: f"{made.shape[0]}x{made.shape[1]}x{len(made)}{'+' * (made.row_effects is not None)}",
)  # fmt: skip
def test_round_trip(tmp_path, made, coding):
    file.save(tmp_path / "m", made, coding=coding)
    read = file.read(tmp_path / "m")
    assert_same(read, made)
    assert_same(accams.load(tmp_path / "m").stencils, made)
    if made.shape[0] < 1000:
        np.testing.assert_array_equal(read.dense(), made.dense())
    header = parts(tmp_path / "m")[0]
    assert (header["version"], header["kind"], header["format"]) == (__version__, "model", 1)


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_round_trip_of_any_model(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("any") / "m"
    m, n = data.draw(st.integers(0, 20)), data.draw(st.integers(0, 20))
    shapes = data.draw(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), max_size=4))
    gone = [sorted(data.draw(st.sets(st.integers(0, size - 1)))) if size else [] for size in (m, n)]
    made = random_sum(data.draw(st.integers(0, 99)), (m, n), shapes, gone, data.draw(st.booleans()))
    file.save(path, made, coding=data.draw(st.sampled_from(CODINGS)))
    assert_same(file.read(path), made)


def test_a_method_of_the_model_saves_too(tmp_path):
    for coding in CODINGS:
        model().save(str(tmp_path / "m"), coding=coding)
        np.testing.assert_array_equal(accams.load(str(tmp_path / "m")).stencils.dense(), model().dense())


def test_codings_that_do_not_exist(tmp_path):
    with pytest.raises(InputError, match="coding must be one of auto, entropy, packed, not 'zip'"):
        model().save(tmp_path / "m", coding="zip")
    assert not (tmp_path / "m").exists()


def test_a_loaded_sum_is_a_model_without_a_fit(saved):
    loaded = accams.load(saved)
    assert isinstance(loaded, accams.Model)
    assert (loaded.info.estimator, dict(loaded.parameters), loaded.posterior, loaded.clip) == ("", {}, None, None)
    assert all(index.is_positional for index in loaded.indices)
    assert loaded.predict([(0, 3), (2, 0)]).tolist() == model().predict([0, 2], [3, 0]).tolist()


def test_a_model_file_is_more_than_a_sum(tmp_path):
    """A reader of stencil sums does not take the parts of a whole model for one."""
    accams.ACCAMS(1, 2).fit(np.eye(4)).save(tmp_path / "m")
    refused(tmp_path / "m")


# -- room ---------------------------------------------------------------------------------------------------------


def size_of(made: StencilSum, coding: str) -> int:
    return len(file.to_bytes(made, coding=coding))


def test_auto_takes_what_is_smaller():
    even, uneven = model((500, 400), [(4, 8)] * 3), model((5000, 4000), [(4, 4)])
    skewed = StencilSum((5000, 4000)).append(uneven.templates[0], np.arange(5000) // 4900, np.arange(4000) // 3900)
    assert size_of(even, "auto") == size_of(even, "packed") < size_of(even, "entropy")
    assert size_of(skewed, "auto") == size_of(skewed, "entropy") < size_of(skewed, "packed") / 2


def test_more_clusters_than_entropy_coding_has(tmp_path):
    made = model((3, 2), [(MOST_LABELS + 1, 1), (2, 2)])
    file.save(tmp_path / "m", made, coding="entropy")
    assert "models" not in parts(tmp_path / "m")[1]
    assert_same(file.read(tmp_path / "m"), made)


def test_labels_take_little_room():
    """About the entropy, or log2(k) rounded up, and a header of a few hundred bytes."""
    made = model((20_000, 10_000), [(10, 10)] * 4)
    labels, templates = 4 * 30_000, 4 * 400
    assert size_of(made, "entropy") < 1.01 * labels * np.log2(10) / 8 + templates + 1000
    assert size_of(made, "packed") < labels * 4 / 8 + templates + 1000


def test_templates_take_as_few_bits_as_they_fit_in(tmp_path):
    random = np.random.default_rng(0).normal(size=(20, 30))
    wide = np.exp(2.5 * random).astype(np.float16)  # a few digits each, but of very different size
    halves, floats, grid = (
        StencilSum((2, 2)).append(T, [0, 1], [0, 1]) for T in (wide, random, np.round(random, 1) * 10 / 8)
    )
    assert size_of(halves, "auto") == size_of(floats, "auto") - 1200
    assert size_of(grid, "auto") < size_of(halves, "auto") - 500
    for made in (halves, floats, grid):
        made.save(tmp_path / "m")
        assert_same(file.read(tmp_path / "m"), made)


def test_templates_beyond_16_bits(tmp_path):
    for large in (1e30, -1e5, 1e-30):
        made = StencilSum((2, 2)).append([[0.5, large]], [0, 0], [0, 1])
        made.save(tmp_path / "m")
        assert_same(file.read(tmp_path / "m"), made)


# -- writing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["replace", "fsync", "chmod"])
@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_crash_leaves_the_old_file(saved, monkeypatch, step, failure):
    before = saved.read_bytes()

    def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr(os, step, fail)
    with pytest.raises((ModelFileError, KeyboardInterrupt)):
        file.save(saved, model(shapes=[(2, 2)]))
    monkeypatch.undo()
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs POSIX signals")
def test_a_killed_save_leaves_the_old_file(saved):
    before = saved.read_bytes()
    program = (
        "import os, signal, sys; from pathlib import Path; from accams.writing import write_atomically;"
        "os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL); write_atomically(Path(sys.argv[1]), b'new')"
    )
    done = subprocess.run([sys.executable, "-c", program, str(saved)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert saved.read_bytes() == before
    assert_same(file.read(saved), model())


def test_an_old_file_is_replaced(saved):
    file.save(saved, model(shapes=[(2, 2)]))
    assert len(file.read(saved)) == 1
    assert os.listdir(saved.parent) == [saved.name]


def test_the_file_may_be_read_by_those_whom_the_umask_allows(tmp_path):
    old = os.umask(0o027)
    try:
        file.save(tmp_path / "m", model())
    finally:
        os.umask(old)
    assert (tmp_path / "m").stat().st_mode & 0o777 == 0o640


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(ModelFileError, match="cannot write"):
        file.save(tmp_path / "no" / "m", model())


def test_a_folder_in_place_of_the_file(tmp_path):
    (tmp_path / "m").mkdir()
    with pytest.raises(ModelFileError, match="cannot write"):
        file.save(tmp_path / "m", model())
    assert os.listdir(tmp_path) == ["m"]


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder that not even root may write to")
def test_a_folder_that_nobody_may_write_to():
    with pytest.raises(ModelFileError, match="cannot write /proc/m: "):
        file.save("/proc/m", model())


def test_a_file_that_cannot_be_opened(saved, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", fail)
    refused(saved, "Permission denied")


def test_a_name_that_is_relative(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model().save("m")
    assert_same(accams.load("m").stencils, model())
    writing.write_atomically(Path("other"), b"content")
    assert Path("other").read_bytes() == b"content"
