"""param_groups: every parameter once, in its group, at its rate, for every optimiser that takes groups."""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch_geometric.nn import GATConv, GINConv, HeteroConv, SAGEConv

from gnpool.nn import GNPAggregation, GNPConv, param_groups
from gnpool.nn.param_groups import exponent_rates
from tests.nn.expected import in_both_coordinates, names_of

SIZES = {"growth": "g", "published": "q"}  # the group of the exponents of the size


def model(coordinates: str = "published") -> torch.nn.Module:
    aggregation = functools.partial(GNPAggregation, coordinates=coordinates)
    return torch.nn.ModuleDict(
        {
            "conv": GNPConv(torch.nn.Linear(4, 4), aggregation(4, bias=True), train_eps=True),
            "gat": GATConv(4, 2, heads=2, aggr=aggregation(2, per_channel=True)),
            "readout": aggregation(4, branches="positive", mix=False),
            "head": torch.nn.Linear(4, 1),
        }
    )


def shared(coordinates: str) -> torch.nn.Module:
    aggr = GNPAggregation(4, coordinates=coordinates)
    return torch.nn.ModuleList([GINConv(torch.nn.Linear(4, 4), aggr=aggr), SAGEConv(4, 4, aggr=aggr), aggr])


def tied(coordinates: str) -> torch.nn.Module:
    first, second = (GNPAggregation(4, coordinates=coordinates, branches="split") for _ in range(2))
    size = f"raw_{names_of(first)[1]}"
    second.raw_p_pos, second.mix.weight = first.raw_p_pos, first.mix.weight
    setattr(second, size, getattr(first, size))
    return torch.nn.ModuleList([first, second])


def nested(coordinates: str) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Sequential(torch.nn.ModuleList([torch.nn.Sequential(model(coordinates))])))


def hetero(coordinates: str) -> torch.nn.Module:
    kinds = [("a", "to", "b"), ("b", "to", "a")]
    return HeteroConv({kind: SAGEConv((4, 4), 4, aggr=GNPAggregation(4, coordinates=coordinates)) for kind in kinds})


class Own(GNPAggregation):
    """A subclass with a parameter of its own, which is not an exponent."""

    def __init__(self, coordinates: str) -> None:
        super().__init__(4, coordinates=coordinates)
        self.extra = torch.nn.Parameter(torch.ones(()))


MODELS: dict[str, tuple[Callable[[str], torch.nn.Module], dict[str, tuple[int, int, int]]]] = {
    # model: how many tensors in rest, p, and q or g
    "model": (model, {"published": (12, 5, 5), "growth": (12, 3, 3)}),
    "shared": (shared, {"published": (6, 2, 2), "growth": (6, 1, 1)}),
    "tied": (tied, {"published": (1, 3, 3), "growth": (1, 3, 3)}),
    "nested": (nested, {"published": (12, 5, 5), "growth": (12, 3, 3)}),
    "hetero": (hetero, {"published": (8, 4, 4), "growth": (8, 2, 2)}),
    "subclass": (Own, {"published": (2, 2, 2), "growth": (2, 1, 1)}),
    "none": (lambda _: torch.nn.Linear(4, 1), {"published": (2, 0, 0), "growth": (2, 0, 0)}),
    "only": (
        lambda coordinates: GNPAggregation(4, coordinates=coordinates, mix=False),
        {"published": (0, 2, 2), "growth": (0, 1, 1)},
    ),
    "empty": (lambda _: torch.nn.Identity(), {"published": (0, 0, 0), "growth": (0, 0, 0)}),
}


@pytest.mark.parametrize("name", MODELS)
@in_both_coordinates
def test_every_parameter_once(coordinates: str, name: str) -> None:
    make, counts = MODELS[name]
    module = make(coordinates)
    groups = param_groups(module, 1e-3)
    listed = Counter(id(parameter) for group in groups for parameter in group["params"])
    assert listed == Counter(id(parameter) for parameter in module.parameters())
    expected = zip(("rest", "p", SIZES[coordinates]), counts[coordinates], strict=True)
    assert {group["name"]: len(group["params"]) for group in groups} == {group: n for group, n in expected if n}


@pytest.mark.parametrize("name", MODELS)
@in_both_coordinates
def test_groups_hold_what_their_name_says(coordinates: str, name: str) -> None:
    module = MODELS[name][0](coordinates)
    names = {id(parameter): path.split(".")[-1] for path, parameter in module.named_parameters()}
    for group in param_groups(module, 1e-3):
        for parameter in group["params"]:
            kind = {"raw_p": "p", "raw_q": "q", "raw_g": "g"}.get(names[id(parameter)][:5], "rest")
            assert kind == group["name"], names[id(parameter)]


def test_a_model_of_both_coordinates_has_four_groups() -> None:
    both = torch.nn.ModuleList([model("published"), model("growth")])
    groups = param_groups(both, 1e-3, lr_p=1e-1, lr_q=2e-3, lr_g=3e-2)
    assert [(group["name"], len(group["params"]), group["lr"]) for group in groups] == [
        ("rest", 24, 1e-3),
        ("p", 8, 1e-1),
        ("q", 5, 2e-3),
        ("g", 3, 3e-2),
    ]


def rates(coordinates: str, **options: Any) -> dict[str, float]:
    return {group["name"]: group["lr"] for group in param_groups(model(coordinates), 1e-3, **options)}


@in_both_coordinates
def test_rates(coordinates: str) -> None:
    size = SIZES[coordinates]
    rule = exponent_rates(1e-3)
    assert rates(coordinates) == {"rest": 1e-3, "p": rule["p"], size: rule[size]}
    assert rates(coordinates, lr_p=2e-2) == {"rest": 1e-3, "p": 2e-2, size: rule[size]}
    assert rates(coordinates, **{f"lr_{size}": 2e-2}) == {"rest": 1e-3, "p": rule["p"], size: 2e-2}
    assert rates(coordinates, lr_p=0.0, lr_q=0.0, lr_g=0.0) == {"rest": 1e-3, "p": 0.0, size: 0.0}


@pytest.mark.parametrize(
    ("lr", "p", "g"),
    [(1e-4, 3e-3, 1e-3), (1e-3, 3e-2, 1e-2), (3e-3, 9e-2, 3e-2), (1e-2, 1e-1, 3e-2), (5e-2, 1e-1, 5e-2), (1, 1, 1)],
)
def test_the_rule_of_the_rates(lr: float, p: float, g: float) -> None:
    """30 and 10 times the rate of the rest, at most 0.1 and 0.03, and never below the rest."""
    assert exponent_rates(lr) == {"p": pytest.approx(p), "q": lr, "g": pytest.approx(g)}


@in_both_coordinates
def test_only_the_rest_decays(coordinates: str) -> None:
    groups = param_groups(model(coordinates), 1e-3, weight_decay=0.1, betas=(0.8, 0.9))
    size = SIZES[coordinates]
    assert {group["name"]: group["weight_decay"] for group in groups} == {"rest": 0.1, "p": 0.0, size: 0.0}
    assert all(group["betas"] == (0.8, 0.9) for group in groups)
    # A decay that the optimiser brings along by default does not reach the exponents either.
    optimizer = torch.optim.AdamW(param_groups(model(coordinates), 1e-3))
    assert {group["name"]: group["weight_decay"] for group in optimizer.param_groups} == {
        "rest": 0.01,
        "p": 0.0,
        size: 0.0,
    }


@in_both_coordinates
def test_decay_shrinks_weights_and_leaves_exponents(coordinates: str) -> None:
    layer = GNPAggregation(4, coordinates=coordinates)
    for name, value in zip(names_of(layer), (7.0, 1.5), strict=True):
        setattr(layer, name, value)
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    optimizer = torch.optim.SGD(param_groups(layer, 0.5, weight_decay=0.1))
    for parameter in layer.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, value in layer.state_dict().items():
        torch.testing.assert_close(value, 0.95 * before[name] if name == "mix.weight" else before[name])


@in_both_coordinates
def test_groups_do_not_share_their_lists(coordinates: str) -> None:
    groups = param_groups(model(coordinates), 1e-3)
    rule = exponent_rates(1e-3)
    groups[0]["lr"] = 5.0
    assert [group["lr"] for group in groups[1:]] == [rule["p"], rule[SIZES[coordinates]]]
    assert len({id(group["params"]) for group in groups}) == 3


def test_frozen_parameters_are_listed_and_stay() -> None:
    layer = GNPAggregation(4, coordinates="published")
    layer.raw_p_pos.requires_grad_(False)
    optimizer = torch.optim.Adam(param_groups(layer, 0.1))
    layer(torch.rand(5, 4)).sum().backward()
    optimizer.step()
    assert layer.raw_p_pos.item() == 0.0
    assert layer.raw_p_neg.item() != 0.0


def test_a_frozen_growth_stays() -> None:
    layer = GNPAggregation(4, start="mean")
    layer.raw_growth.requires_grad_(False)
    optimizer = torch.optim.Adam(param_groups(layer, 0.1))
    layer(torch.rand(5, 4)).sum().backward()
    optimizer.step()
    assert layer.growth.item() == 0.0
    assert layer.p.item() != 1.0


@in_both_coordinates
def test_schedulers_see_the_groups(coordinates: str) -> None:
    optimizer = torch.optim.SGD(param_groups(model(coordinates), 1e-3, lr_p=3e-2, lr_q=2e-2, lr_g=2e-2))
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.1)
    optimizer.step()
    scheduler.step()
    torch.testing.assert_close([group["lr"] for group in optimizer.param_groups], [1e-4, 3e-3, 2e-3])


# Every optimiser of torch

EXCEPTIONS = {
    "LBFGS": "takes one group only",
    "Muon": "takes matrices only",
    "SparseAdam": "takes sparse gradients only",
}
OPTIMIZERS = sorted(
    name
    for name, value in vars(torch.optim).items()
    if inspect.isclass(value) and issubclass(value, torch.optim.Optimizer) and value is not torch.optim.Optimizer
)


def test_optimizers_are_found() -> None:
    assert {"SGD", "Adam", "AdamW", "RMSprop"} <= set(OPTIMIZERS)
    assert set(EXCEPTIONS) - {"Muon"} <= set(OPTIMIZERS)  # Muon came with torch 2.9


@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if name not in EXCEPTIONS])
@in_both_coordinates
def test_optimizer_moves_every_group(coordinates: str, name: str) -> None:
    layer = GNPAggregation(4, coordinates=coordinates)
    groups = param_groups(layer, 1e-2, lr_p=3e-2, lr_q=2e-2, lr_g=2e-2)
    optimizer = getattr(torch.optim, name)(groups)
    assert [group["lr"] for group in optimizer.param_groups] == [1e-2, 3e-2, 2e-2]
    before = {parameter: value.clone() for parameter, value in layer.state_dict().items()}
    name_of_p = names_of(layer)[0]
    start = getattr(layer, name_of_p).item()
    for _ in range(2):  # Rprop and ASGD take their first step to look around
        optimizer.zero_grad()
        layer(torch.rand(5, 4) + 0.1).square().sum().backward()
        optimizer.step()
    assert getattr(layer, name_of_p).item() != start
    for parameter, value in layer.state_dict().items():
        assert value.isfinite().all()
        assert not torch.equal(value, before[parameter]), parameter


@pytest.mark.parametrize(("name", "message"), [("LBFGS", "per-parameter options"), ("Muon", "2D")])
@in_both_coordinates
def test_exceptions_say_why(coordinates: str, name: str, message: str) -> None:
    if name not in OPTIMIZERS:
        pytest.skip(f"this torch has no {name}")
    with pytest.raises(ValueError, match=message):
        getattr(torch.optim, name)(param_groups(GNPAggregation(4, coordinates=coordinates), 1e-2))


@in_both_coordinates
def test_sgd_moves_each_group_at_its_rate(coordinates: str) -> None:
    layer = GNPAggregation(4, coordinates=coordinates)
    optimizer = torch.optim.SGD(param_groups(layer, 1e-2, lr_p=3e-2, lr_q=2e-2, lr_g=4e-2))
    layer(torch.rand(5, 4)).sum().backward()
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    optimizer.step()
    for name, parameter in layer.named_parameters():
        rate = {"raw_p": 3e-2, "raw_q": 2e-2, "raw_g": 4e-2}.get(name[:5], 1e-2)
        torch.testing.assert_close(parameter.detach(), before[name] - rate * parameter.grad)
