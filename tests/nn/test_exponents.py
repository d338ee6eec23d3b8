"""The exponents of GNPAggregation: reading, setting, starting, the cap, and the precision they are held in."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, grad, stack_module_state, vmap

from gnpool.nn import GNPAggregation
from tests.nn.expected import INDEX

START_P = 1 + math.log(2)
NEAR_ONE = 1 + math.log1p(math.exp(-6))


def capped(branch: str = "pos", p_max: float = 6.0) -> GNPAggregation:
    layer = GNPAggregation(
        1, branches="positive" if branch == "pos" else "negative", mix=False, p_max=p_max, start=None, eps=0.0
    ).double()
    setattr(layer, f"p_{branch}", 6.0)
    return layer


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
