"""The service: which model answers a request, and where: at once, or in a thread."""

from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from accams.data.eventlog import EventLog
from accams.errors import AccamsError
from accams.fitted.folding import check_values
from accams.serve.forgetting import forget
from accams.serve.metrics import Metrics
from accams.serve.problems import Problem
from accams.serve.schemas import MOST_LINES, Ask, BatchAsk, FeedbackAsk, One
from accams.serve.serving import Served, Serving
from accams.serve.settings import Settings

Answer = dict[str, Any]
MEDIA_TYPE = "application/json"
FEW = 500  # lines of an answer, and ids of a request, that take no longer than a thread would


class Service:
    """The models being served, and the logs of feedback to them."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.settings, self.metrics = settings, metrics
        self.serving = Serving(settings.sources, metrics)
        self._logs: dict[str, EventLog] = {}

    async def answer(self, kind: str, ask: Ask) -> Response:
        """Answer a request by one method of `Answers`.

        What takes a moment runs in a thread, so that other requests do not wait for it; what is quick does not, since
        threads cost more than it does.
        """
        served = self.serving.named(ask.model)
        method: Callable[[Any], Answer] = getattr(served.answers, kind)
        check_lines(ask.lines)
        if served.is_light and ask.lines <= FEW and ask.ids <= FEW:
            return as_json(method(ask))
        return await run_in_threadpool(lambda: as_json(method(ask)))

    async def explore(self, model: str | None, kind: str, *arguments: Any) -> Response:
        """Answer a request by one method of `Explorer`."""
        method: Callable[..., Answer] = getattr(self.serving.named(model).explorer, kind)
        return await run_in_threadpool(lambda: as_json(method(*arguments)))

    async def batch(self, ask: BatchAsk) -> Response:
        """Answer several requests, each for itself."""
        if len(ask.requests) > self.settings.max_batch:
            most = f"at most {self.settings.max_batch:,}"
            raise Problem(413, f"{len(ask.requests):,} requests are too many for one batch: send {most}")
        check_lines(sum(each.lines for each in ask.requests))
        return await run_in_threadpool(lambda: as_json({"answers": [self._one(each) for each in ask.requests]}))

    async def models(self) -> Response:
        """Describe all models."""
        return await run_in_threadpool(
            lambda: as_json({"models": [served.explorer.model() for served in self.serving.all]})
        )

    def _one(self, ask: One) -> Answer:
        try:
            return {"status": 200, "answer": getattr(self.serving.named(ask.model).answers, ask.kind)(ask)}
        except (Problem, AccamsError) as error:
            problem = error if isinstance(error, Problem) else Problem.of(error)
            return {"status": problem.status, "problem": problem.content()}

    # -- what changes files -------------------------------------------------------------------------------

    async def feedback(self, ask: FeedbackAsk) -> Response:
        """Write events to the log; they are on disk when the answer is sent."""
        served = self.serving.named(ask.model)
        log = self._log(served)
        if log is None:
            raise Problem(409, "this service keeps no feedback: start it with --feedback feedback.log")
        if len(ask.events) > self.settings.max_batch:
            raise Problem(413, f"{len(ask.events):,} events are too many: send at most {self.settings.max_batch:,}")
        model, values = served.model, [event.value for event in ask.events]
        check_values(model, np.array(values))  # now: an update would refuse them all
        users = [model.row_index.own(event.user) for event in ask.events]
        items = [model.col_index.own(event.item) for event in ask.events]
        await run_in_threadpool(log.append, users, items, values)
        self.metrics.events.inc(len(ask.events))
        return as_json({"accepted": len(ask.events)})

    async def forget(self, model: str | None, user: str) -> Response:
        """Forget a person: in the model, in what is known of users, and in the log."""
        served = self.serving.named(model)
        return as_json(await run_in_threadpool(forget, self.serving, served.source.name, user, self._log(served)))

    def open_logs(self) -> None:
        """Open the feedback logs, so that one that cannot be written to is told at once."""
        for source in self.serving.sources.values():
            if source.feedback is not None:
                self._logs[source.feedback] = EventLog(source.feedback)

    def _log(self, served: Served) -> EventLog | None:
        return self._logs.get(served.source.feedback or "")


def check_lines(number: int) -> None:
    """Refuse an answer that would be too long."""
    if number > MOST_LINES:
        raise Problem(413, f"the answer would have more than {MOST_LINES:,} items and terms: ask for fewer at a time")


def as_json(content: Answer) -> Response:
    """Return an answer as JSON."""
    return Response(orjson.dumps(content), media_type=MEDIA_TYPE)
