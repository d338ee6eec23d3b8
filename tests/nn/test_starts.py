"""set_starts: a named pooling for each GNP of a model."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.nn import SAGEConv, SimpleConv

from gnpool.nn import GNPAggregation, GNPConv, set_starts
from tests.nn.expected import in_both_coordinates

POINTS = {"sum": (1.0, 1.0), "mean": (1.0, 0.0), "rms": (2.0, 0.0), "harmonic": (-1.0, -1.0), "geometric": (0.0, 0.0)}


def layers(count: int) -> torch.nn.ModuleList:
    return torch.nn.ModuleList(torch.nn.Sequential(GNPAggregation(4, start="l2")) for _ in range(count))


def starts_of(model: torch.nn.Module) -> list[str]:
    """The names of the points at which the layers are."""
    found = []
    for module in model.modules():
        if isinstance(module, GNPAggregation):
            here = (module.p.item(), module.growth.item())
            found += [name for name, point in POINTS.items() if here == pytest.approx(point, abs=1e-6)]
    return found


@pytest.mark.parametrize(
    ("start", "count", "expected"),
    [
        ("rms", 1, ["rms"]),
        ("rms", 3, ["rms", "rms", "rms"]),
        ("sum/mean", 1, ["mean"]),
        ("sum/mean", 2, ["sum", "mean"]),
        ("sum/mean", 3, ["sum", "sum", "mean"]),
        ("sum/rms/mean", 3, ["sum", "rms", "mean"]),
        ("sum/rms/mean", 5, ["sum", "rms", "rms", "rms", "mean"]),
        ("harmonic/geometric/rms/sum", 4, ["harmonic", "geometric", "rms", "sum"]),
    ],
)
def test_each_layer_has_its_start(start: str, count: int, expected: list[str]) -> None:
    model = layers(count)
    weights = [layer[0].mix.weight.clone() for layer in model]
    set_starts(model, start)
    assert starts_of(model) == expected
    assert all(torch.equal(layer[0].mix.weight, weight) for layer, weight in zip(model, weights, strict=True))


def test_a_layer_by_itself_and_one_that_stands_twice() -> None:
    layer = GNPAggregation(4)
    set_starts(layer, "mean")
    assert starts_of(layer) == ["mean"]
    twice = torch.nn.ModuleList([layer, layer, GNPAggregation(4)])
    set_starts(twice, "rms/sum")
    assert starts_of(twice) == ["rms", "sum"]


@in_both_coordinates
def test_two_branches(coordinates: str) -> None:
    model = torch.nn.ModuleList(GNPAggregation(4, coordinates=coordinates, branches="split") for _ in range(2))
    set_starts(model, "max/min")
    assert model[0].p_pos.item() == model[1].p_neg.item() == model[0].p_max
    assert model[0].p_neg.item() == model[1].p_pos.item() == pytest.approx(1.6931, abs=1e-4)


@pytest.mark.parametrize(
    ("count", "start", "match"),
    [
        (1, "sum/mean/max", "'sum/mean/max' names 3 places, but there are 1 GNP layers"),
        (2, "sum/mean/max", "'sum/mean/max' names 3 places, but there are 2 GNP layers"),
        (3, "sum/sum/sum/mean", "names 4 places, but there are 3 GNP layers"),
        (0, "sum", "ModuleList has no GNPAggregation inside"),
        (2, "median", "'start' must be one of .*, got 'median'"),
        (2, "sum/", "'start' must be one of .*, got ''"),
        (2, "", "'start' must be one of .*, got ''"),
    ],
)
def test_what_cannot_be_is_refused(count: int, start: str, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        set_starts(layers(count), start)


# In a convolution the start is the sum, unless somebody chose another


@pytest.mark.parametrize(
    "conv",
    [
        lambda aggr: SAGEConv(4, 4, aggr=aggr),
        lambda aggr: SimpleConv(aggr=aggr),
        lambda aggr: GNPConv(torch.nn.Identity(), aggr),
    ],
    ids=["SAGEConv", "SimpleConv", "GNPConv"],
)
def test_a_convolution_starts_its_aggregation_at_the_sum(conv):
    aggr = GNPAggregation(4)
    assert (aggr.p.item(), aggr.growth.item()) == (1.0, 0.0)
    layer = conv(aggr)
    assert (aggr.p.item(), aggr.growth.item()) == (1.0, 1.0)
    aggr.growth = 0.25
    layer.reset_parameters()  # SimpleConv's and the others' all reach the aggregation
    assert aggr.growth.item() == 1.0


def test_a_chosen_start_stays_in_a_convolution():
    assert SAGEConv(4, 4, aggr=GNPAggregation(4, start="mean")).aggr_module.growth.item() == 0.0
    by_hand = GNPAggregation(4)
    by_hand.p = 3.0
    assert SimpleConv(aggr=by_hand).aggr_module.p.item() == pytest.approx(3.0)
    loaded = GNPAggregation(4)
    loaded.load_state_dict(GNPAggregation(4).state_dict())
    assert SimpleConv(aggr=loaded).aggr_module.growth.item() == 0.0
    published = SAGEConv(4, 4, aggr=GNPAggregation(4, coordinates="published")).aggr_module
    assert published.q_pos.item() == 0.0
    assert published.p_pos.item() == pytest.approx(1.6931, abs=1e-4)


def test_trained_exponents_are_not_moved_by_a_second_convolution():
    conv = SimpleConv(aggr=GNPAggregation(4))
    with torch.no_grad():
        conv.aggr_module.raw_growth.fill_(0.0)  # as an optimiser may
    other = SimpleConv()
    other.aggr_module = conv.aggr_module
    assert conv.aggr_module.growth.item() == 0.0
