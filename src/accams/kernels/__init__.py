"""Numba kernels on plain arrays; they import nothing from the rest of the package."""
