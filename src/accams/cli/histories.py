"""Load a model with what its users have seen, from whatever file tells it."""

from dataclasses import replace
from pathlib import Path

from accams.batch import interactions_in
from accams.fitted.loading import load
from accams.fitted.model import Model


def load_with(path: Path, history: Path | None) -> Model:
    """Load a model; `history` is a history file, a store or a table of ratings."""
    model = load(path)
    return model if history is None else replace(model, interactions=interactions_in(history, *model.indices))
