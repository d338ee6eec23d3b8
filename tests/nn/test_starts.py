"""set_starts: a named pooling for each GNP of a model."""

from __future__ import annotations

import pytest
import torch

from gnpool.nn import GNPAggregation, set_starts
from tests.nn.expected import in_both_coordinates

POINTS = {"sum": (1.0, 1.0), "mean": (1.0, 0.0), "rms": (2.0, 0.0), "harmonic": (-1.0, -1.0), "geometric": (0.0, 0.0)}


def layers(count: int) -> torch.nn.ModuleList:
    return torch.nn.ModuleList(torch.nn.Sequential(GNPAggregation(4, start="l2")) for _ in range(count))


def starts_of(model: torch.nn.Module) -> list[str]:
    """The name of the point where each layer is."""
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
