"""Small tables, and models fitted to them by the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.register_assert_rewrite("command_line")
from command_line import FAST, done_well  # noqa: E402


@pytest.fixture(scope="session")
def ratings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small table: users of two tastes, films of two kinds, text ids."""
    return _table(tmp_path_factory.mktemp("cli") / "ratings.csv", 0.0)


@pytest.fixture(scope="session")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with noise of 0.3."""
    return _table(tmp_path_factory.mktemp("noisy") / "ratings.csv", 0.3)


@pytest.fixture(scope="session")
def posterior(noisy: Path) -> Path:
    """A Bayesian model of the noisy table."""
    path = noisy.parent / "posterior.accams"
    done_well("fit", noisy, "-o", path, *FAST, "--sweeps", "40", "--test", "0")
    return path


def _table(path: Path, noise: float) -> Path:
    random = np.random.default_rng(0)
    with path.open("w") as file:
        file.write("userId,movieId,rating\n")
        for u in range(40):
            for f in range(30):
                if random.random() < 0.6:
                    value = (4.5 if u % 2 == f % 2 else 2.0) + random.normal(0.0, noise)
                    file.write(f"u{u},film {f},{value:.4g}\n")
    return path
