"""Reading: the right name, in function space, with its share, in words."""

from __future__ import annotations

import json

import pytest
import torch
from torch_geometric.data import Batch, Data

from gnpool import GNPAggregation, GNPConv, read
from gnpool.models import GraphNet, SetNet


def sets(rows=40, count=6, seed=0):
    generator = torch.Generator().manual_seed(seed)
    data = [Data(x=torch.rand(5 + k, 1, generator=generator) + 0.1) for k in range(count)]
    return Batch.from_data_list(data)


def pooled(p, q, branch="positive"):
    """A set network whose only GNP stands at (p, q) in the given branch, with the other one switched off."""
    torch.manual_seed(1)
    model = SetNet(1, "gnp", hidden=8)
    with torch.no_grad():
        for weight in model.mlp.parameters():
            weight.abs_()
        short = "pos" if branch == "positive" else "neg"
        setattr(model.pool, f"p_{short}", p)
        setattr(model.pool, f"q_{short}", q)
        model.pool.mix.weight[:, slice(4, 8) if branch == "positive" else slice(0, 4)] = 0.0
    return model


@pytest.mark.parametrize(
    ("p", "q", "branch", "name"),
    [
        (1.001, 0.0, "positive", "sum"),
        (1.02, 0.98, "positive", "mean"),
        (49.0, 0.0, "positive", "max"),
        (2.01, 0.01, "positive", "L2 norm"),
        (1.99, 0.5, "positive", "root mean square"),
        (1.001, 0.0, "negative", "harmonic sum"),
        (1.01, -1.0, "negative", "harmonic mean"),
        (49.0, 0.0, "negative", "min"),
    ],
)
def test_names(p, q, branch, name):
    reading = read(pooled(p, q, branch), sets())
    found = next(b for b in reading.branches if b.branch == branch)
    assert (found.name, found.near) == (name, True)
    assert found.share == 1.0
    assert found.sentence == f"{name}, 100 % of the output"
    other = next(b for b in reading.branches if b.branch != branch)
    assert not other.used
    assert other.sentence == "hardly used (0.0 % of the output)"


def test_a_point_between_the_names_is_called_that():
    found = read(pooled(2.5, 0.3), sets(count=30)).branches[0]
    assert not found.near
    assert found.sentence.startswith("no named pooling; nearest is the ")


def test_equal_messages_are_read_in_function_space():
    """On constant messages p = 2, q = -1/2 is the sum, though the plane says otherwise."""
    model = GraphNet(1, hidden=8)
    model.aggr.p_pos, model.aggr.q_pos = 2.0, -0.5
    graph = Data(x=torch.ones(4, 1), edge_index=torch.tensor([[1, 2, 3, 0, 0, 1], [0, 0, 0, 1, 2, 2]]))
    batch = Batch.from_data_list([graph])
    with_data, without = read(model, batch).branches[0], read(model).branches[0]
    assert (without.name, with_data.name) == ("L2 norm", "sum")
    assert with_data.distance < 1e-6


def test_shares_add_up():
    torch.manual_seed(0)
    model = SetNet(1, "gnp", hidden=8)
    shares = [branch.share for branch in read(model, sets()).branches]
    assert sum(shares) == pytest.approx(1.0)
    assert all(0 < share < 1 for share in shares)


def test_fused_layers_are_seen_and_left_as_they_were():
    conv = GNPConv(torch.nn.Identity(), GNPAggregation(2, start="sum"))
    batch = Data(x=torch.rand(3, 2), edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]))
    before = conv(batch.x, batch.edge_index)
    reading = read(conv, batch)
    assert reading.layers == ["aggr_module"]
    assert reading.branches[0].share is not None
    assert torch.equal(conv(batch.x, batch.edge_index), before)
    assert not conv.aggr_module._forward_pre_hooks


def test_prints_as_a_table_and_goes_through_json():
    reading = read(pooled(1.001, 0.0), sets())
    lines = str(reading).splitlines()
    assert lines[0].split() == ["layer", "branch", "p", "q", "reading"]
    assert lines[1] == "pool   positive   1.00  0.00  sum, 100 % of the output"
    content = json.loads(json.dumps(reading.to_dict()))
    assert content["branches"][0]["name"] == "sum"
    assert content["branches"][0]["ranking"][0][0] == "sum"


@pytest.mark.parametrize(
    "options", [{"branches": "positive"}, {"branches": "both"}, {"per_channel": True}, {"mix": False}]
)
def test_every_kind_of_layer(options):
    layer = GNPAggregation(4, **options)
    reading = read(layer, torch.rand(6, 4), forward=lambda model, x: model(x))
    assert [b.branch for b in reading.branches] == (
        ["positive"] if "positive" in options.values() else ["positive", "negative"]
    )
    assert all(b.share is not None for b in reading.branches)


def test_a_model_without_gnp():
    with pytest.raises(ValueError, match="Linear has no GNPAggregation inside"):
        read(torch.nn.Linear(1, 1))
