"""A codec for numcodecs, and so for Zarr: chunks with a bound on the error of every cell.

It needs ``pip install numcodecs``, which finds it by its name, ``{"id": "accams", "max_error": 0.1}``.
"""

from typing import Any

import numpy as np

from accams.errors import InputError

try:
    from numcodecs.abc import Codec
    from numcodecs.compat import ensure_ndarray_like, ndarray_copy
except ImportError:
    raise InputError("accams.codec needs numcodecs: pip install numcodecs") from None


class Accams(Codec):  # type: ignore[misc]
    """Compress chunks of numbers with a promise on the error of each.

    Parameters
    ----------
    max_error : float
        Largest error of any cell; 0 for whole numbers and decimals.

    Notes
    -----
    As a filter or an object codec it is given chunks as arrays; of chunks of one dimension, and of bytes, nothing is
    known of rows.
    """

    codec_id = "accams"

    def __init__(self, max_error: float = 0.0) -> None:
        self.max_error = max_error

    def encode(self, buf: Any) -> bytes:
        """Return a chunk as bytes."""
        from accams.fitted.compression import compress

        chunk = np.asarray(ensure_ndarray_like(buf))
        rows = chunk.reshape(1, -1) if chunk.ndim < 2 else chunk
        return compress(rows, max_error=self.max_error, verbose=False).to_bytes()

    def decode(self, buf: Any, out: Any = None) -> Any:
        """Return the chunk."""
        from accams.fitted.compression import decompress

        chunk = decompress(bytes(memoryview(ensure_ndarray_like(buf))))
        return ndarray_copy(np.ascontiguousarray(chunk), out)
