"""A dummy graph at the end of a batch changes nothing for the real ones, in value or gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from gnpool.models import GraphNet, NodeNet, SAGPoolNet, SetNet, SetTransformer
from tests.models.cases import FIXED, GNPS, POOLINGS, SIZES, alive, gradients, graphs, nodes, sets

REAL = len(SIZES)
DUMMIES = [(0,), (1,), (6,), (0, 0, 12)]
MODELS: dict[str, tuple[Callable[[], torch.nn.Module], Callable[..., dict[str, Any]], int]] = {
    **{f"graph-{p}": (lambda p=p: GraphNet(2, "sum", p, hidden=4), graphs, REAL) for p in POOLINGS},
    **{f"aggr-{p}": (lambda p=p: GraphNet(2, p, "sum", hidden=4), graphs, REAL) for p in (*FIXED, *GNPS)},
    **{f"set-{p}": (lambda p=p: SetNet(2, p, hidden=4), sets, REAL) for p in POOLINGS},
    "gin": (lambda: GraphNet(2, form="gin", hidden=4), graphs, REAL),
    "elu": (lambda: GraphNet(2, activation="elu", nonneg="abs", hidden=4), graphs, REAL),
    "bias": (lambda: GraphNet(2, gnp_bias=True, hidden=4), graphs, REAL),
    "sagpool": (lambda: SAGPoolNet(2, hidden=6), graphs, REAL),
    "sab": (lambda: SetTransformer(2, hidden=8), sets, REAL),
    "isab": (lambda: SetTransformer(2, encoder="isab", hidden=8, points=3), sets, REAL),
    "node-min": (lambda: NodeNet(2, "min", hidden=4), lambda d=(): nodes(False, d), sum(SIZES)),
    "node-gnp": (lambda: NodeNet(2, "gnp", hidden=4), lambda d=(): nodes(False, d), sum(SIZES)),
    "node-gnpg": (lambda: NodeNet(2, "gnpg", hidden=4), lambda d=(): nodes(False, d), sum(SIZES)),
    "gin-gnpg": (lambda: GraphNet(2, "gnpg", "gnpg", form="gin", hidden=4), graphs, REAL),
    "weighted-mean": (lambda: NodeNet(2, "mean", edge_weights=True, hidden=4), lambda d=(): nodes(True, d), sum(SIZES)),
    "node-gin": (lambda: NodeNet(2, "gnp", hidden=4, form="gin"), lambda d=(): nodes(False, d), sum(SIZES)),
    "weighted-gin": (
        lambda: NodeNet(2, "min", edge_weights=True, hidden=4, form="gin"),
        lambda d=(): nodes(True, d),
        sum(SIZES),
    ),
    "weighted-gnp": (lambda: NodeNet(2, "gnp", edge_weights=True, hidden=4), lambda d=(): nodes(True, d), sum(SIZES)),
}


@pytest.mark.parametrize("name", MODELS)
def test_dummies_change_nothing(name: str) -> None:
    make, inputs, items = MODELS[name]
    model = alive(make)
    wanted_y, wanted = gradients(model, inputs(), items)
    assert sum(float(g.abs().sum()) for g in wanted.values()) > 0
    for dummy in DUMMIES:
        y, got = gradients(model, inputs(dummy), items)
        torch.testing.assert_close(y, wanted_y)
        for parameter, gradient in got.items():
            torch.testing.assert_close(gradient, wanted[parameter], msg=f"{parameter} with a dummy of {dummy}")


@pytest.mark.parametrize("name", [name for name in MODELS if not name.startswith(("node", "weighted"))])
def test_a_batch_without_nodes(name: str) -> None:
    make, inputs, _ = MODELS[name]
    model = alive(make)
    empty = inputs()
    some = {"x": empty["x"][:0], "ptr": torch.zeros(3, dtype=torch.long), "batch": empty["batch"][:0], "max_nodes": 0}
    if "edge_index" in empty:
        some["edge_index"] = empty["edge_index"][:, :0]
    y = model(**some)
    assert y.shape == (2, 1)
    torch.testing.assert_close(y[0], y[1])
    assert bool(y.isfinite().all())
