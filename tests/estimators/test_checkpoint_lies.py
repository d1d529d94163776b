"""Checkpoints whose checksums are right but whose content lies are refused before a kernel sees anything of them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import accams
from accams.errors import AccamsError
from accams.fit import checkpoint
from accams.model import container

RANDOM = np.random.default_rng(0)
MATRIX = np.where(RANDOM.random((12, 9)) < 0.3, np.nan, RANDOM.normal(size=(12, 9)).round(1))
PRIORS = accams.Priors(effects="continuous", row_noise=4.0, implicit=2)


def estimator(**more: Any) -> accams.BayesianACCAMS:
    return accams.BayesianACCAMS(2, (3, 2), n_sweeps=6, n_chains=2, priors=PRIORS, verbose=False, **more)


@pytest.fixture(scope="module", autouse=True)
def _short(short_additive: None) -> Iterator[None]:
    """A short calibration, of which there are few ways to lie."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("accams.fit.calibrate.MOST_SHIFTS", 1)
        patch.setattr("accams.fit.bayesian.stage_sweeps", lambda _: (6, 3))
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    path = tmp_path_factory.mktemp("checkpoints") / "run"
    estimator(checkpoint=path, callbacks=[lambda x: x.phase == "sampling" and x.sweep == 3]).fit(MATRIX)
    return checkpoint.read(path)


def refused(path: Path, header: dict[str, Any], tensors: dict[str, np.ndarray]) -> str:
    path.write_bytes(container.to_bytes(header, tensors))
    with pytest.raises(AccamsError) as caught:
        estimator().fit(MATRIX, resume=path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    assert len(message) < 500 + len(str(path))
    return message


def test_what_is_written_again_is_resumed(whole, tmp_path):
    (tmp_path / "run").write_bytes(container.to_bytes(*whole))
    resumed = estimator().fit(MATRIX, resume=tmp_path / "run")
    np.testing.assert_array_equal(resumed.predict([(0, 0), (5, 8)]), estimator().fit(MATRIX).predict([(0, 0), (5, 8)]))


INDICES = ["chain0.rows", "chain1.cols", "chain0.shapes", "probes.cells", "held_out"]
FLOATS = ["chain0.tau2", "chain1.effect_tau2", "probes.sums", "probes.squares", "held_out"]
FLOATS += ["chain0.row_slope_tau2", "row_slopes0.sums", "row_slopes0.squares", "row_slopes0.tau2"]
INTEGERS = ["chain0.templates", "chain1.weights", "chain0.row_effects", "chain1.col_effects", "chain1.row_slopes"]
OTHERS = [
    "history",
    "chain0.visits",
    "trace.sigma",
    "trace.probes",
    "visits",
    "draws.row_noise",
    "draws.labels",
    "features",
]


@pytest.mark.parametrize("name", sorted({*INDICES, *FLOATS, *INTEGERS, *OTHERS}))
def test_types_and_lengths(whole, name, tmp_path):
    header, tensors = whole
    x = tensors[name]
    wider = x.astype(np.float32 if x.dtype == np.float64 else np.float64)
    wrong = [wider, x[:1].ravel()[:1], np.append(x.ravel(), x.ravel()), x.reshape(-1, 1, 1), x.ravel()[:0]]
    if name.endswith(("rows", "cols")):
        wrong.append(x.astype(np.int8))
    for other in wrong:
        if other.shape != x.shape or other.dtype != x.dtype:
            refused(tmp_path / "run", header, {**tensors, name: other})
    if name not in ("draws.labels", "held_out"):
        refused(tmp_path / "run", header, {key: y for key, y in tensors.items() if key != name})


@pytest.mark.parametrize("name", INDICES)
def test_indices_out_of_bounds(whole, name, tmp_path):
    header, tensors = whole
    for lie in (200, 255) if tensors[name].dtype == np.uint8 else (-1, 10**6, 2**31):
        x = tensors[name].copy()
        x[..., -1] = lie
        refused(tmp_path / "run", header, {**tensors, name: x})


@pytest.mark.parametrize("name", FLOATS)
def test_numbers_that_are_not_finite(whole, name, tmp_path):
    header, tensors = whole
    for lie in (np.nan, np.inf, -np.inf):
        x = tensors[name].copy()
        x.flat[0] = lie
        refused(tmp_path / "run", header, {**tensors, name: x})


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_that_would_overflow(whole, name, tmp_path):
    header, tensors = whole
    for lie in (2**31 - 1, -(2**31)):
        refused(tmp_path / "run", header, {**tensors, name: np.full_like(tensors[name], lie)})


NONSENSE = [None, True, -1, 1e400, "x", [], {}, [[]], {"a": 1}, 10**30, 2.5]
FIELDS = ["kept", "chains", "running", "sweep", "scale", "interval", "past", "best", "seconds", "about"]
HARMLESS = {
    ("scale", 2.5), ("seconds", 2.5), ("interval", 10**30), ("scale", 10**30), ("seconds", 10**30), ("past", "[]"),
}  # fmt: skip


@pytest.mark.parametrize("name", FIELDS)
def test_fields_of_the_header(whole, name, tmp_path):
    header, tensors = whole
    for lie in NONSENSE:
        known = lie if isinstance(lie, (int, float)) and not isinstance(lie, bool) else str(lie)
        if (name, known) not in HARMLESS:
            refused(tmp_path / "run", {**header, name: lie}, tensors)
    refused(tmp_path / "run", {key: x for key, x in header.items() if key != name}, tensors)


@pytest.mark.parametrize(
    ("way", "lie"),
    [
        (("chains", 0, "sigma2"), 0.0), (("chains", 0, "sigma2"), float("nan")), (("chains", 1, "sweep"), -1),
        (("chains", 1, "moved"), "many"), (("kept", "draws", 0), [5, 0, 2]), (("kept", "draws", 0), [0, 99, 2]),
        (("kept", "draws", 0), [0, 0, 10**9]), (("kept", "offsets"), []), (("kept", "offsets"), [float("inf")]),
        (("kept", "stencils"), 10**12), (("running", "probes", "width"), 0),
        (("running", "probes", "centre"), float("nan")), (("running", "probes", "blocks"), [[0, 9]]),
        (("running", "probes", "blocks", 0), [2, 1]), (("best", 0), float("nan")), (("best", 1), 99),
        (("chains", 0, "sweep"), 2**40), (("chains", 0, "sigma2"), 1e300), (("scale",), 10**400),
        (("calibration", "weight"), 1e300), (("calibration", "error"), 1e300),
        (("calibration", "sigma2"), -1.0), (("calibration", "levels"), [1.0]),
        (("calibration", "weight"), float("inf")), (("about", "parameters"), [1]), (("about", "seed"), "x"),
        (("about", "data"), 5), (("sweep",), 2), (("sweep",), 10**9),
    ],
)  # fmt: skip
def test_inner_fields(whole, way, lie, tmp_path):

    header, tensors = copy.deepcopy(whole[0]), whole[1]
    inner = header
    for key in way[:-1]:
        inner = inner[key]
    inner[way[-1]] = lie
    refused(tmp_path / "run", header, tensors)


def test_numbers_of_the_history(whole, tmp_path):
    header, tensors = whole
    for column, lie in ((0, 7.0), (0, np.nan), (2, np.inf), (2, -1.0), (3, np.nan), (6, 1e300)):
        x = tensors["history"].copy()
        x[1, column] = lie
        refused(tmp_path / "run", header, {**tensors, "history": x})


@pytest.mark.parametrize("scale", [1e-20, 1e20, 1e29])
@pytest.mark.some(1)
def test_checkpoints_of_any_scale_are_resumed(scale, tmp_path):
    """Squares of large numbers are larger than any number of a model."""
    fit = estimator(checkpoint=tmp_path / "run", callbacks=[lambda x: x.phase == "sampling" and x.sweep == 2])
    fit.fit(MATRIX * scale)
    resumed = estimator().fit(MATRIX * scale, resume=tmp_path / "run")
    np.testing.assert_array_equal(resumed.predict([(0, 0)]), estimator().fit(MATRIX * scale).predict([(0, 0)]))
    resumed.save(tmp_path / "model")
    np.testing.assert_array_equal(accams.load(tmp_path / "model").predict([(0, 0)]), resumed.predict([(0, 0)]))
