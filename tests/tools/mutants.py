"""Break the package on purpose in thirty places, one at a time, and see whether the quick tests notice.

    python tests/tools/mutants.py [--tree FOLDER] [--only NAME ...] [--timeout SECONDS] [--trust] [--jobs N]

Each mutant is a small edit that makes results wrong without stopping the program. It is applied to a temporary copy of
the tree, and the tests named beside it, all of them part of `make test`, are run on the copy. A mutant that they do not
notice has survived: add a test. The table in docs/internals/testing.md is what this prints.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

COPIED = ("src", "tests", "experiments", "docs", "pyproject.toml", "README.md", "CHANGELOG.md", "Makefile")
ENGINE, FIT = "tests/engine/test_engine_", "tests/fit/test_fit_"


@dataclass(frozen=True)
class Mutant:
    """An edit of one file and the tests that should notice it.

    `edits` are (file below src/accams, old text, new text); the first one whose old text exists is applied. More than
    one is given where the text differs between versions. Of `tests`, those are run that exist.
    """

    floor: str
    name: str
    edits: tuple[tuple[str, str, str], ...]
    tests: tuple[str, ...]


MUTANTS = [
    Mutant(
        "kernels", "gather skips rows with one observation",
        (("kernels/sparse.py", "range(starts[i], starts[i + 1], RUN)", "range(starts[i], starts[i + 1] - 1, RUN)"),),
        ("tests/kernels/test_kernels_sparse.py",),
    ),
    Mutant(
        "kernels", "negative sums borrow from the count",
        (("kernels/sparse.py", "count = (both + HALF) >> 44", "count = both >> 44"),),
        ("tests/kernels/test_kernels_sparse.py",),
    ),
    Mutant(
        "kernels", "ties go to the highest label",
        (("kernels/assign.py", "if cost[i] < lowest[i]:", "if cost[i] <= lowest[i]:"),),
        ("tests/kernels/test_kernels_assign.py",),
    ),
    Mutant(
        "kernels", "row weights ignored in the tables of drawn labels",
        (("kernels/sample.py", "w = 1 if row_weights is None else np.int64(row_weights[start + i])", "w = 1"),),
        ("tests/kernels/test_kernels_sample.py", f"{ENGINE}sampling.py"),
    ),
    Mutant(
        "kernels", "wrong sign of the mean of a template entry",
        (
            ("kernels/sample.py", "drawn = kappa * L / precision +", "drawn = -kappa * L / precision +"),
            ("kernels/sample.py", "drawn = kappa * L / whole +", "drawn = -kappa * L / whole +"),
        ),
        ("tests/kernels/test_kernels_sample.py", "tests/statistical/test_stat_conditionals.py"),
    ),
    Mutant(
        "kernels", "column 0 is recommended though it was seen",
        (("kernels/score.py", "if seen[p] >= 0:", "if seen[p] > 0:"),),
        ("tests/kernels/test_kernels_score.py",),
    ),
    Mutant(
        "data", "no checksum comparison of a store",
        (
            ("data/checks.py", '!= meta["files"][name]["crc32"]:', '!= meta["files"][name]["crc32"] and False:'),
            ("data/store.py", '!= meta["files"][name]["crc32"]:', '!= meta["files"][name]["crc32"] and False:'),
        ),
        ("tests/data/test_store.py", "tests/data/test_store_lies.py"),
    ),
    Mutant(
        "data", "entries of equal time are torn apart",
        (
            ("data/splits.py", "late = times >= np.partition(times, first)[first]",
             "late = times > np.partition(times, first)[first]"),
            ("data/splits.py", "late = times >= cut", "late = times > cut"),
        ),
        ("tests/data/test_splits.py",),
    ),
    Mutant(
        "data", "the id one beyond the last is known",
        (("data/ids.py", "(array >= 0) & (array < self.size)", "(array >= 0) & (array <= self.size)"),),
        ("tests/data/test_ids.py",),
    ),
    Mutant(
        "data", "weights of duplicate pairs are summed, not averaged",
        (("data/build.py", "np.add.reduceat(w, heads) / (lasts - heads + 1)", "np.add.reduceat(w, heads)"),),
        ("tests/data/test_observations.py", "tests/data/test_observations_rules.py"),
    ),
    Mutant(
        "model", "no checksum comparison of a tensor",
        (("model/container.py", "if _checksum(tensors[name]) != checksums[name]:", "if name not in checksums:"),),
        ("tests/model/test_container.py",),
    ),
    Mutant(
        "model", "rows without data keep their labels",
        (("model/codes.py", "codes[unseen, p] = k", "codes[unseen[:0], p] = k"),),
        ("tests/model/test_model_stencils.py",),
    ),
    Mutant(
        "model", "wrong sign of quantiles",
        (("model/posterior.py", "std[:, None] * ndtri(levels)", "std[:, None] * -ndtri(levels)"),),
        ("tests/model/test_model_posterior.py",),
    ),
    Mutant(
        "model", "noise of single rows ignored",
        (("model/posterior.py", "if self._row_noise is None else self._row_noise[i]", "+ 0.0 * len(self.draws)"),),
        ("tests/model/test_model_posterior.py", "tests/estimators/test_bayesian_predict.py"),
    ),
    Mutant(
        "engine", "a stencil is never taken out of the residual",
        (
            ("engine/local.py", "T = np.int32(sign) * self", "T = np.int32(-1) * self"),
            ("engine/residual.py", "T = np.int32(sign) * self", "T = np.int32(-1) * self"),
        ),
        (f"{ENGINE}exact.py", f"{ENGINE}contract.py"),
    ),
    Mutant(
        "engine", "disk: residuals are not written back",
        (("engine/disk.py", "write=bool(shifts)", "write=False"),),
        (f"{ENGINE}exact.py", f"{ENGINE}disk.py"),
    ),
    Mutant(
        "engine", "cuda: the second shift has the template of the first",
        (("engine/cuda/kernels.py", "x += templates_b[row_b +", "x += templates_a[row_b +"),),
        ("tests/engine/test_cuda_kernels.py", "tests/engine/test_cuda_visits.py"),
    ),
    Mutant(
        "engine", "ray: a replaced worker is not told the row weights",
        (
            ("engine/ray/engine.py", 'events.append(("set_row_ticks", share(other.row_weights)))', "pass"),
            ("engine/ray/state.py", 'story.append(("weights", share(self.row_weights)))', "pass"),
        ),
        ("tests/engine/test_ray_workers.py",),
    ),
    Mutant(
        "engine", "graph: products of two stencils count once",
        (("engine/blanks.py", "2.0 * self.gram.sum() - np.trace(self.gram)", "self.gram.sum()"),),
        (f"{ENGINE}contract.py", f"{ENGINE}exact.py", "tests/kernels/test_kernels_blanks.py"),
    ),
    Mutant(
        "fit", "random numbers of labels do not depend on the sweep",
        (("fit/gibbs.py", "Purpose.LABELS, self.number, self.sweep)", "Purpose.LABELS, self.number)"),),
        ("tests/statistical", f"{FIT}run.py", f"{FIT}sample.py", "tests/estimators/test_bayesian_same.py"),
    ),
    Mutant(
        "fit", "sigma^2 without the half of the squared error",
        (("fit/gibbs.py", "squared_error(row_weighted=True) / 2.0", "squared_error(row_weighted=True)"),),
        ("tests/statistical/test_stat_variances.py", "tests/statistical/test_stat_geweke.py"),
    ),
    Mutant(
        "fit", "tau^2 and sigma^2 swapped in a template draw",
        (("fit/conditionals.py", "tau2 * unit / sigma2", "sigma2 * unit / tau2"),),
        ("tests/statistical/test_stat_conditionals.py", "tests/statistical/test_stat_enumeration.py"),
    ),
    Mutant(
        "fit", "early stopping does not clip predictions",
        (
            ("fit/early.py", "clipped = self.prediction if self.clip is None else np.clip(self.prediction, *self.clip)",
             "clipped = self.prediction"),
            ("fit/early.py", "shown = self.prediction if self.clip is None else np.clip(self.prediction, *self.clip)",
             "shown = self.prediction"),
        ),
        (f"{FIT}early.py",),
    ),
    Mutant(
        "fit", "draws are kept one sweep off",
        (("fit/running.py", "return (sweep + 1) % self.interval == 0", "return sweep % self.interval == 0"),),
        (f"{FIT}running.py", f"{FIT}run.py", f"{FIT}sample.py"),
    ),
    Mutant(
        "use", "fold-in takes the standard deviation for the variance",
        (("use/fold.py", "noise * noise, np.atleast_1d(variance)", "noise, np.atleast_1d(variance)"),),
        ("tests/kernels/test_kernels_score.py", "tests/estimators/test_use.py"),
    ),
    Mutant(
        "use", "wrong sign of the quantile in recommendations",
        (
            ("fitted/parts.py", "return -float(ndtri(quantile))", "return float(ndtri(quantile))"),
            ("use/view.py", "return -float(ndtri(quantile))", "return float(ndtri(quantile))"),
        ),
        ("tests/estimators/test_use.py",),
    ),
    Mutant(
        "use", "predictions are not clipped",
        (
            ("fitted/parts.py", "return expected if self.clip is None else np.clip(expected, *self.clip)",
             "return expected"),
            ("estimators/base.py", "return prediction if bounds is None else np.clip(prediction, *bounds)",
             "return prediction"),
        ),
        ("tests/estimators/test_accams.py", "tests/estimators/test_use.py"),
    ),
    Mutant(
        "use", "effects of rows and columns swapped in a transposed model",
        (("model/stencils.py", "(self.col_effects, self.row_effects)", "(self.row_effects, self.col_effects)"),),
        ("tests/model/test_model_stencils.py", "tests/model/test_model_effects.py", "tests/estimators/test_use.py"),
    ),
    Mutant(
        "estimators", "as many column clusters as there are rows",
        (
            ("estimators/base.py", "min(int(b), shape[1])", "min(int(b), shape[0])"),
            ("estimators/checks.py", "min(pair[1], shape[1])", "min(pair[1], shape[0])"),
        ),
        ("tests/estimators/test_accams.py", "src/accams/estimators"),
    ),
    Mutant(
        "cli", "--include-seen does the opposite",
        (("cli/using.py", "exclude_seen=not include_seen", "exclude_seen=include_seen"),),
        ("tests/cli/test_cli_using.py",),
    ),
]  # fmt: skip


def edit_of(mutant: Mutant, tree: Path) -> tuple[Path, str, str]:
    """Return the file, the old and the new text of the edit that fits this tree."""
    for name, old, new in mutant.edits:
        file = tree / "src" / "accams" / name
        if file.is_file() and file.read_text().count(old) == 1:
            return file, old, new
    raise SystemExit(f"{mutant.name}: no file of {tree} has its old text exactly once")


def copied(tree: Path, folder: Path) -> None:
    """Copy a tree with its compiled kernels, which stay valid where sources do not change."""
    for name in COPIED:
        if (tree / name).is_dir():
            shutil.copytree(tree / name, folder / name)
        elif (tree / name).exists():
            shutil.copy2(tree / name, folder / name)


def failure(tree: Path, tests: tuple[str, ...], timeout: float) -> str | None:
    """Return the first of these quick tests that fails in a tree, or None."""
    quick = ["-m", "not full"] if '"full:' in (tree / "pyproject.toml").read_text() else []  # not in older trees
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *quick, *tests]
    path = [str(tree / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path)}
    try:
        done = subprocess.run(command, cwd=tree, env=environment, timeout=timeout, capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        return "timeout"
    failed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return None if done.returncode == 0 else (failed or [f"exit status {done.returncode}"])[0].rpartition("/")[2]


def unchanged(tree: Path, tests: tuple[str, ...], timeout: float) -> str | None:
    """Return the first test that fails without a mutant, or None."""
    with tempfile.TemporaryDirectory() as folder:
        copied(tree, Path(folder))
        return failure(Path(folder), tests, timeout)


def tried(mutant: Mutant, tree: Path, timeout: float) -> str | None:
    """Return the first test that fails with the mutant, or None."""
    with tempfile.TemporaryDirectory() as folder:
        copied(tree, Path(folder))
        file, old, new = edit_of(mutant, Path(folder))
        file.write_text(file.read_text().replace(old, new))
        return failure(Path(folder), tests_of(mutant, tree), timeout)


def tests_of(mutant: Mutant, tree: Path) -> tuple[str, ...]:
    """Return the tests of a mutant that this tree has."""
    return tuple(name for name in mutant.tests if (tree / name).exists())


def main() -> None:
    """Try the mutants and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", type=Path, default=Path(__file__).resolve().parents[2])
    parser.add_argument("--only", nargs="*", default=[], help="names of mutants, or parts of them")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for the tests of one mutant")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    parser.add_argument("--trust", action="store_true", help="do not run the tests without a mutant first")
    asked = parser.parse_args()
    chosen = [m for m in MUTANTS if not asked.only or any(part in m.name for part in asked.only)]
    for mutant in chosen:
        edit_of(mutant, asked.tree)
    everything = tuple(sorted({name for mutant in chosen for name in tests_of(mutant, asked.tree)}))
    broken = None if asked.trust else unchanged(asked.tree, everything, len(everything) * asked.timeout)
    if broken is not None:
        raise SystemExit(f"{broken} fails without any mutant: mend it first")
    print("| floor | mutant | caught by |\n|---|---|---|", flush=True)
    survived = 0
    with ThreadPoolExecutor(asked.jobs) as pool:
        results = pool.map(partial(tried, tree=asked.tree, timeout=asked.timeout), chosen)
        for mutant, found in zip(chosen, results, strict=True):
            survived += found is None
            print(f"| {mutant.floor} | {mutant.name} | {found or '**survived**'} |", flush=True)
    print(f"\n{len(chosen) - survived} of {len(chosen)} caught")
    sys.exit(survived > 0)


if __name__ == "__main__":
    main()
