"""Assertions in the shared test class are explained like those in test files; calibrations can be made short."""

from functools import partial

import pytest

pytest.register_assert_rewrite("shared", "shared_inputs", "shared_use", "shared_reading", "bayes_models")


@pytest.fixture
def quick_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few sweeps instead of many: enough where it does not matter what is found."""
    from accams.fit import bayesian

    monkeypatch.setattr(bayesian, "calibrate", partial(bayesian.calibrate, sweeps=(6, 4)))
