"""Rival recommenders on plain arrays: factorisations, their Bayesian, divided, local and quantised forms.

A rival is a frozen dataclass of settings with ``fit(ratings, seed=0, threads=None)``; what comes back has
``predict(rows, cols)``, not clipped, and ``n_bytes``: parameters as 32-bit floats, or as `quantise` stores them.
"""

from rivals.bpmf import BPMF
from rivals.dfc import DFC
from rivals.factors import Factorisation
from rivals.llorma import LLORMA
from rivals.mf import ALS, SGD
from rivals.quantise import quantise
from rivals.ratings import Ratings

__all__ = ["ALS", "BPMF", "DFC", "LLORMA", "SGD", "Factorisation", "Ratings", "quantise"]
