"""Settings that all estimators have in common, made once."""

from typing import Any

from accams.settings.fields import setting
from accams.settings.kinds import FLAG, NONE, Callables, Clip, Either, Integer, Seed, Words

FEEDBACK = ("likes", "ratings", "counts", "weights")  # kinds of values that tell what somebody chose
ENGINES = ("auto", "cpu", "dense", "graph", "cuda", "disk", "ray")


def clip() -> Any:
    """Whether predictions are clipped."""
    doc = "Clip predictions to the range of the training values, or to the range given."
    return setting(Clip(), doc, default=True)


def engine() -> Any:
    """Where the passes over the data run."""
    doc = (
        "Where the fit runs: `cpu` for sparse data with missing cells, `dense` for complete matrices, `graph` where "
        "blanks are observed zeros; on request, `cuda` on an NVIDIA GPU (at most 32 clusters a side), `disk` to stream "
        "a store (`Observations.open`), and `ray` on a Ray cluster. 'auto' chooses among the first three."
    )
    return setting(Words(*ENGINES), doc, default="auto", brief="auto, cpu, dense, graph, cuda, disk or ray.")


def n_threads() -> Any:
    """Threads of the fit."""
    doc = "Threads; None uses all cores. The result does not depend on it."
    return setting(Either(NONE, Integer(1)), doc, default=None, flag="--threads")


def n_shards() -> Any:
    """Parts of the data on a cluster."""
    doc = "Shards of the data with the engine `ray`; None makes one per machine. The result does not depend on it."
    return setting(Either(NONE, Integer(1)), doc, default=None, flag="--shards")


def random_state() -> Any:
    """The seed."""
    doc = "The same seed gives the same model, bit for bit. None draws a new seed."
    kind, brief = Seed(), "Seed of split and fit."
    return setting(kind, doc, default=0, flag="--seed", brief=brief)


def callbacks(record: str) -> Any:
    """Functions that are called while fitting."""
    doc = f"Each is called with a {record}; the fit ends when one returns True."
    return setting(Callables(), doc, default=None, flag="-")


def verbose() -> Any:
    """Whether progress is shown."""
    doc = "Show a progress bar; 'auto' shows it on a terminal or in a notebook for fits of more than two seconds."
    return setting(Words(True, False, "auto"), doc, default="auto", flag="-")


def early_stopping(what: str) -> Any:
    """Whether held-out entries decide when to stop."""
    brief = "Stop when held-out entries say so."
    return setting(FLAG, what, default=False, brief=brief)
