"""Pages of mapped files."""

import mmap
from typing import Any

from numpy.typing import NDArray


def release_pages(*arrays: NDArray[Any] | None) -> None:
    """Drop mapped pages from resident memory; arrays in memory are left alone."""
    for array in arrays:
        pages = getattr(array, "_mmap", None)
        if pages is not None and hasattr(pages, "madvise"):
            pages.madvise(mmap.MADV_DONTNEED)
