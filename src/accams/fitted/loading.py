"""Load what accams has written: models, and compressed matrices."""

from pathlib import Path
from typing import Any

from accams.errors import InputError, ModelFileError
from accams.fitted import files
from accams.fitted.model import Model
from accams.model import container
from accams.model.matrix import KIND, CompressedMatrix


def load(path: str | Path, *, history: str | Path | None = None) -> Any:
    """Read a file that accams has written.

    Parameters
    ----------
    path : path
    history : path, optional
        A file that tells what users have seen, as ``save(path, history=...)`` writes it.

    Returns
    -------
    Model or CompressedMatrix
        A `Model`, whatever was fitted: the parameters of its fit are its `parameters`. Of a file that `compress` has
        made of a matrix, a `CompressedMatrix`. Nothing in the file is executed.

    Examples
    --------
    >>> import tempfile, numpy as np, accams
    >>> estimator = accams.ACCAMS(n_stencils=2, n_clusters=2).fit(np.eye(4))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     estimator.save(f"{folder}/eye.accams")
    ...     model = accams.load(f"{folder}/eye.accams")
    >>> bool((model.predict([[0, 0]]) == estimator.predict([[0, 0]])).all())
    True
    """
    if is_matrix(path):
        if history is not None:
            raise InputError(f"{path} holds a compressed matrix, and a history belongs to a model")
        return CompressedMatrix.open(path)
    return load_model(path, history=history)


def load_model(path: str | Path, *, history: str | Path | None = None) -> Model:
    """Read a model file, and nothing else."""
    if is_matrix(path):
        raise ModelFileError(f"{path} holds a compressed matrix, not a model: accams decompress reads it")
    parts = files.read(path)
    model = Model(**parts.__getstate__())
    if history is not None:
        model = files.load_history(model, history)
    return model


def is_matrix(path: str | Path) -> bool:
    """Return whether a file holds a compressed matrix."""
    return container.kind_of(path) == KIND
