"""param_groups: every parameter once, in its group, at its rate, for every optimiser that takes groups."""

from __future__ import annotations

import inspect
from collections import Counter
from typing import Any

import pytest
import torch
from torch_geometric.nn import GATConv, GINConv, HeteroConv, SAGEConv

from gnpool.nn import GNPAggregation, GNPConv, param_groups


def model() -> torch.nn.Module:
    return torch.nn.ModuleDict(
        {
            "conv": GNPConv(torch.nn.Linear(4, 4), GNPAggregation(4, bias=True), train_eps=True),
            "gat": GATConv(4, 2, heads=2, aggr=GNPAggregation(2, per_channel=True)),
            "readout": GNPAggregation(4, branches="positive", mix=False),
            "head": torch.nn.Linear(4, 1),
        }
    )


def shared() -> torch.nn.Module:
    aggr = GNPAggregation(4)
    return torch.nn.ModuleList([GINConv(torch.nn.Linear(4, 4), aggr=aggr), SAGEConv(4, 4, aggr=aggr), aggr])


def tied() -> torch.nn.Module:
    first, second = GNPAggregation(4), GNPAggregation(4)
    second.raw_p_pos, second.raw_q_neg, second.mix.weight = first.raw_p_pos, first.raw_q_neg, first.mix.weight
    return torch.nn.ModuleList([first, second])


def nested() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Sequential(torch.nn.ModuleList([torch.nn.Sequential(model())])))


def hetero() -> torch.nn.Module:
    kinds = [("a", "to", "b"), ("b", "to", "a")]
    return HeteroConv({kind: SAGEConv((4, 4), 4, aggr=GNPAggregation(4)) for kind in kinds})


class Own(GNPAggregation):
    """A subclass with a parameter of its own, which is not an exponent."""

    def __init__(self) -> None:
        super().__init__(4)
        self.extra = torch.nn.Parameter(torch.ones(()))


MODELS = {
    # model: how many tensors in rest, p, q
    "model": (model, (12, 5, 5)),
    "shared": (shared, (6, 2, 2)),
    "tied": (tied, (1, 3, 3)),
    "nested": (nested, (12, 5, 5)),
    "hetero": (hetero, (8, 4, 4)),
    "subclass": (Own, (2, 2, 2)),
    "none": (lambda: torch.nn.Linear(4, 1), (2, 0, 0)),
    "only": (lambda: GNPAggregation(4, mix=False), (0, 2, 2)),
    "empty": (torch.nn.Identity, (0, 0, 0)),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_parameter_once(name: str) -> None:
    make, counts = MODELS[name]
    module = make()
    groups = param_groups(module, 1e-3)
    listed = Counter(id(parameter) for group in groups for parameter in group["params"])
    assert listed == Counter(id(parameter) for parameter in module.parameters())
    assert {group["name"]: len(group["params"]) for group in groups} == {
        group: count for group, count in zip(("rest", "p", "q"), counts, strict=True) if count
    }


@pytest.mark.parametrize("name", MODELS)
def test_groups_hold_what_their_name_says(name: str) -> None:
    module = MODELS[name][0]()
    names = {id(parameter): path.split(".")[-1] for path, parameter in module.named_parameters()}
    for group in param_groups(module, 1e-3):
        for parameter in group["params"]:
            kind = {"raw_p": "p", "raw_q": "q"}.get(names[id(parameter)][:5], "rest")
            assert kind == group["name"], names[id(parameter)]


def rates(**options: Any) -> dict[str, float]:
    return {group["name"]: group["lr"] for group in param_groups(model(), 1e-3, **options)}


def test_rates() -> None:
    assert rates() == {"rest": 1e-3, "p": 1e-3, "q": 1e-3}
    assert rates(lr_p=3e-2) == {"rest": 1e-3, "p": 3e-2, "q": 1e-3}
    assert rates(lr_q=2e-2) == {"rest": 1e-3, "p": 1e-3, "q": 2e-2}
    assert rates(lr_p=0.0, lr_q=0.0) == {"rest": 1e-3, "p": 0.0, "q": 0.0}


def test_only_the_rest_decays() -> None:
    groups = param_groups(model(), 1e-3, weight_decay=0.1, betas=(0.8, 0.9))
    assert {group["name"]: group["weight_decay"] for group in groups} == {"rest": 0.1, "p": 0.0, "q": 0.0}
    assert all(group["betas"] == (0.8, 0.9) for group in groups)
    # A decay that the optimiser brings along by default does not reach p and q either.
    optimizer = torch.optim.AdamW(param_groups(model(), 1e-3))
    assert {group["name"]: group["weight_decay"] for group in optimizer.param_groups} == {
        "rest": 0.01,
        "p": 0.0,
        "q": 0.0,
    }


def test_decay_shrinks_weights_and_leaves_exponents() -> None:
    layer = GNPAggregation(4)
    layer.p_pos, layer.q_pos = 7.0, 1.5
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    optimizer = torch.optim.SGD(param_groups(layer, 0.5, weight_decay=0.1))
    for parameter in layer.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, value in layer.state_dict().items():
        torch.testing.assert_close(value, 0.95 * before[name] if name == "mix.weight" else before[name])


def test_groups_do_not_share_their_lists() -> None:
    groups = param_groups(model(), 1e-3)
    groups[0]["lr"] = 5.0
    assert groups[1]["lr"] == groups[2]["lr"] == 1e-3
    assert len({id(group["params"]) for group in groups}) == 3


def test_frozen_parameters_are_listed_and_stay() -> None:
    layer = GNPAggregation(4)
    layer.raw_p_pos.requires_grad_(False)
    optimizer = torch.optim.Adam(param_groups(layer, 0.1))
    layer(torch.rand(5, 4)).sum().backward()
    optimizer.step()
    assert layer.raw_p_pos.item() == 0.0
    assert layer.raw_p_neg.item() != 0.0


def test_schedulers_see_the_groups() -> None:
    optimizer = torch.optim.SGD(param_groups(model(), 1e-3, lr_p=3e-2))
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.1)
    optimizer.step()
    scheduler.step()
    torch.testing.assert_close([group["lr"] for group in optimizer.param_groups], [1e-4, 3e-3, 1e-4])


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
def test_optimizer_moves_every_group(name: str) -> None:
    layer = GNPAggregation(4)
    groups = param_groups(layer, 1e-2, lr_p=3e-2, lr_q=2e-2)
    optimizer = getattr(torch.optim, name)(groups)
    assert [group["lr"] for group in optimizer.param_groups] == [1e-2, 3e-2, 2e-2]
    before = {parameter: value.clone() for parameter, value in layer.state_dict().items()}
    start = layer.p_pos.item()
    for _ in range(2):  # Rprop and ASGD take their first step to look around
        optimizer.zero_grad()
        layer(torch.rand(5, 4) + 0.1).square().sum().backward()
        optimizer.step()
    assert layer.p_pos.item() != start
    for parameter, value in layer.state_dict().items():
        assert value.isfinite().all()
        assert not torch.equal(value, before[parameter]), parameter


@pytest.mark.parametrize(("name", "message"), [("LBFGS", "per-parameter options"), ("Muon", "2D")])
def test_exceptions_say_why(name: str, message: str) -> None:
    if name not in OPTIMIZERS:
        pytest.skip(f"this torch has no {name}")
    with pytest.raises(ValueError, match=message):
        getattr(torch.optim, name)(param_groups(GNPAggregation(4), 1e-2))


def test_sgd_moves_each_group_at_its_rate() -> None:
    layer = GNPAggregation(4)
    optimizer = torch.optim.SGD(param_groups(layer, 1e-2, lr_p=3e-2, lr_q=2e-2))
    layer(torch.rand(5, 4)).sum().backward()
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    optimizer.step()
    for name, parameter in layer.named_parameters():
        rate = {"raw_p": 3e-2, "raw_q": 2e-2}.get(name[:5], 1e-2)
        torch.testing.assert_close(parameter.detach(), before[name] - rate * parameter.grad)
