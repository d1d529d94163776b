"""Size of a model: by the paper's formula, by the entropy of its labels, and on disk."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.model import container
from accams.model.packing import contents
from accams.model.stencil import Stencil, SumFields, whole_steps


@dataclass(frozen=True)
class StencilSize:
    """Bits of one stencil: of its row labels, its column labels and its template, by formula and by entropy.

    The entropy of a template with a step is that of its multiples; entries of others count 32 bits each.
    """

    shape: tuple[int, int]
    row_bits: float
    col_bits: float
    template_bits: float
    row_entropy: float
    col_entropy: float
    template_entropy: float

    @property
    def bits(self) -> float:
        """By the paper's formula."""
        return self.row_bits + self.col_bits + self.template_bits

    @property
    def entropy(self) -> float:
        """By the entropy of labels and template."""
        return self.row_entropy + self.col_entropy + self.template_entropy


@dataclass(frozen=True)
class Size:
    """Size of a stencil sum.

    Attributes
    ----------
    bits : float
        By the paper's formula.
    entropy : float
        Bits by the entropy of each stencil's labels, and of templates.
    file : dict of int
        Bytes on disk by part: "labels" with "models" (their frequencies), "templates" (with "whole" and "steps"),
        other tensors, and "header".
    stencils : tuple of StencilSize
    """

    bits: float
    entropy: float
    file: dict[str, int]
    stencils: tuple[StencilSize, ...]

    @property
    def bytes(self) -> int:
        """On disk."""
        return sum(self.file.values())


def size_of(model: SumFields) -> Size:
    """Return the size of a stencil sum, part by part."""
    header, tensors = contents(model)
    whole = len(container.to_bytes(header, tensors))
    parts = {name: int(x.nbytes) for name, x in tensors.items()}
    stencils = tuple(_stencil_size(s) for s in model.stencils)
    effects = sum(32.0 * len(x) for x in (model.row_effects, model.col_effects) if x is not None)
    entropy = sum(s.entropy for s in stencils) + effects
    bits = effects + model_bits(model.shape, [(T.shape[0], T.shape[1]) for T in (s.template for s in model.stencils)])
    return Size(bits, entropy, {**parts, "header": whole - sum(parts.values())}, stencils)


def _stencil_size(stencil: Stencil) -> StencilSize:
    k_rows, k_cols = stencil.template.shape
    entries = 32.0 * k_rows * k_cols
    steps = entries if stencil.step is None else entropy_bits(whole_steps(stencil.template, stencil.step))
    return StencilSize(
        (k_rows, k_cols), len(stencil.row_labels) * log2(k_rows), len(stencil.col_labels) * log2(k_cols), entries,
        entropy_bits(stencil.row_labels), entropy_bits(stencil.col_labels), steps,
    )  # fmt: skip


def entropy_bits(labels: NDArray[Any]) -> float:
    """Return the bits of labels coded by their own frequencies."""
    counts = np.unique(labels, return_counts=True)[1]
    return float(counts.sum() * log2(counts.sum()) - counts @ np.log2(counts)) if counts.size else 0.0


def stencil_bits(shape: tuple[int, int], template_shape: tuple[int, int], template_bits: int = 32) -> float:
    """Return the bits of one stencil: m log2 k_rows + n log2 k_cols + 32 k_rows k_cols."""
    (m, n), (k_rows, k_cols) = shape, template_shape
    return m * log2(k_rows) + n * log2(k_cols) + template_bits * k_rows * k_cols


def model_bits(shape: tuple[int, int], template_shapes: Iterable[tuple[int, int]]) -> float:
    """Return the bits of a stencil sum by the paper's formula (the offset is not counted)."""
    return sum(stencil_bits(shape, k) for k in template_shapes)


def factor_bits(shape: tuple[int, int], rank: int, bits: int = 32) -> float:
    """Return the bits of a factorisation of this rank with `bits` bits per number."""
    return float(rank * sum(shape) * bits)


def bytes_text(n: float) -> str:
    """Return a number of bytes with its unit."""
    unit = "bytes"
    for larger in ("KB", "MB", "GB"):
        if n < (999.5 if unit == "bytes" else 999.95):
            break
        n, unit = n / 1000, larger
    return f"{n:,.0f} {unit}" if unit == "bytes" else f"{n:,.1f} {unit}"
