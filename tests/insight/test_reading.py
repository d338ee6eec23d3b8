"""A reading names the right pooling by its values, with its share, in words."""

from __future__ import annotations

import json
import math

import pytest
import torch
from torch_geometric.data import Batch, Data

from gnpool import GNPAggregation, GNPConv, read
from gnpool.insight import NAMES
from gnpool.insight import reading as module
from gnpool.insight.probe import branches_of, recording
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


def growing(p, growth, **options):
    """A set network whose GNP learns the growth in one branch and stands at (p, growth)."""
    torch.manual_seed(1)
    model = SetNet(1, "gnpg", hidden=8, pool_options=options)
    with torch.no_grad():
        for weight in model.mlp.parameters():
            weight.abs_()
    model.pool.p, model.pool.growth = p, growth
    return model


@pytest.mark.parametrize("batch", [None, sets()], ids=["plane", "data"])
@pytest.mark.parametrize("named", NAMES, ids=str)
def test_one_branch_can_be_any_name(named, batch):
    p = math.copysign(min(abs(named.p), 49.0), named.p)
    (found,) = read(growing(p + 0.01 * (abs(p) < 2), named.growth + 0.01), batch).branches
    assert (found.branch, found.name, found.near) == ("one", named.name, True)
    assert found.sentence == named.name
    assert found.share == (None if batch is None else 1.0)
    assert {name for name, _ in found.ranking} == {one.name for one in NAMES}
    assert found.growth == pytest.approx(named.growth + 0.01, abs=1e-6)


def test_the_same_pooling_has_the_same_distances_in_both_coordinates():
    published, growth = pooled(3.0, 0.1), growing(3.0, 1 / 3 - 0.1)
    growth.pool.mix.weight.data[:, 4:] = 0.0
    for batch in (None, sets()):
        (one,) = read(growth, batch).branches
        positive = read(published, batch).branches[0]
        assert (positive.p, positive.growth) == pytest.approx((one.p, one.growth))
        assert positive.q == pytest.approx(0.1)
        distances = dict(one.ranking)
        for name, distance in positive.ranking:
            assert distance == pytest.approx(distances[name], abs=2e-3 if batch is not None else 1e-6)


@pytest.mark.parametrize("zeros", ["keep", "remove"])
def test_rows_of_zero_are_read_as_the_layer_takes_them(zeros):
    """With zeros removed, (1, 1) is n times the mean of the rows that stay, in the reading as in the layer."""
    layer = GNPAggregation(1, mix=False, zeros=zeros, start="sum")
    rows = torch.tensor([[0.0], [3.0], [5.0], [0.0], [0.0], [7.0]])
    index = torch.tensor([0, 0, 0, 1, 1, 1])
    with recording(layer) as calls:
        expected = layer(rows, index)
    (call,) = calls[""]
    found = call.pool(slice(0, 1), 1.0, 1.0)
    torch.testing.assert_close(found, expected.detach().double(), rtol=1e-6, atol=0)
    assert found[1].item() == pytest.approx(7.0 if zeros == "keep" else 21.0, rel=1e-5)
    reading = read(layer, (rows, index), forward=lambda model, batch: model(*batch))
    assert (reading.branches[0].name, reading.branches[0].distance < 1e-6) == ("sum", True)


@pytest.mark.parametrize(("further", "first"), [(0.0019, "sum"), (0.0021, "max")])
def test_of_names_as_near_as_the_nearest_the_simplest_comes_first(monkeypatch, further, first):
    """The maximum is nearest, but the sum is simpler."""
    distances = {"max": 0.1, "sum": 0.1 + further}
    monkeypatch.setattr(module, "_distance", lambda layer, part, named, calls: distances.get(named.name, 0.5))
    layer = GNPAggregation(1, mix=False)
    (part,) = branches_of(layer)
    ranking = module._ranking(layer, part, [])
    assert [(named.name, far) for named, far in ranking[:2]] == [
        (name, distances[name]) for name in (first, "max" if first == "sum" else "sum")
    ]


def test_a_channel_of_zeros_has_no_say():
    layer = GNPAggregation(2, mix=False, start="sum", zeros="remove")
    layer.p, layer.growth = 2.0, 0.7
    rows = torch.rand(12, 1, generator=torch.Generator().manual_seed(0)) + 0.1
    index = torch.tensor([0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 3, 3])

    def distances(rows):
        found = read(layer, (rows, index), forward=lambda model, batch: model(*batch)).branches[0]
        return dict(found.ranking)

    alone, beside = distances(rows.repeat(1, 2)), distances(torch.cat([rows, torch.zeros(12, 1)], dim=1))
    assert alone.keys() == beside.keys()
    for name, far in alone.items():
        assert beside[name] == pytest.approx(far, abs=1e-9)
    assert max(alone.values()) > 0.1


def test_rounding_brings_no_distance_below_0():
    layer = GNPAggregation(1, mix=False, start="sum")
    for seed in range(30):
        rows = torch.rand(9, 1, generator=torch.Generator().manual_seed(seed))
        found = read(layer, (rows, torch.arange(9) // 3), forward=lambda model, batch: model(*batch)).branches[0]
        assert found.name == "sum"
        assert 0.0 <= found.distance < 1e-6, seed


def test_a_point_between_the_names_is_called_that():
    found = read(pooled(2.5, 0.3), sets(count=30)).branches[0]
    assert not found.near
    assert found.sentence.startswith("no named pooling; nearest is the ")


def test_equal_messages_are_read_in_function_space():
    """On constant messages all poolings of growth 0 are the mean, though the plane says otherwise."""
    model = GraphNet(1, "gnpg", hidden=8)
    model.aggr.p, model.aggr.growth = 49.0, 0.0
    graph = Data(x=torch.ones(4, 1), edge_index=torch.tensor([[1, 2, 3, 0, 0, 1], [0, 0, 0, 1, 2, 2]]))
    batch = Batch.from_data_list([graph])
    with_data, without = read(model, batch).branches[0], read(model).branches[0]
    assert (without.name, with_data.name) == ("max", "mean")
    assert with_data.distance < 1e-6


def test_shares_add_up():
    torch.manual_seed(0)
    model = SetNet(1, "gnp", hidden=8)
    shares = [branch.share for branch in read(model, sets()).branches]
    assert sum(shares) == pytest.approx(1.0)
    assert all(0 < share < 1 for share in shares)


def test_a_branch_that_nobody_listens_to_has_no_share():
    layer = GNPAggregation(2, coordinates="published", branches="both")
    with torch.no_grad():
        layer.mix.weight[:, 2:] = 0.0  # of the negative branch
    branches = read(layer, torch.rand(6, 2) + 0.1, forward=lambda model, x: model(x)).branches
    assert [branch.share for branch in branches] == [1.0, 0.0]


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
    assert lines[0].split() == ["layer", "branch", "p", "q", "growth", "reading"]
    assert lines[1] == "pool   positive   1.00  0.00    1.00  sum, 100 % of the output"
    content = json.loads(json.dumps(reading.to_dict()))
    assert content["branches"][0]["name"] == "sum"
    assert content["branches"][0]["ranking"][0][0] == "sum"


def test_a_table_of_growth_has_no_q_and_its_json_none_at_0():
    reading = read(growing(0.0, -0.001))
    assert str(reading).splitlines() == [
        "layer  branch     p  growth  reading",
        "pool   one     0.00    0.00  geometric mean",
    ]
    (found,) = json.loads(json.dumps(reading.to_dict(), allow_nan=False))["branches"]
    assert (found["p"], found["growth"], found["q"]) == (0.0, pytest.approx(-0.001), None)
    (found,) = read(growing(2.0, 0.5)).to_dict()["branches"]
    assert found["q"] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(
    "options", [{"branches": "positive"}, {"branches": "both"}, {"per_channel": True}, {"mix": False}]
)
@pytest.mark.parametrize("coordinates", ["growth", "published"])
def test_every_kind_of_layer(options, coordinates):
    layer = GNPAggregation(4, coordinates=coordinates, **options)
    reading = read(layer, torch.rand(6, 4), forward=lambda model, x: model(x))
    branches = options.get("branches", layer.branches)
    assert [b.branch for b in reading.branches] == (
        [branches] if branches in ("positive", "one") else ["positive", "negative"]
    )
    assert {b.coordinates for b in reading.branches} == {coordinates}
    assert all(b.share is not None for b in reading.branches)


def test_a_model_without_gnp():
    with pytest.raises(ValueError, match="Linear has no GNPAggregation inside"):
        read(torch.nn.Linear(1, 1))
