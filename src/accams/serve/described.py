"""Answers of the service, as its OpenAPI document describes them; they are built as plain dictionaries, for speed."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field


class ProblemOut(BaseModel):
    """What went wrong (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: Annotated[str, Field(description="One sentence that says what is wrong and what to do")]


class Out(BaseModel):
    """An answer."""

    model: Annotated[str, Field(description="Name of the model that answers")]
    version: Annotated[str, Field(pattern="^[0-9a-f]{12}$", description="Its version: a digest of the model file")]


class Ref(BaseModel):
    item: int | str | float
    title: str | None


class UserBlock(BaseModel):
    """Users who share a label: how many, and what they like most."""

    label: int
    size: int
    likes: list[Ref]


class ItemBlock(BaseModel):
    """Items that share a label: how many, and the best known of them."""

    label: int
    size: int
    members: list[Ref]


class ItemBlockOf(ItemBlock):
    stencil: int


class UserBlockOf(UserBlock):
    stencil: int


class LikerOut(UserBlockOf):
    """Users who share a label, and how much more than the average user they like an item by it."""

    value: float


class TermOut(BaseModel):
    """What a stencil adds, for a cluster of users and one of items; features that put somebody new there, if any."""

    stencil: int
    value: float
    users: UserBlock
    items: ItemBlock
    user_traits: list[str]
    item_traits: list[str]


class ReasonOut(Ref):
    value: float


class ValueExplanation(BaseModel):
    """A prediction as a sum: offset, terms in their order, others, effects, remainder, clipping, rounding."""

    by: Literal["value"]
    item: int | str | float
    title: str | None
    prediction: float
    offset: float
    terms: list[TermOut]
    others: float
    effects: float
    remainder: float
    clipping: float
    rounding: float


class ChoiceExplanation(BaseModel):
    """A score as a sum over the items of the history."""

    by: Literal["choice"]
    item: int | str | float
    title: str | None
    score: float
    terms: list[ReasonOut]
    others: float
    popularity: float
    rounding: float


Explanation = ValueExplanation | ChoiceExplanation


class RecommendedOut(Ref):
    rank: int
    score: float
    prediction: float | None
    low: float | None = None
    high: float | None = None
    explanation: Explanation | None = None


class RecommendOut(Out):
    user: int | str | float | None
    by: Literal["value", "choice"]
    rule: Annotated[str, Field(description="How a list came about that is not the user's own, such as popular items")]
    excluded_seen: bool
    items: list[RecommendedOut]


class PredictionOut(BaseModel):
    user: int | str | float | None
    item: int | str | float
    prediction: float
    low: float | None = None
    high: float | None = None


class PredictOut(Out):
    predictions: list[PredictionOut]


class ScoredItem(Ref):
    score: float


class ScoredUser(BaseModel):
    user: int | str | float
    score: float


class SimilarOut(Out):
    item: int | str | float | None = None
    title: str | None = None
    user: int | str | float | None = None
    items: list[ScoredItem] | None = None
    users: list[ScoredUser] | None = None


class ExplainValueOut(Out, ValueExplanation):
    pass


class ExplainChoiceOut(Out, ChoiceExplanation):
    pass


class SearchOut(Out):
    items: list[ScoredItem]


class ItemsOut(Out):
    items: list[Ref]


class UserRef(BaseModel):
    user: int | str | float


class BranchOut(BaseModel):
    """A branch of a tree: by which labels of which stencil it was split off, and its most typical members."""

    stencil: Annotated[int | None, Field(description="null at the root")]
    labels: list[int]
    size: int


class ItemBranch(BranchOut):
    members: list[Ref]


class ItemNode(ItemBranch):
    children: list["ItemNode"]


class UserNode(BranchOut):
    members: list[UserRef]
    children: list["UserNode"]


class HierarchyOut(Out):
    side: Literal["items", "users"]
    root: ItemNode | UserNode


class ModelOut(Out):
    users: int
    items: int
    stencils: int
    draws: int | None
    bytes: int
    estimator: str
    predicts: bool
    lists: bool
    spread: bool
    history: bool
    titles: bool
    values: Annotated[list[float] | None, Field(min_length=2, max_length=2)]
    offset: float
    rmse: float | None
    names: Annotated[list[str], Field(min_length=2, max_length=2)]
    terms: int
    like: Annotated[float | None, Field(description="A value that says that an item is liked, in lists by choice")]
    features: Annotated[list[str], Field(description="Names of what can be told of somebody new, beside ratings")]
    named_users: bool


class ModelsOut(BaseModel):
    models: list[ModelOut]


class ItemOut(Out, Ref):
    weight: float
    average: float | None
    blocks: Annotated[list[ItemBlockOf], Field(description="Its cluster in each stencil; it is not named itself")]
    liked_by: list[LikerOut]
    path: Annotated[list[ItemBranch], Field(description="Its place in the tree of items, from the root on")]


class UserOut(Out):
    user: int | str | float
    weight: float
    average: float | None
    blocks: list[UserBlockOf]
    n_seen: int | None
    seen: list[Ref]


class StencilSize(BaseModel):
    stencil: int
    rows: int
    cols: int
    contribution: Annotated[float, Field(description="Standard deviation of what it adds to predictions")]


class StencilsOut(Out):
    stencils: list[StencilSize]


class StencilOut(Out):
    stencil: int
    contribution: float
    template: list[list[float]]
    rows: list[UserBlock]
    cols: list[ItemBlock]


class GroupOut(BaseModel):
    """A branch of the tree of items, by its best known members."""

    members: list[Ref]


class MapOut(Out):
    items: list[int | str | float]
    titles: list[str | None]
    x: list[float]
    y: list[float]
    weight: list[float]
    group: Annotated[list[int], Field(description="Of each item the place among groups, -1 for none")]
    groups: list[GroupOut]


class Answered(BaseModel):
    status: int
    answer: RecommendOut | PredictOut | SimilarOut | ExplainValueOut | ExplainChoiceOut | None = None
    problem: ProblemOut | None = None


class BatchOut(BaseModel):
    answers: list[Answered]


class FeedbackOut(BaseModel):
    accepted: int


class ForgottenOut(Out):
    user: int | str | float
    events: Annotated[int, Field(description="Events of the feedback log that were removed")]
