"""The line of progress in notebooks without widgets."""

from __future__ import annotations

import pytest
from rich import console

from accams.fitted import progress
from accams.fitted.progress import Line, ProgressBar


@pytest.mark.parametrize("keep", [True, False])
def test_each_state_covers_the_one_before(capsys: pytest.CaptureFixture[str], keep: bool) -> None:
    line = Line(keep)
    line.update(None, "sampling", 9, 10, "rmse 0.51234")
    line.update(None, "sampling", 10, None, "")
    line.stop()
    states = capsys.readouterr().err.split("\r")
    assert states[1] == "sampling 9/10 rmse 0.51234"
    assert states[2].rstrip() == "sampling 10/?"
    assert len(states[2].rstrip("\n")) == len(states[1])
    assert states[-1].endswith("\n") == keep


def test_notebooks_without_widgets_get_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "find_spec", lambda name: None)
    monkeypatch.setattr(console, "_is_jupyter", lambda: True)
    with ProgressBar("auto", "filling") as bar:
        bar.update_stage("filling", 1, 2, 3.0)
    assert "filling 1/2" in capsys.readouterr().err
    assert isinstance(bar._bar, Line)
