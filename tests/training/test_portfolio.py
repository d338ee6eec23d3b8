"""A portfolio trains every start beside every setting, and hands back the run that validation chose."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import SimpleConv

from gnpool import GNPAggregation, Setting, fit_portfolio
from gnpool.models import GraphNet, SetNet
from gnpool.training.portfolio import SETTINGS, default_starts, falling


def sets(count: int = 60) -> list[Data]:
    generator = torch.Generator().manual_seed(0)
    found = []
    for k in range(count):
        x = torch.rand(3 + k % 5, 1, generator=generator)
        found.append(Data(x=x, y=x.sum().view(1, 1)))
    return found


def squared(prediction: torch.Tensor, batch: Data) -> torch.Tensor:
    return (prediction - batch.y).square()


def small() -> SetNet:
    return SetNet(1, "gnpg", hidden=4)


def split() -> SetNet:
    return SetNet(1, "gnpg", hidden=4, pool_options={"branches": "split"})


def test_every_start_with_every_setting_and_seed():
    settings = Setting.grid(lr=[1e-2, 1e-3], optimizer="adam")
    found = fit_portfolio(small, sets(), squared, starts=["sum", "mean"], settings=settings, seeds=3, epochs=1)
    assert [(run.setting.start, run.setting.lr, run.seed) for run in found.fit.runs] == [
        (start, lr, seed) for start in ("sum", "mean") for lr in (1e-2, 1e-3) for seed in range(3)
    ]


def test_the_best_by_validation_is_handed_back():
    data = sets()
    found = fit_portfolio(small, data[:40], squared, validation=data[40:], starts=["sum", "harmonic"], epochs=3)
    assert found.choice.best["loss"].value == min(run.best["loss"].value for run in found.fit.runs)
    assert found.losses[found.choice.setting.start] == found.choice.best["loss"].value
    assert list(found.losses.values()) == sorted(found.losses.values())
    with torch.no_grad():
        losses = [(found.model(graph.x) - graph.y).square().item() for graph in data[40:]]
    assert sum(losses) / len(losses) == pytest.approx(found.choice.best["loss"].value, rel=1e-5)
    assert not found.model.training


def test_rates_fall_in_the_second_half():
    assert [falling(10, epoch) for epoch in range(10)] == pytest.approx([1, 1, 1, 1, 1, 0.8, 0.6, 0.4, 0.2, 0.01])
    assert [falling(3, epoch) for epoch in range(3)] == [1, 1, 1]  # one epoch at a hundredth would learn nothing


def test_default_starts_depend_on_the_number_of_layers():
    assert default_starts(small()) == ("sum", "mean", "geometric", "l2")
    pairs = ("sum/sum", "sum/mean", "mean/sum", "mean/mean")
    assert default_starts(GraphNet(1, "gnpg", "gnpg", hidden=4)) == pairs
    assert default_starts(split()) == ("sum", "mean", "l2")  # two branches have no geometric mean
    with pytest.raises(ValueError, match="no GNPAggregation"):
        default_starts(torch.nn.Linear(1, 1))


@pytest.mark.parametrize("first", [0, 1], ids=["one branch first", "two branches first"])
def test_several_plans_are_chosen_by_validation_together(first):
    data, rate = sets(), Setting(lr=1e-2, optimizer="adam")
    plans = [small, split] if first == 0 else [split, small]
    found = fit_portfolio(plans, data[:40], squared, validation=data[40:], settings=rate, epochs=3)
    assert [len(fit) for fit in found.fits] == ([4, 3] if first == 0 else [3, 4])
    assert len(found.losses) == 7
    assert {name.partition(": ")[0] for name in found.losses} == {"1", "2"}
    assert found.choice.best["loss"].value == min(found.losses.values())
    with torch.no_grad():
        losses = [(found.model(graph.x) - graph.y).square().item() for graph in data[40:]]
    assert sum(losses) / len(losses) == pytest.approx(min(found.losses.values()), rel=1e-5)
    alone = fit_portfolio(plans[0], data[:40], squared, validation=data[40:], settings=rate, epochs=3)
    assert [run.best for run in alone.fit.runs] == [run.best for run in found.fits[0].runs]


def test_the_default_has_four_starts_and_three_rates():
    found = fit_portfolio(small, sets(20), squared, epochs=1)
    assert {(run.setting.start, run.setting.lr) for run in found.fit.runs} == {
        (start, one.lr) for start in default_starts(small()) for one in SETTINGS
    }


def test_a_tenth_is_set_aside_and_never_trained_on():
    data = sets(20)
    for number, graph in enumerate(data):
        graph.number = torch.tensor([number])
    seen: dict[bool, set[int]] = {True: set(), False: set()}

    def loss(prediction: torch.Tensor, batch: Data) -> torch.Tensor:
        seen[torch.is_grad_enabled()].update(batch.number.tolist())
        return squared(prediction, batch)

    fit_portfolio(small, data, loss, starts=["sum"], epochs=1, workers=1, batch_size=4)
    assert len(seen[False]) == 2
    assert seen[True] == set(range(20)) - seen[False]


class OwnNet(torch.nn.Module):
    """A user's network, with parts of PyG alone beside GNP."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = torch.nn.Linear(1, 4)
        self.conv = SimpleConv(aggr=GNPAggregation(4))
        self.readout = GNPAggregation(4)
        self.out = torch.nn.Linear(4, 1)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
        return self.out(self.readout(self.conv(self.encode(x).relu(), edge_index), batch))


@pytest.mark.parametrize("plan", [OwnNet, OwnNet()], ids=["class", "module"])
def test_a_users_own_module_comes_back_as_it_is(plan):
    ring = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    graphs = [Data(x=torch.rand(4, 1), edge_index=ring, y=torch.rand(1, 1)) for _ in range(12)]
    before = None if isinstance(plan, type) else {name: value.clone() for name, value in plan.state_dict().items()}
    found = fit_portfolio(plan, graphs, squared, settings=Setting(lr=1e-2, optimizer="adam"), epochs=2)
    assert type(found.model) is OwnNet
    assert len(found.fit) == 4
    if before is not None:  # the plan itself is not trained
        assert all(torch.equal(value, before[name]) for name, value in plan.state_dict().items())


def test_a_diverging_start_leaves_the_others_alone():
    data = sets()
    alone = fit_portfolio(small, data, squared, starts=["mean"], settings=Setting(lr=1e-3, optimizer="adam"), epochs=2)
    wild = [Setting(lr=1e-3, optimizer="adam"), Setting(lr=1e30, optimizer="adam")]
    found = fit_portfolio(small, data, squared, starts=["mean"], settings=wild, epochs=2)
    assert [run.failed is None for run in found.fit.runs] == [True, False]
    assert found.choice.best["loss"].value == pytest.approx(alone.choice.best["loss"].value, rel=1e-5)


def test_several_plans_share_a_checkpoint_folder_and_seeds_that_can_be_read_once(tmp_path):
    given = {"starts": ["sum"], "settings": Setting(lr=1e-2, optimizer="adam"), "epochs": 2, "checkpoint": tmp_path}
    found, again = (fit_portfolio([small, split], sets(), squared, seeds=iter([3, 4]), **given) for _ in range(2))
    assert [[run.seed for run in fit.runs] for fit in found.fits] == [[3, 4], [3, 4]]
    assert again.losses == found.losses
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plan1", "plan2"]


def test_the_default_starts_draw_no_random_numbers():
    before = torch.get_rng_state()
    fit_portfolio(small, sets(), squared, settings=Setting(lr=1e-2, optimizer="adam"), epochs=1)
    assert torch.equal(torch.get_rng_state(), before)


def test_errors():
    with pytest.raises(ValueError, match="'starts' must be a list of names, got 'sum'"):
        fit_portfolio(small, sets(), squared, starts="sum")
    with pytest.raises(ValueError, match="'make_model' must hold at least one model"):
        fit_portfolio([], sets(), squared)
    with pytest.raises(ValueError, match="pass 'validation'"):
        fit_portfolio(small, iter(sets()), squared)
    with pytest.raises(ValueError, match="'start' must be one of"):
        fit_portfolio(small, sets(), squared, starts=["median"], epochs=1)
