"""Take the first steps of somebody new with a wheel, in an empty environment and outside of the repository.

    python tests/dist/first_steps.py dist/*.whl [--limit SECONDS]

A plain `pip install` up to the first list from a table of one's own must end within the limit. What comes later takes
the time it takes: commands and classes of each kind, what is said where an extra is missing, and the demo with it.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path
from time import perf_counter

# Two kinds of films, two kinds of users, as text; nothing but the standard library is there to write it.
TABLE = """
import csv, random
random.seed(0)
rows = [
    (f"user{u}", f"film{f}", 4 + random.randint(0, 1) if u % 2 == f % 2 else random.randint(1, 3))
    for u in range(200) for f in range(80) if random.random() < 0.3
]
with open("ratings.csv", "w", newline="") as file:
    csv.writer(file).writerows([("user", "item", "rating"), *rows])
"""

ALONE = """
import accams, importlib.util, pathlib, sys
assert pathlib.Path(accams.__file__).is_relative_to(sys.prefix), accams.__file__
for name in ("pandas", "polars", "pyarrow", "matplotlib", "plotly"):
    assert importlib.util.find_spec(name) is None, f"a plain installation brought {name}"
"""

PYTHON = """
import numpy as np
import accams

model = accams.load("model.accams")
assert model.recommend("user0", n=3)[0].item.startswith("film")
guest = model.fold_in({"film0": 5, "film1": 1})
assert guest.predict(["film2"])[0] > guest.predict(["film3"])[0]

gaps = np.add.outer(np.arange(60.0) % 5, np.arange(40.0) % 7)
gaps[::7, ::5] = np.nan
full = accams.ACCAMSImputer(random_state=0).fit_transform(gaps)
assert np.isfinite(full).all()
small = accams.compress(full, max_error=0.05)
assert abs(accams.decompress(small) - full).max() <= 0.05
"""


class Newcomer:
    """Somebody with an empty environment and an empty folder, who has only the wheel."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        home = folder / "home"
        home.mkdir()
        venv.create(folder / "env", with_pip=True)
        self.bin = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
        # What would lead back to the repository or its caches is taken away.
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "NUMBA", "ACCAMS"))}
        self.environment = {**kept, "HOME": str(home), "USERPROFILE": str(home), "COLUMNS": "100"}

    def run(self, *command: str, code: int = 0) -> str:
        """Run a program of the environment, tell how long it took, and return what it printed."""
        began = perf_counter()
        program = [str(self.bin / command[0]), *command[1:]]
        done = subprocess.run(
            program, cwd=self.folder, env=self.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        shown = " ".join(word if len(word) < 60 and "\n" not in word else "..." for word in command)
        print(f"{perf_counter() - began:6.1f} s  {shown}", flush=True)
        if done.returncode != code:
            sys.exit(f"ended with {done.returncode}, not {code}:\n{done.stdout}")
        return done.stdout


def expect(text: str, *wanted: str) -> None:
    """End the program unless a text has everything that is wanted."""
    for each in wanted:
        if each not in text:
            sys.exit(f"{each!r} is not in:\n{text}")


def check_page(wheel: Path) -> None:
    """Nothing on the page of the package index, which is the README, is relative."""
    with zipfile.ZipFile(wheel) as file:
        (name,) = (x for x in file.namelist() if x.endswith(".dist-info/METADATA"))
        page = file.read(name).decode()
    relative = [link for link in re.findall(r"\]\(([^)]+)\)", page) if not link.startswith("https://")]
    if relative or "# accams" not in page:
        sys.exit(f"the page of the package index has no text, or relative links: {relative}")


def first_result(new: Newcomer, wheel: Path) -> None:
    """From nothing to a list for a user of one's own table."""
    new.run("pip", "install", "--quiet", "--disable-pip-version-check", str(wheel))
    new.run("accams", "fit", "ratings.csv", "-o", "model.accams")
    expect(new.run("accams", "recommend", "model.accams", "user0"), "film")


def next_steps(new: Newcomer) -> None:
    """Use of the model, a matrix, and what is said where an extra is missing."""
    new.run("python", "-c", ALONE)
    expect(new.run("accams", "doctor"), "kernels")
    expect(new.run("accams", "similar", "model.accams", "film0"), "film")
    expect(new.run("accams", "explain", "model.accams", "film0", "--user", "user0"), "film")
    new.run("python", "-c", PYTHON)
    expect(new.run("accams", "report", "model.accams", "-o", "report.html", code=2), "accams[plot]")
    expect(new.run("accams", "demo", code=2), "accams[demo]")


def with_demo(new: Newcomer, wheel: Path) -> None:
    """The demo and a report, with the extra that they need."""
    new.run("pip", "install", "--quiet", "--disable-pip-version-check", f"{wheel}[demo]")
    expect(new.run("accams", "demo"), "BayesianACCAMS", "ItemACCAMS", "accams-demo.html")
    new.run("accams", "report", "model.accams", "-o", "report.html")
    for name in ("accams-demo.html", "report.html"):
        expect((new.folder / name).read_text(encoding="utf-8"), "</html>")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds from pip install to the first list")
    given = parser.parse_args()
    check_page(given.wheel)
    with tempfile.TemporaryDirectory() as folder:
        new = Newcomer(Path(folder).resolve())
        new.run("python", "-c", TABLE)
        began = perf_counter()
        first_result(new, given.wheel.resolve())
        seconds = perf_counter() - began
        print(f"{seconds:6.1f} s  from pip install to a list from one's own table, of {given.limit:.0f} s")
        next_steps(new)
        with_demo(new, given.wheel.resolve())
        if seconds > given.limit:
            sys.exit(f"The first result took {seconds:.0f} s, more than {given.limit:.0f} s.")


if __name__ == "__main__":
    main()
