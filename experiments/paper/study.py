"""A study, and how it is run: with progress, from where it was left, and on with the rest if something is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from accams.errors import MissingDataError
from paper.pages import Page, origin, table, write
from paper.runs import Result, Row, Run
from paper.schedule import do_all, in_order


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


def conduct(studies: Sequence[Study], plan: Plan, console: Console) -> list[str]:
    """Do what is not done yet, and write the page of each study as soon as it can be written.

    Gives what is missing or went wrong, in words.
    """
    told = list[str]()
    waiting: dict[str, tuple[Study, Sequence[Run]]] = {}
    for study in studies:
        try:
            waiting[study.name] = study, study.runs(plan)
        except MissingDataError as reason:
            told.append(f"{study.name}: {reason}")
    found: dict[tuple[str, ...], Result] = {}
    everything = [run for _, runs in waiting.values() for run in runs]
    for run, result in _with_progress(everything, plan, console):
        found[run.key] = result
        for study, runs in list(waiting.values()):
            if all(each.key in found for each in runs):
                del waiting[study.name]
                told += _finish(study, [found[each.key] for each in runs], plan, console)
    return told


def _finish(study: Study, results: list[Result], plan: Plan, console: Console) -> list[str]:
    """Write what came out; gives what did not, and why."""
    rows = [row for result in results for row in result.rows]
    notes = list(dict.fromkeys((", ".join(each.key), each.note) for each in results if each.note))
    told = [f"{study.name}: {what}: {why}" for what, why in notes]
    if not rows:
        return told or [f"{study.name}: nothing came out"]
    try:
        page = study.show(plan, rows)
    except Exception as error:  # some of what it shows is missing; the other studies shall go on
        return [*told, f"{study.name}: no page, {type(error).__name__}: {error}"]
    if notes:
        lines = [[" ".join(words.replace("|", "/").split()) for words in note] for note in notes]
        page.add("Not run:", table(["what", "why"], lines))
    command = f"accams reproduce {study.name}" + (" --quick" if plan.quick else "")
    made = origin(command, sorted({each.machine for each in results if each.rows}))
    files = write(page, rows, study.name, study.title, made, plan.out)
    console.print(f"{study.name}: wrote {files[-1]}", highlight=False)
    return told


def _with_progress(runs: Sequence[Run], plan: Plan, console: Console) -> Iterator[tuple[Run, Result]]:
    """The results as they come; the bar counts runs, the time left goes by how long each may take."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[left]}"))
    open_runs = {run.key: run.seconds for run in in_order(runs)}
    began, guessed = monotonic(), 0.0
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("reproducing", total=len(open_runs), left="")
        for run, result, fresh in do_all(runs, plan.kept, plan.jobs):
            del open_runs[run.key]
            guessed += run.seconds if fresh else 0.0
            pace = (monotonic() - began) / guessed if guessed else 1.0 / plan.jobs
            left = _left(sum(open_runs.values()) * pace)
            bar.update(task, advance=1, left=f"{left}; last: {run.name}")
            if fresh and not console.is_terminal:
                took = result.note or f"{result.seconds:.1f} s"
                console.print(f"{run.name}: {took}; {left}", highlight=False, soft_wrap=True)
            yield run, result


def _left(seconds: float) -> str:
    return f"about {seconds / 60:.0f} min left" if seconds >= 90 else f"about {seconds:.0f} s left"
