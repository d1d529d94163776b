"""Models being served: loaded, checked and warmed up, and swapped for a new version while requests go on."""

import hashlib
import logging
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import numpy as np

from accams.batch import with_history
from accams.data.titles import read_titles
from accams.errors import AccamsError, InputError
from accams.explore.answers import Explorer
from accams.explore.contents import VERSION_DIGITS
from accams.fitted.loading import load_model
from accams.fitted.model import Model
from accams.serve.answers import Answers
from accams.serve.metrics import Metrics
from accams.serve.problems import Problem
from accams.serve.schemas import Ask, ExplainAsk, RecommendAsk, SimilarAsk
from accams.serve.settings import Source
from accams.writing import locked_file

log = logging.getLogger("accams.serve")
LIGHT = 2_000_000  # lookups of a request that is answered at once: about two milliseconds
TRIES = 5  # to read files that change meanwhile

Signature = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Served:
    """One version of a model, ready to answer."""

    source: Source
    model: Model
    explorer: Explorer
    answers: Answers
    signature: Signature

    @property
    def is_light(self) -> bool:
        """Whether requests take so little time that no other request waits for them in vain."""
        codes = self.model.codes
        lookups = sum(len(one.starts) for one in codes) * self.model.shape[1]
        return lookups <= LIGHT and self.model.item_map is None


def signature_of(source: Source) -> Signature:
    """Return what tells whether files have changed."""
    found = []
    for path in source.paths:
        at = os.stat(path)
        found.append((at.st_mtime_ns, at.st_size, at.st_ino))
    return tuple(found)


def loaded(source: Source) -> Served:
    """Load a model with its titles and its history, check it, and answer a first request of each kind."""
    for path in source.paths:
        if not path.exists():
            raise InputError(f"there is no file {path}")
    for _ in range(TRIES):
        signature = signature_of(source)
        version = hashlib.sha256(Path(source.model).read_bytes()).hexdigest()[:VERSION_DIGITS]
        model = load_model(source.model)
        if source.history is not None:
            model = with_history(model, Path(source.history))
        titles = {} if source.titles is None else read_titles(source.titles, model.col_index)
        if signature_of(source) == signature:  # so version, model and titles are of the same files
            break
    else:
        raise InputError(f"{source.model} keeps changing while it is read")
    explorer = Explorer(model, titles, source.name, version, os.path.getsize(source.model))
    served = Served(source, model, explorer, Answers(model, explorer), signature)
    _warm_up(served)
    return served


def _warm_up(served: Served) -> None:
    """Answer one request of each kind, so that kernels are compiled and tables laid out before anybody waits."""
    model, answers = served.model, served.answers
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        served.explorer.prepare()
        items = model.with_data(1)[:1]
        if not len(items):
            return
        item = model.items[items].tolist()[0]
        value = float(np.clip(model.stencils.offset, *model.value_range)) if model.predicts else 1.0
        asks: list[tuple[str, Ask]] = [
            ("recommend", RecommendAsk(rated={str(item): value}, explain=True)),
            ("similar", SimilarAsk(item=item)),
        ]
        if len(model.users):
            user = model.users[:1].tolist()[0]
            asks.append(("recommend", RecommendAsk(user=user, explain=True)))
            asks.append(("explain", ExplainAsk(user=user, item=item)))
        for kind, ask in asks:
            with suppress(AccamsError, Problem):  # what a model cannot answer, such as lists without a history
                getattr(answers, kind)(ask)


class Serving:
    """The models of a service by name."""

    def __init__(self, sources: tuple[Source, ...], metrics: Metrics) -> None:
        self._metrics = metrics
        self._served: dict[str, Served] = {}
        self._refused: dict[str, Signature | None] = {}
        self._lock = Lock()  # one load at a time
        self.sources = {source.name: source for source in sources}

    def start(self) -> None:
        """Load all models."""
        for source in self.sources.values():
            self._put(loaded(source))

    @property
    def is_ready(self) -> bool:
        """Whether all models are loaded."""
        return len(self._served) == len(self.sources)

    @property
    def all(self) -> list[Served]:
        """All models, in the order in which they were given."""
        return [self._served[name] for name in self.sources]

    def named(self, name: str | None) -> Served:
        """Return a model by name; the first one without a name."""
        if name is None:
            name = next(iter(self.sources))
        if name not in self._served:
            known = ", ".join(list(self.sources)[:20])
            raise Problem(404, f"there is no model {name!r}: this service has {known}")
        return self._served[name]

    def look(self) -> None:
        """Load what has changed; the log says which files cannot be loaded, and the old ones stay."""
        for name, source in self.sources.items():
            try:
                signature = signature_of(source)
            except OSError:  # between two versions there may be none
                continue
            if signature != self._served[name].signature and signature != self._refused.get(name):
                self.reload(name)

    @contextmanager
    def changing(self, name: str) -> Iterator[None]:
        """Hold other changes to the files of a model, of this process and of other workers, until this one is done."""
        with self._lock, locked_file(Path(self.sources[name].model)):
            yield

    def reload(self, name: str) -> bool:
        """Load a model again; return whether it could be loaded."""
        source, started = self.sources[name], time.perf_counter()
        with self._lock:
            signature = None
            try:
                signature = signature_of(source)
                if signature == self._served[name].signature:  # another thread has loaded it meanwhile
                    return True
                new = loaded(source)
            except Exception as error:  # whatever it is, the old version goes on
                self._refused[name] = None if isinstance(error, OSError) else signature
                self._metrics.loads.labels(name, "refused").inc()
                version = self._served[name].explorer.version
                log.error("model_refused", extra={"model": name, "reason": str(error), "still_serving": version})
                return False
            self._put(new)
        took = round(time.perf_counter() - started, 3)
        log.info("model_loaded", extra={"model": name, "version": new.explorer.version, "seconds": took})
        return True

    def _put(self, served: Served) -> None:
        self._served[served.source.name] = served  # one assignment: a request sees the old version or the new one
        self._metrics.serves(served.source.name)
