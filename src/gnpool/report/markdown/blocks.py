r"""Blocks of a Markdown file that a command writes, between two invisible comments.

.. code-block:: html

    <!-- gnpool:counts -->
    what the command wrote the last time
    <!-- gnpool:end -->
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping


def fill(text: str, blocks: Mapping[str, str], name: str = "the file", family: str = "gnpool") -> str:
    r"""The text with updated blocks.

    Args:
        text (str): Markdown.
        blocks (Mapping): The content of each block by its name.
        name (str, optional): The name of the file, for error messages.
        family (str, optional): The word before the colon; blocks with another word do not change.

    Example:
        >>> from gnpool.report.markdown.blocks import fill
        >>> print(fill("before\n<!-- gnpool:sum -->\n3\n<!-- gnpool:end -->", {"sum": "4"}))
        before
        <!-- gnpool:sum -->
        <BLANKLINE>
        4
        <BLANKLINE>
        <!-- gnpool:end -->
    """
    end = f"<!-- {family}:end -->"
    block = re.compile(rf"^<!-- {family}:(\w+) -->\n(.*?)^{end}$", re.MULTILINE | re.DOTALL)
    marks = re.findall(rf"^<!-- {family}:(\w+) -->$", text, re.MULTILINE)
    starts = [found for found in marks if found != "end"]
    whole = [found[0] for found in block.findall(text)]
    if not starts:
        raise ValueError(f"{name} has no line '<!-- {family}:NAME -->', with NAME one of {', '.join(blocks)}")
    if starts != whole or text.count(end) != len(whole):
        raise ValueError(f"{name}: every '<!-- {family}:NAME -->' needs its own line '{end}'")
    for found in whole:
        if found not in blocks:
            near = difflib.get_close_matches(found, blocks, n=1)
            raise ValueError(f"{name}: there is no block {found!r}; {_hint(near, blocks)}")
    return block.sub(lambda match: f"<!-- {family}:{match[1]} -->\n\n{blocks[match[1]]}\n\n{end}", text)


def _hint(near: list[str], blocks: Mapping[str, str]) -> str:
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(blocks)}"
