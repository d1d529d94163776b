"""Assertions in the shared test class are explained like those in test files; calibrations can be made short."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from item_choices import PENALTY, positional, table

import accams
from accams import BayesianACCAMS, ItemACCAMS

pytest.register_assert_rewrite("shared", "shared_inputs", "shared_use", "shared_reading", "bayes_models")


@pytest.fixture
def quick_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few sweeps instead of many: enough where it does not matter what is found."""
    monkeypatch.setattr("accams.fit.bayesian.stage_sweeps", lambda _: (6, 4))


@pytest.fixture(scope="module")
def short_additive() -> Iterator[None]:
    """Few passes for the additive model that a fit begins with, in files where it does not matter how good it is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("accams.fit.additive.PASSES", 2)
        yield


@pytest.fixture(scope="module")
def short_explanations() -> Iterator[None]:
    """Explanations by few stencils, in files whose tests of them hold for any number."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("accams.fitted.distilling.LEAST_EXPLAINING", 1500)
        patch.setattr("accams.fitted.distilling.EXPLAINING_BYTES", 1.3)
        yield


@pytest.fixture(scope="session")
def dense() -> ItemACCAMS:
    return ItemACCAMS(None, penalty=PENALTY, dropout=0.0).fit(positional())


@pytest.fixture(scope="session")
def small() -> ItemACCAMS:
    return ItemACCAMS(3000, penalty=PENALTY, dropout=0.0).fit(positional())


@pytest.fixture(scope="session")
def named() -> ItemACCAMS:
    return ItemACCAMS(3000, penalty=PENALTY, dropout=0.0).fit(table())


@pytest.fixture(scope="session")
def both(named) -> accams.Model:
    values = BayesianACCAMS(2, (4, 3), noise="sampled", n_chains=2, n_sweeps=6).fit(table())
    return values.model_.with_lists(named)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave forms of a model that a class of tests does not name in `quick` to the full run."""
    for item in items:
        quick = getattr(getattr(item, "cls", None), "quick", None)
        form = getattr(getattr(item, "callspec", None), "params", {}).get("model")
        if quick is not None and form is not None and form not in quick:
            item.add_marker("full")
