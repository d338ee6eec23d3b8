"""No two places of the package share ten lines of code: what they share has one home."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
LINES = 10


def aside(tree: ast.Module) -> Iterator[range]:
    """The lines of imports, docstrings and signatures. Signatures are fixed by those who call, and may be equal."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield range(node.lineno, node.body[0].lineno)
        elif isinstance(node, ast.Import | ast.ImportFrom) or (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        ):
            yield range(node.lineno, (node.end_lineno or node.lineno) + 1)


def code(text: str) -> list[tuple[int, str]]:
    """The lines of code with their numbers; white space is one blank."""
    left_out = {number for lines in aside(ast.parse(text)) for number in lines}
    numbered = ((number, " ".join(line.split())) for number, line in enumerate(text.splitlines(), start=1))
    return [(number, line) for number, line in numbered if line and line[0] != "#" and number not in left_out]


def twins(texts: dict[str, str]) -> dict[str, list[str]]:
    """Where ten lines of code stand more than once: all places by the first."""
    places = defaultdict[tuple[str, ...], list[tuple[str, int]]](list)
    for name, text in texts.items():
        lines = code(text)
        for first in range(len(lines) - LINES + 1):
            places[tuple(line for _, line in lines[first : first + LINES])].append((name, lines[first][0]))
    several = ([f"{name}:{number}" for name, number in found] for found in places.values() if len(found) > 1)
    return {first: others for first, *others in several}


def test_twins_are_found():
    body = "\n".join(f"    x{k} = {k}" for k in range(LINES))
    assert twins({"a": f"def a():\n{body}\n", "b": f'def b():\n    """B."""\n\n{body}\n'}) == {"a:2": ["b:4"]}
    arguments = "".join(f"    x{k},\n" for k in range(LINES))
    assert not twins({"a": f"def a(\n{arguments}):\n    return 1\n", "b": f"def b(\n{arguments}):\n    return 2\n"})


def test_no_twins_in_the_package():
    assert twins({str(path): path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py"))}) == {}
