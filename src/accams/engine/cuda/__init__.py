"""The `cuda` engine: observed cells on an NVIDIA GPU."""

import numpy as np

if not hasattr(np, "row_stack"):  # numba-cuda 0.30 asks for it, and NumPy 2.5 has removed this old name of vstack
    setattr(np, "row_stack", np.vstack)  # noqa: B010
