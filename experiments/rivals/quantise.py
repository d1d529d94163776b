"""Factorisations in few bits: factors as small whole numbers with a scale for each row and column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rivals.factors import Factorisation
from rivals.ratings import Ints, Matrix, Vector

ScaleType = Literal["float16", "float32"]


@dataclass(frozen=True)
class Codes:
    """levels[i] * scales[i], with levels of -(2^(bits-1) - 1) to 2^(bits-1) - 1."""

    levels: NDArray[np.int8]
    scales: NDArray[np.floating]
    bits: int

    @property
    def n_bytes(self) -> int:
        """Each vector in whole bytes, and the scales."""
        return len(self.levels) * -(-self.levels.shape[1] * self.bits // 8) + self.scales.nbytes

    def decoded(self) -> Matrix:
        return self.levels * self.scales.astype(np.float64)[:, None]


@dataclass(frozen=True)
class Quantised:
    """A factorisation with quantised factors; biases keep the type of the scales.

    Attributes
    ----------
    model : Factorisation
        What is left of it after rounding; predictions are its.
    P, Q : Codes
    n_bytes : int
        Codes, scales, biases, and four bytes for the mean.
    """

    model: Factorisation
    P: Codes
    Q: Codes
    n_bytes: int

    def predict(self, rows: Ints, cols: Ints) -> Vector:
        """Predictions at cells given by position."""
        return self.model.predict(rows, cols)


def quantise(model: Factorisation, bits: int = 8, scale: ScaleType = "float16") -> Quantised:
    """The factors of a model at 2 to 8 bits a number."""
    if not 2 <= bits <= 8:
        raise ValueError(f"bits must be between 2 and 8, not {bits}")
    P, Q = (encode(factor, bits, scale) for factor in (model.P, model.Q))
    row_bias, col_bias = (bias.astype(scale) for bias in (model.row_bias, model.col_bias))
    rounded = (row_bias.astype(np.float64), col_bias.astype(np.float64))
    smaller = Factorisation(float(np.float32(model.mean)), P.decoded(), Q.decoded(), *rounded, model.biases)
    stored = (row_bias.nbytes + col_bias.nbytes if model.biases else 0) + 4
    return Quantised(smaller, P, Q, P.n_bytes + Q.n_bytes + stored)


def encode(factor: Matrix, bits: int, scale: ScaleType) -> Codes:
    """Each vector over its own range; scales are rounded up, so that no number falls off the end."""
    highest = 2 ** (bits - 1) - 1
    exact = np.abs(factor).max(axis=1, initial=0.0) / highest
    scales = exact.astype(scale)
    scales = np.where(scales.astype(np.float64) < exact, np.nextafter(scales, np.array(np.inf, scale)), scales)
    step = scales.astype(np.float64)
    step[step == 0] = 1.0
    return Codes(np.rint(factor / step[:, None]).astype(np.int8), scales, bits)
