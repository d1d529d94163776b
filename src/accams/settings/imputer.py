"""Settings of ACCAMSImputer."""

from numbers import Real
from typing import Any

from accams.settings import common
from accams.settings.fields import Settings, setting, settings
from accams.settings.kinds import AUTO, FLAG, Clusters, Either, Integer, Kind, Words


class Missing(Kind):
    """What stands for a missing cell beside NaN and null."""

    text = "nan, None or a number"
    type = "float, int or None"

    def allows(self, value: Any) -> bool:
        absent = value is None or type(value).__name__ == "NAType"
        return absent or (isinstance(value, Real) and not isinstance(value, bool))


@settings()
class ImputerSettings(Settings):
    """Settings of `ACCAMSImputer`."""

    missing_values: Any = setting(
        Missing(),
        "What stands for a missing cell. NaN, None and nulls of DataFrames are missing in any case.",
        default=float("nan"),
    )
    n_stencils: int | str = setting(
        Either(AUTO, Integer(1)),
        "Stencils of the first prediction. 'auto': 30; 10 up to 64 columns, and below 20,000 known cells.",
        default="auto",
    )
    n_clusters: int | tuple[int, int] | list[Any] | str = setting(
        Either(AUTO, Clusters()), "Row and column clusters of a stencil. 'auto' follows the shape.", default="auto"
    )
    scale: str | None = setting(
        Words("auto", "columns", None),
        "'columns' standardises each column by its median and interquartile range; None takes all columns in one "
        "unit. 'auto' is None where the medians of the columns lie together (their standard deviation is at most three "
        "times that of a column) and columns vary about equally, and else 'columns'.",
        default="auto",
    )
    sample_posterior: bool = setting(
        FLAG, "Whether `transform` returns a draw from the predictive distribution in place of its mean.", default=False
    )
    add_indicator: bool = setting(
        FLAG, "Whether columns that tell which cells were missing follow, as of `MissingIndicator`.", default=False
    )
    round_integers: bool = setting(
        FLAG,
        "Whether gaps among few different whole numbers, as of ratings, are filled with whole numbers. False fills "
        "them with means, whose error is smaller, unless their type holds integers alone.",
        default=True,
    )
    keep_empty_features: bool = setting(
        FLAG, "Whether columns without any value in `fit` are kept, filled with 0, rather than dropped.", default=False
    )
    n_threads: int | None = common.n_threads()
    random_state: Any = common.random_state()
    verbose: bool | str = common.verbose()
