"""The short scripts of examples/ run, and what they compute is right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from examples import compiled, hetero, large_graph, molecules, plain_loop, sets
from tools.check_docs import ROOT

EXAMPLES = ROOT / "examples"


@pytest.mark.slow
def test_plain_loop() -> None:
    errors = plain_loop.main()
    assert errors["GNP"] < 10 < 30 < errors["mean"]


@pytest.mark.slow
def test_molecules() -> None:
    assert molecules.main() < 10


@pytest.mark.slow
def test_hetero() -> None:
    assert hetero.main() < 10


@pytest.mark.slow
def test_large_graph() -> None:
    assert large_graph.main() < 10


@pytest.mark.slow
def test_sets() -> None:
    name, error = sets.main()
    assert name.startswith("pool: max")
    assert error < 0.1


def test_compiled() -> None:
    assert compiled.main("eager") < 1e-6


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_to_onnx() -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    from examples import to_onnx

    assert to_onnx.main() < 1e-5


def test_every_example_is_listed() -> None:
    listed = set(re.findall(r"\(\.\./examples/(\w+\.py)\)", (ROOT / "docs" / "tutorials.md").read_text("utf-8")))
    assert {path.name for path in Path(EXAMPLES).glob("*.py")} <= listed
