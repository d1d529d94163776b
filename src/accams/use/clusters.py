"""What features the clusters of a stencil stand for."""

import numpy as np
from numpy.typing import NDArray

from accams.model.knowledge import Knowledge
from accams.use.records import ClusterTrait, Records
from accams.use.scoring import Floats, Positions

LEAST = 2.0  # standard errors by which a share must exceed that of all, to be told


def group_traits(known: Knowledge, lines: Positions, labels: Positions, k: int, n: int) -> Records[ClusterTrait]:
    """Tell the features that k groups have in common; `labels` say in which each line is."""
    shares, given = known.shares(lines)
    told = telling_traits(labels, k, shares, given, n)
    groups, traits = np.array(told, np.int64).reshape(-1, 2).T
    inside = [(labels == group) & given[:, trait] for group, trait in told]
    columns = {
        "cluster": groups,
        "size": np.bincount(labels, minlength=k)[groups],
        "trait": np.array(known.encoder.labels, object)[traits],
        "share": np.array([shares[mask, trait].mean() for mask, (_, trait) in zip(inside, told, strict=True)]),
        "everywhere": np.array([shares[given[:, trait], trait].mean() for _, trait in told]),
    }
    return Records(ClusterTrait, columns)


def telling_traits(
    labels: Positions, k: int, shares: Floats, known: NDArray[np.bool_], most: int
) -> list[tuple[int, int]]:
    """Return for each cluster, the largest first, the traits that its members have most above chance, as pairs.

    Parameters
    ----------
    labels : array (line,)
    k : int
        Number of clusters.
    shares, known : arrays (line, trait)
        Traits from 0 to 1, and whether each is known.
    most : int
        Traits for each cluster.

    Returns
    -------
    list of (cluster, trait)

    Examples
    --------
    >>> labels, comedy = np.array([0] * 6 + [1] * 8), np.array([1.0] * 6 + [0.0] * 7 + [1.0])
    >>> telling_traits(labels, 2, np.column_stack([comedy, 1 - comedy]), np.ones((14, 2), bool), 1)
    [(1, 1), (0, 0)]
    """
    counts, sums = np.zeros((2, k, shares.shape[1]))
    np.add.at(counts, labels, known)
    np.add.at(sums, labels, shares * known)
    overall = sums.sum(axis=0) / np.maximum(counts.sum(axis=0), 1.0)
    error = np.sqrt(overall * (1.0 - overall) / np.maximum(counts, 1.0)) + 1e-9
    above = (sums / np.maximum(counts, 1.0) - overall) / error
    sizes, found = np.bincount(labels, minlength=k), list[tuple[int, int]]()
    for cluster in np.argsort(-sizes, kind="stable").tolist():
        best = np.argsort(-above[cluster], kind="stable")[:most].tolist()
        found += [(cluster, trait) for trait in best if above[cluster, trait] > LEAST]
    return found
