"""Keyword arguments under their former names."""

from __future__ import annotations

import inspect

import pytest

from accams import Model, batch, report
from accams.errors import renamed


def test_a_former_name_warns_and_works() -> None:
    @renamed(old="new")
    def function(x: int, *, new: int = 0) -> tuple[int, int]:
        return x, new

    with pytest.warns(FutureWarning, match=r"old of function is deprecated, .*: use new") as caught:
        assert function(1, old=2) == (1, 2)  # type: ignore[call-arg]
    assert [each.filename for each in caught] == [__file__]
    assert function(1, new=3) == (1, 3)
    assert list(inspect.signature(function).parameters) == ["x", "new"]


def test_code_without_a_module_is_warned_too() -> None:
    """As templates and sandboxes run it."""
    with pytest.warns(FutureWarning, match="Guest is deprecated"):
        exec("import accams; accams.Guest", {})


@pytest.mark.parametrize(
    ("function", "given"),
    [(Model.save, "seen"), (batch.recommend_all, "seen"), (batch.recommend_all, "told"), (batch.predict_all, "told"),
     (report.write, "quality"), (report.gather, "quality")],
)  # fmt: skip
def test_public_functions_take_former_names(function: object, given: str) -> None:
    """Without their other arguments they fail, but not for the former name."""
    with pytest.warns(FutureWarning, match=f"{given} of .* is deprecated"), pytest.raises(TypeError, match="missing"):
        function(**{given: None})  # type: ignore[operator]
