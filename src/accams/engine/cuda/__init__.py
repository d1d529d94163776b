"""The `cuda` engine: observed cells on an NVIDIA GPU."""

import numpy as np

from accams.errors import InputError

if not hasattr(np, "row_stack"):  # numba-cuda 0.30 asks for it, and NumPy 2.5 has removed this old name of vstack
    setattr(np, "row_stack", np.vstack)  # noqa: B010

try:
    import numba.cuda  # noqa: F401  (numba-cuda loads CUDA's runtime as soon as it is imported)
except Exception as error:
    reason = next(iter(str(error).splitlines()), type(error).__name__)
    raise InputError(
        f"engine='cuda' cannot load CUDA ({reason}): pip install 'accams[cuda]', or use engine='cpu'"
    ) from error
