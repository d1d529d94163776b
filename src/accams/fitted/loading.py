"""Load models from files."""

from pathlib import Path

from accams.fitted import files
from accams.fitted.model import Model


def load(path: str | Path, *, history: str | Path | None = None) -> Model:
    """Read a model file.

    Parameters
    ----------
    path : path
    history : path, optional
        A file that tells what users have seen, as ``save(path, history=...)`` writes it.

    Returns
    -------
    Model
        Whatever was fitted; the parameters of its fit are its `parameters`. Nothing in the file is executed.

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
    parts = files.read(path)
    model = Model(**parts.__getstate__())
    if history is not None:
        model = files.load_history(model, history)
    return model
