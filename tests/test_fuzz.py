"""Runs tools/fuzz.py shortly, with always the same cases."""

from __future__ import annotations

import pytest

from tools.fuzz import PARTS, run


@pytest.mark.parametrize("part", PARTS)
def test_a_few_examples(part: str) -> None:
    assert run(part, 60, 20261115) >= 60
