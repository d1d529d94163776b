"""Files whose linear part lies, under checksums that are right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from damage import changed, parts, refused_quickly, rewritten

from accams import BayesianACCAMS, Priors
from accams.fitted.files import to_bytes


@pytest.fixture(scope="module")
def content() -> bytes:
    data = np.random.default_rng(0).normal(size=(12, 9)).round(1)
    data[np.random.default_rng(1).random(data.shape) < 0.3] = np.nan
    priors = Priors(implicit=2)
    model = BayesianACCAMS(2, 2, n_chains=2, n_sweeps=4, noise=1.0, priors=priors, random_state=0, verbose=False)
    return to_bytes(model.fit(data).model_)


@pytest.fixture
def saved(content: bytes, tmp_path: Path) -> Path:
    (tmp_path / "m").write_bytes(content)
    return tmp_path / "m"


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("rows", lambda x: x[:-1]),
        ("rows", lambda x: np.where(x == x[0, 0], np.nan, x)),
        ("cols", lambda x: x.astype(np.float64)),
        ("cols", lambda x: x[:, :1]),
        ("row_spreads", lambda x: -1.0 - x),
        ("row_priors", lambda x: x[:1]),
        ("row_priors", lambda x: x[:, None]),
        ("rows", lambda _: ...),
    ],
)
def test_arrays(saved: Path, name: str, change: Any) -> None:
    tensor = change(parts(saved)[1][f"linear/{name}"])
    tensor = tensor if tensor is ... else np.ascontiguousarray(tensor)
    refused_quickly(rewritten(saved, tensors={f"linear/{name}": tensor}))


@pytest.mark.parametrize("fields", [{"slopes": 3}, {"slopes": -1}, {"slopes": ...}, {"slopes": "2"}])
def test_fields(saved: Path, fields: dict[str, Any]) -> None:
    refused_quickly(rewritten(saved, changed(saved, "linear", fields)))


def test_slopes_without_draws(saved: Path) -> None:
    gone = {name: ... for name in parts(saved)[1] if name.startswith("posterior/")}
    refused_quickly(rewritten(saved, changed(saved, "posterior", ...), gone))
