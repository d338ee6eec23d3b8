"""ONNX takes everything that a fit can choose; the writer itself checks the answers on graphs of other sizes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from gnpool.fit.onnx import onnx_bytes
from gnpool.insight.laws import Law, Point, Term
from gnpool.insight.laws.several import LawsNet
from gnpool.models import DeepNet, NodeNet


def deep(readout: str | None, edges: int) -> DeepNet:
    options: dict[str, Any] = {"norm": "batch", "residual": True, "jumping": "cat", "dropout": 0.5}
    return DeepNet(2, "gnpg", readout, layers=2, hidden=6, out_channels=3, edge_channels=edges, **options)


def laws() -> LawsNet:
    largest, total = Term(0, (Point(1.0, 1.0), Point(float("inf"), 0.0))), Term(1, (Point(1.0, 1.0),))
    made = [Law((term,), (2.0,), 0.0, "graph", ("a", "b")).model() for term in (largest, total)]
    return LawsNet([law.arguments for law in made])


MODELS = {
    "graphs, edges": (lambda: deep("gnpg", 3), {"x", "edge_index", "edge_attr", "ptr"}),
    "nodes, edges": (lambda: deep(None, 3), {"x", "edge_index", "edge_attr"}),
    "nodes": (lambda: NodeNet(2, "max", form="gin", layers=2, out_channels=3), {"x", "edge_index"}),
    "two laws": (laws, {"x", "edge_index", "ptr"}),
}


@pytest.mark.parametrize("name", MODELS)
def test_onnx(name: str) -> None:
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    torch.manual_seed(0)
    make, inputs = MODELS[name]
    session = runtime.InferenceSession(onnx_bytes(make().eval()), providers=["CPUExecutionProvider"])
    assert {one.name for one in session.get_inputs()} == inputs
    assert session.get_outputs()[0].shape[1] in (2, 3)
