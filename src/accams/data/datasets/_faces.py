"""CMU face images."""

import io
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from accams.data.archives import open_zip
from accams.data.datasets._base import ImageDataset, Source
from accams.data.observations import Observations
from accams.errors import InputError

CITATION = "T. Mitchell. Machine Learning. McGraw-Hill, 1997. https://archive.ics.uci.edu/dataset/124/cmu+face+images"
LICENCE = "free for any educational purpose, with attribution to T. Mitchell"
SOURCE = Source(
    "cmu+face+images.zip",  # contains faces.tar.gz with all resolutions; no checksum is published
    "https://archive.ics.uci.edu/static/public/124/cmu+face+images.zip",
    also=("cmu-faces.tar.gz", "faces.tar.gz", "cmu-faces", "faces"),
)

FULL_SIZE = re.compile(r"(?P<name>[^/]+?)(?<!_2)(?<!_4)\.(pgm|bad)")  # _2 and _4 are halves and quarters
HEADER = re.compile(rb"P([25])(?:\s|#[^\n]*\n)+(\d+)(?:\s|#[^\n]*\n)+(\d+)(?:\s|#[^\n]*\n)+(\d+)\s")


def faces(path: str | Path | None = None) -> ImageDataset:
    """Load 640 grey images of 20 people: four poses, four expressions, with and without sunglasses.

    Parameters
    ----------
    path : str or Path, optional
        The archive (``cmu+face+images.zip``, or the ``faces.tar.gz`` inside it) or the unpacked folder. By
        default it is searched for in ``$ACCAMS_DATA`` and then downloaded.

    Returns
    -------
    ImageDataset
        Rows are images, by name (``an2i_left_angry_open``), columns are pixels, values are grey levels: all 640
        images of full size (120 x 128), including the 16 with glitches (named ``.bad``).

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:  # with two images of 1 x 2 pixels
    ...     for name in ("an2i_left_angry_open", "at33_up_happy_open"):
    ...         _ = Path(folder, f"{name}.pgm").write_text("P2 2 1 255 17 250")
    ...     images = faces(folder)
    >>> images.observations.shape, images.image_shape
    ((2, 2), (1, 2))
    >>> faces().observations.shape  # doctest: +SKIP
    (640, 15360)
    """
    source = SOURCE.find(path)
    images = {}
    for file, content in _files(source):
        match = FULL_SIZE.fullmatch(file.rsplit("/", 1)[-1])
        if match:
            images[match["name"]] = pgm(content, file)
    if not images:
        raise InputError(f"{source} contains no .pgm images")
    names = sorted(images)
    shape = images[names[0]].shape
    odd = next((name for name in names if images[name].shape != shape), None)
    if odd is not None:
        raise InputError(f"{odd} has {images[odd].shape} pixels but {names[0]} has {shape}")
    matrix = np.stack([images[name].ravel() for name in names])
    observations = Observations.from_dense(matrix, row_ids=names)
    return ImageDataset("cmu-faces", observations, None, CITATION, LICENCE, (shape[0], shape[1]))


def pgm(content: bytes, name: str = "image") -> NDArray[np.float32]:
    """Decode a grey image in PGM format, plain (P2) or binary (P5)."""
    header = HEADER.match(content)
    if header is None:
        raise InputError(f"{name} is not a PGM image (P2 or P5)")
    kind, width, height, highest = (int(number) for number in header.groups())
    body = content[header.end() :]
    if kind == 2:
        pixels = np.array(body.split(), dtype=np.float32)
    else:
        pixels = np.frombuffer(body, dtype=np.uint8 if highest < 256 else ">u2").astype(np.float32)
    if len(pixels) < width * height:
        raise InputError(f"{name} is truncated: {len(pixels)} pixels of {width} x {height}")
    return pixels[: width * height].reshape(height, width)


def _files(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of all images in a folder, a tar archive, or a zip archive with either."""
    if path.is_dir():
        for image in path.rglob("*"):
            if image.suffix in (".pgm", ".bad"):
                yield image.name, image.read_bytes()
    elif path.suffix == ".zip":
        with open_zip(path) as archive:
            for inner in archive.namelist():
                if inner.rsplit("/", 1)[-1] == "faces.tar.gz":
                    yield from _in_tar(io.BytesIO(archive.read(inner)))
                elif inner.endswith((".pgm", ".bad")):
                    yield inner, archive.read(inner)
    else:
        try:
            with path.open("rb") as file:
                yield from _in_tar(file)
        except tarfile.TarError:
            raise InputError(f"{path} is neither a folder nor a .zip or .tar.gz archive") from None


def _in_tar(archive: IO[bytes]) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(fileobj=archive, mode="r:*") as tar:
        for item in tar:
            if item.isfile() and item.name.endswith((".pgm", ".bad")):
                file = tar.extractfile(item)
                yield item.name, file.read() if file else b""
