"""Text from data, made safe to show on a page or a terminal."""

import re

# Blanks that would break a line; characters that steer a terminal or turn around the text that follows.
BREAKS = re.compile("[\t-\r\x1c-\x1e\x85\u2028\u2029]+")
STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: object, most: int | None = None) -> str:
    """Return text as one line that shows what it is, cut to `most` characters.

    Control characters, direction overrides and lone surrogates are replaced: on a terminal, the first could hide or
    forge what is printed, and the second would turn around the text beside them.

    Examples
    --------
    >>> printable("a\\x1b[2Jb\\nc"), printable("abcdef", 4)
    ('a�[2Jb c', 'abc…')
    """
    shown = str(text).encode("utf-8", "replace").decode()
    shown = STEERING.sub("�", BREAKS.sub(" ", shown))
    return shown if most is None or len(shown) <= most else shown[: most - 1].rstrip() + "…"
