"""`accams compress`: a small file in place of a large one, used like any other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from command_line import done_well, invoked, refusal

import accams


@pytest.fixture(scope="module")
def small(posterior: Path) -> Path:
    path = posterior.parent / "small.accams"
    shown = done_well("compress", posterior, "--max-bytes", "2k", "-o", path)
    assert "difference" in shown
    assert str(path) in shown
    return path


def test_it_is_small_and_predicts_the_same(small, posterior, noisy):
    assert small.stat().st_size <= 2000
    one, two = accams.load(small), accams.load(posterior)
    observations = accams.Observations.from_file(noisy)
    difference = one.predict(observations) - two.predict(observations)
    assert np.sqrt(np.mean(difference**2)) < 0.3 * np.std(two.predict(observations))


def test_other_commands_take_it(small, noisy, tmp_path):
    assert "kind StencilModel" in done_well("info", small)
    assert "RMSE" in done_well("evaluate", small, noisy)
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("userId,movieId\nu0,film 0\n")
    assert "prediction" in done_well("predict", small, pairs)


def test_without_ids(posterior, tmp_path):
    done_well("compress", posterior, "--max-bytes", "1500", "--no-ids", "--weights", "uniform", "-o", tmp_path / "s")
    assert (tmp_path / "s").stat().st_size <= 1500
    assert accams.load(tmp_path / "s").row_index_.is_positional


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--max-bytes", "600"), "too small: a file without any stencil takes"),
        (("--max-bytes", "2k", "--weights", "busy"), "weights must be 'activity', 'uniform'"),
    ],
)
def test_refusals(posterior, tmp_path, args, message):
    assert message in refusal("compress", posterior, "-o", tmp_path / "s", *args)
    assert not (tmp_path / "s").exists()


def test_no_folder_to_write_into(posterior, tmp_path):
    args = "compress", posterior, "--max-bytes", "2k", "-o", tmp_path / "nowhere" / "s"
    assert "there is no folder" in refusal(*args)


@pytest.mark.parametrize("size", ["much", "none"])
def test_a_size_that_is_none(posterior, tmp_path, size):
    done = invoked("compress", posterior, "-o", tmp_path / "s", "--max-bytes", size)
    assert done.exit_code == 2
    assert f"'{size}' is not a size, such as" in done.output


def test_a_bare_stencil_sum_has_no_ids(posterior, tmp_path):
    accams.load(posterior).stencils_.save(tmp_path / "sum.accams")
    assert "sum.accams" in refusal("compress", tmp_path / "sum.accams", "--max-bytes", "2k", "-o", tmp_path / "s")
