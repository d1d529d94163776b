"""`accams compress`: a small file in place of a large one, used like any other."""

from __future__ import annotations

import re
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


def test_other_commands_take_it(posterior, noisy, tmp_path):
    small = tmp_path / "small.accams"
    done_well("compress", posterior, "--max-bytes", "4k", "-o", small)
    shapes = sorted((T.shape for T in accams.load(small).stencils.templates), key=lambda k: (k[0] * k[1], k))
    assert len(set(shapes)) > 4
    ends = [f"{rows} x {cols}" for rows, cols in (shapes[0], shapes[-1])]
    shown = done_well("info", small)
    assert "kind BayesianACCAMS, compressed" in shown
    assert f"stencils {len(shapes)}, templates from {ends[0]} to {ends[1]}" in shown
    assert "RMSE" in done_well("evaluate", small, noisy)
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("userId,movieId\nu0,film 0\n")
    assert "prediction" in done_well("predict", small, pairs)


def test_it_keeps_its_predictive_spread(small, posterior, noisy, tmp_path):
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("userId,movieId\nu0,film 0\n")
    columns = "userId,movieId,prediction,std,q0.05,q0.95"
    assert columns in done_well("predict", small, pairs, "--std", "--quantiles", "0.05,0.95")
    covered = float(re.findall(r"coverage ([0-9.]+)%", done_well("evaluate", small, noisy))[0])
    assert 80 < covered < 99


def test_history_goes_to_a_file_of_its_own(small, posterior, tmp_path):
    """A small file does not tell what users have seen, unless there is one beside it."""
    path, history = tmp_path / "s.accams", tmp_path / "seen.accams"
    shown = done_well("compress", posterior, "--max-bytes", "2k", "-o", path, "--history", history)
    assert "left out" not in shown
    assert "history left out" in done_well("compress", posterior, "--max-bytes", "2k", "-o", tmp_path / "t.accams")
    assert path.read_bytes() == small.read_bytes()
    assert accams.load(path).interactions is None
    wanted = accams.load(posterior).interactions
    both = accams.load(path, history=history).interactions
    assert np.array_equal(both.starts, wanted.starts)
    assert np.array_equal(both.columns, wanted.columns)
    assert "--history" in refusal("recommend", path, "u1")
    assert "film" in done_well("recommend", path, "u1", "--history", history)


def test_standard_output_is_no_file(posterior):
    assert "the model is written to a file" in refusal("compress", posterior, "--max-bytes", "2k", "-o", "-")


def test_without_ids(posterior, tmp_path):
    done_well("compress", posterior, "--max-bytes", "1500", "--no-ids", "--weights", "uniform", "-o", tmp_path / "s")
    assert (tmp_path / "s").stat().st_size <= 1500
    assert accams.load(tmp_path / "s").row_index.is_positional


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--max-bytes", "600"), "--max-bytes 600 is too small: a file without any stencil takes"),
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


def test_a_bare_stencil_sum_knows_no_activity(posterior, tmp_path):
    accams.load(posterior).stencils.save(tmp_path / "sum.accams")
    args = "compress", tmp_path / "sum.accams", "--max-bytes", "2k", "-o", tmp_path / "s"
    assert refusal(*args).endswith("observations its rows and columns had: add --weights uniform")
    assert "difference" in done_well(*args, "--weights", "uniform")
