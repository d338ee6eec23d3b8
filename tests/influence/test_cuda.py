"""On a GPU, cascades have the bits of those on a CPU, and training as CUDA graphs equals training on the CPU."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

from gnpool.influence import CascadeGraph, ModelGains, Part, fit_monstor, lazy_greedy, make_labels, simulate

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or os.environ.get("TRITON_INTERPRET") == "1",
    reason="needs a CUDA device, and TRITON_INTERPRET=0 so that kernels are compiled for it",
)


def random_graph(nodes: int, edges: int) -> CascadeGraph:
    rng = np.random.default_rng(0)
    pairs = np.unique((rng.random((edges, 2)) ** (2, 1) * nodes).astype(np.int64), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return CascadeGraph(
        nodes, *pairs.T, rng.choice([0.02, 0.1, 0.3, 1.0, 0.0], len(pairs), p=[0.5, 0.3, 0.1, 0.05, 0.05])
    )


@pytest.fixture(scope="module")
def graph() -> CascadeGraph:
    return random_graph(3000, 20_000)


@pytest.mark.parametrize(("runs", "paired"), [(1, False), (10_000, False), (777, True)])
def test_cascades(graph, runs, paired):
    sets = [[0, 5, 9], list(range(50)), [], [2999]]
    options = {"seed": 3, "record": True, "paired": paired}
    here, there = (simulate(graph, sets, runs, device=device, **options) for device in ("cpu", "cuda"))
    assert torch.equal(here.influence, there.influence)
    assert torch.equal(here.standard_error.nan_to_num(-1), there.standard_error.nan_to_num(-1))
    assert all(torch.equal(a, b) for a, b in zip(here.steps, there.steps, strict=True))


@pytest.mark.parametrize("aggr", ["gnp", "max", "sum"])
def test_training(graph, aggr, tmp_path, monkeypatch):
    labels = make_labels(graph, sets=5, runs=1000, device="cuda")  # few: the CPU trains on them, too
    parts = [Part.split("a", "a", graph, labels), Part.split("b", "b", graph, labels)]
    options = {"epochs": 2, "stacked": {"a": 2, "b": 3}}
    here = fit_monstor(parts, aggr, device="cpu", **options)
    there = fit_monstor(parts, aggr, device="cuda", **options)
    for group in ("a", "b"):
        assert there[group].start == here[group].start
        assert there[group].curve == pytest.approx(here[group].curve, rel=0.02)
    for name, value in here["a"].model.state_dict().items():
        torch.testing.assert_close(there["a"].model.state_dict()[name], value, rtol=0.05, atol=0.01, msg=name)

    monkeypatch.setattr("gnpool.influence.train.SAVE_SECONDS", 0.0)

    def stop(epoch: int, epochs: int, error: float) -> None:
        if epoch == 2:
            raise KeyboardInterrupt

    longer = {**options, "epochs": 3, "device": "cuda"}
    whole = fit_monstor(parts, aggr, **longer)
    with pytest.raises(KeyboardInterrupt):
        fit_monstor(parts, aggr, checkpoint=tmp_path, progress=stop, **longer)
    again = fit_monstor(parts, aggr, checkpoint=tmp_path, **longer)
    assert again["a"].curve == pytest.approx(whole["a"].curve, rel=1e-3)


def test_selection():
    graph = random_graph(400, 2_000)  # small: the CPU chooses, too
    labels = make_labels(graph, sets=10, runs=500, device="cuda")
    trained = fit_monstor([Part.split("a", "a", graph, labels)], "max", epochs=1, device="cuda")["a"]
    chosen = [
        lazy_greedy(ModelGains(trained.model, graph, trained.stacked, device), graph.nodes, 3, first_batch=100)
        for device in ("cpu", "cuda")
    ]
    assert chosen[0].gains == pytest.approx(chosen[1].gains, rel=1e-3)
