"""The pooling slot: names, options, modules and functions in it, and what it refuses."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch_geometric.nn import aggr as pyg
from torch_geometric.nn import global_add_pool, global_mean_pool

from gnpool.models import (
    GraphNet,
    NodeNet,
    SAGPoolNet,
    Set2Set,
    SetNet,
    SetTransformer,
    SortPooling,
    StudyGNPAggregation,
    make_pooling,
    pooled_channels,
)
from gnpool.models.networks import graph_net
from gnpool.models.poolings import slot
from gnpool.nn import GNPAggregation, param_groups
from tests.models.cases import GNPS, POOLINGS, alive, graphs, nodes, sets
from tests.nn.expected import in_both_coordinates, names_of


@pytest.mark.parametrize(
    ("pooling", "channels"),
    [
        ("sum", 6),
        ("max", 6),
        ("mean", 6),
        ("min", 6),
        ("gnp", 6),
        ("gnp+", 6),
        ("gnpg", 6),
        ("sort", 120),
        ("set2set", 12),
        (GNPAggregation(6, mix=False, branches="both"), 12),
        (GNPAggregation(6, mix=False), 6),
        (GNPAggregation(6, coordinates="published", mix=False), 6),
        (pyg.QuantileAggregation([0.2, 0.5]), 12),
        (pyg.MultiAggregation(["mean", "std"]), 12),
        (pyg.SoftmaxAggregation(learn=True), 6),
        (global_add_pool, 6),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_output_channels(pooling: Any, channels: int) -> None:
    model = SetNet(2, pooling, hidden=6)
    assert pooled_channels(model.pool, 6) == channels
    assert model.out.in_features == channels
    inputs = sets()
    assert model(**{**inputs, "x": inputs["x"].float()}).shape == (4, 1)


def test_one_channel_through_both_branches() -> None:
    assert pooled_channels(GNPAggregation(1, coordinates="published", mix=False), 1) == 2
    assert pooled_channels(GNPAggregation(1, branches="split", mix=False), 1) == 2
    assert pooled_channels(GNPAggregation(1, mix=False), 1) == 1


@pytest.mark.parametrize("name", POOLINGS)
def test_the_same_module_by_name_and_ready_made(name: str) -> None:
    model = alive(lambda: SetNet(2, name, hidden=4))
    ready = alive(lambda: SetNet(2, make_pooling(name, 4), hidden=4))
    inputs = sets()
    torch.testing.assert_close(ready(**inputs), model(**inputs))


def test_functions_in_the_slots() -> None:
    inputs = graphs()
    wanted = alive(lambda: GraphNet(2, "sum", "mean", hidden=4))(**inputs)
    torch.testing.assert_close(
        alive(lambda: GraphNet(2, global_add_pool, global_mean_pool, hidden=4))(**inputs), wanted
    )


@in_both_coordinates
def test_a_module_is_taken_as_it_is_and_copied_per_layer_of_nodes(coordinates: str) -> None:
    aggregation = GNPAggregation(4, coordinates=coordinates)
    raw = f"raw_{names_of(aggregation)[0]}"
    model = GraphNet(2, aggregation, "sum", hidden=4)
    assert model.aggr is aggregation
    layers = NodeNet(2, aggregation, hidden=4).layers
    assert len({id(getattr(layer.aggr, raw)) for layer in layers} | {id(getattr(aggregation, raw))}) == 4


@pytest.mark.parametrize("name", GNPS)
def test_hooks_of_the_aggregation_see_the_messages(name: str) -> None:
    model, inputs, seen = alive(lambda: GraphNet(2, name, "sum", hidden=4)), graphs(), []
    wanted = model(**inputs)
    model.aggr.register_forward_hook(lambda module, args, output: seen.append(args[0].shape))
    torch.testing.assert_close(model(**inputs), wanted)
    assert seen == [(inputs["edge_index"].size(1), 4)]


def test_options_reach_the_poolings() -> None:
    model = GraphNet(1, gnp_bias=True, nonneg="abs", t0=2.0, readout_options={"t0": -2.0, "p_max": 20.0})
    assert repr(model.aggr) == "StudyGNPAggregation(32, coordinates='published', bias=True, nonneg='abs', t0=2.0)"
    assert repr(model.readout) == (
        "StudyGNPAggregation(32, coordinates='published', bias=True, nonneg='abs', p_max=20.0, t0=-2.0)"
    )
    assert model.aggr.raw_p_pos.item() == model.aggr.raw_p_neg.item() == 2.0
    assert model.readout.raw_p_neg.item() == -2.0
    assert SetNet(1, "set2set", pool_options={"processing_steps": 2}).pool.processing_steps == 2
    assert GraphNet(1, "sum", "sort", readout_options={"k": 3}).out.in_features == 96
    assert NodeNet(1, aggr_options={"start": "min"}).layers[2].aggr.p_neg.item() == 50.0
    assert GraphNet(1).aggr.mix.bias is None


def test_the_names_tell_the_coordinates() -> None:
    layers = {name: make_pooling(name, 6) for name in GNPS}
    assert {name: (layer.coordinates, layer.branches) for name, layer in layers.items()} == {
        "gnp": ("published", "split"),
        "gnp+": ("published", "positive"),
        "gnpg": ("growth", "one"),
    }
    assert {module.coordinates for module in GraphNet(1).modules() if isinstance(module, GNPAggregation)} == {
        "published"
    }


def test_growth_takes_the_options_of_a_network_that_it_knows() -> None:
    model = GraphNet(1, "gnpg", "gnpg", gnp_bias=True, nonneg="abs", t0=2.0, readout_options={"start": "geometric"})
    assert repr(model.aggr) == "GNPAggregation(32, bias=True, nonneg='abs')"
    assert repr(model.readout) == "GNPAggregation(32, bias=True, nonneg='abs', start='geometric')"
    assert model.readout.p.item() == 0.0


def test_gnp_plus_is_one_branch_over_all_channels() -> None:
    pooling = make_pooling("gnp+", 6)
    assert repr(pooling) == "GNPAggregation(6, coordinates='published', branches='positive')"
    assert set(pooling.state_dict()) == {"raw_p_pos", "raw_q_pos", "mix.weight"}


@pytest.mark.parametrize("branches", ["split", "both"])
@pytest.mark.parametrize("mask", ["positive", "negative"])
def test_masking_sets_half_of_the_pooled_channels_to_zero(mask: str, branches: str) -> None:
    trained = alive(lambda: GraphNet(2, hidden=6, gnp_bias=True, readout_options={"branches": branches}))
    masked = GraphNet(2, hidden=6, gnp_bias=True, readout_options={"branches": branches, "mask": mask}).double()
    masked.load_state_dict(trained.state_dict())
    wanted = copy.deepcopy(trained)  # zero columns of W do the same as zeros in front of it
    width = wanted.readout.mix.in_features // 2
    with torch.no_grad():
        wanted.readout.mix.weight[:, slice(0, width) if mask == "positive" else slice(width, None)] = 0.0
    inputs = graphs()
    torch.testing.assert_close(masked(**inputs), wanted(**inputs))
    assert not torch.allclose(masked(**inputs), trained(**inputs))
    masked(**inputs).sum().backward()
    gone, left = ("pos", "neg") if mask == "positive" else ("neg", "pos")
    assert float(getattr(masked.readout, f"raw_p_{gone}").grad) == 0.0
    assert float(getattr(masked.readout, f"raw_p_{left}").grad) != 0.0
    assert list(masked.state_dict()) == list(trained.state_dict())


@pytest.mark.parametrize("start", ["max", "rms", "min"])
def test_a_masked_layer_has_a_start(start: str) -> None:
    layer = make_pooling("gnp", 4, mask="negative", start=start)
    plain = make_pooling("gnp", 4, start=start)
    names = ("p_pos", "q_pos", "p_neg", "q_neg")
    assert [getattr(layer, name) for name in names] == [getattr(plain, name) for name in names]


def test_a_moved_start_survives_a_reset() -> None:
    model = GraphNet(1, t0=-2.0, readout_options={"q0": 0.5})
    for parameter in model.parameters():
        torch.nn.init.constant_(parameter, 3.0)
    model.reset_parameters()
    assert model.aggr.raw_p_pos.item() == -2.0
    assert model.aggr.raw_q_pos.item() == 0.0
    assert model.readout.raw_q_neg.item() == 0.5
    assert not any(bool((parameter == 3.0).any()) for parameter in model.parameters())


NETWORKS: dict[str, Callable[[], torch.nn.Module]] = {
    "graph": lambda: GraphNet(1, "gnp", "set2set"),
    "gin": lambda: GraphNet(1, "mean", "sort", form="gin"),
    "node": lambda: NodeNet(1, edge_weights=True),
    "node-gin": lambda: NodeNet(1, edge_weights=True, form="gin"),
    "set": lambda: SetNet(1, "gnp+", depth=2),
    "sab": lambda: SetTransformer(1),
    "isab": lambda: SetTransformer(1, encoder="isab"),
    "sagpool": lambda: SAGPoolNet(1),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_reset_draws_again_what_the_constructor_drew(name: str) -> None:
    model = NETWORKS[name]()
    torch.manual_seed(3)
    model.reset_parameters()
    first = copy.deepcopy(model.state_dict())
    for parameter in model.parameters():
        torch.nn.init.constant_(parameter, 3.0)
    torch.manual_seed(3)
    model.reset_parameters()
    for key, value in model.state_dict().items():
        assert torch.equal(value, first[key]), key
        assert not bool((value == 3.0).any()), key


@pytest.mark.parametrize("name", NETWORKS)
def test_pickle_and_deepcopy(name: str) -> None:
    model = NETWORKS[name]()
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):  # noqa: S301 - our own bytes
        assert repr(other) == repr(model)
        assert all(torch.equal(a, b) for a, b in zip(other.parameters(), model.parameters(), strict=True))


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (
            GraphNet(1, "sum", "max", hidden=8),
            "GraphNet(1, aggr=SumAggregation(), readout=MaxAggregation(), hidden=8, activation='relu', form='message')",
        ),
        (
            NodeNet(2, "min", edge_weights=True, hidden=8, activation="elu", form="gin"),
            "NodeNet(2, aggr=MinAggregation(), edge_weights=True, layers=3, hidden=8, activation='elu', form='gin')",
        ),
        (
            SetNet(1, "gnp+"),
            (
                "SetNet(1, pool=GNPAggregation(32, coordinates='published', branches='positive'), depth=1, hidden=32, "
                "activation='relu')"
            ),
        ),
        (SetNet(1, "gnpg"), "SetNet(1, pool=GNPAggregation(32), depth=1, hidden=32, activation='relu')"),
        (SetTransformer(1), "SetTransformer(1, encoder='sab', hidden=64, heads=4, blocks=2)"),
        (
            SetTransformer(1, encoder="isab"),
            "SetTransformer(1, encoder='isab', hidden=64, heads=4, blocks=2, points=32)",
        ),
        (SAGPoolNet(1), "SAGPoolNet(1, hidden=128, ratio=0.5, blocks=3, dropout=0.0)"),
        (SortPooling(4), "SortPooling(4, k=20, sort_channels=True)"),
        (Set2Set(4, 2), "Set2Set(4, processing_steps=2)"),
        (
            StudyGNPAggregation(4, mask="negative", q0=1.0),
            "StudyGNPAggregation(4, coordinates='published', mask='negative', q0=1.0)",
        ),
        (GraphNet(1).mlp, "MLP([1, 32, 32], 'relu')"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_repr(model: torch.nn.Module, text: str) -> None:
    assert repr(model) == text


def test_param_groups_find_the_exponents() -> None:
    sizes = {g["name"]: len(g["params"]) for g in param_groups(GraphNet(1, t0=0.5), 1e-3)}
    assert sizes == {"rest": 7, "p": 4, "q": 4}
    sizes = {g["name"]: len(g["params"]) for g in param_groups(GraphNet(1, "gnpg", "gnpg"), 1e-3)}
    assert sizes == {"rest": 7, "p": 2, "g": 2}


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_dropout_of_sagpool(dropout: float) -> None:
    model, inputs = alive(lambda: SAGPoolNet(2, hidden=6, dropout=dropout)), graphs()
    assert torch.equal(model(**inputs), model(**inputs)) == (dropout == 0.0)
    model.eval()
    assert torch.equal(model(**inputs), model(**inputs))


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: make_pooling("median", 4), ValueError, "'name' must be one of .*'set2set'.*, got 'median'"),
        (lambda: make_pooling("sum", 4, k=3), TypeError, "'sum' takes no options, got 'k'"),
        (
            lambda: make_pooling("sort", 4, n=3),
            TypeError,
            r"'sort' takes the options \('k', 'sort_channels'\), got 'n'",
        ),
        (lambda: make_pooling("gnp+", 4, branches="both"), TypeError, "'gnp\\+' takes the options .*, got 'branches'"),
        (lambda: make_pooling("gnpg", 4, t0=1.0), TypeError, "'gnpg' takes the options .*, got 't0'"),
        (
            lambda: StudyGNPAggregation(4, coordinates="growth"),
            ValueError,
            "'coordinates' must be 'published', which is what it studies",
        ),
        (lambda: make_pooling("sort", 4, k=0), ValueError, "'k' must be a positive integer, got 0"),
        (lambda: make_pooling("set2set", 4, processing_steps=0), ValueError, "'processing_steps' must be a positive"),
        (lambda: make_pooling("gnp", 4, mask="both"), ValueError, "'mask' must be one of .*, got 'both'"),
        (
            lambda: make_pooling("gnp", 4, start="sum", t0=1.0),
            ValueError,
            "give 't0' and 'q0' or start='sum', not both",
        ),
        (lambda: GraphNet(1, 3), TypeError, "'aggr' must be a name, an Aggregation or a callable, got int"),
        (lambda: GraphNet(1, readout=global_add_pool, readout_options={"k": 1}), ValueError, "'readout_options' need"),
        (lambda: GraphNet(1, form="gat"), ValueError, "'form' must be one of .*, got 'gat'"),
        (lambda: GraphNet(1, "set2set", form="gin"), ValueError, "that keeps 32 channels, got 64"),
        (lambda: GraphNet(1, activation="tanh"), ValueError, "GraphNet: 'activation' must be one of .*, got 'tanh'"),
        (lambda: NodeNet(1, form="sage"), ValueError, "NodeNet: 'form' must be one of .*, got 'sage'"),
        (lambda: NodeNet(1, "set2set", form="gin"), ValueError, "that keeps 32 channels, got 64"),
        (lambda: NodeNet(1, layers=0), ValueError, "'layers' must be a positive integer, got 0"),
        (lambda: SetNet(1, depth=0), ValueError, "'depth' must be a positive integer, got 0"),
        (lambda: SetTransformer(1, encoder="x"), ValueError, "'encoder' must be one of .*, got 'x'"),
        (lambda: SetTransformer(1, hidden=10), ValueError, "'heads' must divide 'hidden', got 4 and 10"),
        (lambda: SAGPoolNet(1, ratio=0.0), ValueError, r"'ratio' must lie in \(0, 1\], got 0.0"),
        (lambda: SAGPoolNet(1, dropout=1.0), ValueError, r"'dropout' must lie in \[0, 1\), got 1.0"),
        (lambda: SortPooling(3)(torch.ones(2, 4)), ValueError, "'x' must have 3 channels, got 4"),
        (lambda: Set2Set(3)(torch.ones(2, 4)), ValueError, "'x' must have 3 channels, got 4"),
    ],
)
def test_refusals(make: Callable[[], Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        make()


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"max_nodes": 3}, "'max_nodes' is 3, but the largest graph has 5 nodes"),
        ({"batch_size": 3}, "'ptr' has 4 segments but 'batch_size' is 3"),
        ({"ptr": torch.tensor([0, 4, 5, 10, 12])}, "'ptr' must run from 0 to 13, got 0 to 12"),
        ({"batch": torch.zeros(3, dtype=torch.long)}, "'batch' must have one value for each of the 13 rows, got 3"),
        ({"batch": torch.arange(13) % 2, "ptr": None, "batch_size": 2}, "must be sorted"),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else "",
)
def test_batches_that_are_refused(change: dict[str, Any], match: str) -> None:
    model = alive(lambda: GraphNet(2, "sum", "sort", hidden=4))
    with pytest.raises(ValueError, match=match):
        model(**{**graphs(), **change})


def test_edges_between_graphs_are_refused() -> None:
    inputs = graphs()
    inputs["edge_index"] = torch.tensor([[0], [4]])
    with pytest.raises(ValueError, match="'edge_index' must not connect different graphs"):
        alive(lambda: SAGPoolNet(2, hidden=4))(**inputs)


def test_weights_where_none_are_expected_and_the_other_way_round() -> None:
    plain, weighted = (alive(lambda w=w: NodeNet(2, "sum", edge_weights=w, hidden=4)) for w in (False, True))
    with pytest.raises(ValueError, match="built with edge_weights=False, but 'edge_weight' was given"):
        plain(**nodes(True))
    with pytest.raises(ValueError, match="built with edge_weights=True, but none was given"):
        weighted(**nodes(False))
    inputs = nodes(True)
    with pytest.raises(ValueError, match=r"one value for each of the 33 edges, got shape \(32,\)"):
        weighted(inputs["x"], inputs["edge_index"], inputs["edge_weight"][1:])


@pytest.mark.parametrize("name", ["gnp", "gnpg"])
@pytest.mark.parametrize("form", ["message", "gin"])
def test_gnp_needs_no_relu_in_front_of_it(form, name, monkeypatch):
    """GNP takes the ReLU of its rows itself, so the network leaves out the one in front of it, and no bit changes."""
    torch.manual_seed(0)
    x, edge_index = torch.randn(12, 1), torch.randint(12, (2, 60))
    model = GraphNet(1, name, name, form=form, hidden=8)
    found = []
    for clips in (slot.clips, lambda pooling: False):
        monkeypatch.setattr(graph_net, "clips", clips)
        model.zero_grad()
        y = model(x, edge_index)
        y.sum().backward()
        found.append([y.detach(), *(p.grad for p in model.parameters())])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
    assert not slot.clips(GNPAggregation(8, nonneg="abs"))
