"""One branch in growth coordinates: named starts, p of any sign, the cap on both sides, derivatives, infinite p."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, grad, jacfwd, stack_module_state, vmap
from torch_geometric.nn import GINConv

from gnpool.nn import GNPAggregation, GNPConv
from gnpool.nn.exponent import signed_exponent
from tests.nn.expected import INDEX, SIZE, gnp, scatter_exponents

VALUES = torch.tensor([2.0, 3.0, 6.0, 9.0], dtype=torch.float64)
FORMULAS: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda x: x.sum(0),
    "mean": lambda x: x.mean(0),
    "max": lambda x: (x / x.amax(0)).pow(500).mean(0).pow(1 / 500) * x.amax(0),
    "min": lambda x: (x.amin(0) / x).pow(500).mean(0).pow(-1 / 500) * x.amin(0),
    "harmonic": lambda x: 1 / (1 / x).sum(0),
    "harmonic mean": lambda x: x.size(0) / (1 / x).sum(0),
    "geometric": lambda x: x.prod(0).pow(1 / x.size(0)),
    "rms": lambda x: x.square().mean(0).sqrt(),
    "l2": lambda x: x.square().sum(0).sqrt(),
}
POINTS = {
    "sum": (1.0, 1.0),
    "mean": (1.0, 0.0),
    "max": (500.0, 0.0),
    "min": (-500.0, 0.0),
    "harmonic": (-1.0, -1.0),
    "harmonic mean": (-1.0, 0.0),
    "geometric": (0.0, 0.0),
    "rms": (2.0, 0.0),
    "l2": (2.0, 0.5),
}


def layer_at(p: float, growth: float = 0.0, **options: Any) -> GNPAggregation:
    layer = GNPAggregation(1, **{"mix": False, "eps": 0.0, **options}).double()
    layer.p, layer.growth = p, growth
    return layer


# Starts


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("start", FORMULAS)
def test_value_at_a_named_start(start: str, per_channel: bool) -> None:
    layer = GNPAggregation(2, mix=False, start=start, per_channel=per_channel, eps=0.0).double()
    p, growth = POINTS[start]
    shape = (2,) if per_channel else ()
    torch.testing.assert_close(layer.p, torch.full(shape, p).double(), rtol=1e-6, atol=0)
    assert torch.equal(layer.growth, torch.full(shape, growth).double())
    x = torch.stack([VALUES, VALUES.flip(0) * 0.1], dim=1)
    torch.testing.assert_close(layer(x)[0], FORMULAS[start](x), rtol=1e-6, atol=0)
    one = torch.tensor([[5.0, 0.3]], dtype=torch.float64)  # of one element every pooling is the element
    torch.testing.assert_close(layer(one), one, rtol=1e-9, atol=0)


def test_without_a_start_it_is_the_mean() -> None:
    layer = GNPAggregation(3)
    assert (layer.p.item(), layer.growth.item()) == (1.0, 0.0)
    assert layer.start is None


@pytest.mark.parametrize("start", FORMULAS)
def test_reset_and_set_start(start: str) -> None:
    layer = GNPAggregation(3, start=start)
    first = {name: getattr(layer, name).clone() for name in ("raw_p", "raw_growth")}
    weight = layer.mix.weight.clone()
    layer.p, layer.growth = 7.0, -3.0
    layer.set_start(start)
    for name, value in first.items():
        assert torch.equal(getattr(layer, name), value)
    assert torch.equal(layer.mix.weight, weight)  # the weights stay
    layer.set_start("rms")
    assert repr(layer) == f"GNPAggregation(3, start={start!r})"
    layer.reset_parameters()  # to the start of the constructor
    for name, value in first.items():
        assert torch.equal(getattr(layer, name), value)
    assert not torch.equal(layer.mix.weight, weight)


def test_set_start_of_two_branches_leaves_the_other_branch() -> None:
    layer = GNPAggregation(4, branches="split")
    layer.p_neg, layer.growth_neg = 3.0, 0.25
    layer.set_start("l2")
    assert [layer.p_pos.item(), layer.growth_pos.item()] == pytest.approx([2.0, 0.5])
    assert [layer.p_neg.item(), layer.growth_neg.item()] == pytest.approx([3.0, 0.25])
    layer.set_start("harmonic")
    assert [layer.p_neg.item(), layer.growth_neg.item()] == pytest.approx([1.0025, -1.0], abs=1e-4)
    assert [layer.p_pos.item(), layer.growth_pos.item()] == pytest.approx([2.0, 0.5])


@pytest.mark.parametrize(
    ("options", "start", "match"),
    [
        ({}, "median", r"GNPAggregation\(4\): 'start' must be one of \('sum', .*, got 'median'"),
        ({"branches": "split"}, "geometric", "start='geometric' lies in none of its branches"),
        ({"branches": "positive"}, "min", "start='min' lies in none of its branches"),
    ],
)
def test_set_start_refuses_what_it_does_not_have(options: dict[str, Any], start: str, match: str) -> None:
    layer = GNPAggregation(4, **options)
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    with pytest.raises(ValueError, match=match):
        layer.set_start(start)
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())


@pytest.mark.parametrize(("start", "p"), [("max", 6.0), ("min", -6.0), ("rms", 2.0)])
def test_a_start_lies_within_the_cap(start: str, p: float) -> None:
    assert GNPAggregation(4, start=start, p_max=6.0).p.item() == pytest.approx(p, abs=1e-6)
    assert GNPAggregation(4, start="rms", p_max=1.5).p.item() == 1.5


# Reading and setting


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("p", [-500.0, -49.5, -2.0, -1.0, -0.5, -1e-3, 0.0, 1e-8, 0.25, 1.0, 3.0, 100.0, 499.0, 500.0])
def test_p_of_any_sign_reads_back(p: float, per_channel: bool) -> None:
    layer = GNPAggregation(3, per_channel=per_channel, start="sum")
    shape = (3,) if per_channel else ()
    for given in (p, torch.tensor(p), torch.tensor(p, dtype=torch.float64)):
        layer.p = given
        torch.testing.assert_close(layer.p, torch.full(shape, p), rtol=2e-6, atol=0)
        assert torch.equal(layer.growth, torch.ones(shape))
    if abs(p) == 500.0:
        assert (layer.p == p).all()  # the cap itself


def test_each_channel_has_its_own() -> None:
    layer = GNPAggregation(3, per_channel=True, mix=False, eps=0.0).double()
    layer.p, layer.growth = torch.tensor([-1.0, 0.0, 2.0]), torch.tensor([0.0, 1.0, 0.5])
    torch.testing.assert_close(layer.p, torch.tensor([-1.0, 0.0, 2.0]).double(), rtol=1e-6, atol=0)
    out = layer(VALUES[:, None].expand(4, 3))[0]
    expected = [FORMULAS["harmonic mean"](VALUES), 4 * FORMULAS["geometric"](VALUES), FORMULAS["l2"](VALUES)]
    torch.testing.assert_close(out, torch.stack(expected), rtol=1e-6, atol=0)


@pytest.mark.parametrize("p", [500.1, -500.1, math.inf, -math.inf, math.nan])
def test_p_out_of_range_is_an_error_and_changes_nothing(p: float) -> None:
    layer = GNPAggregation(4)
    with pytest.raises(ValueError, match=rf"GNPAggregation\(4\): 'p' must lie in \[-500, 500\], got {p}$"):
        layer.p = p
    assert layer.p.item() == 1.0
    several = GNPAggregation(2, per_channel=True, p_max=10.0)
    with pytest.raises(ValueError, match=r"'p' must lie in \[-10, 10\], got \[2.0, -11.0\]"):
        several.p = torch.tensor([2.0, -11.0])
    assert several.p.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("name", ["p", "growth"])
def test_a_wrong_shape_is_an_error(name: str) -> None:
    with pytest.raises(ValueError, match=rf"'{name}' must be a number, got shape \(2,\)"):
        setattr(GNPAggregation(4), name, torch.tensor([2.0, 3.0]))
    with pytest.raises(ValueError, match=rf"'{name}' must be a number or one of shape \(4,\), got shape \(2,\)"):
        setattr(GNPAggregation(4, per_channel=True), name, torch.tensor([2.0, 3.0]))


@pytest.mark.parametrize(("p", "growth"), [(2.0, 0.5), (-4.0, 1.0), (0.5, -0.25)])
def test_q_follows_from_p_and_the_growth(p: float, growth: float) -> None:
    layer = layer_at(p, growth)
    assert layer.q.item() == pytest.approx(1 / p - growth, rel=1e-6)
    with pytest.raises(AttributeError, match=r"'q' can be read but not set.*learns 'growth'"):
        layer.q = 0.0
    assert layer.growth.item() == growth


def test_one_branch_has_no_branches() -> None:
    layer = GNPAggregation(4)
    for name in ("p_pos", "p_neg", "q_pos", "q_neg", "growth_pos", "growth_neg"):
        assert not hasattr(layer, name)
        with pytest.raises(AttributeError):
            setattr(layer, name, 2.0)
    two = GNPAggregation(4, branches="split")
    assert not hasattr(two, "p")
    assert not hasattr(two, "growth")


def test_the_lists_of_exponents() -> None:
    layer = GNPAggregation(4)
    found = layer.exponents()
    assert list(found) == ["p", "q", "growth"]
    assert [id(t) for t in found["p"] + found["growth"]] == [id(layer.raw_p), id(layer.raw_growth)]
    assert found["q"] == []
    two = GNPAggregation(4, branches="split").exponents()
    assert [len(column) for column in two.values()] == [2, 0, 2]


# The usual size


@pytest.mark.parametrize("branches", ["one", "split", "both"])
def test_the_usual_size_is_a_factor_of_the_weights(branches: str) -> None:
    layer = scatter_exponents(GNPAggregation(4, branches=branches, size=10.0)).double()
    plain = scatter_exponents(GNPAggregation(4, branches=branches, size=1.0)).double()
    plain.load_state_dict(layer.state_dict())
    with torch.no_grad():
        plain.mix.weight.copy_(layer.mixing_weight())
    x = torch.rand(len(INDEX), 4, dtype=torch.float64)
    torch.testing.assert_close(layer(x, INDEX), plain(x, INDEX), rtol=1e-12, atol=1e-12)
    assert torch.equal(plain.mixing_weight(), plain.mix.weight)


def test_at_the_usual_size_the_growth_changes_nothing() -> None:
    layer = GNPAggregation(3, size=5.0, start="rms").double()
    x = torch.rand(5, 3, dtype=torch.float64)
    outputs = []
    for growth in (-2.0, 0.0, 1.5):
        layer.growth = growth
        outputs.append(layer(x))
    torch.testing.assert_close(outputs[1:], [outputs[0]] * 2, rtol=1e-12, atol=1e-14)
    (slope,) = torch.autograd.grad(layer(x).sum(), layer.raw_growth)
    assert abs(slope.item()) < 1e-12


def test_the_usual_size_needs_a_mixing_layer() -> None:
    x = torch.rand(5, 3)
    assert torch.equal(GNPAggregation(3, mix=False, size=5.0)(x), GNPAggregation(3, mix=False, size=50.0)(x))
    with pytest.raises(AttributeError, match="there is no mixing layer"):
        GNPAggregation(3, mix=False).mixing_weight()


# Rows of 0


@pytest.mark.parametrize(
    ("p", "zeros", "expected"),
    [
        (1.0, "keep", 11 / 4),
        (1.0, "remove", 11 / 3),
        (2.0, "keep", math.sqrt(49 / 4)),
        (-1.0, "keep", 0.0),
        (-1.0, "remove", 3.0),
        (0.0, "keep", 0.0),
        (0.0, "remove", 36 ** (1 / 3)),
    ],
)
def test_zeros(p: float, zeros: str, expected: float) -> None:
    layer = layer_at(p, zeros=zeros, eps=1e-12)
    x = torch.tensor([[2.0], [0.0], [3.0], [6.0]], dtype=torch.float64)
    assert layer(x).item() == pytest.approx(expected, rel=1e-6, abs=2e-2)  # 1e-12^(1/4) is 1e-3
    assert layer(-x).item() == pytest.approx(0.0, abs=1e-9)  # behind the ReLU nothing is left


# The cap

SEGMENT = torch.tensor([[1.0], [1.5], [1.7]], dtype=torch.float64)


def slope(layer: GNPAggregation, sign: float) -> float:
    (found,) = torch.autograd.grad((sign * layer(SEGMENT)).sum(), layer.raw_p)
    return found.item()


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_the_cap_passes_only_gradients_that_lower_the_size_of_p(side: float) -> None:
    at_cap, free = layer_at(side * 6.0, p_max=6.0), layer_at(side * 6.0)
    assert at_cap.p.item() == side * 6.0
    outward = -side  # a power mean grows with p: descent on -y raises p
    assert slope(free, outward) * side < -1e-3
    assert slope(at_cap, outward) == 0.0
    assert slope(free, -outward) * side > 1e-3
    assert slope(at_cap, -outward) == pytest.approx(slope(free, -outward), rel=1e-4)


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_behind_the_cap_p_reads_as_the_cap_and_can_return(side: float) -> None:
    layer = layer_at(side * 6.0, p_max=6.0)
    with torch.no_grad():
        layer.raw_p.fill_(side * 4.0)  # where momentum may carry it; sinh(4) = 27
    assert layer.p.item() == side * 6.0
    assert slope(layer, -side) == 0.0
    assert slope(layer, side) * side > 1e-3


@pytest.mark.parametrize("t", [9.0, 90.0, 9e4])
@pytest.mark.parametrize("side", [1.0, -1.0])
def test_far_behind_the_cap_the_slope_is_that_at_the_cap(side: float, t: float) -> None:
    layer, at_cap = layer_at(side * 6.0, p_max=6.0), layer_at(side * 6.0, p_max=6.0)
    with torch.no_grad():
        layer.raw_p.fill_(side * t)
    assert layer.p.item() == side * 6.0
    assert slope(layer, side) == pytest.approx(slope(at_cap, side), rel=1e-9)
    assert slope(layer, -side) == 0.0


def test_inside_the_cap_both_signs_pass() -> None:
    for p in (-5.9, 0.0, 5.9):
        layer, free = layer_at(p, p_max=6.0), layer_at(p)
        for sign in (1.0, -1.0):
            assert slope(layer, sign) == pytest.approx(slope(free, sign), rel=1e-9)
            assert slope(layer, sign) != 0.0


@pytest.mark.parametrize("outside", [False, True])
def test_the_cap_under_vmap(outside: bool) -> None:
    layers = [layer_at(p, p_max=6.0) for p in (6.0, -6.0, 3.0, 6.0, -6.0)]
    signs = torch.tensor([-1.0, 1.0, 1.0, 1.0, -1.0], dtype=torch.float64)
    parameters, buffers = stack_module_state(layers)

    def loss(state: dict[str, Tensor], sign: Tensor) -> Tensor:
        return sign * functional_call(layers[0], (state, buffers), (SEGMENT,)).sum()

    if outside:  # autograd of vmap, as in training many models
        (got,) = torch.autograd.grad(vmap(loss)(parameters, signs).sum(), parameters["raw_p"])
    else:
        got = vmap(grad(loss))(parameters, signs)["raw_p"]
    expected = [slope(layer, float(sign)) for layer, sign in zip(layers, signs, strict=True)]
    assert [value == 0.0 for value in expected] == [True, True, False, False, False]
    torch.testing.assert_close(got, torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=0)


def test_the_cap_in_forward_mode() -> None:
    t = torch.tensor([-4.0, -1.0, 0.0, 1.0, 4.0], dtype=torch.float64)
    tangent = torch.func.jvp(lambda t: signed_exponent(t, 6.0), (t,), (torch.ones_like(t),))[1]
    torch.testing.assert_close(tangent, torch.where(t.abs() < 2, t.cosh(), 0.0))
    layer = layer_at(2.0, 0.5, p_max=6.0)
    state = dict(layer.named_parameters())
    forward = jacfwd(lambda state: functional_call(layer, state, (SEGMENT,)))(state)
    for name, parameter in state.items():
        (reverse,) = torch.autograd.grad(layer(SEGMENT).sum(), parameter)
        torch.testing.assert_close(forward[name].squeeze(), reverse, rtol=1e-9, atol=0)


def test_compile_keeps_the_cap() -> None:
    torch._dynamo.reset()
    index = torch.zeros(3, dtype=torch.long)
    for side in (1.0, -1.0):
        layer = layer_at(side * 6.0, p_max=6.0)
        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
        for sign in (1.0, -1.0):
            (got,) = torch.autograd.grad((sign * compiled(SEGMENT, index, dim_size=1)).sum(), layer.raw_p)
            assert got.item() == pytest.approx(slope(layer, sign), rel=1e-9)


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_training_stops_at_the_cap_and_comes_back(side: float) -> None:
    layer = GNPAggregation(1, mix=False, p_max=6.0, start="mean").double()
    layer.raw_growth.requires_grad_(False)
    steps = torch.optim.Adam([layer.raw_p], lr=0.1)

    def train(target: Tensor, count: int) -> list[float]:
        path = []
        for _ in range(count):
            steps.zero_grad()
            (layer(SEGMENT) - target).square().sum().backward()
            steps.step()
            path.append(layer.p.item())
        return path

    extreme = SEGMENT.amax(0) if side > 0 else SEGMENT.amin(0)
    path = train(extreme, 120)
    assert path[-1] == side * 6.0
    assert max(abs(p) for p in path) == 6.0
    assert abs(layer.raw_p.item()) < 4.0  # the parameter rests near the cap (2.5)
    back = train(SEGMENT.log().mean(0).exp(), 300)
    assert back[-1] == pytest.approx(0.0, abs=1e-2)  # the geometric mean


# Derivatives


@pytest.mark.parametrize("options", [{}, {"per_channel": True, "nonneg": "abs"}, {"zeros": "remove"}], ids=str)
@pytest.mark.parametrize("t", [-2.0, -0.4, -1e-4, 0.0, 1e-4, 0.4, 2.0])
def test_gradcheck(t: float, options: dict[str, Any]) -> None:
    layer = GNPAggregation(2, **options).double()
    index = torch.tensor([2, 0, 2, 0, 2])  # 1 is empty
    x = (torch.rand(len(index), 2, dtype=torch.float64) + 0.2).requires_grad_()
    with torch.no_grad():
        layer.raw_p.fill_(t)
        layer.raw_growth.fill_(0.3)
    names, values = zip(*layer.named_parameters(), strict=True)

    def run(x: Tensor, *values: Tensor) -> Tensor:
        return functional_call(layer, dict(zip(names, values, strict=True)), (x, index), {"dim_size": 3})

    assert torch.autograd.gradcheck(run, (x, *values), check_batched_grad=True)
    assert torch.autograd.gradgradcheck(run, (x, *values), fast_mode=True)


def test_value_and_slope_are_smooth_through_the_geometric_mean() -> None:
    logs = VALUES.log()
    at_zero = layer_at(0.0)
    y = at_zero(VALUES[:, None])
    (by_t,) = torch.autograd.grad(y.sum(), at_zero.raw_p)
    geometric = logs.mean().exp()
    assert y.item() == pytest.approx(geometric.item(), rel=1e-12)
    assert by_t.item() == pytest.approx((geometric * logs.var(correction=0) / 2).item(), rel=1e-9)
    for t in (-1e-7, 1e-7):
        near = layer_at(0.0)
        with torch.no_grad():
            near.raw_p.fill_(t)
        z = near(VALUES[:, None])
        assert z.item() == pytest.approx(y.item(), rel=1e-6)
        assert torch.autograd.grad(z.sum(), near.raw_p)[0].item() == pytest.approx(by_t.item(), rel=1e-5)


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float64,
        torch.float32,
    ],
)
def test_equal_rows_say_nothing_of_p(dtype: torch.dtype) -> None:
    layer = GNPAggregation(1, mix=False, start="mean").to(dtype)
    x = torch.full((40, 1), 0.37, dtype=torch.float64).mul(1 + 1e-7 * torch.randn(40, 1).double()).to(dtype)
    (found,) = torch.autograd.grad(layer(x).sum(), layer.raw_p)
    assert abs(found.item()) < 1e-12  # half the variance of the logarithms


# The ends: everything stays finite


def assert_finite(layer: torch.nn.Module, out: Tensor, *inputs: Tensor) -> None:
    assert bool(out.isfinite().all())
    found = torch.autograd.grad(out.sum(), [*inputs, *layer.parameters()])
    assert all(bool(gradient.isfinite().all()) for gradient in found)


@pytest.mark.parametrize("zeros", ["keep", "remove"])
@pytest.mark.parametrize("p", [-500.0, -50.0, -1.0, -0.77, -0.5, -0.1, -1e-3, 0.0, 1e-3, 0.5, 50.0, 500.0])
def test_empty_segments_and_rows_of_zero_have_finite_gradients(p: float, zeros: str) -> None:
    layer = GNPAggregation(2, zeros=zeros)
    layer.p = p
    x = torch.cat([torch.zeros(3, 2), torch.rand(6, 2) - 0.3]).requires_grad_()
    out = layer(x, torch.tensor([0, 0, 1, 1, 3, 3, 3, 4, 4]), dim_size=7)  # 2, 5 and 6 are empty, 0 is all zeros
    assert out[[2, 5, 6]].eq(0).all()
    assert_finite(layer, out, x)


@pytest.mark.parametrize("t", [-1e4, -100.0, -20.0, 20.0, 100.0, 1e4])
def test_a_parameter_far_out_is_the_cap(t: float) -> None:
    layer = GNPAggregation(2, start="mean")
    with torch.no_grad():
        layer.raw_p.fill_(t)
    assert layer.p.item() == math.copysign(500.0, t)
    x = torch.rand(9, 2).requires_grad_()
    assert_finite(layer, layer(x, INDEX, dim_size=SIZE), x)


@pytest.mark.parametrize("growth", [-8.0, -3.0, 3.0, 8.0])
@pytest.mark.parametrize("p", [-500.0, -0.5, 0.0, 2.0, 500.0])
def test_powers_of_the_size_have_finite_gradients(p: float, growth: float) -> None:
    layer = GNPAggregation(1)
    layer.p, layer.growth = p, growth
    x = torch.rand(3001, 1).requires_grad_()
    out = layer(x, torch.tensor([0] * 3000 + [2]), dim_size=4)
    assert_finite(layer, out, x)


class Net(torch.nn.Module):
    def __init__(self, fused: bool) -> None:
        super().__init__()
        mlp = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4))
        aggr = GNPAggregation(2)
        self.conv = GNPConv(mlp, aggr) if fused else GINConv(mlp, aggr=aggr)
        self.readout = GNPAggregation(4)
        self.output = torch.nn.Linear(4, 1)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor, size: int) -> Tensor:
        h = self.conv(x, edge_index).relu()
        return self.output(self.readout(h, batch, dim_size=size)).squeeze(-1)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("p", [-0.779, -0.5, -0.1, -0.01, -1e-4])
def test_padding_with_an_empty_graph_leaves_the_gradient_finite(p: float, fused: bool) -> None:
    """An empty segment hidden by a mask once had the value exp(69 / |p|): infinite, and NaN backward."""
    net = Net(fused)
    for layer in (net.conv.aggr_module, net.readout):
        layer.p = p
    x, edges = torch.rand(5, 2), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])  # node 4 has no neighbour
    batch, mask = torch.tensor([0, 0, 1, 1, 1]), torch.tensor([1.0, 1.0, 0.0])

    def gradients(size: int) -> list[Tensor]:
        net.zero_grad()
        out = net(x, edges, batch, size)
        assert bool(out.isfinite().all())
        (mask[:size] * out.square()).sum().backward()
        return [parameter.grad.clone() for parameter in net.parameters()]

    padded, plain = gradients(3), gradients(2)
    assert all(bool(gradient.isfinite().all()) for gradient in padded)
    torch.testing.assert_close(padded, plain, rtol=1e-5, atol=1e-7)
    assert float(net.readout.raw_p.grad) != 0.0


# Two branches


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("branches", ["split", "both", "positive", "negative"])
def test_two_branches_in_growth_coordinates(branches: str, per_channel: bool) -> None:
    layer = scatter_exponents(GNPAggregation(5, branches=branches, per_channel=per_channel, mix=False)).double()
    x = torch.rand(len(INDEX), 5, dtype=torch.float64) + 0.1
    out = layer(x, INDEX, dim_size=SIZE)
    torch.testing.assert_close(out, gnp(layer, x, INDEX, SIZE), rtol=1e-9, atol=1e-12)
    # The same poolings in the coordinates of the paper, where no row is 0.
    other = GNPAggregation(5, coordinates="published", branches=branches, per_channel=per_channel, mix=False).double()
    for branch in ("pos", "neg"):
        if hasattr(layer, f"p_{branch}"):
            setattr(other, f"p_{branch}", getattr(layer, f"p_{branch}").detach())
            setattr(other, f"q_{branch}", getattr(layer, f"q_{branch}").detach())
    torch.testing.assert_close(out, other(x, INDEX, dim_size=SIZE), rtol=1e-9, atol=1e-12)
