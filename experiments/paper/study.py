"""A study, and how it is run: with progress, from where it was left, and on with the rest if something is missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from accams.errors import MissingDataError
from paper.pages import Page, origin, table, write
from paper.runs import Result, Row, Run, do_all


@dataclass(frozen=True)
class Plan:
    """What the user asked for.

    Attributes
    ----------
    quick : bool
        MovieLens 100K instead of 1M, and fewer points on the curves.
    out : Path
    jobs : int
        Runs at a time.
    """

    quick: bool
    out: Path
    jobs: int = 1

    @property
    def kept(self) -> Path:
        """The folder of finished runs, shared by all studies; quick ones are not mixed with others."""
        return self.out / "runs" / ("quick" if self.quick else "full")


@dataclass(frozen=True)
class Study:
    """One table or figure of the paper.

    Attributes
    ----------
    name, title : str
    runs : callable
        From a plan to its runs.
    show : callable
        From the plan and all rows to a page.
    """

    name: str
    title: str
    runs: Callable[[Plan], Sequence[Run]]
    show: Callable[[Plan, list[Row]], Page]


def conduct(study: Study, plan: Plan, console: Console) -> list[str]:
    """Do what is not done yet, and write what came out; gives what is missing or went wrong, in words."""
    try:
        return _conduct(study, plan, console)
    except MissingDataError as reason:
        return [f"{study.name}: {reason}"]


def _conduct(study: Study, plan: Plan, console: Console) -> list[str]:
    results = _with_progress(study, study.runs(plan), plan, console)
    rows = [row for result in results for row in result.rows]
    notes = list(dict.fromkeys(f"{', '.join(r.key)}: {r.note}" for r in results if r.note))
    if not rows:
        return [f"{study.name}: {note}" for note in notes] or [f"{study.name}: nothing came out"]
    page = study.show(plan, rows)
    if notes:
        page.add("Not run:", table(["what", "why"], [note.split(": ", 1) for note in notes]))
    command = f"accams reproduce {study.name}" + (" --quick" if plan.quick else "")
    machines = sorted({each.machine for each in results if each.rows})
    files = write(page, rows, study.name, study.title, origin(command, machines), plan.out)
    console.print(f"{study.name}: wrote {files[-1]}", highlight=False)
    return [f"{study.name}: {note}" for note in notes]


def _with_progress(study: Study, runs: Sequence[Run], plan: Plan, console: Console) -> list[Result]:
    """The results in the order of the runs; the bar counts runs, the time left goes by how long each may take."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[left]}"))
    found: dict[tuple[str, ...], Result] = {}
    began, guessed = monotonic(), 0.0
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(study.name, total=len(runs), left="")
        for run, result in do_all(runs, plan.kept, plan.jobs):
            found[run.key] = result
            fresh = result.seconds > 0 and monotonic() - began > 1
            guessed += run.seconds if fresh else 0.0
            waiting = sum(each.seconds for each in runs if each.key not in found)
            pace = (monotonic() - began) / guessed if guessed else 1.0 / plan.jobs
            bar.update(task, completed=sum(each.key in found for each in runs), left=_left(waiting * pace))
            if not console.is_terminal:
                console.print(f"{study.name}: {run.name}: {result.note or f'{result.seconds:.1f} s'}", highlight=False)
    return [found[run.key] for run in runs]


def _left(seconds: float) -> str:
    return f"about {seconds / 60:.0f} min left" if seconds >= 90 else f"about {seconds:.0f} s left"
