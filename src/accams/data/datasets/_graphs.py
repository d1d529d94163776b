"""Graphs of the Internet's autonomous systems, and graphs from edge lists and GML files."""

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data.datasets._base import Dataset, Source, choose, member, read_bytes
from accams.data.ids import Index
from accams.data.observations import Observations
from accams.errors import InputError

SOURCES = {  # neither site publishes checksums
    "oregon2": Source(
        "oregon2_010526.txt.gz", "https://snap.stanford.edu/data/oregon2_010526.txt.gz", also=("oregon2_010526.txt",)
    ),
    "as-22july06": Source(
        "as-22july06.zip", "https://public.websites.umich.edu/~mejn/netdata/as-22july06.zip",
        also=("as-22july06.gml.gz", "as-22july06.gml", "as-22july06"),
    ),
}  # fmt: skip
CITATIONS = {
    "oregon2": "J. Leskovec, J. Kleinberg and C. Faloutsos. Graphs over Time: Densification Laws, Shrinking "
    "Diameters and Possible Explanations. KDD 2005. https://snap.stanford.edu/data/Oregon-2.html",
    "as-22july06": "M. E. J. Newman. A symmetrized snapshot of the structure of the Internet at the level of "
    "autonomous systems, 22 July 2006. https://public.websites.umich.edu/~mejn/netdata/",
}
LICENCE = "free to use, with citation"

GML_TOKEN = re.compile(r'"[^"]*"|[\[\]]|[^\s\[\]"]+')


def as_graph(name: str = "oregon2", path: str | Path | None = None) -> Dataset:
    """Load a symmetric graph of the Internet's autonomous systems, in which blanks are observed zeros.

    Parameters
    ----------
    name : {"oregon2", "as-22july06"}
        Oregon-2 of 26 May 2001 (11,461 nodes, 32,730 edges), or that of 22 July 2006 (22,963 and 48,436).
    path : str or Path, optional
        The file, plain or packed. By default it is searched for in ``$ACCAMS_DATA`` and then downloaded.

    Returns
    -------
    Dataset
        Rows and columns are the nodes, by number; an edge is two cells of value 1.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:  # with a graph of two edges
    ...     path = Path(folder, "oregon2_010526.txt")
    ...     _ = path.write_text("1 2\\n2 3\\n")
    ...     as_graph("oregon2", path).observations.nnz
    4
    >>> as_graph("oregon2").observations.shape  # doctest: +SKIP
    (11461, 11461)
    """
    source = choose(SOURCES, name, "graph").find(path)
    observations = (edge_list if name == "oregon2" else gml)(source)
    return Dataset(name, observations, None, CITATIONS[name], LICENCE)


def edge_list(path: str | Path, *, directed: bool = False) -> Observations:
    """Read a graph from a text file with two node names per line, separated by blanks, tabs or a comma.

    Lines that begin with ``#`` and further columns are ignored, and repeated edges count once.

    Parameters
    ----------
    path : str or Path
        Plain, ``.gz``, or in a ``.zip``.
    directed : bool
        If False, every edge counts in both directions.

    Returns
    -------
    Observations
        Ones, with ``zeros="observed"``; row and column ids are the node names.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "edges.txt")
    ...     _ = path.write_text("ann bob\\nbob eve\\n")
    ...     edge_list(path)
    Observations(3 x 3, 4 stored, blanks are zeros of weight 1, values 1 to 1)
    """
    endings = (".txt", ".csv", ".tsv", ".edges", ".gz")
    file = member(Path(path), lambda inner: inner.endswith(endings), "edge list")
    text = read_bytes(file).decode("utf-8")
    first = next((line for line in io.StringIO(text) if line.strip() and not line.startswith("#")), None)
    if first is None:
        raise InputError(f"{file} is empty: it contains no edges")
    raw = _two_columns(text, "," if "," in first else None, file)
    index, ends = Index.of(raw.ravel(), "node")
    return _graph(index, ends[0::2], ends[1::2], directed)


def gml(path: str | Path, *, directed: bool | None = None) -> Observations:
    """Read a graph from a GML file.

    Parameters
    ----------
    path : str or Path
        Plain, ``.gz``, or in a ``.zip``.
    directed : bool, optional
        By default as stated in the file, else False.

    Returns
    -------
    Observations
        Ones, with ``zeros="observed"``; row and column ids are the labels (as integers if all are), or the ids of
        the file if labels are missing or not distinct.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "graph.gml")
    ...     _ = path.write_text("graph [ node [ id 1 ] node [ id 2 ] edge [ source 1 target 2 ] ]")
    ...     gml(path).row_index.ids.tolist()
    [1, 2]
    """
    file = member(Path(path), lambda inner: inner.endswith((".gml", ".gml.gz")), "GML file")
    graph = _gml_graph(read_bytes(file).decode("utf-8"), file)
    nodes, edges = ([dict(value) for key, value in graph if key == kind] for kind in ("node", "edge"))
    try:
        place = {node["id"]: p for p, node in enumerate(nodes)}
        i, j = (np.array([place[edge[end]] for edge in edges], dtype=np.int64) for end in ("source", "target"))
    except KeyError as missing:
        raise InputError(f"{file}: a node or an edge lacks {missing}, or an edge has an unknown node") from None
    if directed is None:
        directed = dict(graph).get("directed") == "1"
    return _graph(Index(_node_names(nodes)), i, j, directed)


def _graph(index: Index, i: NDArray[np.int64], j: NDArray[np.int64], directed: bool) -> Observations:
    from scipy import sparse

    if not len(i):
        raise InputError("the graph has no edges")
    if not directed:
        i, j = np.concatenate([i, j]), np.concatenate([j, i])
    matrix = sparse.csr_array((np.ones(len(i)), (i, j)), shape=(len(index), len(index)))
    matrix.sum_duplicates()  # older versions of SciPy keep them
    matrix.data[:] = 1.0
    return Observations.from_sparse(matrix, zeros="observed", row_ids=index.ids, col_ids=index.ids)


def _two_columns(text: str, delimiter: str | None, file: Path) -> NDArray[Any]:
    """Parse the first two columns, as integers if all are."""
    try:
        return np.loadtxt(io.StringIO(text), np.int64, delimiter=delimiter, usecols=(0, 1), ndmin=2)
    except ValueError:
        pass
    try:
        names = np.loadtxt(io.StringIO(text), str, delimiter=delimiter, usecols=(0, 1), ndmin=2)
    except ValueError as error:
        raise InputError(f"{file} is not a list of edges, two node names per line: {error}") from None
    return names.astype(object)


def _node_names(nodes: list[dict[str, Any]]) -> list[Any]:
    names = [node.get("label") for node in nodes]
    if None in names or len(set(names)) < len(names):
        names = [node["id"] for node in nodes]
    integral = all(re.fullmatch(r"0|[1-9]\d{0,17}", str(name)) for name in names)
    return [int(str(name)) for name in names] if integral else names


def _gml_graph(text: str, file: Path) -> list[tuple[str, Any]]:
    """Parse ``graph [ ... ]`` into a list of keys and values; a value is text or such a list."""
    lines = "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("#"))
    tokens = (token.group() for token in GML_TOKEN.finditer(lines))
    try:
        graph = dict(_gml_entries(tokens)).get("graph")
    except ValueError:
        graph = None
    if not isinstance(graph, list):
        raise InputError(f"{file} is not a GML file: it contains no complete 'graph [ ... ]'")
    return graph


def _gml_entries(tokens: Iterator[str], inside: bool = False) -> list[tuple[str, Any]]:
    entries: list[tuple[str, Any]] = []
    for key in tokens:
        if key == "]":
            return entries
        value = next(tokens, "]")
        if value == "]":
            raise ValueError(f"the key {key} has no value")
        entries.append((key, _gml_entries(tokens, inside=True) if value == "[" else value.strip('"')))
    if inside:
        raise ValueError("a bracket is not closed")
    return entries
