"""Routes of the API: what is asked is in `schemas`, and what is answered in `described`."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.responses import Response

from accams.serve import described as d
from accams.serve import schemas as s
from accams.serve.metrics import MEDIA_TYPE
from accams.serve.problems import Problem
from accams.serve.service import Service

PROBLEMS = {
    400: "The body is not JSON", 401: "A token is needed", 404: "An id, a model or a page that is not there",
    409: "The service was not started for this", 413: "Too much at once", 415: "The body is not JSON",
    421: "Not the name of this service", 422: "A request that cannot be", 429: "Too many requests",
    503: "Not ready yet", 507: "A file cannot be written",
}  # fmt: skip


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the descriptions of problems, for OpenAPI."""
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/ProblemOut"}}}
    return {status: {"description": PROBLEMS[status], "content": content} for status in statuses}


ANY = problems(401, 404, 421, 422, 429)
BODY = problems(400, 401, 404, 413, 415, 421, 422, 429)
router = APIRouter(prefix="/v1")
operations = APIRouter(tags=["operations"])

Name = Annotated[str | None, Query(max_length=200, description="Name of a model; the first without it")]
IdText = Annotated[str, Query(max_length=s.LONGEST_ID)]
IdPath = Annotated[str, Path(max_length=s.LONGEST_ID, description="An id; as ?id= where a path cannot hold it")]
Count = Annotated[int, Query(ge=1, le=s.MOST_ITEMS)]


async def the_service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


Here = Annotated[Service, Depends(the_service)]


def told(answer: Any, problems_of: dict[int | str, dict[str, Any]], tag: str, summary: str) -> dict[str, Any]:
    """Return what OpenAPI is to say about a route; answers are not validated again."""
    return {"responses": {200: {"model": answer}, **problems_of}, "tags": [tag], "summary": summary}


# -- ask a model ------------------------------------------------------------------------------------------


@router.post("/recommend", **told(d.RecommendOut, BODY, "ask", "Recommend items to a user, or to somebody new"))
async def recommend(ask: s.RecommendAsk, service: Here) -> Response:
    return await service.answer("recommend", ask)


@router.get("/recommend", **told(d.RecommendOut, ANY, "ask", "Recommend items to a known user"))
async def recommend_to(
    service: Here, user: IdText, n: Count = 10, by: s.By = "auto", explain: bool = False,
    interval: Annotated[float | None, Query(gt=0, lt=1)] = None, model: Name = None,
) -> Response:  # fmt: skip
    ask = s.RecommendAsk(user=user, n=n, by=by, explain=explain, interval=interval, model=model)
    return await service.answer("recommend", ask)


@router.post("/predict", **told(d.PredictOut, BODY, "ask", "Predict pairs, or items for somebody new"))
async def predict(ask: s.PredictAsk, service: Here) -> Response:
    return await service.answer("predict", ask)


@router.post("/explain", **told(d.ExplainValueOut | d.ExplainChoiceOut, BODY, "ask", "Explain one prediction as a sum"))
async def explain(ask: s.ExplainAsk, service: Here) -> Response:
    return await service.answer("explain", ask)


@router.get(
    "/explain", **told(d.ExplainValueOut | d.ExplainChoiceOut, ANY, "ask", "Explain a prediction for a known user")
)
async def explain_to(
    service: Here, user: IdText, item: IdText, by: s.By = "auto",
    terms: Annotated[int | None, Query(ge=1, le=1000)] = None, model: Name = None,
) -> Response:  # fmt: skip
    return await service.answer("explain", s.ExplainAsk(user=user, item=item, by=by, terms=terms, model=model))


@router.get("/similar", **told(d.SimilarOut, ANY, "ask", "Find the items (or users) most like one"))
async def similar(
    service: Here, item: IdText | None = None, user: IdText | None = None, n: Count = 10,
    by: Literal["weighted", "hamming"] = "weighted", model: Name = None,
) -> Response:  # fmt: skip
    if (item is None) == (user is None):
        raise Problem(422, "give either an item or a user")
    return await service.answer("similar", s.SimilarAsk(item=item, user=user, n=n, by=by, model=model))


@router.post("/batch", **told(d.BatchOut, BODY, "ask", "Answer several requests, each for itself"))
async def batch(ask: s.BatchAsk, service: Here) -> Response:
    return await service.batch(ask)


# -- look around ------------------------------------------------------------------------------------------


@router.get("/models", **told(d.ModelsOut, problems(401, 421, 429), "explore", "List the models"))
async def models(service: Here) -> Response:
    return await service.models()


@router.get("/model", **told(d.ModelOut, ANY, "explore", "Describe a model"))
async def model_of(service: Here, model: Name = None) -> Response:
    return await service.explore(model, "model")


@router.get("/search", **told(d.SearchOut, ANY, "explore", "Find items by title or id, with typing errors"))
async def search(
    service: Here, q: Annotated[str, Query(max_length=1000)], n: Count = 10, model: Name = None
) -> Response:
    return await service.explore(model, "search", q, n)


# Clients take dots out of paths and routes have no newlines, so ids are taken from queries, too.


@router.get(
    "/items",
    **told(d.ItemsOut | d.ItemOut, ANY, "explore", "List the best-known items of all branches, or describe one"),
)
async def items_of(service: Here, id: IdText | None = None, n: Count = 24, model: Name = None) -> Response:
    return await (service.explore(model, "items", n) if id is None else service.explore(model, "item", id))


@router.get("/items/{item:path}", **told(d.ItemOut, ANY, "explore", "Describe an item"))
async def item_of(service: Here, item: IdPath, model: Name = None) -> Response:
    return await service.explore(model, "item", item)


@router.get("/users", **told(d.UserOut, ANY, "explore", "Describe a user, whatever the id"))
async def any_user(service: Here, id: IdText, model: Name = None) -> Response:
    return await service.explore(model, "user", id)


@router.get("/users/{user:path}", **told(d.UserOut, ANY, "explore", "Describe a user"))
async def user_of(service: Here, user: IdPath, model: Name = None) -> Response:
    return await service.explore(model, "user", user)


@router.get("/hierarchy", **told(d.HierarchyOut, ANY, "explore", "Show the tree of items or users"))
async def hierarchy(
    service: Here, side: Literal["items", "users"] = "items", depth: Annotated[int, Query(ge=1, le=6)] = 3,
    branches: Annotated[int, Query(ge=2, le=20)] = 3, members: Annotated[int, Query(ge=1, le=50)] = 6,
    model: Name = None,
) -> Response:  # fmt: skip
    return await service.explore(model, "hierarchy", side, depth, branches, members)


@router.get("/stencils", **told(d.StencilsOut, ANY, "explore", "List the stencils"))
async def stencils(service: Here, model: Name = None) -> Response:
    return await service.explore(model, "stencils")


@router.get("/stencils/{stencil}", **told(d.StencilOut, ANY, "explore", "Show a stencil: template and clusters"))
async def stencil_of(service: Here, stencil: Annotated[int, Path(ge=0, lt=2**31)], model: Name = None) -> Response:
    return await service.explore(model, "stencil", stencil)


@router.get("/map", **told(d.MapOut, ANY, "explore", "Give each item a place in the plane"))
async def map_of(service: Here, model: Name = None) -> Response:
    return await service.explore(model, "map")


# -- change -----------------------------------------------------------------------------------------------


@router.post(
    "/feedback", **told(d.FeedbackOut, {**BODY, **problems(409, 507)}, "change", "Remember ratings or choices")
)
async def feedback(ask: s.FeedbackAsk, service: Here) -> Response:
    return await service.feedback(ask)


FORGET = {**ANY, **problems(409, 507)}


@router.delete("/users", **told(d.ForgottenOut, FORGET, "change", "Forget a person everywhere, whatever the id"))
async def forget_any(service: Here, id: IdText, model: Name = None) -> Response:
    return await service.forget(model, id)


@router.delete("/users/{user:path}", **told(d.ForgottenOut, FORGET, "change", "Forget a person everywhere"))
async def forget(service: Here, user: IdPath, model: Name = None) -> Response:
    return await service.forget(model, user)


# -- operations -------------------------------------------------------------------------------------------


@operations.get("/health/live", summary="Whether the process answers")
async def live() -> dict[str, str]:
    return {"status": "ok"}


@operations.get("/health/ready", summary="Whether all models are loaded", responses=problems(503))
async def ready(service: Here) -> dict[str, str]:
    if not service.serving.is_ready:
        raise Problem(503, "the models are being loaded", {"Retry-After": "1"})
    return {"status": "ok"}


@operations.get("/metrics", summary="Counts for Prometheus", response_class=Response, responses=problems(401, 421, 429))
async def metrics(service: Here) -> Response:
    return Response(service.metrics.text(), media_type=MEDIA_TYPE)
