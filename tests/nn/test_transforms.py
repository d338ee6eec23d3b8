"""GNPAggregation under gradcheck, torch.func, torch.compile and torch.export, and in training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, grad, stack_module_state, vmap

from gnpool import norm_pool
from gnpool.nn import GNPAggregation
from tests.nn.expected import INDEX, SIZE, in_both_coordinates, name_of, scatter_exponents, set_exponents


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
@in_both_coordinates
def test_gradcheck_of_the_whole_layer(coordinates: str, options: dict[str, Any]) -> None:
    layer = scatter_exponents(GNPAggregation(2, coordinates=coordinates, **options)).double()
    names, values = zip(*layer.named_parameters(), strict=True)
    index = torch.tensor([2, 0, 2, 0])  # 1 is empty
    x = torch.randn(len(index), 2, dtype=torch.float64).requires_grad_()

    def run(x: Tensor, *values: Tensor) -> Tensor:
        return functional_call(layer, dict(zip(names, values, strict=True)), (x, index), {"dim_size": 3})

    assert torch.autograd.gradcheck(run, (x, *values), check_batched_grad=True)
    assert torch.autograd.gradgradcheck(run, (x, *values), fast_mode=True)


@in_both_coordinates
def test_unused_gradients_are_not_needed(coordinates: str) -> None:
    layer = GNPAggregation(4, coordinates=coordinates)
    layer.requires_grad_(False)
    x = torch.rand(5, 4, requires_grad=True)
    layer(x).sum().backward()
    frozen = x.grad.clone()
    x.grad = None
    layer.requires_grad_(True)
    layer(x).sum().backward()
    torch.testing.assert_close(frozen, x.grad)


@pytest.mark.parametrize("options", [{}, {"branches": "both", "bias": True}, {"per_channel": True}], ids=name_of)
@in_both_coordinates
def test_vmap_over_stacked_layers_equals_the_loop(coordinates: str, options: dict[str, Any]) -> None:
    layers = [GNPAggregation(4, coordinates=coordinates, **options).double() for _ in range(3)]
    for k, layer in enumerate(layers):
        set_exponents(layer, 1.5 + k, -0.5 * k)
        if layer.branches == "one":
            layer.p = 1.5 - k  # of both signs
        else:
            layer.p_neg = 4.0 - k
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


@in_both_coordinates
def test_forward_mode_equals_reverse_mode(coordinates: str) -> None:
    layer = scatter_exponents(GNPAggregation(4, coordinates=coordinates)).double()
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
@in_both_coordinates
def test_compile_fullgraph(coordinates: str, options: dict[str, Any]) -> None:
    torch._dynamo.reset()
    layer = scatter_exponents(GNPAggregation(4, coordinates=coordinates, **options))
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


@pytest.mark.parametrize("form", ["index", "ptr"])
@in_both_coordinates
def test_export_save_load(coordinates: str, tmp_path: Path, form: str) -> None:
    layer = scatter_exponents(GNPAggregation(4, coordinates=coordinates, bias=True))
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


def test_learns_the_pooling_of_a_task() -> None:
    layer = GNPAggregation(1, coordinates="published", branches="positive", mix=False, p_max=10.0).double()
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


@pytest.mark.parametrize("start", ["sum", "mean", "harmonic mean", "geometric"])
@pytest.mark.parametrize(("p", "growth"), [(3.0, -0.25), (0.0, 0.5), (-2.0, 1.0)])
def test_growth_coordinates_learn_a_pooling_of_either_sign(p: float, growth: float, start: str) -> None:
    layer = GNPAggregation(1, mix=False, p_max=10.0, start=start).double()
    ptr = torch.tensor([0, 1, 3, 7, 15, 31])
    x = torch.rand(31, 1, dtype=torch.float64) + 0.1
    target = norm_pool(x, ptr=ptr, p=p, growth=growth)
    optimizer = torch.optim.LBFGS(layer.parameters(), max_iter=200, line_search_fn="strong_wolfe", tolerance_change=0)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = (layer(x, ptr=ptr) - target).square().mean()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert closure().item() < 1e-10
    assert layer.p.item() == pytest.approx(p, abs=1e-2)
    assert layer.growth.item() == pytest.approx(growth, abs=1e-2)
