"""Settings of ItemACCAMS."""

from typing import Any

from accams.settings import common
from accams.settings.fields import Settings, setting, settings
from accams.settings.kinds import AUTO, NONE, Either, Integer, Number, Words


@settings()
class ItemSettings(Settings):
    """Settings of `ItemACCAMS`."""

    max_bytes: int | str | None = setting(
        Either(AUTO, NONE, Integer(1)),
        "Most bytes of the model's file, without the history of its users. 'auto' takes 32 for each item of the "
        "regression and 3 for each other one, beside ids, at least 20,000. None keeps the whole map, with 4 bytes for "
        "each pair of items.",
        default="auto",
        kw_only=False,
        flag="-",
    )
    penalty: float | str = setting(
        Either(AUTO, Number(0.0, 1e30, open_low=True)),
        "Ridge penalty of the item-item regression. 'auto' chooses the one whose lists find most of what is held "
        "out (`held_out`).",
        default="auto",
        flag="--list-penalty",
    )
    dropout: float | str = setting(
        Either(AUTO, Number(0.0, 0.999)),
        "Share of the choices in a history that the regression should be able to do without: the larger, the more "
        "items a score rests on. 'auto' chooses it together with the penalty.",
        default="auto",
        flag="--list-dropout",
    )
    held_out: str = setting(
        Words("random", "latest"),
        "What penalty and dropout are chosen on. 'random' holds out some users, of whom a random fifth of the choices "
        "is to be found. 'latest' holds out the latest tenth of all choices, for lists that should tell what comes "
        "next: it needs times.",
        default="random",
    )
    feedback: str = setting(
        Words("auto", *common.FEEDBACK),
        "What values are. Every like weighs 1. A rating weighs 1 if it is at least `liked_from`, else `seen_weight`, "
        "since it still tells what somebody took notice of. A count weighs 1 if it is positive. Weights are taken as "
        "they are. 'auto' takes equal values for likes, integers of which most are 1 or a few are large for counts, "
        "and others for ratings.",
        default="auto",
    )
    liked_from: float | str = setting(
        Either(AUTO, Number(-1e30, 1e30)),
        "The lowest rating that is a like. 'auto' is the mean rating, or the start of the upper quarter of the scale "
        "where the mean lies above it.",
        default="auto",
    )
    seen_weight: float = setting(Number(0.0, 1.0), "Weight of a rating below `liked_from`.", default=0.3)
    max_items: int = setting(
        Integer(1),
        "Most items in the regression, which takes time and memory by the square of their number: the most popular "
        "ones. Others can be recommended, but say nothing of what goes with them. Without `max_bytes` all are in it.",
        default=6_000,
    )
    n_threads: int | None = common.n_threads()
    random_state: Any = common.random_state()
    verbose: bool | str = common.verbose()
