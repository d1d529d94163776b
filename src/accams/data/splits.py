"""Split observations into training and test sets.

Every split distributes the *stored* entries and keeps shape and ids. Blanks that are observed zeros
(``zeros="observed"``) are so in every part: a held-out entry is a zero in training, as usual in link prediction
and for implicit feedback.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from accams.data.observations import Observations
from accams.errors import InputError

Positions = NDArray[np.int64]
Times = NDArray[np.generic]
Seed = int | np.random.Generator | None
MANY = 20_000_000  # entries from which a full permutation would take too much memory


def random_split(obs: Observations, test: float = 0.1, random_state: Seed = 0) -> tuple[Observations, Observations]:
    """Split off a random share of the entries, those at the positions of `permutation_test_positions` in row order.

    Parameters
    ----------
    obs : Observations
    test : float
        Share of the entries to hold out, between 0 and 1.
    random_state : int, Generator or None

    Returns
    -------
    train, test : Observations

    Examples
    --------
    >>> obs = Observations.from_dense(np.arange(20.0).reshape(4, 5))
    >>> train, test = random_split(obs, test=0.25, random_state=3)
    >>> train.nnz, test.nnz, test.shape
    (15, 5, (4, 5))
    """
    return obs.split(permutation_test_positions(obs.nnz, test, random_state))


def permutation_test_positions(n: int, test: float = 0.1, random_state: Seed = 0) -> Positions:
    """Return the positions of the held-out entries, the first ``int(n * test)`` of a random permutation.

    The permutation is ``numpy.random.default_rng(random_state).permutation(n)``, so the same split can be made of
    the lines of a file, or outside this library.

    Parameters
    ----------
    n : int
        Number of entries.
    test : float
        Share of the entries to hold out, between 0 and 1.
    random_state : int, Generator or None

    Returns
    -------
    ndarray of int64

    Examples
    --------
    >>> permutation_test_positions(20, 0.1, random_state=0).tolist()
    [4, 19]
    """
    return _permutation(n, random_state)[: _share(n, test, "entries")]


def some_positions(n: int, size: int, random_state: Seed = 0) -> Positions:
    """Draw `size` of `n` positions at random without replacement, in ascending order.

    They are the first of a permutation, or drawn without one for large `n`, to save memory.

    Parameters
    ----------
    n, size : int
    random_state : int, Generator or None

    Returns
    -------
    ndarray of int64

    Examples
    --------
    >>> some_positions(10, 3).tolist()
    [2, 4, 6]
    """
    rng = np.random.default_rng(random_state)
    if n <= MANY:
        return np.sort(rng.permutation(n)[:size])
    return np.sort(rng.choice(n, size, replace=False, shuffle=False))


def k_fold(obs: Observations, k: int = 5, random_state: Seed = 0) -> Iterator[tuple[Observations, Observations]]:
    """Split the entries at random into `k` folds of equal size (give or take one), each the test set once.

    Parameters
    ----------
    obs : Observations
    k : int
        Number of folds.
    random_state : int, Generator or None

    Returns
    -------
    iterator of (train, test)

    Examples
    --------
    >>> obs = Observations.from_dense(np.arange(6.0).reshape(2, 3))
    >>> [test.values.tolist() for _, test in k_fold(obs, k=3)]
    [[2.0, 3.0], [4.0, 5.0], [0.0, 1.0]]
    """
    if not 2 <= k <= obs.nnz:
        raise InputError(f"k must be between 2 and the number of entries ({obs.nnz:,}), not {k}")
    folds = np.array_split(_permutation(obs.nnz, random_state), k)
    return (obs.split(fold) for fold in folds)


def leave_out(
    obs: Observations, n: int = 1, random_state: Seed = 0, min_train: int = 1, *, latest: bool = False
) -> tuple[Observations, Observations]:
    """Hold out `n` entries of every user with enough entries.

    Parameters
    ----------
    obs : Observations
    n : int
        Number of entries to hold out per user.
    random_state : int, Generator or None
        Chooses the entries; with `latest` it only breaks ties between equal times.
    min_train : int
        Users with fewer than ``n + min_train`` entries are left in training.
    latest : bool
        Hold out the latest entries of each user instead of random ones; needs ``obs.times``.

    Returns
    -------
    train, test : Observations

    Examples
    --------
    >>> obs = Observations.from_coo([0, 0, 0, 1], [0, 1, 2, 0], [1.0, 2.0, 3.0, 4.0], times=[30, 10, 20, 40])
    >>> train, test = leave_out(obs, latest=True)
    >>> test.values.tolist()
    [1.0]
    """
    if n < 1 or min_train < 0:
        raise InputError(f"n must be at least 1 and min_train at least 0, not {n} and {min_train}")
    times = _times(obs, "leave_out with latest=True") if latest else None
    rank, degree = _ranks(obs, random_state, times)
    held = (rank >= degree - n) & (degree >= n + min_train)
    if not held.any():
        raise InputError(f"no user has {n + min_train} entries to hold {n} out: lower n or min_train")
    return obs.split(np.flatnonzero(held))


def by_time(obs: Observations, test: float = 0.1) -> tuple[Observations, Observations]:
    """Hold out the latest entries: train on the past, test on the future.

    Entries of equal time stay together, so the test set has at least ``int(obs.nnz * test)`` entries.

    Parameters
    ----------
    obs : Observations
        Must have times.
    test : float
        Share of the entries to hold out, between 0 and 1.

    Returns
    -------
    train, test : Observations

    Examples
    --------
    >>> obs = Observations.from_coo([0, 0, 1], [0, 1, 1], [5.0, 3.0, 4.0], times=[10, 30, 20])
    >>> train, test = by_time(obs, test=0.4)
    >>> train.times.tolist(), test.times.tolist()
    ([10, 20], [30])
    """
    return obs.split(np.flatnonzero(late_entries(obs, test, "by_time")))


def late_entries(obs: Observations, share: float, caller: str) -> NDArray[np.bool_]:
    """Return which entries are the latest ones: this share of all, or more where times are equal.

    Parameters
    ----------
    obs : Observations
        Must have times.
    share : float
        Between 0 and 1.
    caller : str
        What is named in errors.

    Returns
    -------
    array of bool
        In row order.

    Examples
    --------
    >>> obs = Observations.from_coo([0, 0, 1], [0, 1, 1], [5.0, 3.0, 4.0], times=[10, 30, 20])
    >>> late_entries(obs, 0.4, "by_time").tolist()
    [False, True, False]
    """
    times = _times(obs, caller)
    first = obs.nnz - _share(obs.nnz, share, "entries")
    late = times >= np.partition(times, first)[first]
    if late.all():
        raise InputError(f"{caller}: every entry would be held out, because too many share the earliest time")
    return np.asarray(late)


def held_out_users(
    obs: Observations, test: float = 0.1, random_state: Seed = 0, given: int | None = None
) -> tuple[Observations, Observations, Observations]:
    """Hold out users, and split the entries of each into history and test set (for folding in).

    Parameters
    ----------
    obs : Observations
    test : float
        Share of the users with entries to hold out.
    random_state : int, Generator or None
    given : int, optional
        Number of random entries in the history of a held-out user; half of them (rounded up) by default.
        Only users with more entries than that are held out.

    Returns
    -------
    train : Observations
        Entries of the other users.
    history, test : Observations
        Entries of the held-out users.

    Examples
    --------
    >>> obs = Observations.from_dense(np.arange(20.0).reshape(4, 5))
    >>> train, history, test = held_out_users(obs, test=0.5, given=2)
    >>> [np.diff(part.row_starts).tolist() for part in (train, history, test)]
    [[0, 5, 0, 5], [2, 0, 2, 0], [3, 0, 3, 0]]
    """
    if given is not None and given < 1:
        raise InputError(f"given must be at least 1, not {given}")
    rng = np.random.default_rng(random_state)
    counts = np.diff(obs.row_starts)
    eligible = np.flatnonzero(counts >= (2 if given is None else given + 1))
    size = _share(int(np.count_nonzero(counts)), test, "users")
    if size > len(eligible):
        raise InputError(
            f"cannot hold out {size:,} users: only {len(eligible):,} have enough entries; lower test or given"
        )
    held_rows = np.zeros(obs.shape[0], dtype=bool)
    held_rows[rng.permutation(eligible)[:size]] = True
    held = np.repeat(held_rows, counts)
    rank, degree = _ranks(obs, rng)
    shown = rank < (degree + 1) // 2 if given is None else rank < given
    return obs.select(~held), obs.select(held & shown), obs.select(held & ~shown)


def _share(n: int, test: float, what: str) -> int:
    """Return ``int(n * test)``, at least 1 and less than `n`."""
    if not 0 < test < 1:
        raise InputError(f"test must be a share between 0 and 1, not {test!r}")
    size = int(n * test)
    if not 0 < size < n:
        raise InputError(f"a share of {test:g} of {n:,} {what} leaves one part empty")
    return size


def _permutation(n: int, random_state: Seed) -> Positions:
    return np.random.default_rng(random_state).permutation(n).astype(np.int64, copy=False)


def _ranks(obs: Observations, random_state: Seed, times: Times | None = None) -> tuple[Positions, Positions]:
    """Return the rank of each entry among those of its user, at random or by time, and their number."""
    counts = np.diff(obs.row_starts)
    users = np.repeat(np.arange(obs.shape[0]), counts)
    shuffle = np.random.default_rng(random_state).random(obs.nnz)
    order = np.lexsort((shuffle, users) if times is None else (shuffle, times, users))
    rank = np.empty(obs.nnz, dtype=np.int64)
    rank[order] = np.arange(obs.nnz) - np.repeat(obs.row_starts[:-1], counts)
    return rank, np.repeat(counts, counts)


def _times(obs: Observations, caller: str) -> Times:
    if obs.times is None:
        raise InputError(
            f"{caller} needs the time of each entry; pass time='...' to Observations.from_frame or from_file"
        )
    times = np.asarray(obs.times)
    if times.dtype.kind == "O":
        try:
            times = np.unique(times, return_inverse=True)[1]
        except TypeError:
            raise InputError(f"{caller}: times of different types, or missing ones, cannot be sorted") from None
    missing = int(np.count_nonzero(times != times))  # NaN and NaT
    if missing:
        raise InputError(f"{caller}: {missing:,} entries have no time")
    return times
