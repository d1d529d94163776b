"""The same data, settings and seed write the same files, in every process and for every hash seed."""

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

import accams
from accams import report
from accams.data.ingest import ingest

RATINGS = [(f"u{n * 7 % 23}", f"i{n * 5 % 17}", float(1 + n * n % 5)) for n in range(250)]


def written(folder: Path, kind: str) -> set[str]:
    """Write files to a folder; return their names and hashes."""
    folder.mkdir()
    pairs, values = zip(*(((user, item), value) for user, item, value in RATINGS), strict=True)
    accams.ACCAMS(n_stencils=3, n_clusters=3, random_state=0).fit(pairs, values).save(folder / "accams")
    sizes = {"n_stencils": 3, "n_clusters": 3, "n_sweeps": 6, "noise": "sampled"}
    bayesian = accams.BayesianACCAMS(n_chains=2, random_state=0, **sizes).fit(pairs, values)
    if kind == "report":
        report.write(bayesian, folder / "report.html")
        return hashes(folder)
    bayesian.save(folder / "bayesian", history=folder / "history")
    bayesian.compress(max_bytes=1500, random_state=0).save(folder / "compressed")
    accams.ItemACCAMS(max_bytes=2000, random_state=0).fit(pairs, values).save(folder / "lists")
    table = folder / "table.csv"
    table.write_text("user,item,rating\n" + "".join(f"{user},{item},{value}\n" for user, item, value in RATINGS))
    ingest([table], folder / "store", dict.fromkeys(("row", "col", "value", "weight", "time")), "mean")
    return hashes(folder)


def hashes(folder: Path) -> set[str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {f"{path.relative_to(folder).as_posix()} {sha256(path.read_bytes()).hexdigest()}" for path in files}


@pytest.mark.parametrize("kind", ["files", pytest.param("report", marks=pytest.mark.full)])
def test_files_of_two_processes(kind: str, tmp_path: Path) -> None:
    here = written(tmp_path / "here", kind)
    environment = os.environ | {"PYTHONHASHSEED": "1" if os.environ.get("PYTHONHASHSEED") == "0" else "0"}
    command = [sys.executable, "-W", "ignore", __file__, str(tmp_path / "there"), kind]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert len(here) > 10 or kind == "report"
    assert here ^ set(done.stdout.splitlines()) == set()


def test_what_is_read_is_written_again(tmp_path: Path) -> None:
    pairs, values = [x[:2] for x in RATINGS], [x[2] for x in RATINGS]
    model = accams.ACCAMS(n_stencils=2, n_clusters=2, random_state=0).fit(pairs, values)
    model.save(tmp_path / "first")
    accams.load(tmp_path / "first").save(tmp_path / "second")
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


if __name__ == "__main__":
    print("\n".join(written(Path(sys.argv[1]), sys.argv[2])))
