"""Forget a person: in the model file, in the file of histories, and in the feedback log."""

from pathlib import Path
from typing import Any

import numpy as np

from accams.data.eventlog import EventLog
from accams.data.ids import Index, parsed
from accams.explore.contents import plain
from accams.fitted.files import open_history, write_history
from accams.fitted.loading import load_model
from accams.model import container
from accams.serve.problems import Problem
from accams.serve.serving import Serving, signature_of
from accams.use.ids import as_ids, known


def forget(serving: Serving, name: str, user: str, log: EventLog | None) -> dict[str, Any]:
    """Rewrite all files of a model without one user, and serve what is left.

    Each file is replaced whole. If one cannot be, the answer is an error, and asking again goes on from there.
    """
    source = serving.sources[name]
    history = None if source.history is None else Path(source.history)
    if history is not None and not container.is_container(history):
        raise Problem(
            409, f"{history.name} is a table or a store, which the service does not change: take the user out of it, "
            "or serve a history file, such as accams compress --history writes",
        )  # fmt: skip
    try:
        done = _forgotten(serving, name, user, history, log)
    finally:  # what was rewritten must not be served any longer, whatever else has failed
        if signature_of(source) != serving.named(name).signature:
            serving.reload(name)
    return {**serving.named(name).explorer.head, **done}


def _forgotten(serving: Serving, name: str, user: str, history: Path | None, log: EventLog | None) -> dict[str, Any]:
    source = serving.sources[name]
    with serving.changing(name):
        model = load_model(source.model)
        row = model.row_index.place(user)
        before = serving.named(name).model.row_index  # with users of the history, too
        shown = before.ids[before.place(user) :][:1].tolist()[0] if before.place(user) >= 0 else user
        found = history is not None and _forget_history(history, user)
        if row >= 0:
            keep = model.interactions is not None
            model.forget(model.users[row : row + 1].tolist()[0]).save(source.model, history=keep)
        names: list[int | str] = [user, *_integer(user)]
        events = 0 if log is None else sum(log.forget(each, damaged="skip") for each in names)
        if row < 0 and not found and not events:
            known(model.row_index, as_ids([*_integer(user), user][:1]), "user")  # raises, with the nearest ids
    return {"user": plain(shown), "events": events}


def _forget_history(path: Path, user: str) -> bool:
    """Rewrite a file of histories without a user; return whether there was one."""
    users, items, own = open_history(path)
    row = users.place(user)
    if row >= 0:
        write_history(path, Index(np.delete(users.ids, row)), items, own.without(row))
    return row >= 0


def _integer(user: str) -> tuple[int, ...]:
    """Return the integer that a text stands for, as logs and models may have it."""
    number = parsed(user)
    return (number,) if isinstance(number, int) else ()
