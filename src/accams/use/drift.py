"""Drift: how far new observations are from what a model was fitted to, and whether to fit again."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
ENOUGH = 100  # observations from which on shares and errors say something
MOST_SHARE = 0.2  # of new observations in those that were fitted: templates have not seen a sixth of all
MOST_NEW_ITEMS = 0.2  # of the new observations are of items that the fit did not know: a catalogue that turns over
MOST_NEW_USERS = 0.5  # users are folded in with less loss: half of them may be new
MOST_ERROR = 1.1  # times the held-out error: about what splitting by time costs in place of splitting at random
SURE = 2.0  # standard errors by which the error must be larger


@dataclass(frozen=True)
class Drift:
    """New observations beside those that were fitted.

    Attributes
    ----------
    n : int
        Pairs of a user and an item, each counted once.
    n_new : int
        Those that the model has not taken in; the shares and errors below are of these.
    new_users, new_items : float
        Share of them that are of unknown users, and of unknown items.
    rmse : float or None
        Error of the predictions before the model takes them in, where it knows user and item.
    rmse_new : float or None
        The same where it does not.
    expected : float or None
        Error on held-out data when the model was fitted, or its noise.
    share : float or None
        Observations since the fit, these included, by those that were fitted.
    refit : bool
        Whether to fit again: if `share` is at least 0.2; if of 100 new observations or more, 20 % are of unknown items
        or 50 % of unknown users; or if `rmse` is above 1.1 times `expected`, by two standard errors.
    reason : str
        Why, or why not, in one sentence.

    Examples
    --------
    >>> import numpy as np
    >>> from accams import ACCAMS
    >>> matrix = np.add.outer([0.0, 0, 2, 2], [1.0, 1, 2])
    >>> model = ACCAMS(n_stencils=2, n_clusters=2, verbose=False).fit(matrix).model_
    >>> drift = model.drift([[0, 0], [9, 2]], [1.0, 4.0])  # user 9 is new
    >>> drift.n, drift.n_new, drift.new_users, drift.refit
    (2, 1, 1.0, False)
    """

    n: int
    n_new: int
    new_users: float
    new_items: float
    rmse: float | None
    rmse_new: float | None
    expected: float | None
    share: float | None
    refit: bool
    reason: str


def drift_of(
    n: int, errors: Floats | None, new_users: Mask, new_items: Mask, expected: float | None, judged: bool,
    share: float | None,
) -> Drift:  # fmt: skip
    """Return the drift of these observations, given the error of each (None: of a model without values).

    An expected error that was not measured on held-out data is shown, but not `judged` by.

    Examples
    --------
    >>> nothing_new = np.zeros(400, bool)
    >>> drift_of(400, np.ones(400), nothing_new, nothing_new, 0.8, True, 0.1).reason
    'predictions of new observations are off by 1.0000, more than 1.1 times the 0.8000 of held-out data'
    >>> drift_of(400, np.ones(400), nothing_new, nothing_new, 0.99, True, 0.1).refit
    False
    """
    unknown = new_users | new_items
    known_errors = None if errors is None else errors[~unknown]
    rmse, rmse_new = _rmse(known_errors), _rmse(None if errors is None else errors[unknown])
    users, items = (float(x.mean()) if len(x) else 0.0 for x in (new_users, new_items))
    reasons = list[str]()
    if share is not None and share >= MOST_SHARE:
        reasons.append(f"new observations are {share:.0%} of those that were fitted")
    if len(unknown) >= ENOUGH and items >= MOST_NEW_ITEMS:
        reasons.append(f"{items:.0%} of the new observations are of items that the model does not know")
    if len(unknown) >= ENOUGH and users >= MOST_NEW_USERS:
        reasons.append(f"{users:.0%} of the new observations are of users that the model does not know")
    if judged and expected is not None and known_errors is not None and _is_above(known_errors, MOST_ERROR * expected):
        reasons.append(
            f"predictions of new observations are off by {rmse:.4f}, more than {MOST_ERROR:g} times the "
            f"{expected:.4f} of held-out data"
        )
    reason = "; ".join(reasons) or "new observations are few, and much like those that were fitted"
    return Drift(n, len(unknown), users, items, rmse, rmse_new, expected, share, bool(reasons), reason)


def _rmse(errors: Floats | None) -> float | None:
    return None if errors is None or not len(errors) else float(np.sqrt(np.mean(np.square(errors))))


def _is_above(errors: Floats, bound: float) -> bool:
    """Return whether the error is surely above a bound."""
    if len(errors) < ENOUGH:
        return False
    squares = np.square(errors)
    return bool(squares.mean() - SURE * squares.std() / np.sqrt(len(errors)) > bound**2)
