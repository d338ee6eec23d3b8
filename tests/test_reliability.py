"""The table of attacks names tests that exist, and as many cases as they have."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROW = re.compile(r"\| ([\d,]+) \| [^|]+ \| `([\w/]+\.py)::(\w+)` \|$", re.MULTILINE)
ROWS = ROW.findall((ROOT / "docs" / "reliability.md").read_text(encoding="utf-8"))


def test_the_table_is_read() -> None:
    assert len(ROWS) > 15


@pytest.mark.parametrize(("count", "file", "name"), ROWS, ids=[name for _, _, name in ROWS])
def test_every_attack_has_its_test(count: str, file: str, name: str) -> None:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert int(count.replace(",", "")) >= 1
