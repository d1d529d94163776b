"""The commands of the page "From a table to a service", on a small table."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from command_line import FAST, done_well

from accams.data.eventlog import EventLog

PAGE = Path(__file__).parents[2] / "docs" / "service.md"
COMMANDS = [
    shlex.split(line)[1:]
    for block in re.findall(r"```bash\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    for line in block.splitlines()
    if line.startswith("accams ")
]
USERS, ITEMS = 60, 200
SIZES = {"100k": "21k"}  # of a file that takes a second


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    rated = [(u, j, 2 + 3 * ((u + j) % 2)) for u in range(USERS) for j in range(ITEMS) if random.random() < 0.3]
    rows = ["userId,movieId,rating", *(",".join(map(str, each)) for each in rated)]
    Path("ratings.csv").write_text("\n".join(rows) + "\n")
    Path("movies.csv").write_text("movieId,title\n" + "".join(f"{j},Film {j}\n" for j in range(ITEMS)))
    EventLog("feedback.log").append([17, 5000], [174, 50], [5.0, 4.0])
    done = set()
    for command, *rest in COMMANDS:
        if command == "serve":  # tests/serve
            help_ = done_well("serve", "--help")
            assert all(word in help_ for word in rest if word.startswith("--"))
            assert all(Path(word).is_file() for word in rest if word.endswith((".accams", ".csv")))
            continue
        quick = FAST if command == "fit" else ()
        shown = done_well(command, *(SIZES.get(word, word) for word in rest), *quick)
        done.add(command)
        assert command != "explain" or "because of" in shown
        assert command != "update" or "placed anew, 1 new" in shown
    assert done == {"fit", "recommend", "explain", "compress", "update"}
