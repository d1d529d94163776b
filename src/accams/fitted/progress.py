"""A progress bar that appears only when a fit takes longer than two seconds."""

import sys
from importlib.util import find_spec
from types import TracebackType
from typing import Any, Self

from accams.fit.backfit import Step
from accams.fit.run import Sweep
from accams.fit.search import Round

PATIENCE = 2.0  # seconds before a bar is worth showing
MANY = 5_000_000  # entries for which the bar is shown at once


class ProgressBar:
    """Shows progress, error and remaining time on standard error.

    Parameters
    ----------
    show : bool or "auto"
        "auto" shows it on a terminal or in a notebook, only for fits of more than two seconds, and removes it at the
        end. True leaves the finished bar, which is all that is written where standard error is not a terminal.
    what : str
        First word of the line.
    entries : int
        Entries of the data; with many, the bar is shown at once, since the first step takes long.
    """

    def __init__(self, show: bool | str = "auto", what: str = "fitting", entries: int = 0) -> None:
        self.show: bool | str = "auto" if isinstance(show, str) else bool(show)
        self.what, self.entries = what, entries
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        if self.entries >= MANY:
            self.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, step: Step, n_sweeps: int) -> None:
        """Show the state after a stencil of ACCAMS."""
        name = self.what if step.sweep == 0 else f"relearning {step.sweep}"
        done = step.sweep * step.n_stencils + step.stencil + 1
        error = f"rmse {step.rmse:.4f}" + _validation(step)
        self._show(name, done, n_sweeps * step.n_stencils, error, step.seconds)

    def update_sweep(self, sweep: Sweep) -> None:
        """Show the state after a sweep of the sampler; the bar has no length where the end is open."""
        error = f"rmse {sweep.rmse:.4f}, sigma {sweep.sigma:.4g}" + _validation(sweep)
        self._show(sweep.phase, sweep.sweep, sweep.n_sweeps, error, sweep.seconds)

    def begin(self) -> None:
        """Show an empty bar before the first result."""
        self._show(self.what, 0, None, "", PATIENCE)

    def update_round(self, report: Round) -> None:
        """Show the state after a round of distilling."""
        self._show(self.what, report.done, report.planned, f"rmse {report.rmse:.4f}", report.seconds)

    def update_stage(self, stage: str, done: int, planned: int, seconds: float) -> None:
        """Show the state after a step of a stage."""
        self._show(stage, done, planned, "", seconds)

    def _show(self, name: str, done: int, total: int | None, error: str, seconds: float) -> None:
        if self.show is False or (self._bar is None and seconds < PATIENCE and self.show == "auto"):
            return
        if self._bar is None and not self._start():
            return
        self._bar.update(self._task, description=name, completed=done, total=total, error=error)

    def _start(self) -> bool:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        if self.show == "auto" and not (console.is_terminal or console.is_jupyter):
            self.show = False
            return False
        if console.is_jupyter and find_spec("ipywidgets") is None:  # without which rich only warns
            self._bar = Line(keep=self.show is True)
            return True
        columns = "{task.description}", BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[error]}")
        self._bar = Progress(*columns, TimeRemainingColumn(), console=console, transient=self.show == "auto")
        self._task = self._bar.add_task(self.what, error="")
        self._bar.start()
        return True


class Line:
    """A line of text that is written again and again, for notebooks without widgets."""

    def __init__(self, keep: bool) -> None:
        self.keep, self.longest = keep, 0

    def update(self, task: Any, description: str, completed: int, total: int | None, error: str) -> None:
        """Write the state over the one before."""
        self._write(f"{description} {completed}/{total or '?'} {error}")

    def stop(self) -> None:
        """End the line, or remove it."""
        if not self.keep:
            self._write("")
        print(end="\n" if self.keep else "\r", file=sys.stderr, flush=True)

    def _write(self, text: str) -> None:
        print(f"\r{text:{self.longest}}", end="", file=sys.stderr, flush=True)
        self.longest = max(self.longest, len(text))


def _validation(report: Step | Sweep) -> str:
    return "" if report.validation_rmse is None else f", validation {report.validation_rmse:.4f}"
