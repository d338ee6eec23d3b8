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
from tests.nn.expected import INDEX, scatter_exponents


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
def test_reset_restores_the_initial_state(options: dict[str, Any]) -> None:
    torch.manual_seed(3)
    layer = GNPAggregation(4, **options)
    initial = copy.deepcopy(layer.state_dict())
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(1.0)
    assert not any(torch.equal(value, initial[name]) for name, value in layer.state_dict().items())
    torch.manual_seed(3)
    layer.reset_parameters()
    for name, value in layer.state_dict().items():
        assert torch.equal(value, initial[name]), name


def test_construction_draws_once() -> None:
    torch.manual_seed(3)
    layer = GNPAggregation(4, bias=True)
    torch.manual_seed(3)
    linear = torch.nn.Linear(4, 4)
    assert torch.equal(layer.mix.weight, linear.weight)
    assert torch.equal(layer.mix.bias, linear.bias)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "GNPAggregation(16)"),
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


def test_repr_does_not_change_when_p_does() -> None:
    layer = GNPAggregation(16)
    layer.p_pos = 7.0
    assert repr(layer) == "GNPAggregation(16)"


def test_state_dict() -> None:
    layer = GNPAggregation(4, bias=True)
    assert list(layer.state_dict()) == [
        "raw_p_pos",
        "raw_q_pos",
        "raw_p_neg",
        "raw_q_neg",
        "mix.weight",
        "mix.bias",
    ]
    assert list(GNPAggregation(4, branches="negative", mix=False).state_dict()) == ["raw_p_neg", "raw_q_neg"]


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
def test_copies_are_equal_and_apart(way: Callable[[GNPAggregation], GNPAggregation], options: dict[str, Any]) -> None:
    layer = scatter_exponents(GNPAggregation(4, **options))
    other = way(layer)
    x = torch.rand(len(INDEX), 4)
    before = layer(x, INDEX)
    assert repr(other) == repr(layer)
    assert torch.equal(other(x, INDEX), before)
    other.p_pos, other.q_neg = 30.0, 2.0
    assert torch.equal(layer(x, INDEX), before)
    assert not torch.equal(other(x, INDEX), before)
    assert other.half().raw_p_pos.dtype == torch.float32  # the copy knows its own exponents


def test_state_dict_on_disk(tmp_path: Path) -> None:
    layer = scatter_exponents(GNPAggregation(4, bias=True))
    torch.save(layer.state_dict(), tmp_path / "layer.pt")
    other = GNPAggregation(4, bias=True)
    other.load_state_dict(torch.load(tmp_path / "layer.pt", weights_only=True))
    x = torch.rand(len(INDEX), 4)
    assert torch.equal(other(x, INDEX), layer(x, INDEX))
