"""What `bench.py` found, as Markdown."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean, median
from typing import Any

from common import table

NOISE = 0.8
NETFLIX = {
    "netflix-first": "GPU, kernels compiled first", "netflix-again": "GPU", "netflix-cpu": "CPU",
}  # fmt: skip


def report(folder: Path) -> str:
    """Everything that is in the folder."""
    found = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    parts = [_stages(found), _netflix(found), _noise(found), _calibrated(found), _grid(found), _movielens(found)]
    return "\n\n".join(part for part in parts if part)


def _stages(found: dict[str, Any]) -> str:
    if "stages" not in found or "copy" not in found:
        return ""
    bandwidth = found["copy"]["bandwidth"]
    rows = []
    for each in found["stages"]:
        share = each["bytes"] / each["seconds"] / bandwidth
        rows.append([
            each["what"], each["times"], f"{1e6 * each['seconds']:,.0f}", f"{each['bytes'] / 1e6:,.0f}",
            f"{100 * share:.0f} %" if each["bytes"] > 1e7 else "",
        ])  # fmt: skip
    whole = sum(each["times"] * each["seconds"] for each in found["stages"])
    moved = sum(each["times"] * each["bytes"] for each in found["stages"])
    rows.append(
        ["a visit", "", f"{1e6 * whole:,.0f}", f"{moved / 1e6:,.0f}", f"{100 * moved / whole / bandwidth:.0f} %"]
    )
    head = ["stage", "times", "microseconds", "MB", "of the copy bandwidth"]
    return f"Copy bandwidth: {bandwidth / 1e12:.2f} TB/s.\n\n" + table(head, rows)


def _netflix(found: dict[str, Any]) -> str:
    rows = []
    for name, what in NETFLIX.items():
        for run in (each for key, each in found.items() if key.startswith(name)):
            per_rating = [f"{run[key] / run['ratings']:.1f}" if run["memory"] else "" for key in ("memory", "estimate")]
            times = f"{run['seconds']:.1f}", f"{run['first']:.1f}", f"{run['median']:.3f}"
            rows.append([what, run["s"], run["sweeps"], *times, f"{run['sigma']:.4f}", *per_rating])
    if not rows:
        return ""
    head = ["", "s", "sweeps", "fit, s", "first sweep, s", "median of the others, s", "sigma", "GPU bytes per rating",
            "estimated"]  # fmt: skip
    cpu, gpu = found.get("netflix-cpu"), [each for key, each in found.items() if key.startswith("netflix-again")]
    if not (cpu and gpu):
        return table(head, rows)
    sweep, fit = (median(each[key] for each in gpu) for key in ("median", "seconds"))
    whole = (cpu["first"] + (gpu[0]["sweeps"] - 1) * cpu["median"]) / 60
    told = f"Medians: {fit:.1f} s a fit, {cpu['median'] / sweep:.1f} times faster a sweep."
    return table(head, rows) + f"\n\n{told} By its first sweeps, the CPU would take about {whole:.0f} minutes."


def _noise(found: dict[str, Any]) -> str:
    rows = [
        [run["s"], *(f"{run[what]:.4f} ({run[what] / NOISE - 1:+.1%})" for what in ("sigma", "test"))]
        for name, run in found.items()
        if name.startswith("noise-")
    ]
    return (
        table(["stencils", f"noise as sampled ({NOISE} planted)", "RMSE of a million held out"], rows) if rows else ""
    )


def _calibrated(found: dict[str, Any]) -> str:
    rows = [
        [run["s"], f"{run['estimate']:.4f} ({run['estimate'] / NOISE - 1:+.1%})", f"{run['noise']:.4f}",
         f"{run['sigma']:.4f}", f"{run['seconds']:.0f}"]
        for name, run in found.items() if name.startswith("calibrated-")
    ]  # fmt: skip
    head = [
        "stencils",
        f"noise by its direct estimate ({NOISE} planted)",
        "of a prediction",
        "of the sampler",
        "fit, s",
    ]
    return table(head, rows) if rows else ""


def _grid(found: dict[str, Any]) -> str:
    rows = []
    for name, gpu in found.items():
        if not (name.startswith("grid-") and name.endswith("-cuda")):
            continue
        cpu = found.get(name.removesuffix("cuda") + "cpu")
        speed = [f"{cpu['median']:.3f}", f"{cpu['median'] / gpu['median']:.1f}"] if cpu else ["", ""]
        rows.append([f"{gpu['ratings']:,}", gpu["k"], gpu["s"], f"{gpu['median']:.4f}", *speed])
    rows.sort(key=lambda row: (len(row[0]), row[1], row[2]))
    return table(["ratings", "k", "s", "GPU, s a sweep", "CPU, s a sweep", "ratio"], rows) if rows else ""


def _movielens(found: dict[str, Any]) -> str:
    rows = []
    for engine in ("cuda", "cpu"):
        runs = [each for name, each in found.items() if name.startswith(f"ml-1m-{engine}-")]
        if runs:
            errors = [run["rmse"] for run in runs]
            seconds = mean(run["seconds"] for run in runs)
            rows.append([engine, f"{mean(errors):.4f}", ", ".join(f"{x:.4f}" for x in errors), f"{seconds:.0f}"])
    return table(["MovieLens 1M", "test RMSE", "of each split", "seconds a fit"], rows) if rows else ""
