"""Requests to the service: what they may hold, and how long their answers may become."""

from math import isfinite
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, WithJsonSchema, model_validator

MOST_ITEMS = 1000  # of a list
MOST_IDS = 10_000  # in a request
MOST_FEATURES = 200
MOST_LINES = 50_000  # of an answer: items, or terms of explanations
LONGEST_ID = 10_000  # characters


def _id(value: Any) -> float | str:
    """Return an id; one message for both kinds says more than one for each."""
    if type(value) is int and -(2**63) <= value < 2**63:
        return value
    if type(value) is str and len(value) <= LONGEST_ID and (value.isascii() or _is_unicode(value)):
        return value
    if type(value) is float and isfinite(value):
        return value
    raise ValueError(f"an id is an integer of 64 bits, or text of at most {LONGEST_ID:,} characters")


def _is_unicode(text: str) -> bool:
    try:
        return bool(text.encode())
    except UnicodeEncodeError:  # half of a character
        return False


ID = {"anyOf": [{"type": "number"}, {"type": "string", "maxLength": LONGEST_ID}]}
Id = Annotated[float | str, PlainValidator(_id), WithJsonSchema(ID)]
Ids = Annotated[list[Id], Field(max_length=MOST_IDS)]
Pair = Annotated[list[Id], Field(min_length=2, max_length=2, description="A user and an item")]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Share = Annotated[float, Field(strict=True, gt=0.0, lt=1.0)]
Rated = Annotated[
    dict[Annotated[str, Field(max_length=LONGEST_ID)], Number],
    Field(
        min_length=1,
        max_length=MOST_IDS,
        description="What somebody new has rated: values by item id",
        examples=[{"260": 5, "1196": 4}],
    ),
]
By = Literal["auto", "value", "choice"]
Unknown = Literal["error", "average"]
Text = Annotated[str, Field(max_length=LONGEST_ID)]
FEATURE = f"a feature is a number, text of at most {LONGEST_ID:,} characters, true or false, a list of such, or null"
LARGEST = 1e100


def _feature(value: Any) -> Any:
    """Return the value of a feature; one message for all kinds says more than one for each."""
    if isinstance(value, list) and len(value) <= MOST_FEATURES and not any(isinstance(x, list) for x in value):
        return [str(_feature(x)) for x in value if x is not None]
    right = value is None or (isinstance(value, str) and len(value) <= LONGEST_ID)
    if not right and not (isinstance(value, (bool, int, float)) and abs(value) < LARGEST):
        raise ValueError(FEATURE)
    return value


KINDS = {"type": ["number", "string", "boolean", "null"], "maxLength": LONGEST_ID}
FEATURE_SCHEMA = {"anyOf": [KINDS, {"type": "array", "items": KINDS, "maxItems": MOST_FEATURES}]}
Features = Annotated[
    dict[Text, Annotated[Any, PlainValidator(_feature), WithJsonSchema(FEATURE_SCHEMA)]],
    Field(
        min_length=1,
        max_length=MOST_FEATURES,
        description="What is known of somebody new, by the names of the features that the model was fitted with",
        examples=[{"age": 30, "sex": "F"}],
    ),
]


class Ask(BaseModel):
    """A request."""

    model_config = ConfigDict(extra="forbid", title=None)
    model: Annotated[str | None, Field(max_length=200, description="Name of a model; the first without it")] = None

    @property
    def lines(self) -> int:
        """How long the answer may become."""
        return MOST_ITEMS // 10

    @property
    def ids(self) -> int:
        """How many ids have to be looked up."""
        return 1


class SomebodyAsk(Ask):
    """A request about a user of the model, or about somebody new."""

    user: Annotated[Id | None, Field(description="Id of a known user")] = None
    rated: Rated | None = None
    features: Features | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> "SomebodyAsk":
        if (self.user is None) == (self.rated is None and self.features is None):
            raise ValueError(
                "give either user, the id of a known one, or rated, what somebody new has rated (or features, or both)"
            )
        return self


class RecommendAsk(SomebodyAsk):
    """Ask for the best items of one user."""

    n: Annotated[int, Field(strict=True, ge=1, le=MOST_ITEMS, description="Most items to return")] = 10
    candidates: Annotated[Ids | None, Field(min_length=1, description="Choose among these alone")] = None
    exclude: Annotated[Ids, Field(description="Items to leave out; unknown ones are ignored")] = []
    exclude_seen: Annotated[
        bool | None, Field(strict=True, description="Leave out what the user has rated; null: where that is known")
    ] = None
    interval: Annotated[Share | None, Field(description="Add an interval that holds a rating so often")] = None
    explain: Annotated[bool, Field(strict=True, description="Add the largest terms of each prediction")] = False
    terms: Annotated[int, Field(strict=True, ge=1, le=100, description="Terms of an explanation")] = 3
    by: By = "auto"
    quantile: Annotated[Share | None, Field(description="Rank by this quantile of a rating, not by its mean")] = None
    unknown: Annotated[Unknown, Field(description="Whether an unknown user is refused, or the average one")] = "error"

    @property
    def lines(self) -> int:
        """How long the answer may become."""
        return self.n * (1 + self.terms if self.explain else 1)

    @property
    def ids(self) -> int:
        """How many ids have to be looked up."""
        return len(self.candidates or ()) + len(self.exclude) + len(self.rated or ())


class PredictAsk(Ask):
    """Ask for predictions: of pairs of user and item, or of items for somebody new."""

    pairs: Annotated[list[Pair] | None, Field(min_length=1, max_length=MOST_IDS, examples=[[[17, 260]]])] = None
    rated: Rated | None = None
    features: Features | None = None
    items: Annotated[Ids | None, Field(min_length=1)] = None
    interval: Share | None = None
    unknown: Unknown = "error"

    @model_validator(mode="after")
    def _one_of_both(self) -> "PredictAsk":
        somebody = self.rated is not None or self.features is not None
        if (self.pairs is not None, somebody, self.items is not None) not in (
            (True, False, False),
            (False, True, True),
        ):
            raise ValueError("give either pairs of user and item, or rated (or features, or both) and items")
        return self

    @property
    def lines(self) -> int:
        return len(self.pairs or self.items or ())

    @property
    def ids(self) -> int:
        return 2 * self.lines + len(self.rated or ())


class SimilarAsk(Ask):
    """Ask for the items (or users) most like one."""

    item: Id | None = None
    user: Id | None = None
    n: Annotated[int, Field(strict=True, ge=1, le=MOST_ITEMS)] = 10
    by: Literal["weighted", "hamming"] = "weighted"

    @model_validator(mode="after")
    def _one_of_both(self) -> "SimilarAsk":
        if (self.user is None) == (self.item is None):
            raise ValueError("give either an item or a user")
        return self


class ExplainAsk(SomebodyAsk):
    """Ask why a prediction, or a place in a list, is what it is."""

    item: Id
    by: By = "auto"
    terms: Annotated[int | None, Field(strict=True, ge=1, le=1000, description="Largest terms only; null: all")] = None
    unknown: Unknown = "error"


class RecommendOne(RecommendAsk):
    kind: Literal["recommend"]


class PredictOne(PredictAsk):
    kind: Literal["predict"]


class SimilarOne(SimilarAsk):
    kind: Literal["similar"]


class ExplainOne(ExplainAsk):
    kind: Literal["explain"]


One = Annotated[RecommendOne | PredictOne | SimilarOne | ExplainOne, Field(discriminator="kind")]


class BatchAsk(BaseModel):
    """Several requests in one; each is answered, or refused, for itself."""

    model_config = ConfigDict(extra="forbid")
    requests: Annotated[list[One], Field(min_length=1)]


class EventIn(BaseModel):
    """A rating or a choice that somebody made."""

    model_config = ConfigDict(extra="forbid")
    user: Id
    item: Id
    value: Annotated[Number, Field(description="The rating; 1 for a choice without one")] = 1.0


class FeedbackAsk(Ask):
    """Events to remember, for `accams update`."""

    events: Annotated[list[EventIn], Field(min_length=1)]
