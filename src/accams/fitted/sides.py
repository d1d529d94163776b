"""Which side of the matrix an argument means."""

import warnings

from accams.settings.kinds import Words

SIDES = {"users": 0, "items": 1}
FORMER = {"rows": "users", "cols": "items", "columns": "items"}
NOUNS = ("user", "item")  # of rows and columns


def axis_of(side: str) -> int:
    """Return 0 for users (rows), 1 for items (columns)."""
    if isinstance(side, str) and side in FORMER:
        text = f"side={side!r} is deprecated, to be removed in 0.3: use side={FORMER[side]!r}"
        warnings.warn(text, FutureWarning, stacklevel=4)
        side = FORMER[side]
    Words(*SIDES).check("side", side)
    return SIDES[side]
