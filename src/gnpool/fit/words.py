"""Numbers in words."""

from __future__ import annotations


def counted(count: int, what: str) -> str:
    """A number with its noun, as text.

    Example:
        >>> from gnpool.fit.words import counted
        >>> counted(1, "node"), counted(2000, "node")
        ('1 node', '2,000 nodes')
    """
    return f"{count:,} {what}" + ("s" if count != 1 else "")


def between(smallest: int, largest: int, what: str) -> str:
    """A range of sizes, as text.

    Example:
        >>> from gnpool.fit.words import between
        >>> between(1, 1, "node"), between(3, 8, "neighbour")
        ('1 node', '3 to 8 neighbours')
    """
    return counted(largest, what) if smallest == largest else f"{smallest:,} to {counted(largest, what)}"
