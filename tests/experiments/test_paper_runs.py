"""Runs are done once, go on after a stop, and one that fails does not stop the others."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from accams.errors import MissingDataError
from paper.pages import Page, axes, curve, size_axis, write_csv
from paper.runs import Row, Run, UnavailableError, kept
from paper.schedule import do_all, in_order, urgencies
from paper.study import Plan, Study, conduct


def counted(name: str, folder: Path, given: list[Row]) -> list[Row]:
    """Leaves a mark each time, and adds up what it was given."""
    with (folder / f"{name}.count").open("a") as marks:
        marks.write("x")
    return [{"name": name, "total": 1 + sum(row["total"] for row in given)}]


def failing(kind: type[Exception], folder: Path, given: list[Row]) -> list[Row]:
    raise kind("for this reason")


def run(name: str, *after: Run, seconds: float = 10.0) -> Run:
    return Run((name,), partial(counted, name), seconds, after)


def times(folder: Path, name: str) -> int:
    return len((folder / f"{name}.count").read_text())


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    first = run("a")
    runs = [run("b", first), run("c", first)]
    for _ in range(2):
        found = {each.key[0]: result.rows for each, result, _ in do_all(runs, tmp_path)}
        assert found["b"] == [{"name": "b", "total": 2}]
    assert [times(tmp_path, name) for name in "abc"] == [1, 1, 1]


def test_a_file_that_was_cut_short_is_done_again(tmp_path: Path) -> None:
    list(do_all([run("a")], tmp_path))
    file = tmp_path / f"{run('a').file}.json"
    file.write_text(file.read_text()[:20])
    list(do_all([run("a")], tmp_path))
    assert times(tmp_path, "a") == 2


def test_another_version_does_not_count(tmp_path: Path) -> None:
    list(do_all([run("a")], tmp_path))
    file = tmp_path / f"{run('a').file}.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"version": "0.0.1"}))
    assert kept(run("a"), tmp_path, []) is None


def test_other_settings_do_not_count(tmp_path: Path) -> None:
    first = run("a")
    list(do_all([run("b", first)], tmp_path))
    assert kept(run("a"), tmp_path, []) is not None
    assert kept(replace(run("a"), settings={"rank": 5}), tmp_path, []) is None
    assert kept(run("b", first), tmp_path, [{"name": "a", "total": 1}]) is not None
    assert kept(run("b", first), tmp_path, [{"name": "a", "total": 7}]) is None  # what it builds on is another


def test_a_result_whose_file_is_gone_does_not_count(tmp_path: Path) -> None:
    def work(folder: Path, given: list[Row]) -> list[Row]:
        (folder / "model").write_text("")
        return [{"file": "model"}]

    one = Run(("a",), work)
    list(do_all([one], tmp_path))
    assert kept(one, tmp_path, []) is not None
    (tmp_path / "model").unlink()
    assert kept(one, tmp_path, []) is None


def test_what_builds_on_nothing_says_why(tmp_path: Path) -> None:
    tuning = Run(("tuning",), partial(failing, UnavailableError))
    found = {each.key[0]: result for each, result, _ in do_all([run("b", tuning)], tmp_path)}
    assert found["b"].note == "for this reason"
    assert not (tmp_path / "b.count").exists()


@pytest.mark.some(1)
@pytest.mark.parametrize("jobs", [2, 5])
def test_several_at_a_time_give_the_same(tmp_path: Path, jobs: int) -> None:
    first = run("a")
    runs = [run("b", first), run("c")]
    found = {each.key[0]: result.rows for each, result, _ in do_all(runs, tmp_path, jobs=jobs)}
    assert found == {
        "a": [{"name": "a", "total": 1}],
        "b": [{"name": "b", "total": 2}],
        "c": [{"name": "c", "total": 1}],
    }


def dying(folder: Path, given: list[Row]) -> list[Row]:
    os._exit(1)


def test_a_process_that_is_killed_is_told(tmp_path: Path) -> None:
    found = {each.key[0]: result for each, result, _ in do_all([Run(("dead",), dying)], tmp_path, jobs=2)}
    assert "BrokenProcessPool" in found["dead"].note


def test_runs_after_a_killed_process_are_done(tmp_path: Path) -> None:
    dead = Run(("dead",), dying, seconds=100.0)
    found = {each.key[0]: result for each, result, _ in do_all([dead, *map(run, "abc")], tmp_path, jobs=2)}
    assert not found.pop("dead").rows
    assert sum(bool(result.rows) for result in found.values()) >= 2  # one may have been lost with it


def test_what_longer_work_hangs_on_is_more_urgent() -> None:
    short, long = run("short", seconds=1), run("long", seconds=5)
    runs = [short, long, run("tail", short, seconds=7), run("end", short, long, seconds=2)]
    assert urgencies(runs) == {("short",): 8, ("long",): 7, ("tail",): 7, ("end",): 2}


def test_a_run_may_build_on_several(tmp_path: Path) -> None:
    found = {each.key[0]: result for each, result, _ in do_all([run("c", run("a"), run("b"))], tmp_path)}
    assert list(found) == ["a", "b", "c"]
    assert found["c"].rows == [{"name": "c", "total": 3}]


def test_what_two_studies_share_is_done_once(tmp_path: Path) -> None:
    studies = [
        Study(name, name, lambda plan: [run("b", run("a"))], lambda plan, rows: Page([str(len(rows))]))
        for name in ("one", "two")
    ]
    assert conduct(studies, Plan(True, tmp_path), Console(quiet=True)) == []
    assert times(Plan(True, tmp_path).kept, "b") == 1
    assert (tmp_path / "one.md").exists()
    assert (tmp_path / "two.md").exists()


def test_a_study_without_its_data_does_not_stop_the_others(tmp_path: Path) -> None:
    def lacking(plan: Plan) -> list[Run]:
        raise MissingDataError("get it there")

    studies = [Study("one", "One", lacking, lambda *_: Page()),
               Study("two", "Two", lambda plan: [run("a")], lambda *_: Page())]  # fmt: skip
    assert conduct(studies, Plan(True, tmp_path), Console(quiet=True)) == ["one: get it there"]
    assert (tmp_path / "two.md").exists()


def test_every_run_once_and_in_order() -> None:
    first = run("a")
    assert [each.key[0] for each in in_order([run("b", first), run("c", first), run("b", first)])] == ["a", "b", "c"]


def test_like_names_have_files_of_their_own() -> None:
    assert len({Run(key, partial(counted, "")).file for key in (("a b",), ("a-b",), ("a", "b"), ("x" * 300, "1"))}) == 4


@pytest.mark.parametrize("kind", [UnavailableError, MissingDataError, ValueError, AttributeError])
def test_one_that_fails_says_so_and_the_rest_goes_on(tmp_path: Path, kind: type[Exception]) -> None:
    study = Study(
        "trial",
        "A trial",
        lambda plan: [Run(("bad",), partial(failing, kind)), run("good")],
        lambda plan, rows: Page([f"{len(rows)} rows"]),
    )
    told = conduct([study], Plan(True, tmp_path), Console(quiet=True))
    assert len(told) == 1
    assert "for this reason" in told[0]
    page = (tmp_path / "trial.md").read_text()
    assert "1 rows" in page
    assert "| bad |" in page
    assert (tmp_path / "trial.csv").read_text() == "name,total\ngood,1\n"


def test_a_page_that_cannot_be_drawn_does_not_stop_the_others(tmp_path: Path) -> None:
    def show(plan: Plan, rows: list[Row]) -> Page:
        raise StopIteration

    study = Study("trial", "A trial", lambda plan: [run("a")], show)
    assert conduct([study], Plan(True, tmp_path), Console(quiet=True)) == ["trial: no page, StopIteration: "]


def test_nothing_came_out(tmp_path: Path) -> None:
    study = Study("trial", "A trial", lambda plan: [Run(("bad",), partial(failing, ValueError))], lambda *_: Page())
    assert conduct([study], Plan(True, tmp_path), Console(quiet=True)) == ["trial: bad: ValueError: for this reason"]
    assert not (tmp_path / "trial.md").exists()


def test_figures_are_written_twice(tmp_path: Path) -> None:
    def show(plan: Plan, rows: list[Row]) -> Page:
        figure, (ax,) = axes()
        curve(ax, [(2000.0, 1.0), (1000.0, 2.0)], "a line", 0)
        size_axis(ax)
        return Page(figures={"drawing": figure})

    conduct([Study("trial", "A trial", lambda plan: [run("a")], show)], Plan(True, tmp_path), Console(quiet=True))
    assert (tmp_path / "drawing.png").stat().st_size > 5000
    assert "</svg>" in (tmp_path / "drawing.svg").read_text()


def test_rows_may_differ_in_columns(tmp_path: Path) -> None:
    write_csv([{"a": 1, "b": 0.123456789}, {"c": "x, y"}], tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == 'a,b,c\n1,0.1234568,\n,,"x, y"\n'
