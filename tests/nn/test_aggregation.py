"""GNPAggregation: values, exponents, cap, precision, shapes, errors, and its way through torch's transforms."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, grad, stack_module_state, vmap

from gnpool import norm_pool
from gnpool.nn import GNPAggregation
from tests.nn.expected import gnp, scatter_exponents

START_P = 1 + math.log(2)
NEAR_ONE = 1 + math.log1p(math.exp(-6))

# Segment 2 is empty, segment 3 has one element; unsorted.
INDEX = torch.tensor([1, 0, 3, 0, 1, 0, 4, 4, 0])
SIZE = 5

OPTIONS = [
    {"branches": branches, "mix": mix, "bias": bias, "per_channel": per_channel, "nonneg": nonneg}
    for branches, mix, bias, per_channel, nonneg in itertools.product(
        ("split", "both", "positive", "negative"), (True, False), (True, False), (False, True), ("relu", "abs", None)
    )
    if mix or not bias
]


def name_of(options: dict[str, Any]) -> str:
    return ",".join(f"{value}" if isinstance(value, str) else f"{key}={value}" for key, value in options.items())


def features(channels: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Rows with negative values, zeros and values at, below and just above the tolerance."""
    x = 3 * torch.randn(len(INDEX), channels, dtype=dtype)
    x[0], x[3, 0], x[5, -1], x[6, -1], x[7, 0] = 0.0, 1e-6, 5e-7, -1e-3, 3e-6
    return x


def capped(branch: str = "pos", p_max: float = 6.0) -> GNPAggregation:
    layer = GNPAggregation(
        1, branches="positive" if branch == "pos" else "negative", mix=False, p_max=p_max, start=None, eps=0.0
    ).double()
    setattr(layer, f"p_{branch}", 6.0)
    return layer


# Values


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
    layer = GNPAggregation(2, mix=False, eps=0.0)
    layer.p_pos, layer.q_pos = 2.0, 0.5  # root mean square
    layer.p_neg, layer.q_neg = 2.0, -0.5
    x = torch.tensor([[20.0], [30.0], [40.0]]).expand(3, 2)
    expected = [math.sqrt(2900 / 3), math.sqrt(3 / (1 / 400 + 1 / 900 + 1 / 1600))]
    torch.testing.assert_close(layer(x), torch.tensor([expected]), rtol=2e-6, atol=0)


def test_split_puts_the_odd_channel_in_the_negative_branch() -> None:
    layer = GNPAggregation(5, per_channel=True)
    assert layer.raw_p_pos.shape == layer.raw_q_pos.shape == (2,)
    assert layer.raw_p_neg.shape == layer.raw_q_neg.shape == (3,)
    assert layer.mix.weight.shape == (5, 5)


def test_split_of_one_channel_is_both() -> None:
    split, both = (scatter_exponents(GNPAggregation(1, branches=branches)) for branches in ("split", "both"))
    split.load_state_dict(both.state_dict())
    x = features(1, torch.float32)
    assert split.mix.weight.shape == (1, 2)
    assert torch.equal(split(x, INDEX), both(x, INDEX))


def test_parameter_overhead() -> None:
    def count(**options: Any) -> int:
        return sum(p.numel() for p in GNPAggregation(8, **options).parameters())

    assert count() == 4 + 64
    assert count(bias=True) == 4 + 64 + 8
    assert count(branches="both") == 4 + 128
    assert count(branches="positive") == 2 + 64
    assert count(mix=False) == 4
    assert count(mix=False, per_channel=True) == 16


@pytest.mark.parametrize("nonneg", ["relu", "abs", None])
@pytest.mark.parametrize("branches", ["split", "both", "positive", "negative"])
def test_homogeneous_without_bias(branches: str, nonneg: str | None) -> None:
    layer = scatter_exponents(GNPAggregation(4, branches=branches, nonneg=nonneg, eps=0.0))
    x = torch.randn(len(INDEX), 4)
    y = layer(x, INDEX)
    for factor in (1e-3, 7.0, 1e4):
        torch.testing.assert_close(layer(factor * x, INDEX) / factor, y, rtol=1e-5, atol=1e-5)


def test_not_homogeneous_with_bias() -> None:
    layer = GNPAggregation(4, bias=True, eps=0.0)
    x = torch.rand(len(INDEX), 4)
    offset = layer(2 * x, INDEX) - 2 * layer(x, INDEX)
    torch.testing.assert_close(offset, -layer.mix.bias.expand_as(offset), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("branches", ["split", "both", "positive", "negative"])
def test_empty_segment_gives_zero_or_the_bias(branches: str) -> None:
    x = torch.rand(len(INDEX), 3) + 0.1
    plain = GNPAggregation(3, branches=branches)(x, INDEX, dim_size=7)
    assert plain[[2, 5, 6]].eq(0).all()
    assert plain[[0, 1, 3, 4]].ne(0).all()
    biased = GNPAggregation(3, branches=branches, bias=True)
    out = biased(x, INDEX, dim_size=7)
    assert torch.equal(out[[2, 5, 6]], biased.mix.bias.expand(3, 3))


# Exponents


@pytest.mark.parametrize("per_channel", [False, True])
def test_exponents_start_at_t_zero_and_q_zero(per_channel: bool) -> None:
    layer = GNPAggregation(4, per_channel=per_channel)
    shape = (2,) if per_channel else ()
    for p in (layer.p_pos, layer.p_neg):
        torch.testing.assert_close(p, torch.full(shape, 1.693147), rtol=0, atol=1e-6)
    for tensor in (layer.raw_p_pos, layer.raw_p_neg, layer.q_pos, layer.q_neg):
        assert torch.equal(tensor, torch.zeros(shape))


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("name", ["p_pos", "p_neg", "q_pos", "q_neg"])
def test_setting_an_exponent_reads_back(name: str, per_channel: bool) -> None:
    layer = GNPAggregation(6, per_channel=per_channel)
    shape = (3,) if per_channel else ()
    others = {other: getattr(layer, other).clone() for other in ("p_pos", "p_neg", "q_pos", "q_neg") if other != name}
    values = [1.001, 1.2345, 2.0, 7.0, 20.9, 21.1, 49.999, 50.0] if name[0] == "p" else [-1.0, 0.0, 0.4, 1.0, 2.0]
    for value in values:
        for given in (value, torch.tensor(value), torch.tensor(value, dtype=torch.float64)):
            setattr(layer, name, given)
            torch.testing.assert_close(getattr(layer, name), torch.full(shape, value), rtol=0, atol=1e-5)
    if name[0] == "p":
        assert (getattr(layer, name) == 50.0).all()
    for other, value in others.items():
        assert torch.equal(getattr(layer, other), value)


@pytest.mark.parametrize("name", ["p_pos", "p_neg", "q_pos", "q_neg"])
def test_setting_each_channel(name: str) -> None:
    layer = GNPAggregation(6, per_channel=True)
    values = torch.tensor([1.5, 3.0, 44.0])
    setattr(layer, name, values)
    torch.testing.assert_close(getattr(layer, name), values, rtol=0, atol=1e-5)


@pytest.mark.parametrize("value", [1.0, 0.0, -2.0, 50.1, math.inf, math.nan])
@pytest.mark.parametrize("name", ["p_pos", "p_neg"])
def test_setting_p_out_of_range_is_an_error(name: str, value: float) -> None:
    layer = GNPAggregation(4)
    with pytest.raises(ValueError, match=rf"GNPAggregation\(4\): '{name}' must lie in \(1, 50\], got {value}$"):
        setattr(layer, name, value)
    assert getattr(layer, name).item() == pytest.approx(START_P)


def test_setting_one_channel_out_of_range_changes_nothing() -> None:
    layer = GNPAggregation(4, per_channel=True, p_max=10.0)
    with pytest.raises(ValueError, match=r"'p_pos' must lie in \(1, 10\], got \[2.0, 11.0\]"):
        layer.p_pos = torch.tensor([2.0, 11.0])
    assert layer.raw_p_pos.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", ["p_pos", "q_neg"])
def test_setting_a_wrong_shape_is_an_error(name: str) -> None:
    with pytest.raises(ValueError, match=rf"GNPAggregation\(4\): '{name}' must be a number, got shape \(2,\)"):
        setattr(GNPAggregation(4), name, torch.tensor([2.0, 3.0]))
    layer = GNPAggregation(4, per_channel=True)
    with pytest.raises(ValueError, match=rf"'{name}' must be a number or one of shape \(2,\), got shape \(3,\)"):
        setattr(layer, name, torch.tensor([2.0, 3.0, 4.0]))


@pytest.mark.parametrize(("branches", "missing"), [("positive", "neg"), ("negative", "pos")])
def test_a_branch_left_out_has_no_exponents(branches: str, missing: str) -> None:
    layer = GNPAggregation(4, branches=branches)
    for symbol in "pq":
        assert not hasattr(layer, f"{symbol}_{missing}")
        with pytest.raises(AttributeError, match=f"{symbol}_{missing}"):
            setattr(layer, f"{symbol}_{missing}", 2.0)


@pytest.mark.parametrize(
    ("start", "branch", "p", "q"),
    [
        ("sum", "pos", NEAR_ONE, 0.0),
        ("mean", "pos", NEAR_ONE, 1.0),
        ("max", "pos", 50.0, 0.0),
        ("harmonic", "neg", NEAR_ONE, 0.0),
        ("min", "neg", 50.0, 0.0),
    ],
)
@pytest.mark.parametrize("per_channel", [False, True])
def test_start(start: str, branch: str, p: float, q: float, per_channel: bool) -> None:
    layer = GNPAggregation(4, start=start, per_channel=per_channel, mix=False)
    other = "neg" if branch == "pos" else "pos"
    shape = (2,) if per_channel else ()
    for which, expected_p, expected_q in ((branch, p, q), (other, START_P, 0.0)):
        torch.testing.assert_close(getattr(layer, f"p_{which}"), torch.full(shape, expected_p), rtol=0, atol=1e-5)
        torch.testing.assert_close(getattr(layer, f"q_{which}"), torch.full(shape, expected_q), rtol=0, atol=0)

    values = torch.tensor([2.0, 3.0, 6.0])
    exact = {"sum": 11.0, "mean": 11 / 3, "max": 6.0, "harmonic": 1.0, "min": 2.0}[start]
    channel = 0 if branch == "pos" else 2
    out = layer(values[:, None].expand(3, 4))[0, channel].item()
    assert out == pytest.approx(exact, rel=5e-3)  # 3 elements at p = 1.0025: at most 3^(1 - 1/p) off


@pytest.mark.parametrize(
    ("start", "branches"), [("sum", "negative"), ("max", "negative"), ("min", "positive"), ("harmonic", "positive")]
)
def test_start_needs_its_branch(start: str, branches: str) -> None:
    message = rf"start='{start}' needs the branch that branches='{branches}' leaves out"
    with pytest.raises(ValueError, match=message):
        GNPAggregation(4, start=start, branches=branches)


# The cap

SEGMENT = torch.tensor([[1.0], [1.5], [1.7]], dtype=torch.float64)


def raw_gradient(layer: GNPAggregation, branch: str, sign: float) -> float:
    layer.zero_grad()
    (sign * layer(SEGMENT)).sum().backward()
    gradient = getattr(layer, f"raw_p_{branch}").grad
    return float(gradient)


@pytest.mark.parametrize(("branch", "raising"), [("pos", 1.0), ("neg", -1.0)])
def test_cap_passes_only_gradients_that_lower_p(branch: str, raising: float) -> None:
    # The positive norm falls and the negative one grows with p, so `raising * output` falls as p rises.
    at_cap, free = capped(branch), capped(branch, p_max=50.0)
    assert getattr(at_cap, f"p_{branch}").item() == 6.0
    torch.testing.assert_close(at_cap(SEGMENT), free(SEGMENT), rtol=1e-12, atol=0)

    assert raw_gradient(free, branch, raising) < -1e-3  # descent would raise p
    assert raw_gradient(at_cap, branch, raising) == 0.0
    lowering = raw_gradient(free, branch, -raising)
    assert lowering > 1e-3
    assert raw_gradient(at_cap, branch, -raising) == pytest.approx(lowering, rel=1e-9)


def test_below_the_cap_both_signs_pass() -> None:
    layer, free = capped(), capped(p_max=50.0)
    layer.p_pos = free.p_pos = 5.9
    for sign in (1.0, -1.0):
        assert raw_gradient(layer, "pos", sign) == pytest.approx(raw_gradient(free, "pos", sign), rel=1e-9)
        assert raw_gradient(layer, "pos", sign) != 0.0


def test_above_the_cap_p_reads_as_the_cap_and_can_return() -> None:
    layer = capped()
    with torch.no_grad():
        layer.raw_p_pos.fill_(9.0)  # where momentum may carry it
    assert layer.p_pos.item() == 6.0
    assert raw_gradient(layer, "pos", 1.0) == 0.0
    assert raw_gradient(layer, "pos", -1.0) > 1e-3


def test_cap_in_one_channel_leaves_the_others_alone() -> None:
    layer = GNPAggregation(3, branches="positive", per_channel=True, mix=False, p_max=6.0, eps=0.0).double()
    layer.p_pos = torch.tensor([6.0, 3.0, 6.0])
    weights = torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64)
    (weights * layer(SEGMENT.expand(3, 3))).sum().backward()
    below, free = capped(), capped(p_max=50.0)
    below.p_pos = 3.0
    expected = [0.0, raw_gradient(below, "pos", 1.0), raw_gradient(free, "pos", -1.0)]
    torch.testing.assert_close(layer.raw_p_pos.grad, torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=0)


def test_cap_under_vmap_of_grad() -> None:
    layers = [capped(), capped(), capped()]
    layers[1].p_pos = 3.0
    parameters, buffers = stack_module_state(layers)

    def loss(state: dict[str, Tensor], sign: Tensor) -> Tensor:
        return sign * functional_call(layers[0], (state, buffers), (SEGMENT,)).sum()

    signs = torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64)
    got = vmap(grad(loss))(parameters, signs)["raw_p_pos"]
    expected = [raw_gradient(layer, "pos", float(sign)) for layer, sign in zip(layers, signs, strict=True)]
    assert expected[0] == 0.0
    torch.testing.assert_close(got, torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=0)


@pytest.mark.parametrize(
    "optimizer",
    [lambda p: torch.optim.RMSprop(p, lr=0.1), lambda p: torch.optim.Adam(p, lr=0.2)],
    ids=["RMSprop", "Adam"],
)
def test_training_stops_at_the_cap_and_comes_back(optimizer: Callable[..., torch.optim.Optimizer]) -> None:
    layer = GNPAggregation(1, branches="positive", mix=False, p_max=6.0).double()
    steps = optimizer([layer.raw_p_pos])

    def train(target: Tensor, count: int) -> list[float]:
        path = []
        for _ in range(count):
            steps.zero_grad()
            (layer(SEGMENT) - target).square().sum().backward()
            steps.step()
            path.append(layer.p_pos.item())
        return path

    towards_max = train(SEGMENT.amax(0), 120)
    assert towards_max[-1] == 6.0
    assert max(towards_max) == 6.0
    assert layer.raw_p_pos.item() < 10.0  # the parameter rests near the cap (5): it does not run away behind it
    back = train(SEGMENT.norm(p=2.0, dim=0), 200)
    assert back[-1] == pytest.approx(2.0, abs=1e-2)


# Precision


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("how", ["method", "to", "to_kwargs", "type", "parent"])
def test_raw_exponents_stay_float32_in_half_precision(dtype: torch.dtype, how: str) -> None:
    layer = GNPAggregation(4, bias=True)
    layer.p_pos, layer.q_neg = 1.2345, 0.4321
    before = {name: value.clone() for name, value in layer.state_dict().items() if name.startswith("raw")}
    model = torch.nn.Sequential(layer)
    {
        "method": layer.half if dtype == torch.float16 else layer.bfloat16,
        "to": lambda: layer.to(dtype),
        "to_kwargs": lambda: layer.to(device="cpu", dtype=dtype),
        "type": lambda: layer.type(dtype),
        "parent": lambda: model.to(dtype),
    }[how]()
    assert layer.mix.weight.dtype == layer.mix.bias.dtype == dtype
    for name, value in before.items():
        assert getattr(layer, name).dtype == torch.float32
        assert torch.equal(getattr(layer, name), value)

    x = torch.rand(len(INDEX), 4).to(dtype)
    out = layer(x, INDEX)
    assert out.dtype == dtype
    reference = copy.deepcopy(layer).float()
    rtol = 4 * torch.finfo(dtype).eps
    torch.testing.assert_close(out.float(), reference(x.float(), INDEX), rtol=rtol, atol=rtol)

    layer.float()
    for name, value in before.items():
        assert torch.equal(getattr(layer, name), value)
    assert layer.p_pos.item() == pytest.approx(1.2345, abs=1e-6)


def test_gradients_of_raw_exponents_stay_float32_in_half_precision() -> None:
    layer = GNPAggregation(4)
    layer(torch.rand(3, 4)).sum().backward()
    before = layer.raw_p_pos.grad.clone()
    layer.half()
    assert layer.raw_p_pos.grad.dtype == torch.float32
    assert torch.equal(layer.raw_p_pos.grad, before)
    assert layer.mix.weight.grad.dtype == torch.float16


def test_raw_exponents_follow_double() -> None:
    layer = GNPAggregation(4).double()
    assert {p.dtype for p in layer.parameters()} == {torch.float64}
    layer.p_pos = 1.23456789012
    assert layer.p_pos.item() == pytest.approx(1.23456789012, abs=1e-12)
    layer.half()
    assert {p.dtype for column in layer.exponents() for p in column} == {torch.float32}


@pytest.mark.parametrize("default", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_raw_exponents_are_never_created_in_half_precision(default: torch.dtype) -> None:
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(default)
        layer = GNPAggregation(4, start="max")
    finally:
        torch.set_default_dtype(before)
    expected = torch.float64 if default == torch.float64 else torch.float32
    assert layer.raw_p_pos.dtype == layer.raw_q_neg.dtype == expected
    assert layer.mix.weight.dtype == default
    assert layer.p_pos.item() == 50.0


def test_autocast_pools_in_full_precision() -> None:
    layer = GNPAggregation(4, mix=False)
    x = torch.rand(len(INDEX), 4)
    with torch.autocast("cpu", torch.bfloat16):
        out = layer(x, INDEX)
    assert torch.equal(out, layer(x, INDEX))


def test_moving_keeps_parameters_and_device() -> None:
    layer = GNPAggregation(4).to("meta")
    assert all(p.device.type == "meta" and p.dtype == torch.float32 for p in layer.parameters())
    assert all(p.device.type == "meta" for p in layer.half().parameters())
    assert layer.raw_p_pos.dtype == torch.float32


# The call, as PyTorch Geometric makes it


def test_any_order_of_the_elements() -> None:
    layer = scatter_exponents(GNPAggregation(4))
    x = torch.rand(len(INDEX), 4)
    for _ in range(3):
        perm = torch.randperm(len(INDEX))
        torch.testing.assert_close(layer(x[perm], INDEX[perm]), layer(x, INDEX), rtol=1e-6, atol=1e-6)


def test_index_ptr_and_both() -> None:
    layer = scatter_exponents(GNPAggregation(4))
    index, ptr = torch.tensor([0, 0, 0, 2, 2, 3]), torch.tensor([0, 3, 3, 5, 6, 6])
    x = torch.rand(6, 4)
    expected = layer(x, index, dim_size=5)
    torch.testing.assert_close(expected, gnp(layer, x, index, 5), rtol=1e-5, atol=1e-6)
    for given in ({"ptr": ptr}, {"index": index, "ptr": ptr}, {"ptr": ptr, "dim_size": 5}, {"ptr": ptr.int()}):
        torch.testing.assert_close(layer(x, **given), expected, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(layer(x, index.int(), dim_size=5), expected, rtol=0, atol=0)


def test_without_index_and_ptr_all_is_one_segment() -> None:
    layer = scatter_exponents(GNPAggregation(4))
    x = torch.rand(6, 4)
    assert torch.equal(layer(x), layer(x, torch.zeros(6, dtype=torch.long)))
    torch.testing.assert_close(layer(x), gnp(layer, x, torch.zeros(6, dtype=torch.long), 1), rtol=1e-5, atol=1e-6)


def test_dim_size() -> None:
    layer = scatter_exponents(GNPAggregation(4))
    x = torch.rand(len(INDEX), 4)
    out = layer(x, INDEX)
    longer = layer(x, INDEX, dim_size=8)
    assert out.size(0) == SIZE
    assert torch.equal(longer[:SIZE], out)
    assert torch.equal(longer[SIZE:], torch.zeros(3, 4))


@pytest.mark.parametrize(
    "options", [{}, {"per_channel": True}, {"branches": "both"}, {"branches": "both", "mix": False}]
)
@pytest.mark.parametrize("dim", [-2, 0, 1, -3])
def test_three_dimensional_input(dim: int, options: dict[str, Any]) -> None:
    layer = scatter_exponents(GNPAggregation(4, **options))
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


def test_dim_zero_of_a_matrix_is_the_default() -> None:
    layer = GNPAggregation(4)
    x = torch.rand(len(INDEX), 4)
    assert torch.equal(layer(x, INDEX, dim=0), layer(x, INDEX))


def test_no_elements() -> None:
    layer = GNPAggregation(4, bias=True)
    none = torch.zeros(0, dtype=torch.long)
    assert layer(torch.zeros(0, 4), none).shape == (0, 4)
    assert torch.equal(layer(torch.zeros(0, 4), none, dim_size=3), layer.mix.bias.expand(3, 4))
    assert torch.equal(layer(torch.zeros(0, 4), ptr=torch.tensor([0, 0, 0])), layer.mix.bias.expand(2, 4))


def test_no_elements_in_three_dimensions() -> None:
    none = torch.zeros(0, dtype=torch.long)
    assert torch.equal(GNPAggregation(4)(torch.zeros(0, 2, 4), none, dim_size=3, dim=0), torch.zeros(3, 2, 4))


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
        ({"branches": "pos"}, "'branches' must be one of ('split', 'both', 'positive', 'negative'), got 'pos'"),
        ({"nonneg": "exp"}, "'nonneg' must be one of ('relu', 'abs', None), got 'exp'"),
        ({"start": "median"}, "'start' must be one of ('sum', 'mean', 'max', 'harmonic', 'min'), got 'median'"),
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


# State


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


# Derivatives and transforms


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"branches": "both", "bias": True},
        {"per_channel": True, "nonneg": "abs"},
        {"branches": "negative", "nonneg": None, "eps": 0.0},
    ],
    ids=name_of,
)
def test_gradcheck_of_the_whole_layer(options: dict[str, Any]) -> None:
    layer = scatter_exponents(GNPAggregation(2, **options)).double()
    names, values = zip(*layer.named_parameters(), strict=True)
    index = torch.tensor([2, 0, 2, 0])  # 1 is empty
    x = torch.randn(len(index), 2, dtype=torch.float64).requires_grad_()

    def run(x: Tensor, *values: Tensor) -> Tensor:
        return functional_call(layer, dict(zip(names, values, strict=True)), (x, index), {"dim_size": 3})

    assert torch.autograd.gradcheck(run, (x, *values), check_batched_grad=True)
    assert torch.autograd.gradgradcheck(run, (x, *values), fast_mode=True)


def test_unused_gradients_are_not_needed() -> None:
    layer = GNPAggregation(4)
    layer.requires_grad_(False)
    x = torch.rand(5, 4, requires_grad=True)
    layer(x).sum().backward()
    frozen = x.grad.clone()
    x.grad = None
    layer.requires_grad_(True)
    layer(x).sum().backward()
    torch.testing.assert_close(frozen, x.grad)


@pytest.mark.parametrize("options", [{}, {"branches": "both", "bias": True}, {"per_channel": True}], ids=name_of)
def test_vmap_over_stacked_layers_equals_the_loop(options: dict[str, Any]) -> None:
    layers = [GNPAggregation(4, **options).double() for _ in range(3)]
    for k, layer in enumerate(layers):
        layer.p_pos, layer.q_pos, layer.p_neg, layer.q_neg = 1.5 + k, 0.3 * k, 4.0 - k, -0.5 * k
    parameters, buffers = stack_module_state(layers)
    shared, own = (torch.randn(*shape, len(INDEX), 4, dtype=torch.float64) for shape in ((), (3,)))

    def run(state: dict[str, Tensor], x: Tensor) -> Tensor:
        return functional_call(layers[0], (state, buffers), (x, INDEX), {"dim_size": SIZE})

    def loss(state: dict[str, Tensor], x: Tensor) -> Tensor:
        return run(state, x).square().sum()

    for x, dims in ((shared, (0, None)), (own, (0, 0))):
        inputs = [x if dims[1] is None else x[k] for k in range(3)]
        out = vmap(run, dims)(parameters, x)
        expected = torch.stack([layer(v, INDEX, dim_size=SIZE) for layer, v in zip(layers, inputs, strict=True)])
        torch.testing.assert_close(out, expected, rtol=1e-9, atol=1e-12)

        grads = vmap(grad(loss), dims)(parameters, x)
        for k, layer in enumerate(layers):
            layer.zero_grad()
            layer(inputs[k], INDEX, dim_size=SIZE).square().sum().backward()
            for name, parameter in layer.named_parameters():
                torch.testing.assert_close(grads[name][k], parameter.grad, rtol=1e-9, atol=1e-12)


def test_forward_mode_equals_reverse_mode() -> None:
    layer = scatter_exponents(GNPAggregation(4)).double()
    state = dict(layer.named_parameters())
    x = torch.randn(len(INDEX), 4, dtype=torch.float64)

    def run(state: dict[str, Tensor], x: Tensor) -> Tensor:
        return functional_call(layer, state, (x, INDEX))

    forward = torch.func.jacfwd(run, argnums=(0, 1))(state, x)
    reverse = torch.func.jacrev(run, argnums=(0, 1))(state, x)
    for name in state:
        torch.testing.assert_close(forward[0][name], reverse[0][name], rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(forward[1], reverse[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"branches": "both", "bias": True}, {"per_channel": True}], ids=name_of)
def test_compile_fullgraph(options: dict[str, Any]) -> None:
    torch._dynamo.reset()
    layer = scatter_exponents(GNPAggregation(4, **options))
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")  # inductor would need a C++ compiler
    x = torch.randn(len(INDEX), 4, requires_grad=True)
    inputs = [x, *layer.parameters()]

    expected = layer(x, INDEX, dim_size=SIZE)
    out = compiled(x, INDEX, dim_size=SIZE)
    torch.testing.assert_close(out, expected, rtol=1e-6, atol=1e-6)
    weights = torch.randn_like(out)
    for got, wanted in zip(
        torch.autograd.grad((out * weights).sum(), inputs),
        torch.autograd.grad((expected * weights).sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-6)


def test_compile_keeps_the_cap() -> None:
    torch._dynamo.reset()
    layer = capped()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    index = torch.zeros(3, dtype=torch.long)
    for sign in (1.0, -1.0):
        layer.zero_grad()
        (sign * compiled(SEGMENT, index, dim_size=1)).sum().backward()
        got = layer.raw_p_pos.grad.item()
        assert got == pytest.approx(raw_gradient(layer, "pos", sign), rel=1e-9)


@pytest.mark.parametrize("form", ["index", "ptr"])
def test_export_save_load(tmp_path: Path, form: str) -> None:
    layer = scatter_exponents(GNPAggregation(4, bias=True))
    rows = torch.export.Dim("rows", min=2)
    given: dict[str, Any]
    if form == "index":
        given = {"index": INDEX, "dim_size": SIZE}
        shapes = {"x": {0: rows}, "index": {0: rows}, "dim_size": None}
    else:
        given = {"ptr": torch.tensor([0, 4, 6, 6, 9])}
        shapes = {"x": {0: rows}, "ptr": None}
    x = torch.randn(len(INDEX), 4)
    program = torch.export.export(layer, (x,), given, dynamic_shapes=shapes)
    torch.export.save(program, tmp_path / "layer.pt2")
    loaded = torch.export.load(tmp_path / "layer.pt2").module()
    torch.testing.assert_close(loaded(x, **given), layer(x, **given), rtol=1e-6, atol=1e-6)

    if form == "index":  # another number of rows
        x, given["index"] = torch.randn(4, 4), torch.tensor([4, 0, 0, 1])
    else:
        x, given["ptr"] = torch.randn(6, 4), torch.tensor([0, 0, 1, 5, 6])
    torch.testing.assert_close(loaded(x, **given), layer(x, **given), rtol=1e-6, atol=1e-6)


# Learning


def test_learns_the_pooling_of_a_task() -> None:
    layer = GNPAggregation(1, branches="positive", mix=False, p_max=10.0).double()
    ptr = torch.tensor([0, 1, 3, 7, 15, 31])  # sizes must differ: among equal ones q and p are one
    x = torch.rand(31, 1, dtype=torch.float64) + 0.1
    target = norm_pool(x, ptr=ptr, p=3.0, q=0.5)
    optimizer = torch.optim.LBFGS(layer.parameters(), max_iter=100, line_search_fn="strong_wolfe", tolerance_change=0)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = (layer(x, ptr=ptr) - target).square().mean()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert closure().item() < 1e-10
    assert layer.p_pos.item() == pytest.approx(3.0, abs=1e-2)
    assert layer.q_pos.item() == pytest.approx(0.5, abs=1e-2)
