"""The tables of attacks name tests that exist, and the tables of searches have the stored results."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from types import ModuleType

import pytest

from tools import exact, mutants, outcomes

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


@pytest.mark.parametrize("maker", [outcomes, exact], ids=lambda maker: maker.PAGE.name)
def test_the_tables_are_those_of_their_outcomes(maker: ModuleType) -> None:
    page = maker.PAGE.read_text(encoding="utf-8")
    assert maker.filled(page) == page


def test_survivors_with_a_reason_are_survivors() -> None:
    tried = outcomes.kept("mutants")["outcomes"]
    sample = {mutant.id for mutant in mutants.sample()}
    assert {name for name in outcomes.read(outcomes.REASONS) if tried[name]["outcome"] == "killed"} == set()
    assert {name for name in outcomes.read(outcomes.REASONS) if name not in sample} == set()
