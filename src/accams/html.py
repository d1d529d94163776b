"""Tables that notebooks show in place of a line of text."""

from collections.abc import Mapping
from html import escape


def html_table(caption: str, rows: Mapping[str, str]) -> str:
    """Return a table of names and values.

    Examples
    --------
    >>> html_table("model", {"users": "1 < 2"})
    '<table><caption>model</caption><tbody><tr><th>users</th><td>1 &lt; 2</td></tr></tbody></table>'
    """
    body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in rows.items())
    return f"<table><caption>{escape(caption)}</caption><tbody>{body}</tbody></table>"
