"""The exponents of two branches: reading, setting, starting, the cap, and the precision that all exponents are held in.

The exponents of one branch are in test_growth.py.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, grad, stack_module_state, vmap

from gnpool.nn import GNPAggregation
from gnpool.nn.exponent import signed_exponent
from tests.nn.expected import INDEX, P_MAX, in_both_coordinates, names_of

START_P = 1 + math.log(2)
NEAR_ONE = 1 + math.log1p(math.exp(-6))
PAIRS = [
    *(("published", name) for name in ("p_pos", "p_neg", "q_pos", "q_neg")),
    *(("growth", name) for name in ("p_pos", "p_neg", "growth_pos", "growth_neg")),
]


def two(channels: int, coordinates: str = "published", **options: Any) -> GNPAggregation:
    return GNPAggregation(channels, coordinates=coordinates, **{"branches": "split", **options})


def others_of(coordinates: str, name: str) -> list[str]:
    return [other for where, other in PAIRS if where == coordinates and other != name]


def capped(branch: str = "pos", p_max: float = 6.0) -> GNPAggregation:
    branches = "positive" if branch == "pos" else "negative"
    layer = two(1, branches=branches, mix=False, p_max=p_max, start=None, eps=0.0).double()
    setattr(layer, f"p_{branch}", 6.0)
    return layer


@pytest.mark.parametrize("per_channel", [False, True])
@in_both_coordinates
def test_exponents_start_at_t_zero_and_q_or_growth_zero(coordinates: str, per_channel: bool) -> None:
    layer = two(4, coordinates, per_channel=per_channel)
    shape = (2,) if per_channel else ()
    for p in (layer.p_pos, layer.p_neg):
        torch.testing.assert_close(p, torch.full(shape, 1.693147), rtol=0, atol=1e-6)
    for name in ("raw_p_pos", "raw_p_neg", *others_of(coordinates, "")[2:]):
        assert torch.equal(getattr(layer, name), torch.zeros(shape))


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize(("coordinates", "name"), PAIRS)
def test_setting_an_exponent_reads_back(coordinates: str, name: str, per_channel: bool) -> None:
    layer = two(6, coordinates, per_channel=per_channel)
    shape = (3,) if per_channel else ()
    others = {other: getattr(layer, other).clone() for other in others_of(coordinates, name)}
    values = [1.001, 1.2345, 2.0, 7.0, 20.9, 21.1, 49.999, 50.0] if name[0] == "p" else [-1.0, 0.0, 0.4, 1.0, 2.0]
    for value in values:
        for given in (value, torch.tensor(value), torch.tensor(value, dtype=torch.float64)):
            setattr(layer, name, given)
            torch.testing.assert_close(getattr(layer, name), torch.full(shape, value), rtol=0, atol=1e-5)
    if name[0] == "p":
        assert (getattr(layer, name) == 50.0).all()
    for other, value in others.items():
        assert torch.equal(getattr(layer, other), value)


@pytest.mark.parametrize(("coordinates", "name"), PAIRS)
def test_setting_each_channel(coordinates: str, name: str) -> None:
    layer = two(6, coordinates, per_channel=True)
    values = torch.tensor([1.5, 3.0, 44.0])
    setattr(layer, name, values)
    torch.testing.assert_close(getattr(layer, name), values, rtol=0, atol=1e-5)


@pytest.mark.parametrize("value", [1.0, 0.0, -2.0, 50.1, math.inf, math.nan])
@pytest.mark.parametrize("name", ["p_pos", "p_neg"])
def test_setting_p_out_of_range_is_an_error(name: str, value: float) -> None:
    layer = GNPAggregation(4, coordinates="published")
    shown = r"GNPAggregation\(4, coordinates='published'\)"
    with pytest.raises(ValueError, match=rf"{shown}: '{name}' must lie in \(1, 50\], got {value}$"):
        setattr(layer, name, value)
    assert getattr(layer, name).item() == pytest.approx(START_P)


def test_setting_one_channel_out_of_range_changes_nothing() -> None:
    layer = two(4, per_channel=True, p_max=10.0)
    with pytest.raises(ValueError, match=r"'p_pos' must lie in \(1, 10\], got \[2.0, 11.0\]"):
        layer.p_pos = torch.tensor([2.0, 11.0])
    assert layer.raw_p_pos.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", ["p_pos", "q_neg"])
def test_setting_a_wrong_shape_is_an_error(name: str) -> None:
    shown = r"GNPAggregation\(4, coordinates='published'\)"
    with pytest.raises(ValueError, match=rf"{shown}: '{name}' must be a number, got shape \(2,\)"):
        setattr(two(4), name, torch.tensor([2.0, 3.0]))
    layer = two(4, per_channel=True)
    with pytest.raises(ValueError, match=rf"'{name}' must be a number or one of shape \(2,\), got shape \(3,\)"):
        setattr(layer, name, torch.tensor([2.0, 3.0, 4.0]))


@pytest.mark.parametrize(("branches", "missing"), [("positive", "neg"), ("negative", "pos")])
@in_both_coordinates
def test_a_branch_left_out_has_no_exponents(coordinates: str, branches: str, missing: str) -> None:
    layer = two(4, coordinates, branches=branches)
    for symbol in ("p", "growth" if coordinates == "growth" else "q"):
        assert not hasattr(layer, f"{symbol}_{missing}")
        with pytest.raises(AttributeError, match=f"{symbol}_{missing}"):
            setattr(layer, f"{symbol}_{missing}", 2.0)


@pytest.mark.parametrize(
    ("start", "branch", "p", "q", "growth"),
    [
        ("sum", "pos", NEAR_ONE, 0.0, 1.0),
        ("mean", "pos", NEAR_ONE, 1.0, 0.0),
        ("max", "pos", math.inf, 0.0, 0.0),
        ("rms", "pos", 2.0, 0.5, 0.0),
        ("l2", "pos", 2.0, 0.0, 0.5),
        ("harmonic", "neg", NEAR_ONE, 0.0, -1.0),
        ("harmonic mean", "neg", NEAR_ONE, -1.0, 0.0),
        ("min", "neg", math.inf, 0.0, 0.0),
    ],
)
@pytest.mark.parametrize("per_channel", [False, True])
@in_both_coordinates
def test_start(coordinates: str, start: str, branch: str, p: float, q: float, growth: float, per_channel: bool) -> None:
    layer = two(4, coordinates, start=start, per_channel=per_channel, mix=False)
    other = "neg" if branch == "pos" else "pos"
    shape = (2,) if per_channel else ()
    p = min(p, P_MAX[coordinates])
    size, value = ("growth", growth) if coordinates == "growth" else ("q", q)
    for which, expected_p, expected_size in ((branch, p, value), (other, START_P, 0.0)):
        torch.testing.assert_close(getattr(layer, f"p_{which}"), torch.full(shape, expected_p), rtol=0, atol=1e-5)
        learned = getattr(layer, f"{size}_{which}")
        torch.testing.assert_close(learned, torch.full(shape, expected_size), rtol=0, atol=0)

    values = torch.tensor([2.0, 3.0, 6.0])
    exact = {
        "sum": 11.0,
        "mean": 11 / 3,
        "max": 6.0,
        "rms": math.sqrt(49 / 3),
        "l2": 7.0,
        "harmonic": 1.0,
        "harmonic mean": 3.0,
        "min": 2.0,
    }[start]
    if coordinates == "growth" and start in ("max", "min"):  # the power mean of 3 values: 3^(1/500) off
        exact *= 3 ** (-1 / 500 if start == "max" else 1 / 500)
    channel = 0 if branch == "pos" else 2
    out = layer(values[:, None].expand(3, 4))[0, channel].item()
    assert out == pytest.approx(exact, rel=5e-3)  # 3 elements at p = 1.0025: at most 3^(1 - 1/p) off


@pytest.mark.parametrize(
    ("start", "branches"), [("sum", "negative"), ("max", "negative"), ("min", "positive"), ("harmonic", "positive")]
)
@in_both_coordinates
def test_start_needs_its_branch(coordinates: str, start: str, branches: str) -> None:
    message = rf"start='{start}' lies in no branch of branches='{branches}'"
    with pytest.raises(ValueError, match=message):
        two(4, coordinates, start=start, branches=branches)


@pytest.mark.parametrize("branches", ["split", "both", "positive", "negative"])
@in_both_coordinates
def test_the_geometric_mean_lies_between_the_branches(coordinates: str, branches: str) -> None:
    with pytest.raises(ValueError, match=rf"start='geometric' lies in no branch of branches='{branches}'"):
        two(4, coordinates, start="geometric", branches=branches)


@pytest.mark.parametrize("branch", ["pos", "neg"])
@in_both_coordinates
def test_the_other_exponent_of_the_size_can_be_read(coordinates: str, branch: str) -> None:
    layer = two(4, coordinates).double()
    learned, other = ("growth", "q") if coordinates == "growth" else ("q", "growth")
    setattr(layer, f"p_{branch}", 4.0)
    setattr(layer, f"{learned}_{branch}", 0.125)
    sign = 1 if branch == "pos" else -1
    assert getattr(layer, f"{other}_{branch}").item() == pytest.approx(sign * 0.25 - 0.125, abs=1e-12)
    message = rf"'{other}' can be read but not set.*learns '{learned}'"
    with pytest.raises(AttributeError, match=message):
        setattr(layer, f"{other}_{branch}", 0.5)


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


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_far_above_the_cap_the_slope_is_that_of_the_cap(sign: float) -> None:
    t = torch.tensor([sign * 1000.0], dtype=torch.float64, requires_grad=True)  # whose sinh overflows
    p = signed_exponent(t, 500.0)
    (sign * p).sum().backward()
    assert p.tolist() == [sign * 500.0]
    assert t.grad is not None
    assert t.grad.item() == pytest.approx(sign * 500.0, rel=1e-4)


def test_cap_in_one_channel_leaves_the_others_alone() -> None:
    layer = two(3, branches="positive", per_channel=True, mix=False, p_max=6.0, eps=0.0).double()
    layer.p_pos = torch.tensor([6.0, 3.0, 6.0])
    weights = torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64)
    (weights * layer(SEGMENT.expand(3, 3))).sum().backward()
    below, free = capped(), capped(p_max=50.0)
    below.p_pos = 3.0
    expected = [0.0, raw_gradient(below, "pos", 1.0), raw_gradient(free, "pos", -1.0)]
    torch.testing.assert_close(layer.raw_p_pos.grad, torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=0)


@pytest.mark.parametrize("outside", [False, True])
def test_cap_under_vmap(outside: bool) -> None:
    layers = [capped(), capped(), capped()]
    layers[1].p_pos = 3.0
    parameters, buffers = stack_module_state(layers)

    def loss(state: dict[str, Tensor], sign: Tensor) -> Tensor:
        return sign * functional_call(layers[0], (state, buffers), (SEGMENT,)).sum()

    signs = torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64)
    if outside:  # autograd of vmap, as in training many models
        (got,) = torch.autograd.grad(vmap(loss)(parameters, signs).sum(), parameters["raw_p_pos"])
    else:
        got = vmap(grad(loss))(parameters, signs)["raw_p_pos"]
    expected = [raw_gradient(layer, "pos", float(sign)) for layer, sign in zip(layers, signs, strict=True)]
    assert expected[0] == 0.0
    torch.testing.assert_close(got, torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=0)


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


@pytest.mark.parametrize(
    "optimizer",
    [lambda p: torch.optim.RMSprop(p, lr=0.1), lambda p: torch.optim.Adam(p, lr=0.2)],
    ids=["RMSprop", "Adam"],
)
def test_training_stops_at_the_cap_and_comes_back(optimizer: Callable[..., torch.optim.Optimizer]) -> None:
    layer = two(1, branches="positive", mix=False, p_max=6.0).double()
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


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("how", ["method", "to", "to_kwargs", "type", "parent"])
@in_both_coordinates
def test_raw_exponents_stay_float32_in_half_precision(coordinates: str, dtype: torch.dtype, how: str) -> None:
    layer = GNPAggregation(4, coordinates=coordinates, bias=True)
    name_of_p, name_of_size = names_of(layer)
    setattr(layer, name_of_p, 1.2345)
    setattr(layer, name_of_size, 0.4321)
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
    assert getattr(layer, name_of_p).item() == pytest.approx(1.2345, abs=1e-6)


@in_both_coordinates
def test_gradients_of_raw_exponents_stay_float32_in_half_precision(coordinates: str) -> None:
    layer = GNPAggregation(4, coordinates=coordinates)
    layer(torch.rand(3, 4)).sum().backward()
    raw = [t for column in layer.exponents().values() for t in column]
    before = [t.grad.clone() for t in raw]
    layer.half()
    for t, grad_before in zip((t for column in layer.exponents().values() for t in column), before, strict=True):
        assert t.grad.dtype == torch.float32
        assert torch.equal(t.grad, grad_before)
    assert layer.mix.weight.grad.dtype == torch.float16


@in_both_coordinates
def test_raw_exponents_follow_double(coordinates: str) -> None:
    layer = GNPAggregation(4, coordinates=coordinates).double()
    assert {p.dtype for p in layer.parameters()} == {torch.float64}
    name = names_of(layer)[0]
    setattr(layer, name, 1.23456789012)
    assert getattr(layer, name).item() == pytest.approx(1.23456789012, abs=1e-12)
    layer.half()
    assert {p.dtype for column in layer.exponents().values() for p in column} == {torch.float32}


@pytest.mark.parametrize("default", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@in_both_coordinates
def test_raw_exponents_are_never_created_in_half_precision(coordinates: str, default: torch.dtype) -> None:
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(default)
        layer = GNPAggregation(4, coordinates=coordinates, start="max")
    finally:
        torch.set_default_dtype(before)
    expected = torch.float64 if default == torch.float64 else torch.float32
    name_of_p, name_of_size = names_of(layer)
    assert getattr(layer, f"raw_{name_of_p}").dtype == getattr(layer, f"raw_{name_of_size}").dtype == expected
    assert layer.mix.weight.dtype == default
    assert getattr(layer, name_of_p).item() == P_MAX[coordinates]


@in_both_coordinates
def test_autocast_pools_in_full_precision(coordinates: str) -> None:
    layer = GNPAggregation(4, coordinates=coordinates, mix=False)
    x = torch.rand(len(INDEX), 4)
    with torch.autocast("cpu", torch.bfloat16):
        out = layer(x, INDEX)
    assert torch.equal(out, layer(x, INDEX))


@in_both_coordinates
def test_moving_keeps_parameters_and_device(coordinates: str) -> None:
    layer = GNPAggregation(4, coordinates=coordinates).to("meta")
    assert all(p.device.type == "meta" and p.dtype == torch.float32 for p in layer.parameters())
    assert all(p.device.type == "meta" for p in layer.half().parameters())
    assert getattr(layer, f"raw_{names_of(layer)[0]}").dtype == torch.float32
