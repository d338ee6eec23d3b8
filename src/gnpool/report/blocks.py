r"""Blocks of a Markdown file that a command writes, between two comments that no reader sees.

.. code-block:: html

    <!-- gnpool:counts -->
    what the command wrote the last time
    <!-- gnpool:end -->
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

BLOCK = re.compile(r"^<!-- gnpool:(\w+) -->\n(.*?)^<!-- gnpool:end -->$", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"^<!-- gnpool:(\w+) -->$", re.MULTILINE)


def fill(text: str, blocks: Mapping[str, str], name: str = "the file") -> str:
    r"""The text with its blocks written anew.

    Args:
        text (str): Markdown.
        blocks (Mapping): What belongs into each block, by its name.
        name (str, optional): Of the file, for complaints.

    Example:
        >>> from gnpool.report.blocks import fill
        >>> print(fill("before\n<!-- gnpool:sum -->\n3\n<!-- gnpool:end -->", {"sum": "4"}))
        before
        <!-- gnpool:sum -->
        <BLANKLINE>
        4
        <BLANKLINE>
        <!-- gnpool:end -->
    """
    starts = [found for found in MARK.findall(text) if found != "end"]
    whole = [found[0] for found in BLOCK.findall(text)]
    if not starts:
        raise ValueError(f"{name} has no line '<!-- gnpool:NAME -->', with NAME one of {', '.join(blocks)}")
    if starts != whole or text.count("<!-- gnpool:end -->") != len(whole):
        raise ValueError(f"{name}: every '<!-- gnpool:NAME -->' needs its own line '<!-- gnpool:end -->'")
    for found in whole:
        if found not in blocks:
            near = difflib.get_close_matches(found, blocks, n=1)
            raise ValueError(f"{name}: there is no block {found!r}; {_hint(near, blocks)}")
    return BLOCK.sub(lambda match: f"<!-- gnpool:{match[1]} -->\n\n{blocks[match[1]]}\n\n<!-- gnpool:end -->", text)


def _hint(near: list[str], blocks: Mapping[str, str]) -> str:
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(blocks)}"
