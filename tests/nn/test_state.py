"""GNPAggregation as an object: reset, repr, state, copies."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from gnpool.nn import GNPAggregation
from tests.nn.expected import INDEX, in_both_coordinates, names_of, scatter_exponents


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bias": True, "start": "max", "p_max": 10.0},
        {"branches": "both", "per_channel": True, "start": "mean"},
        {"branches": "negative", "mix": False, "start": "min"},
    ],
    ids=str,
)
@in_both_coordinates
def test_reset_restores_the_initial_state(coordinates: str, options: dict[str, Any]) -> None:
    torch.manual_seed(3)
    layer = GNPAggregation(4, coordinates=coordinates, **options)
    initial = copy.deepcopy(layer.state_dict())
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(1.0)
    assert not any(torch.equal(value, initial[name]) for name, value in layer.state_dict().items())
    torch.manual_seed(3)
    layer.reset_parameters()
    for name, value in layer.state_dict().items():
        assert torch.equal(value, initial[name]), name


@in_both_coordinates
def test_construction_draws_once(coordinates: str) -> None:
    torch.manual_seed(3)
    layer = GNPAggregation(4, coordinates=coordinates, bias=True)
    torch.manual_seed(3)
    linear = torch.nn.Linear(4, 4)
    assert torch.equal(layer.mix.weight, linear.weight)
    assert torch.equal(layer.mix.bias, linear.bias)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "GNPAggregation(16)"),
        ({"coordinates": "growth", "branches": "one", "zeros": "keep"}, "GNPAggregation(16)"),
        ({"coordinates": "published"}, "GNPAggregation(16, coordinates='published')"),
        ({"coordinates": "published", "branches": "split"}, "GNPAggregation(16, coordinates='published')"),
        (
            {"coordinates": "published", "branches": "both"},
            "GNPAggregation(16, coordinates='published', branches='both')",
        ),
        ({"branches": "split"}, "GNPAggregation(16, branches='split')"),
        ({"p_max": 500}, "GNPAggregation(16)"),
        ({"p_max": 50}, "GNPAggregation(16, p_max=50.0)"),
        ({"coordinates": "published", "p_max": 50}, "GNPAggregation(16, coordinates='published')"),
        ({"coordinates": "published", "p_max": 500}, "GNPAggregation(16, coordinates='published', p_max=500.0)"),
        ({"size": 1.0}, "GNPAggregation(16, size=1.0)"),
        ({"zeros": "remove"}, "GNPAggregation(16, zeros='remove')"),
        ({"start": "harmonic mean"}, "GNPAggregation(16, start='harmonic mean')"),
        ({"branches": "both"}, "GNPAggregation(16, branches='both')"),
        ({"mix": False}, "GNPAggregation(16, mix=False)"),
        ({"bias": True}, "GNPAggregation(16, bias=True)"),
        ({"per_channel": True}, "GNPAggregation(16, per_channel=True)"),
        ({"nonneg": "abs"}, "GNPAggregation(16, nonneg='abs')"),
        ({"nonneg": None}, "GNPAggregation(16, nonneg=None)"),
        ({"p_max": 10}, "GNPAggregation(16, p_max=10.0)"),
        ({"eps": 0.0}, "GNPAggregation(16, eps=0.0)"),
        ({"start": "mean"}, "GNPAggregation(16, start='mean')"),
        (
            {
                "start": "max",
                "eps": 1e-3,
                "p_max": 20.0,
                "nonneg": "abs",
                "per_channel": True,
                "bias": True,
                "branches": "positive",
            },
            (
                "GNPAggregation(16, branches='positive', bias=True, per_channel=True, nonneg='abs', p_max=20.0, "
                "eps=0.001, start='max')"
            ),
        ),
    ],
)
def test_repr(options: dict[str, Any], text: str) -> None:
    layer = GNPAggregation(16, **options)
    assert repr(layer) == text
    again = eval(text, {"GNPAggregation": GNPAggregation})  # noqa: S307 - the line is meant to be Python
    assert repr(again) == text


@in_both_coordinates
def test_repr_does_not_change_when_p_does(coordinates: str) -> None:
    layer = GNPAggregation(16, coordinates=coordinates)
    before = repr(layer)
    setattr(layer, names_of(layer)[0], 7.0)
    assert repr(layer) == before


def test_state_dict() -> None:
    assert list(GNPAggregation(4, bias=True).state_dict()) == ["raw_p", "raw_growth", "mix.weight", "mix.bias"]
    assert list(GNPAggregation(4, branches="split", mix=False).state_dict()) == [
        "raw_p_pos",
        "raw_growth_pos",
        "raw_p_neg",
        "raw_growth_neg",
    ]
    layer = GNPAggregation(4, coordinates="published", bias=True)
    assert list(layer.state_dict()) == [
        "raw_p_pos",
        "raw_q_pos",
        "raw_p_neg",
        "raw_q_neg",
        "mix.weight",
        "mix.bias",
    ]
    negative = GNPAggregation(4, coordinates="published", branches="negative", mix=False)
    assert list(negative.state_dict()) == ["raw_p_neg", "raw_q_neg"]


@pytest.mark.parametrize("branches", [None, "split", "both", "positive", "negative"])
@in_both_coordinates
def test_a_state_of_other_coordinates_is_refused(coordinates: str, branches: str | None) -> None:
    saved = GNPAggregation(4, coordinates=coordinates, branches=branches)
    here = GNPAggregation(4, coordinates="published" if coordinates == "growth" else "growth")
    message = rf"the layer was saved with other coordinates.*GNPAggregation\(4, coordinates='{coordinates}'\)"
    with pytest.raises(RuntimeError, match=message):
        here.load_state_dict(saved.state_dict())
    inside = rf"0\.inner was saved with other coordinates.*coordinates='{coordinates}'"
    outer = [torch.nn.Sequential(torch.nn.ModuleDict({"inner": layer})) for layer in (here, saved)]
    with pytest.raises(RuntimeError, match=inside):
        outer[0].load_state_dict(outer[1].state_dict())


@in_both_coordinates
def test_a_state_without_the_layer_is_missing_and_no_more(coordinates: str) -> None:
    layer = GNPAggregation(4, coordinates=coordinates, mix=False)
    with pytest.raises(RuntimeError, match="Missing key") as error:
        layer.load_state_dict({})
    assert "coordinates" not in str(error.value)


@pytest.mark.parametrize(
    "options", [{}, {"bias": True, "per_channel": True}, {"branches": "both", "mix": False}], ids=str
)
@pytest.mark.parametrize(
    "way",
    [
        pytest.param(copy.deepcopy, id="deepcopy"),
        pytest.param(lambda layer: pickle.loads(pickle.dumps(layer)), id="pickle"),  # noqa: S301 - our own bytes
    ],
)
@in_both_coordinates
def test_copies_are_equal_and_apart(
    coordinates: str, way: Callable[[GNPAggregation], GNPAggregation], options: dict[str, Any]
) -> None:
    layer = scatter_exponents(GNPAggregation(4, coordinates=coordinates, **options))
    other = way(layer)
    x = torch.rand(len(INDEX), 4)
    before = layer(x, INDEX)
    assert repr(other) == repr(layer)
    assert torch.equal(other(x, INDEX), before)
    name_of_p, name_of_size = names_of(other)
    setattr(other, name_of_p, 30.0)
    setattr(other, name_of_size, 2.0)
    assert torch.equal(layer(x, INDEX), before)
    assert not torch.equal(other(x, INDEX), before)
    assert getattr(other.half(), f"raw_{name_of_p}").dtype == torch.float32  # the copy knows its own exponents


@in_both_coordinates
def test_state_dict_on_disk(coordinates: str, tmp_path: Path) -> None:
    layer = scatter_exponents(GNPAggregation(4, coordinates=coordinates, bias=True))
    torch.save(layer.state_dict(), tmp_path / "layer.pt")
    other = GNPAggregation(4, coordinates=coordinates, bias=True)
    other.load_state_dict(torch.load(tmp_path / "layer.pt", weights_only=True))
    x = torch.rand(len(INDEX), 4)
    assert torch.equal(other(x, INDEX), layer(x, INDEX))


@pytest.mark.parametrize("start", [None, "sum", "max", "min"])
@in_both_coordinates
def test_a_layer_can_be_made_on_the_meta_device(coordinates: str, start: str | None) -> None:
    with torch.device("meta"):
        layer = GNPAggregation(4, coordinates=coordinates, start=start)
    assert {parameter.device.type for parameter in layer.parameters()} == {"meta"}
    saved = scatter_exponents(GNPAggregation(4, coordinates=coordinates))
    layer.load_state_dict(saved.state_dict(), assign=True)
    x = torch.rand(len(INDEX), 4)
    assert torch.equal(layer(x, INDEX), saved(x, INDEX))
