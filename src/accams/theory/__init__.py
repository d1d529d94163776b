"""The paper's guarantees, with their constants corrected: entropy numbers, bounds, and covers that keep them.

A matrix M = U S V^T has the factors Q = U S^(1/2) and R = V S^(1/2). Cover the rows of each by few balls, and the
centres are a stencil: how well they cover says how well it approximates. `docs/theory.md` has the derivations.
"""

from accams.theory.bounds import ApproximationBound, approximation_bound, rank_bound, storage_bits
from accams.theory.cover import Cover, CoverStencil, cover_stencil, greedy_cover
from accams.theory.entropy import ball_entropy_number, covering_number, entropy_number

__all__ = [
    "ApproximationBound",
    "Cover",
    "CoverStencil",
    "approximation_bound",
    "ball_entropy_number",
    "cover_stencil",
    "covering_number",
    "entropy_number",
    "greedy_cover",
    "rank_bound",
    "storage_bits",
]
