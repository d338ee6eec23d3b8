"""DeepNet and RecurrentNet equal their formulas (loops in numpy), also padded, as replicas, from files and in units."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from gnpool import Batches, Setting, fit_many
from gnpool.models import DeepNet, RecurrentNet, load_saved, save_model
from gnpool.models.networks.norm import BatchNorm
from gnpool.tasks import CrossEntropy
from gnpool.tasks.arena import get_benchmark, pointer_accuracy, pointer_graph_accuracy, pointer_nll
from gnpool.training.program import by_name
from tests.models.cases import (
    SIZES,
    activate,
    alive,
    array,
    assert_replicas_agree,
    dense,
    gradients,
    graphs,
    no_fallback,
    pooled,
)
from tests.training.alone import train_alone

REAL, NODES = len(SIZES), sum(SIZES)


def with_edges(dummy: tuple[int, ...] = ()) -> dict[str, Any]:
    """Graphs whose edges have two features each."""
    inputs = graphs(dummy)
    source, destination = inputs["edge_index"]
    return {**inputs, "edge_attr": torch.stack([(source * destination % 5) / 5, (source + destination) % 3 - 1.0], 1)}


def as_double(inputs: dict[str, Any]) -> dict[str, Any]:
    return {k: v.double() if isinstance(v, Tensor) and v.is_floating_point() else v for k, v in inputs.items()}


def with_loops(weighted: bool = False, dummy: tuple[int, ...] = ()) -> dict[str, Any]:
    """Graphs with self-loops, and weights of the edges if asked for."""
    inputs = graphs(dummy)
    rows = inputs["x"].size(0)
    edges = torch.cat([inputs["edge_index"], torch.arange(rows).expand(2, rows)], dim=1)
    edges = edges[:, (edges[1] * rows + edges[0]).argsort()]
    weight = {"edge_weight": (edges.prod(dim=0) % 7 + 1).double() / 7} if weighted else {}
    return {**inputs, "edge_index": edges, **weight}


# What DeepNet computes


def normed(layer: Any, x: np.ndarray, training: bool) -> np.ndarray:
    if type(layer).__name__ == "NoNorm":
        return x
    scale, shift = array(layer.weight), array(layer.bias)
    if type(layer).__name__ == "LayerNorm":
        mean, variance = x.mean(1, keepdims=True), x.var(1, keepdims=True)
    elif training:
        mean, variance = x.mean(0), x.var(0)
    else:
        mean, variance = array(layer.running_mean), array(layer.running_var)
    return (x - mean) / np.sqrt(variance + layer.eps) * scale + shift


def deep_net(model: DeepNet, inputs: dict[str, Any]) -> np.ndarray:
    h, states = array(inputs["x"]), []
    source, destination = array(inputs["edge_index"])
    act = functools.partial(activate, model.activation)
    for number, layer in enumerate(model.layers, start=1):
        messages = h[source]
        if layer.edge is not None:
            messages = act(messages + dense(layer.edge, array(inputs["edge_attr"])))
        eps = float(torch.as_tensor(layer.eps).detach())
        z = dense(layer.lin1, (1 + eps) * h + pooled(layer.aggr, messages, destination, len(h)))
        z = dense(layer.lin2, act(normed(layer.inner_norm, z, model.training)))
        z = normed(layer.outer_norm, z, model.training)
        z = act(z) if model.last_activation or number < len(model.layers) else z
        h = h + z if model.residual and z.shape == h.shape else z
        states.append(h)
    if model.jumping:
        h = np.concatenate(states, axis=1) if model.jumping == "cat" else np.max(states, axis=0)
    if model.readout is not None:
        h = pooled(model.readout, h, array(inputs["batch"]), inputs["batch_size"])
    if model.head is not None:
        h = act(dense(model.head, h))
    return dense(model.out, h)


DEEP: dict[str, dict[str, Any]] = {
    "plain": {},
    "layer norm": {"norm": "layer", "layers": 2},
    "no norm": {"norm": None, "expand": 1},
    "residual": {"residual": True, "hidden": 2, "expand": 3, "norm": None},
    "residual and cat": {"residual": True, "jumping": "cat"},
    "max": {"jumping": "max", "last_activation": False},
    "eps": {"train_eps": True},
    "head": {"head": 5, "out_channels": 3, "activation": "elu"},
    "nodes": {"readout": None, "layers": 1},
    "edges": {"edge_channels": 2},
    "edges and all": {"edge_channels": 2, "residual": True, "jumping": "cat", "train_eps": True, "activation": "elu"},
}
PAIRS = [("sum", "mean"), ("mean", "max"), ("max", "sum"), ("gnpg", "gnpg"), ("gnp", "min")]


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("options", DEEP.values(), ids=DEEP)
@pytest.mark.parametrize(("aggr", "readout"), PAIRS, ids=["-".join(pair) for pair in PAIRS])
def test_deep_net(aggr: str, readout: str, options: dict[str, Any], training: bool) -> None:
    model = alive(lambda: DeepNet(2, **{"aggr": aggr, "readout": readout, "hidden": 4, **options}))
    for module in model.modules():
        if isinstance(module, BatchNorm):
            module.running_mean.uniform_(-1, 1)
            module.running_var.uniform_(0.5, 2)
    inputs = as_double(with_edges() if "edge_channels" in options else graphs())
    wanted = deep_net(model.train(training), inputs)
    np.testing.assert_allclose(array(model(**inputs)), wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"edge_channels": 2}, {"jumping": "cat", "norm": "layer"}], ids=str)
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_dummies_change_nothing_of_deep_net(options: dict[str, Any], training: bool) -> None:
    """In training, dummies need weight 0, so that batch norm leaves them out."""
    model = alive(lambda: DeepNet(2, "gnpg", "gnpg", hidden=4, **options)).train(training)
    make = with_edges if "edge_channels" in options else graphs
    wanted_y, wanted = gradients(model, as_double(make()), REAL)
    statistics = {name: value.clone() for name, value in model.named_buffers()}
    for dummy in [(0,), (1,), (6,), (0, 0, 12)]:
        model.load_state_dict({**model.state_dict(), **{name: v * 0 for name, v in statistics.items()}})
        fresh = {name: v * 0 + 1 if name.endswith("var") else v * 0 for name, v in statistics.items()}
        model.load_state_dict({**model.state_dict(), **fresh})
        weight = torch.tensor([1.0] * REAL + [0.0] * len(dummy))
        y, got = gradients(model, {**as_double(make(dummy)), "weight": weight}, REAL)
        torch.testing.assert_close(y, wanted_y)
        for name, gradient in got.items():
            torch.testing.assert_close(gradient, wanted[name], msg=f"{name} with a dummy of {dummy}")
        for name, value in model.named_buffers():
            torch.testing.assert_close(value, statistics[name], msg=f"{name} with a dummy of {dummy}")


def test_batch_norm_of_all_rows_is_that_of_torch() -> None:
    x = torch.randn(7, 3, dtype=torch.float64)
    ours, theirs = BatchNorm(3).double(), torch.nn.BatchNorm1d(3).double()
    torch.testing.assert_close(ours(x, torch.ones(7)), theirs(x))
    for name, value in theirs.named_buffers():
        torch.testing.assert_close(ours.get_buffer(name), value)
    torch.testing.assert_close(ours.eval()(x, torch.zeros(7)), theirs.eval()(x))


def test_weights_may_belong_to_nodes() -> None:
    model = alive(lambda: DeepNet(2, "sum", "sum", hidden=4)).train()
    inputs = graphs((3,))
    of_graphs = torch.tensor([1.0] * REAL + [0.0])
    of_nodes = torch.tensor([1.0] * NODES + [0.0] * 3)
    torch.testing.assert_close(model(**inputs, weight=of_nodes), model(**inputs, weight=of_graphs))
    with pytest.raises(ValueError, match="one value for each of the 16 nodes or 5 graphs, got 2"):
        model(**inputs, weight=torch.ones(2))


def test_dropout_acts_in_training_alone() -> None:
    model = alive(lambda: DeepNet(2, hidden=32, dropout=0.5, head=32, head_dropout=0.5, norm=None))
    inputs = graphs()
    assert torch.equal(model.eval()(**inputs), model(**inputs))
    assert not torch.equal(model.train()(**inputs), model(**inputs))
    assert type(DeepNet(2).drop) is torch.nn.Identity  # without dropout a unit draws no random numbers


# What RecurrentNet computes


def recurrent_net(model: RecurrentNet, inputs: dict[str, Any], rounds: list[int]) -> np.ndarray:
    """``rounds`` of each graph."""
    act = functools.partial(activate, model.activation)
    x, batch = array(inputs["x"]), array(inputs["batch"])
    source, destination = array(inputs["edge_index"])
    weight = array(inputs["edge_weight"])[:, None] if model.edge_weights else np.zeros((len(source), 0))
    encoded = act(dense(model.encode, x))
    h = encoded
    for done in range(max(rounds)):
        state = np.concatenate([encoded, h], axis=1)
        messages = act(dense(model.message2, act(dense(model.message1, np.concatenate([state[source], weight], 1)))))
        state = np.concatenate([state, pooled(model.aggr, messages, destination, len(x))], axis=1)
        candidate = dense(model.candidate, state)
        if model.norm is not None:
            candidate = normed(model.norm, candidate, training=False)
        gate = 1 / (1 + np.exp(-dense(model.gate, state)))
        new = (1 - gate) * h + gate * act(candidate)
        h = np.where((done < np.array(rounds)[batch])[:, None], new, h)
    if model.output == "node":
        return dense(model.out, h)
    if model.output == "graph":
        return dense(model.out, pooled(model.readout, h, batch, inputs["batch_size"]))
    state = np.concatenate([encoded, h], axis=1)
    pair = dense(model.to_source, state)[source] + dense(model.to_destination, state)[destination]
    if model.edge_weights:
        pair = pair + dense(model.to_weight, weight)
    score = np.exp(dense(model.out, act(pair))[:, 0])
    return np.log(score / np.bincount(destination, weights=score, minlength=len(x))[destination])


RECURRENT: dict[str, dict[str, Any]] = {
    "pointer": {},
    "weights": {"edge_weights": True},
    "node": {"output": "node", "out_channels": 2, "activation": "elu"},
    "graph": {"output": "graph", "readout": "mean", "norm": "layer"},
    "two rounds": {"rounds": 2, "edge_weights": True},
}


@pytest.mark.parametrize("options", RECURRENT.values(), ids=RECURRENT)
@pytest.mark.parametrize("aggr", ["sum", "max", "gnpg", "gnp"])
def test_recurrent_net(aggr: str, options: dict[str, Any]) -> None:
    model = alive(lambda: RecurrentNet(2, aggr, hidden=3, **options))
    inputs = with_loops(model.edge_weights)
    rounds = [2] * REAL if "rounds" in options else list(SIZES)
    np.testing.assert_allclose(array(model(**inputs)), recurrent_net(model, inputs, rounds), rtol=1e-9)


def test_stable_ends_each_graph_when_it_no_longer_changes() -> None:
    """The states of single nodes move towards a fixed point; those of one graph do not wait for another."""
    model: Any = alive(lambda: RecurrentNet(2, "mean", output="node", hidden=3, rounds="stable"))
    with torch.no_grad():
        for layer in (model.gate, model.candidate):
            layer.weight.mul_(0.2)
    inputs = with_loops()
    inputs["x"] = inputs["x"] * torch.tensor([1.0, 0.2, 3.0, 5.0]).repeat_interleave(torch.tensor(SIZES))[:, None]
    for tolerance in (0.5, 0.1, 0.02):
        model.tolerance = tolerance
        rounds = []
        for graph, size in enumerate(SIZES):
            first = sum(SIZES[:graph])
            mine = (inputs["edge_index"][1] >= first) & (inputs["edge_index"][1] < first + size)
            x, edges = inputs["x"][first : first + size], inputs["edge_index"][:, mine] - first
            model.rounds = 1
            state = lambda count: _state(model, x, edges, count)  # noqa: B023, E731 -- called at once
            steps = [(state(k + 1) - state(k)).abs().max() for k in range(size)]
            rounds.append(next((k + 1 for k, step in enumerate(steps) if step <= tolerance), size))
        model.rounds = "stable"
        assert len(set(rounds)) > 1 or tolerance == 0.02
        np.testing.assert_allclose(array(model(**inputs)), recurrent_net(model, inputs, rounds), rtol=1e-9)


def test_an_end_to_the_rounds() -> None:
    model: Any = alive(lambda: RecurrentNet(2, "max", output="node", hidden=3, most_rounds=2))
    inputs = with_loops()
    wanted = recurrent_net(model, inputs, [min(2, size) for size in SIZES])
    np.testing.assert_allclose(array(model(**inputs)), wanted, rtol=1e-9)


def _state(model: Any, x: Tensor, edges: Tensor, rounds: int) -> Tensor:
    encoded = functional.relu(model.encode(x))
    h = encoded
    for _ in range(rounds):
        h = model._round(encoded, h, edges, None)
    return h


def test_pointers_come_in_the_order_of_the_edges() -> None:
    model = alive(lambda: RecurrentNet(2, "max", hidden=4, edge_weights=True))
    inputs = with_loops(weighted=True)
    order = torch.randperm(inputs["edge_index"].size(1), generator=torch.Generator().manual_seed(0))
    mixed = {**inputs, "edge_index": inputs["edge_index"][:, order], "edge_weight": inputs["edge_weight"][order]}
    torch.testing.assert_close(model(**mixed), model(**inputs)[order])


@pytest.mark.parametrize("output", ["node", "graph", "pointer"])
def test_dummies_change_nothing_of_recurrent_net(output: str) -> None:
    model = alive(lambda: RecurrentNet(2, "gnpg", hidden=3, output=output))
    real = with_loops()
    items = {"node": NODES, "graph": REAL, "pointer": real["edge_index"].size(1)}[output]
    wanted_y, wanted = gradients(model, real, items)
    for dummy in [(0,), (6,), (0, 0, 12)]:
        y, got = gradients(model, with_loops(dummy=dummy), items)
        torch.testing.assert_close(y, wanted_y)
        for name, gradient in got.items():
            torch.testing.assert_close(gradient, wanted[name], msg=f"{name} with a dummy of {dummy}")


# Both


REPLICAS: dict[str, tuple[Callable[[], torch.nn.Module], Callable[[], dict[str, Any]]]] = {
    "deep": (lambda: DeepNet(2, "gnpg", "gnpg", hidden=4, norm="layer", jumping="cat", train_eps=True), graphs),
    "deep with edges": (
        lambda: DeepNet(2, "gnpg", "max", hidden=4, norm=None, edge_channels=2, residual=True),
        lambda: as_double(with_edges()),
    ),
    "recurrent": (lambda: RecurrentNet(2, "gnpg", hidden=3), with_loops),
    "recurrent with weights": (
        lambda: RecurrentNet(2, "gnpg", hidden=3, edge_weights=True, norm="layer"),
        lambda: with_loops(weighted=True),
    ),
    "recurrent, one number": (lambda: RecurrentNet(2, "max", hidden=3, output="graph"), with_loops),
}


@pytest.mark.parametrize(("make", "inputs"), REPLICAS.values(), ids=REPLICAS)
def test_replicas(make: Callable[[], torch.nn.Module], inputs: Callable[[], dict[str, Any]]) -> None:
    assert_replicas_agree(make, inputs())


SPECS: dict[str, dict[str, Any]] = {
    "DeepNet": {"in_channels": 2, "aggr": "sum", "readout": "max", "jumping": "cat", "train_eps": True, "hidden": 4},
    "RecurrentNet": {"in_channels": 2, "hidden": 4, "rounds": "stable"},
}


@pytest.mark.parametrize("name", SPECS)
def test_files(name: str, tmp_path: Path) -> None:
    """Statistics of batch norm are weights like others."""
    model = {"DeepNet": DeepNet, "RecurrentNet": RecurrentNet}[name](**SPECS[name])
    inputs = {k: v.float() if isinstance(v, Tensor) and v.is_floating_point() else v for k, v in with_loops().items()}
    model.train()(**inputs)
    wanted = model.eval()(**inputs)
    save_model(tmp_path / "model", model, {"class": name, "arguments": SPECS[name]})
    again = load_saved(tmp_path / "model").model
    assert torch.equal(again(**inputs), wanted)
    assert repr(again) == repr(model)


def test_one_line() -> None:
    assert repr(DeepNet(2, "sum", "max", layers=2, jumping="cat")) == (
        "DeepNet(2, aggr=SumAggregation(), readout=MaxAggregation(), layers=2, hidden=64, norm='batch', "
        "residual=False, jumping='cat', dropout=0.0)"
    )
    assert repr(RecurrentNet(2, "max", output="graph", readout="mean", rounds="stable")) == (
        "RecurrentNet(2, aggr=MaxAggregation(), output='graph', readout=MeanAggregation(), rounds='stable', "
        "edge_weights=False, hidden=64, activation='relu')"
    )


@pytest.mark.parametrize("name", SPECS)
def test_reset_draws_the_weights_anew(name: str) -> None:
    torch.manual_seed(0)
    model: Any = {"DeepNet": DeepNet, "RecurrentNet": RecurrentNet}[name](**SPECS[name])
    first = {key: value.clone() for key, value in model.state_dict().items()}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    torch.manual_seed(0)
    model.reset_parameters()
    for key, value in model.state_dict().items():
        assert value.std() > 0 if first[key].numel() > 1 and first[key].std() > 0 else torch.equal(value, first[key])
        assert (value - first[key]).abs().max() < 1.0


def test_training_with_batch_norm_is_as_alone() -> None:
    """Adam has a large epsilon here, because the gradient of a bias in front of batch norm is only rounding."""
    data = get_benchmark("good_motif_size").dataset("train", count=24)
    for graph in data:
        graph.x = graph.x.double()
    batches, loss, setting = (
        Batches(data, 8),
        CrossEntropy(),
        Setting(lr=3e-3, optimizer="adam", start="sum/mean", eps=1e-3),
    )
    make = lambda: DeepNet(1, "gnpg", "gnpg", hidden=6, out_channels=3).double()  # noqa: E731
    with no_fallback():
        fit = fit_many(make, batches, loss, [setting], seeds=2, epochs=8, vectorize=True)
    for run in fit.runs:
        alone = train_alone(make, batches, loss, setting, run.seed, 8, by_name(make())).state_dict()
        for name, value in fit.state_dict(run).items():
            torch.testing.assert_close(
                value, alone[name], rtol=1e-8, atol=1e-8, msg=lambda text, name=name: name + text
            )


def test_pointers_are_learned() -> None:
    """It trains for a few seconds on 4 to 7 nodes, and is then mostly right on 11."""
    data = get_benchmark("salsa_bfs").dataset("train", count=300)
    small, larger = ([g for g in data if g.num_nodes in sizes] for sizes in ((4, 7), (11,)))
    fit = fit_many(
        lambda: RecurrentNet(2, "max", hidden=16),
        Batches(small, 16, sorted_edges=True),
        pointer_nll,
        Setting(lr=1e-2, optimizer="adam"),
        epochs=15,
    )
    metrics = {"nodes": pointer_accuracy, "graphs": pointer_graph_accuracy}
    found = fit.evaluate(Batches(larger, 20, seed=None, sorted_edges=True), metrics)
    assert 0.8 < found["nodes"].item() < 1.0
    assert 0.0 < found["graphs"].item() < found["nodes"].item()


ERRORS: dict[str, tuple[Callable[[], Any], str]] = {
    "norm": (lambda: DeepNet(1, norm="group"), "'norm' must be one of"),
    "jumping": (lambda: DeepNet(1, jumping="lstm"), "'jumping' must be one of"),
    "layers": (lambda: DeepNet(1, layers=0), "'layers' must be a positive integer, got 0"),
    "dropout": (lambda: DeepNet(1, dropout=1.0), r"must lie in \[0, 1\), got 1.0"),
    "width": (lambda: DeepNet(1, "set2set"), "must keep the 1 channels of its layer, got 2"),
    "edges": (
        lambda: DeepNet(2, edge_channels=2, hidden=4)(**_float(graphs())),
        r"must have shape \(20, 2\), got none",
    ),
    "output": (lambda: RecurrentNet(1, output="edge"), "'output' must be one of"),
    "rounds": (lambda: RecurrentNet(1, rounds="some"), "'rounds' must be a positive integer or one of"),
    "no rounds": (lambda: RecurrentNet(1, rounds=0), "'rounds' must be a positive integer or one of"),
    "layer or none": (lambda: RecurrentNet(1, norm="batch"), "'norm' must be 'layer' or None"),
    "weights": (lambda: RecurrentNet(2, edge_weights=True, hidden=4)(**_float(with_loops())), "but none was given"),
}


def _float(inputs: dict[str, Any]) -> dict[str, Any]:
    return {k: v.float() if isinstance(v, Tensor) and v.is_floating_point() else v for k, v in inputs.items()}


@pytest.mark.parametrize(("call", "message"), ERRORS.values(), ids=ERRORS)
def test_errors(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("rounds", [0, 2.5, True, "often"])
def test_rounds_are_a_positive_integer_or_a_name(rounds):
    with pytest.raises(ValueError, match="'rounds' must be"):
        RecurrentNet(2, rounds=rounds)
