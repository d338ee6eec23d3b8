"""The exact poolings equal the operator at their points, have the plain values, and run under vmap."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.utils import scatter

from gnpool import GNPAggregation, norm_pool
from gnpool.display.poolings import JOINED, LATTICE
from gnpool.insight import NAMES, CrystalAggregation, NamedPooling
from gnpool.insight.plain import functions, pooling_class, pooling_state

INDEX = torch.tensor([0, 0, 0, 2, 2, 3])
POSITIVE = torch.tensor([[1.0, 2.0], [2.0, 4.0], [4.0, 0.5], [3.0, 3.0], [5.0, 1.0], [7.0, 6.0]], dtype=torch.float64)


@pytest.mark.parametrize("named", [*NAMES, *LATTICE], ids=str)
def test_equals_the_operator_on_positive_rows(named):
    x = POSITIVE.clone().requires_grad_()
    y = NamedPooling(named.name)(x, INDEX, dim_size=4)
    expected = norm_pool(POSITIVE, INDEX, p=named.p, growth=named.growth, dim_size=4, eps=0.0)
    torch.testing.assert_close(y, expected, rtol=1e-12, atol=1e-14)
    torch.autograd.gradcheck(lambda x: NamedPooling(named.name)(x, INDEX, dim_size=4), x)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sum", 6.0),
        ("mean", 2.0),
        ("max", 4.0),
        ("min", 0.0),  # a zero counts
        ("harmonic sum", 4 / 3),  # zeros are left out, as in GNP
        ("harmonic mean", 4.0),
        ("L2 norm", 20**0.5),
        ("root mean square", (20 / 3) ** 0.5),
        ("geometric mean", 0.0),  # a zero counts
        ("mean with a 0", 6 / 4),
        ("harmonic sum with a 1", 4 / 7),  # of 1, 2 and 4
    ],
)
def test_values_with_a_zero(name, expected):
    y = NamedPooling(name)(torch.tensor([[0.0], [2.0], [4.0]], dtype=torch.float64))
    assert y.item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("named", [*NAMES, *LATTICE], ids=str)
def test_zeros_and_empty_segments_have_finite_gradients(named):
    x = torch.zeros(3, 2, requires_grad=True)
    y = NamedPooling(named.name)(x, torch.tensor([0, 0, 2]), dim_size=4)
    assert y.tolist() == [[0.0, 0.0]] * 4
    y.sum().backward()
    assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize(("coordinates", "branches"), [("published", None), ("growth", "split")])
def test_a_layer_keeps_the_channels_and_the_columns_of_its_branches(coordinates, branches):
    torch.manual_seed(0)
    layer = GNPAggregation(5, branches=branches, coordinates=coordinates, bias=True).double()
    x = torch.rand(6, 5, dtype=torch.float64) + 0.1
    both = CrystalAggregation.from_gnp(layer, {"positive": "max", "negative": "harmonic sum"})
    weight, bias = layer.mix.weight.clone(), layer.mix.bias
    if coordinates == "growth":
        weight[:, 2:] *= 16.0  # max has growth 0, the harmonic sum -1: what it gives for 16 elements keeps its scale
    top = torch.stack([x[s == INDEX, :2].amax(0) if (s == INDEX).any() else x.new_zeros(2) for s in range(4)])
    low = norm_pool(x[:, 2:], INDEX, p=-1, eps=0.0)
    expected = torch.cat([top, low], dim=1) @ weight.T + bias
    torch.testing.assert_close(both(x, INDEX), expected, rtol=1e-12, atol=1e-14)
    one = CrystalAggregation.from_gnp(layer, {"negative": "harmonic sum"}, bias=False)
    torch.testing.assert_close(one(x, INDEX), low @ weight[:, 2:].T, rtol=1e-12, atol=1e-14)
    assert repr(one) == "CrystalAggregation(5, harmonic sum[2:5])"


@pytest.mark.parametrize("named", [*NAMES, *LATTICE], ids=str)
def test_one_branch_becomes_any_name_over_all_channels(named):
    torch.manual_seed(0)
    layer = GNPAggregation(2, bias=True).double()
    crystal = CrystalAggregation.from_gnp(layer, {"one": named.name})
    assert crystal.parts == [(0, 2, named.name)]
    pooled = norm_pool(POSITIVE, INDEX, p=named.p, growth=named.growth, dim_size=4, eps=0.0)
    expected = 16.0**-named.growth * pooled @ layer.mix.weight.T + layer.mix.bias
    torch.testing.assert_close(crystal(POSITIVE, INDEX, dim_size=4), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("coordinates", ["growth", "published"])
def test_two_poolings_in_one_branch(coordinates):
    """Each pooling begins with half of the weights of the branch, and the exported code gives the same values."""
    torch.manual_seed(0)
    layer = GNPAggregation(4, coordinates=coordinates)
    branch = "one" if coordinates == "growth" else "positive"
    both = CrystalAggregation.from_gnp(layer, {branch: "mean and max"})
    alone = [CrystalAggregation.from_gnp(layer, {branch: name}) for name in ("mean", "max")]
    x = torch.rand(6, 4)
    torch.testing.assert_close(both(x, INDEX), sum(one(x, INDEX) for one in alone) / 2)
    source, needs = pooling_class("Pooling", both)
    namespace = {"torch": torch, "Tensor": torch.Tensor, "scatter": scatter}
    exec(f"{functions(needs)}\n{source}", namespace)  # noqa: S102 -- our own text
    plain = namespace["Pooling"]()
    plain.load_state_dict(pooling_state(both))
    torch.testing.assert_close(plain(x, INDEX, 4), both(x, INDEX))


def test_ptr_and_neighbors():
    layer = CrystalAggregation(2, [(0, 2, "sum")])
    torch.testing.assert_close(layer(POSITIVE, ptr=torch.tensor([0, 3, 3, 5, 6])), layer(POSITIVE, INDEX, dim_size=4))
    edge_index = torch.tensor([[0, 1, 5], [1, 1, 0]])
    y = layer.pool_neighbors(POSITIVE, edge_index, edge_weight=torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64))
    assert y[:2].tolist() == [[21.0, 18.0], [5.0, 10.0]]


@pytest.mark.parametrize(("name", "alone"), [("mean with a 0", 0.0), ("harmonic sum with a 1", 1.0)])
def test_an_empty_segment_has_what_the_joined_element_gives(name, alone):
    x = POSITIVE.clone().requires_grad_()
    assert NamedPooling(name)(x, INDEX, dim_size=4)[1].tolist() == [alone, alone]
    torch.autograd.gradcheck(lambda x: NamedPooling(name)(x, INDEX, dim_size=4), x)


@pytest.mark.parametrize("named", [*NAMES, *JOINED.values(), *LATTICE[:3]], ids=str)
def test_vmap(named):
    x = torch.rand(3, 6, 2)
    pool = NamedPooling(named.name)
    together = torch.vmap(lambda x: pool(x, INDEX, dim_size=4))(x)
    torch.testing.assert_close(together, torch.stack([pool(row, INDEX, dim_size=4) for row in x]))


def test_an_unknown_name():
    with pytest.raises(ValueError, match=r"'name' must be one of sum, mean, .* got 'median'"):
        NamedPooling("median")
