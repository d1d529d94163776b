"""Sizes of tiles and pieces, and the memory that a fit takes on a GPU. Imports nothing of CUDA."""

from math import log2
from typing import NamedTuple

SLOTS = 4  # besides those of the stencils: two for work, two to be safe
TILE = 1 << 16  # partners per tile at most, so that a partner's place in its tile takes 16 bits
PIECES = 32, 512  # observations per piece, at least and at most: a thread's share of a pass
THREADS = 132 * 1024  # of a large GPU


class DeviceBytes(NamedTuple):
    """Bytes on a GPU: those that must stay there, and those of observations, which can be streamed instead."""

    fixed: int
    observations: int

    @property
    def total(self) -> int:
        """Bytes with all observations on the device."""
        return self.fixed + self.observations


def device_bytes(
    shape: tuple[int, int], nnz: int, n_stencils: int, k: tuple[int, int], n_chains: int, weights: bool
) -> DeviceBytes:
    """Estimate the bytes that a fit needs on a GPU."""
    m, n = shape
    complete, piece = nnz == m * n, piece_size(nnz)
    engine = sums = 0
    for own, partners, clusters in ((m, n, k[1]), (n, m, k[0])):
        tiles = -(-partners // TILE)
        share = nnz / max(1, own * tiles * piece)  # mean length of a row's observations in a tile, in pieces
        pieces = int(min(nnz, own * tiles * max(1 + share / 3, share + 0.5)))
        cut = own if tiles > 1 else int(own * min(1.0, share * share))
        engine += pieces * (16 if complete else 12) + 12 * own
        sums += clusters * (pieces * (16 if weights else 8) + 16 * cut)
    slots = (n_stencils + SLOTS) * (m + n + 4 * 1024 + 16 * 32)  # labels, a template of 32 x 32, sizes of clusters
    per_rating = (0 if complete else 4) + (8 if weights else 0) + 8 * n_chains
    return DeviceBytes(engine + n_chains * (slots + sums + 28 * m), per_rating * nnz)


def piece_size(nnz: int, threads: int = THREADS) -> int:
    """Return the most observations of a piece, a power of two below each thread's share, so that all end together."""
    least, most = PIECES
    share = 0.75 * nnz / threads
    return min(most, max(least, 1 << int(log2(share)))) if share >= least else least
