"""GNPAggregation: values, shapes and errors."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from gnpool.nn import GNPAggregation
from tests.nn.expected import INDEX, SIZE, features, gnp, in_both_coordinates, name_of, scatter_exponents

FORMS = [
    {"coordinates": coordinates, "branches": branches}
    for coordinates in ("growth", "published")
    for branches in ("one", "split", "both", "positive", "negative")
    if (coordinates, branches) != ("published", "one")
]
OPTIONS = [
    {**form, "mix": mix, "bias": bias, "per_channel": per_channel, "nonneg": nonneg}
    for form, mix, bias, per_channel, nonneg in itertools.product(
        FORMS, (True, False), (True, False), (False, True), ("relu", "abs", None)
    )
    if mix or not bias
]
OPTIONS += [
    {"coordinates": "growth", "branches": branches, "mix": False, "zeros": "remove", "nonneg": nonneg}
    for branches in ("one", "split", "both", "positive", "negative")
    for nonneg in ("relu", "abs", None)
]
every_form = pytest.mark.parametrize("form", FORMS, ids=name_of)


@pytest.mark.parametrize("channels", [1, 5])
@pytest.mark.parametrize("options", OPTIONS, ids=name_of)
def test_value(channels: int, options: dict[str, Any]) -> None:
    x = features(channels)
    layer = scatter_exponents(GNPAggregation(channels, **options)).double()
    expected = gnp(layer, x, INDEX, SIZE)
    torch.testing.assert_close(layer(x, INDEX, dim_size=SIZE), expected, rtol=1e-9, atol=1e-12)
    width = channels if options["mix"] or options["branches"] != "both" else 2 * channels
    if channels == 1 and options["branches"] == "split" and not options["mix"]:
        width = 2
    assert expected.shape == (SIZE, width)

    x, layer = x.float(), layer.float()
    torch.testing.assert_close(
        layer(x, INDEX, dim_size=SIZE), gnp(layer, x, INDEX, SIZE), rtol=1e-5, atol=1e-5 * expected.abs().max().item()
    )


def test_worked_example() -> None:
    layer = GNPAggregation(2, coordinates="published", mix=False, eps=0.0)
    layer.p_pos, layer.q_pos = 2.0, 0.5  # root mean square
    layer.p_neg, layer.q_neg = 2.0, -0.5
    x = torch.tensor([[20.0], [30.0], [40.0]]).expand(3, 2)
    expected = [math.sqrt(2900 / 3), math.sqrt(3 / (1 / 400 + 1 / 900 + 1 / 1600))]
    torch.testing.assert_close(layer(x), torch.tensor([expected]), rtol=2e-6, atol=0)


@in_both_coordinates
def test_split_puts_the_odd_channel_in_the_negative_branch(coordinates: str) -> None:
    layer = GNPAggregation(5, coordinates=coordinates, branches="split", per_channel=True)
    size = "growth" if coordinates == "growth" else "q"
    assert layer.raw_p_pos.shape == getattr(layer, f"raw_{size}_pos").shape == (2,)
    assert layer.raw_p_neg.shape == getattr(layer, f"raw_{size}_neg").shape == (3,)
    assert layer.mix.weight.shape == (5, 5)


@in_both_coordinates
def test_split_of_one_channel_is_both(coordinates: str) -> None:
    split, both = (
        scatter_exponents(GNPAggregation(1, coordinates=coordinates, branches=branches))
        for branches in ("split", "both")
    )
    split.load_state_dict(both.state_dict())
    x = features(1, torch.float32)
    assert split.mix.weight.shape == (1, 2)
    assert torch.equal(split(x, INDEX), both(x, INDEX))


def test_parameter_overhead() -> None:
    def count(**options: Any) -> int:
        return sum(p.numel() for p in GNPAggregation(8, **options).parameters())

    assert count() == 2 + 64
    assert count(bias=True) == 2 + 64 + 8
    assert count(branches="split") == 4 + 64
    assert count(branches="both") == 4 + 128
    assert count(branches="positive") == 2 + 64
    assert count(mix=False) == 2
    assert count(mix=False, per_channel=True) == 16


def test_parameter_overhead_as_published() -> None:
    def count(**options: Any) -> int:
        return sum(p.numel() for p in GNPAggregation(8, coordinates="published", **options).parameters())

    assert count() == 4 + 64
    assert count(bias=True) == 4 + 64 + 8
    assert count(branches="both") == 4 + 128
    assert count(branches="positive") == 2 + 64
    assert count(mix=False) == 4
    assert count(mix=False, per_channel=True) == 16


@pytest.mark.parametrize("nonneg", ["relu", "abs", None])
@every_form
def test_homogeneous_without_bias(form: dict[str, str], nonneg: str | None) -> None:
    layer = scatter_exponents(GNPAggregation(4, **form, nonneg=nonneg, eps=0.0))
    x = torch.randn(len(INDEX), 4)
    y = layer(x, INDEX)
    for factor in (1e-3, 7.0, 1e4):
        torch.testing.assert_close(layer(factor * x, INDEX) / factor, y, rtol=1e-5, atol=1e-5)


@in_both_coordinates
def test_not_homogeneous_with_bias(coordinates: str) -> None:
    layer = GNPAggregation(4, coordinates=coordinates, bias=True, eps=0.0)
    x = torch.rand(len(INDEX), 4)
    offset = layer(2 * x, INDEX) - 2 * layer(x, INDEX)
    torch.testing.assert_close(offset, -layer.mix.bias.expand_as(offset), rtol=1e-4, atol=1e-5)


@every_form
def test_empty_segment_gives_zero_or_the_bias(form: dict[str, str]) -> None:
    x = torch.rand(len(INDEX), 3) + 0.1
    plain = GNPAggregation(3, **form)(x, INDEX, dim_size=7)
    assert plain[[2, 5, 6]].eq(0).all()
    assert plain[[0, 1, 3, 4]].ne(0).all()
    biased = GNPAggregation(3, **form, bias=True)
    out = biased(x, INDEX, dim_size=7)
    assert torch.equal(out[[2, 5, 6]], biased.mix.bias.expand(3, 3))


@in_both_coordinates
def test_any_order_of_the_elements(coordinates: str) -> None:
    layer = scatter_exponents(GNPAggregation(4, coordinates=coordinates))
    x = torch.rand(len(INDEX), 4)
    for _ in range(3):
        perm = torch.randperm(len(INDEX))
        torch.testing.assert_close(layer(x[perm], INDEX[perm]), layer(x, INDEX), rtol=1e-6, atol=1e-6)


@in_both_coordinates
def test_index_ptr_and_both(coordinates: str) -> None:
    layer = scatter_exponents(GNPAggregation(4, coordinates=coordinates))
    index, ptr = torch.tensor([0, 0, 0, 2, 2, 3]), torch.tensor([0, 3, 3, 5, 6, 6])
    x = torch.rand(6, 4)
    expected = layer(x, index, dim_size=5)
    torch.testing.assert_close(expected, gnp(layer, x, index, 5), rtol=1e-5, atol=1e-6)
    for given in ({"ptr": ptr}, {"index": index, "ptr": ptr}, {"ptr": ptr, "dim_size": 5}, {"ptr": ptr.int()}):
        torch.testing.assert_close(layer(x, **given), expected, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(layer(x, index.int(), dim_size=5), expected, rtol=0, atol=0)


@in_both_coordinates
def test_without_index_and_ptr_all_is_one_segment(coordinates: str) -> None:
    layer = scatter_exponents(GNPAggregation(4, coordinates=coordinates))
    x = torch.rand(6, 4)
    assert torch.equal(layer(x), layer(x, torch.zeros(6, dtype=torch.long)))
    torch.testing.assert_close(layer(x), gnp(layer, x, torch.zeros(6, dtype=torch.long), 1), rtol=1e-5, atol=1e-6)


@in_both_coordinates
def test_dim_size(coordinates: str) -> None:
    layer = scatter_exponents(GNPAggregation(4, coordinates=coordinates))
    x = torch.rand(len(INDEX), 4)
    out = layer(x, INDEX)
    longer = layer(x, INDEX, dim_size=8)
    assert out.size(0) == SIZE
    assert torch.equal(longer[:SIZE], out)
    assert torch.equal(longer[SIZE:], torch.zeros(3, 4))


@pytest.mark.parametrize(
    "options", [{}, {"per_channel": True}, {"branches": "both"}, {"branches": "both", "mix": False}], ids=name_of
)
@in_both_coordinates
@pytest.mark.parametrize("dim", [-2, 0, 1, -3])
def test_three_dimensional_input(coordinates: str, dim: int, options: dict[str, Any]) -> None:
    layer = scatter_exponents(GNPAggregation(4, coordinates=coordinates, **options))
    shape = [3, 3, 4]
    shape[dim] = len(INDEX)
    x = torch.randn(shape)
    out = layer(x, INDEX, dim_size=SIZE, dim=dim)
    expected = gnp(layer, x.movedim(dim, 0), INDEX, SIZE).movedim(0, dim)
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)
    other = 1 if dim in (0, -3) else 0
    for k in range(3):  # and each slice is a call of its own
        part = layer(x.select(other, k), INDEX, dim_size=SIZE)
        torch.testing.assert_close(out.select(other, k), part, rtol=1e-6, atol=1e-6)


@in_both_coordinates
def test_dim_zero_of_a_matrix_is_the_default(coordinates: str) -> None:
    layer = GNPAggregation(4, coordinates=coordinates)
    x = torch.rand(len(INDEX), 4)
    assert torch.equal(layer(x, INDEX, dim=0), layer(x, INDEX))


@in_both_coordinates
def test_no_elements(coordinates: str) -> None:
    layer = GNPAggregation(4, coordinates=coordinates, bias=True)
    none = torch.zeros(0, dtype=torch.long)
    assert layer(torch.zeros(0, 4), none).shape == (0, 4)
    assert torch.equal(layer(torch.zeros(0, 4), none, dim_size=3), layer.mix.bias.expand(3, 4))
    assert torch.equal(layer(torch.zeros(0, 4), ptr=torch.tensor([0, 0, 0])), layer.mix.bias.expand(2, 4))


@in_both_coordinates
def test_no_elements_in_three_dimensions(coordinates: str) -> None:
    none = torch.zeros(0, dtype=torch.long)
    assert torch.equal(
        GNPAggregation(4, coordinates=coordinates)(torch.zeros(0, 2, 4), none, dim_size=3, dim=0), torch.zeros(3, 2, 4)
    )


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda layer: layer(torch.rand(3, 5), torch.tensor([0, 0, 1])),
            ValueError,
            "GNPAggregation(4): the last dimension of 'x' must hold 4 channels, got 5 in shape (3, 5)",
        ),
        (
            lambda layer: layer(torch.rand(4, 4), torch.tensor([0, 0, 1, 1]), dim=-1),
            ValueError,
            "GNPAggregation: 'dim' must not be the last dimension, which holds the channels (got -1)",
        ),
        (
            lambda layer: layer(torch.rand(4, 4), torch.tensor([0, 0, 1, 1]), dim=1),
            ValueError,
            "'dim' must not be the last dimension, which holds the channels (got 1)",
        ),
        (
            lambda layer: layer(torch.rand(4, 4), torch.tensor([0, 0, 1, 1]), dim=2),
            ValueError,
            "Encountered invalid dimension '2' of source tensor with 2 dimensions",
        ),
        (
            lambda layer: layer(torch.rand(4), torch.tensor([0, 0, 1, 1])),
            ValueError,
            "Encountered invalid dimension '-2' of source tensor with 1 dimensions",
        ),
        (
            lambda layer: layer(torch.rand(3, 4), torch.tensor([0, 2, 1]), dim_size=2),
            ValueError,
            "Encountered invalid 'dim_size' (got '2' but expected >= '3')",
        ),
        (
            lambda layer: layer(torch.rand(3, 4), ptr=torch.tensor([0, 2, 3]), dim_size=3),
            ValueError,
            "Encountered invalid 'dim_size' (got '3' but expected '2')",
        ),
        (
            lambda layer: layer(torch.rand(3, 4), ptr=torch.tensor([0, 2, 4])),
            ValueError,
            "'ptr' must start at 0, never decrease and end at 3",
        ),
        (
            lambda layer: layer(torch.rand(3, 4), torch.tensor([0, -1, 1])),
            IndexError,
            "'index' must lie in [0, 2), got -1 at position 1",
        ),
        (
            lambda layer: layer(torch.rand(3, 4), torch.tensor([0, 1])),
            ValueError,
            "'index' must have one value for each of the 3 rows of 'x', got 2",
        ),
        (
            lambda layer: layer(torch.ones(3, 4, dtype=torch.long), torch.tensor([0, 0, 1])),
            TypeError,
            "'x' must be a floating point tensor, got torch.int64; convert it with x.float()",
        ),
        (
            lambda layer: layer.pool_neighbors(torch.rand(3, 5), torch.tensor([[0], [1]])),
            ValueError,
            "GNPAggregation(4): the last dimension of 'x' must hold 4 channels, got 5 in shape (3, 5)",
        ),
    ],
)
def test_errors_of_the_call(call: Callable[[GNPAggregation], Tensor], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call(GNPAggregation(4))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"channels": 0}, "'channels' must be a positive integer, got 0"),
        ({"channels": 2.0}, "'channels' must be a positive integer, got 2.0"),
        ({"channels": True}, "'channels' must be a positive integer, got True"),
        ({"branches": "pos"}, "'branches' must be one of ('one', 'split', 'both', 'positive', 'negative'), got 'pos'"),
        ({"nonneg": "exp"}, "'nonneg' must be one of ('relu', 'abs', None), got 'exp'"),
        (
            {"start": "median"},
            (
                "'start' must be one of ('sum', 'mean', 'max', 'min', 'harmonic', 'harmonic mean', 'geometric', 'rms', "
                "'l2'), got 'median'"
            ),
        ),
        ({"coordinates": "polar"}, "'coordinates' must be one of ('growth', 'published'), got 'polar'"),
        ({"size": 0.0}, "'size' must be above 0 and finite, got 0.0"),
        ({"size": math.inf}, "'size' must be above 0 and finite, got inf"),
        ({"size": math.nan}, "'size' must be above 0 and finite, got nan"),
        ({"zeros": "drop"}, "'zeros' must be one of ('keep', 'remove'), got 'drop'"),
        (
            {"coordinates": "published", "branches": "one"},
            "branches='one' needs coordinates='growth': q has no value at p = 0",
        ),
        ({"bias": True, "mix": False}, "'bias' belongs to the mixing layer; it needs mix=True"),
        ({"p_max": 1.0}, "'p_max' must be a finite number above 1, got 1.0"),
        ({"p_max": math.inf}, "'p_max' must be a finite number above 1, got inf"),
        ({"p_max": math.nan}, "'p_max' must be a finite number above 1, got nan"),
        ({"eps": -1e-6}, "'eps' must be at least 0 and finite, got -1e-06"),
        ({"eps": math.nan}, "'eps' must be at least 0 and finite, got nan"),
    ],
)
def test_errors_of_the_constructor(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"GNPAggregation: {message}")):
        GNPAggregation(**{"channels": 4, **options})


def test_options_are_keywords() -> None:
    with pytest.raises(TypeError, match="positional"):
        GNPAggregation(4, "both")
