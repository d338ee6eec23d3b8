"""Converts docstrings, which are written for Sphinx like those of PyTorch Geometric, to the site's Markdown.

Formulas, notes, tables, references and links are converted before mkdocstrings reads the sections.
"""

from __future__ import annotations

import re
import textwrap
from typing import Any

import griffe

ROLE = re.compile(r":(?:func|class|meth|mod|obj|attr):`~?([^`]+)`")
ADDRESS = re.compile(r"`\s*\"?([^`<\"]+?)\"?\s*<([^>`]+)>`__?")
DIRECTIVE = re.compile(r"^( *)\.\. (math|note|warning):: *(.*)$")
DEFAULT = re.compile(r"\s*\(default:\s*``[^`]*``\)")  # the site shows it from the signature
RULE = re.compile(r"^ *=+(?: +=+)+$")


class Docstrings(griffe.Extension):
    """Converts the docstring of everything that griffe loads."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)


def markdown(text: str) -> str:
    """A Sphinx docstring in Markdown."""
    text = DEFAULT.sub("", text)
    text = re.sub(r":math:`([^`]+)`", lambda match: f"${match[1]}$", text)
    text = ROLE.sub(lambda match: f"`{match[1].removeprefix('gnpool.')}`", text)
    text = ADDRESS.sub(lambda match: f"[{' '.join(match[1].split())}]({match[2]})", text)
    return "\n".join(_blocks(text.splitlines()))


def _blocks(lines: list[str]) -> list[str]:
    out: list[str] = []
    place = 0
    while place < len(lines):
        line = lines[place]
        place += 1
        if match := DIRECTIVE.match(line):
            body, place = _indented(lines, place, len(match[1]))
            body = [match[3], *body] if match[3] else body
            out += _directive(match[2], textwrap.dedent("\n".join(body)).strip("\n").splitlines(), match[1])
        elif RULE.match(line):
            end = place + 2 + next(k for k, rule in enumerate(lines[place + 2 :]) if RULE.match(rule))
            out += _table(line, [lines[place], *lines[place + 2 : end]])
            place = end + 1
        elif line == "Shapes:":  # not a section that griffe knows
            body, place = _indented(lines, place, 0)
            out += ["**Shapes**", "", *textwrap.dedent("\n".join(body)).strip("\n").splitlines(), ""]
        else:
            out.append("Examples:" if line == "Example:" else line)
    return out


def _indented(lines: list[str], place: int, margin: int) -> tuple[list[str], int]:
    """The lines from ``place`` on that are indented by more than ``margin``, and the place after them."""
    end = place
    while end < len(lines) and (not lines[end].strip() or len(lines[end]) - len(lines[end].lstrip()) > margin):
        end += 1
    return lines[place:end], end


def _directive(kind: str, body: list[str], indent: str) -> list[str]:
    if kind == "math":
        return ["", f"{indent}$$", *(indent + line for line in body), f"{indent}$$", ""]
    return ["", f"{indent}!!! {kind}", "", *(f"{indent}    {line}".rstrip() for line in body), ""]


def _table(rule: str, rows: list[str]) -> list[str]:
    starts = [match.start() for match in re.finditer(r"=+", rule)]
    ends = [*starts[1:], None]
    cells = [[row[a:b].strip().replace("|", r"\|") for a, b in zip(starts, ends, strict=True)] for row in rows]
    lines = ["| " + " | ".join(row) + " |" for row in cells]
    return ["", lines[0], "|" + "---|" * len(starts), *lines[1:], ""]
