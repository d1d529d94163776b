"""What formats for pictures make of rows that are pictures: all of them in one mosaic."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from io import BytesIO

import numpy as np

HIGHEST = 100  # quality
LOSSY = ("JPEG", "WEBP")


def mosaic(images: np.ndarray) -> np.ndarray:
    """Pictures side by side, about as many in a row as in a column, without gaps; the last row is filled with grey."""
    count, height, width = images.shape
    across = int(np.ceil(np.sqrt(count)))
    down = -(-count // across)
    full = np.full((down * across, height, width), 128, np.uint8)
    full[:count] = images
    return full.reshape(down, across, height, width).swapaxes(1, 2).reshape(down * height, across * width)


def saved(picture: np.ndarray, kind: str, **options: object) -> tuple[int, np.ndarray]:
    """Bytes of a picture in a format, and the picture read again."""
    from PIL import Image

    file = BytesIO()
    Image.fromarray(picture).save(file, kind, **options)
    return file.tell(), np.asarray(Image.open(file).convert("L"))


def footnote(images: np.ndarray, sizes: Sequence[int]) -> str:
    """One paragraph: PNG, and JPEG and WebP of the best quality that fits."""
    if importlib.util.find_spec("PIL") is None:
        return "Formats for pictures are left out: pip install pillow"
    picture = mosaic(images)
    said = [f"PNG {saved(picture, 'PNG', optimize=True)[0]:,} bytes, lossless"]
    for size in sizes:
        for kind in LOSSY:
            fitting = 0, np.inf
            low, high = 0, HIGHEST
            while low < high:  # the best quality within the size
                quality = (low + high + 1) // 2
                taken, read = saved(picture, kind, quality=quality)
                low, high = (quality, high) if taken <= size else (low, quality - 1)
                if taken <= size:
                    fitting = taken, float(np.sqrt(np.mean((read.astype(float) - picture) ** 2)))
            if fitting[0]:
                said.append(f"{kind} {fitting[1]:.2f} in {fitting[0]:,} bytes")
    return f"As one picture of all rows, which knows what lies beside what: {'; '.join(said)} (RMSE)."
