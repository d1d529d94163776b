"""Latent values of ordinal observations on a GPU: the functions of `accams.kernels.ordinal` for the device."""

from functools import cache
from math import sqrt
from typing import Any

import numpy as np
from numba import cuda

from accams.engine.cuda.jit import kernel, on_device
from accams.engine.cuda.kernels import uniform
from accams.engine.cuda.layout import WARP
from accams.kernels import ordinal
from accams.kernels.ordinal import ROW_BITS

cdf, quantile = on_device(ordinal.cdf), on_device(ordinal.quantile)
truncated_tail = on_device(ordinal.truncated_tail, quantile=quantile)
truncated = on_device(ordinal.truncated, cdf=cdf, quantile=quantile, truncated_tail=truncated_tail)
latent_value = on_device(ordinal.latent_value, truncated=truncated)


@cache
def latent_kernel(axis: int, *, dense: bool, weighted: bool, row_weighted: bool) -> Any:
    """Return a kernel that draws the latent values of the slices [lo, hi), and corrects their residuals.

    `dense`: partners are consecutive; `weighted`: observations have weights; `row_weighted`: rows of the matrix have.
    """

    @kernel
    def redraw(slice_starts, owners, lengths, first, lo, hi, places, tiles, tile, index, resid, weights, latent, levels,
               row_weights, cuts, spread, unit, key0, key1):  # fmt: skip
        for lane in range(lo * WARP + cuda.grid(1), hi * WARP, cuda.gridsize(1)):
            place, base = slice_starts[lane // WARP] - first + lane % WARP, np.int64(tiles[lane // WARP]) * tile
            own = np.int64(owners[lane])
            for e in range(lengths[lane]):
                partner = base + (places[lane] + e if dense else np.int64(index[place]))
                i, j = (own, partner) if axis == 0 else (partner, own)
                w = np.int64(weights[place]) if weighted else np.int64(1)
                if row_weighted:
                    w *= row_weights[i]
                old = latent[place]
                f, s = np.float64(old - resid[place]), spread / sqrt(unit * w)
                new = latent_value(f, levels[place], cuts, s, uniform(key0, key1, (i << ROW_BITS) + j))
                resid[place] += new - old
                latent[place] = new
                place += WARP

    return redraw
