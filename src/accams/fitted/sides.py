"""Which side of the matrix an argument means."""

from accams.errors import warn_deprecated
from accams.settings.kinds import Words

SIDES = {"users": 0, "items": 1}
FORMER = {"rows": "users", "cols": "items", "columns": "items"}
NOUNS = ("user", "item")  # of rows and columns


def axis_of(side: str) -> int:
    """Return 0 for users (rows), 1 for items (columns)."""
    if isinstance(side, str) and side in FORMER:
        warn_deprecated(f"side={side!r}", f"side={FORMER[side]!r}")
        side = FORMER[side]
    Words(*SIDES).check("side", side)
    return SIDES[side]
