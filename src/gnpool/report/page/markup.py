"""HTML and SVG from Python. The only place where text becomes markup, and so the only one that escapes it."""

from __future__ import annotations

import html
import json
from typing import Any

VOID = frozenset({"meta", "input", "br", "circle", "rect", "line", "path", "polygon"})


class Markup(str):
    """Text that is markup already, and is not escaped again."""

    __slots__ = ()


Child = str | None


def text(value: object) -> Markup:
    """A value as text of a document, whatever it contains.

    Example:
        >>> from gnpool.report.page.markup import text
        >>> text('<script>"a" & b')
        '&lt;script&gt;&quot;a&quot; &amp; b'
    """
    return value if isinstance(value, Markup) else Markup(html.escape(str(value)))


def tag(name: str, /, *children: Child, **attributes: object) -> Markup:
    """An element. Children that are plain strings are escaped; an attribute that is None or False is left out.

    Python's words get an underscore at the end (``class_``), others become hyphens (``stroke_width``).

    Example:
        >>> from gnpool.report.page.markup import tag
        >>> tag("td", "a < b", tag("br"), class_="x", hidden=True, title=None)
        '<td class="x" hidden>a &lt; b<br></td>'
    """
    parts = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        shown = key.rstrip("_").replace("_", "-")
        parts.append(shown if value is True else f'{shown}="{text(_plain(value))}"')
    if name in VOID and not children:
        return Markup(f"<{' '.join(parts)}>" if name in ("meta", "input", "br") else f"<{' '.join(parts)}/>")
    return Markup(f"<{' '.join(parts)}>{join(*children)}</{name}>")


def join(*children: Child, between: str = "") -> Markup:
    """Children one after the other; None is left out."""
    return Markup(text(between).join(text(child) for child in children if child is not None))


def data_block(value: Any, name: str) -> Markup:
    """Values for the page's script, as a block that no text inside can end."""
    safe = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        safe = safe.replace(char, f"\\u{ord(char):04x}")
    return Markup(f'<script type="application/json" id="{text(name)}">{safe}</script>')


def _plain(value: object) -> str:
    """A number of a drawing to a hundredth, anything else as it is."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
