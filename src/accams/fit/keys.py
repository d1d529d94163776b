"""Random streams keyed by seed, purpose and position: results do not depend on threads or on order of execution."""

from enum import IntEnum

import numpy as np

from accams.errors import InputError


class Purpose(IntEnum):
    """Purpose of a random stream; streams of different purposes are independent. Values are part of every result."""

    SEEDING = 1
    VALIDATION = 2
    LABELS = 3
    ROW_WEIGHTS = 4
    SWEEP = 5
    START = 6
    EFFECTS = 7
    CALIBRATION = 8
    PROBES = 9
    PROJECTION = 10
    LATENT = 11
    SLOPES = 12


def generator(seed: int, purpose: Purpose, *key: int) -> np.random.Generator:
    """Return the counter-based generator of a seed, purpose and key (sweep, stencil, attempt, ...)."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, int(purpose), len(key), *key])))


def key_of(seed: int, purpose: Purpose, *key: int) -> tuple[int, int]:
    """Return two words that identify a random stream in kernels.

    They have 62 bits: they fit into int64, the one type that kernels are compiled for, and small numbers can be added
    to the second word, to derive more streams, without overflow.
    """
    first, second = np.random.SeedSequence([seed, int(purpose), len(key), *key]).generate_state(2, np.uint64)
    return int(first) >> 2, int(second) >> 2


def seed_of(random_state: object) -> int:
    """Return a seed for a scikit-learn `random_state`: None, an integer, a RandomState or a Generator."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> np.uint64(1))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**62))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool) and random_state >= 0:
        return int(random_state)
    raise InputError(f"random_state must be None, a non-negative integer or a NumPy generator, not {random_state!r}")
