"""The paper's approximation guarantees with corrected constants: entropy numbers, bounds and covers.

A matrix M = U S V^T has the factors Q = U S^(1/2) and R = V S^(1/2). Covering the rows of each factor with few balls
gives a stencil, whose error is bounded by the radii of the balls. `docs/theory.md` has the derivations.
"""

from accams.theory.bounds import ApproximationBound, approximation_bound, rank_bound, storage_bits
from accams.theory.cover import Cover, CoverStencil, cover_stencil, greedy_cover
from accams.theory.entropy import ball_entropy_number, covering_number, entropy_number

__all__ = [
    "ApproximationBound", "Cover", "CoverStencil", "approximation_bound", "ball_entropy_number", "cover_stencil",
    "covering_number", "entropy_number", "greedy_cover", "rank_bound", "storage_bits",
]  # fmt: skip
