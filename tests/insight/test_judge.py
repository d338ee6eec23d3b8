"""Trials are compared graph by graph and under every setting, and no margin is added."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from gnpool import Batches
from gnpool.insight.crystallize import Trial
from gnpool.insight.crystallize.judge import Judge

GRAPHS = 40
NOISE = torch.randn(GRAPHS, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


class Constant(torch.nn.Module):
    def __init__(self, value=0.0):
        super().__init__()
        self.value = torch.nn.Parameter(torch.tensor(value))

    def forward(self, batch):
        return self.value.expand(batch.batch_size, 1)


def squared(prediction, batch):
    return (prediction - batch.y).square()


def call(model, batch):
    return model(batch)


def judge(loss=squared, graphs=GRAPHS):
    data = [Data(x=torch.ones(1 + k % 3, 1), y=torch.tensor([[float(k)]])) for k in range(graphs)]
    return Judge(Constant(), Batches(data, 16, seed=None), loss, call, "cpu")


def trial(name, *means, spread=0.0, biases=True):
    """Losses with one mean for each setting; the graphs scatter around it alike in all trials, up to the spread."""
    rows = torch.stack([torch.full_like(NOISE, mean) + spread * (NOISE - NOISE.mean()) for mean in means])
    poolings = {"pool": {"one": name} if name else {}}
    return Trial(poolings, biases, "refitted", min(means), losses=rows)


def test_the_best_constant_is_found():
    found = judge()
    y = torch.arange(GRAPHS, dtype=torch.float64)
    assert found.constant == pytest.approx((y - y.mean()).square().mean().item(), rel=1e-9)
    assert found.rounding == pytest.approx(1e-10 * found.constant)
    absolute = judge(lambda prediction, batch: (prediction - batch.y).abs())
    assert absolute.constant == pytest.approx((y - y.median()).abs().mean().item(), rel=1e-2)


def test_losses_are_those_of_graphs_however_the_loss_comes():
    expected = judge().losses(Constant(1.0))
    assert expected.tolist() == [(k - 1.0) ** 2 for k in range(GRAPHS)]
    mean = judge(lambda prediction, batch: squared(prediction, batch).mean())
    torch.testing.assert_close(mean.losses(Constant(1.0)), expected)

    def nodes(prediction, batch):
        return squared(prediction, batch).index_select(0, batch.batch)

    assert judge(nodes).losses(Constant(1.0)).tolist() == expected.tolist()
    few = judge(nodes, graphs=5)  # too few to compare: node by node
    assert few.losses(Constant(0.0)).tolist() == [0.0, 1.0, 1.0, 4.0, 4.0, 4.0, 9.0, 16.0, 16.0]


@pytest.mark.parametrize(
    ("one", "other", "beats"),
    [
        pytest.param(trial("sum", 1.0), trial("max", 2.0), True, id="lower"),
        pytest.param(trial("sum", 2.0), trial("max", 1.0), False, id="higher"),
        pytest.param(trial("sum", 1.0), trial("max", 1.2, spread=1.0), False, id="within chance"),
        pytest.param(trial("sum", 1.0), trial("max", 1.5, spread=1.0), True, id="beyond chance"),
        pytest.param(trial("sum", 1.0, spread=9.0), trial("max", 1.2, spread=9.0), True, id="paired"),
        pytest.param(trial("sum", 1.0, 3.0), trial("max", 2.0, 2.0), False, id="under one setting of two"),
        pytest.param(trial("sum", 0.0), trial("max", 1e-9), False, id="less than rounding"),
        pytest.param(trial("sum", -3.0), trial("max", -2.0), True, id="losses below 0"),
        pytest.param(trial("sum", 1.0, float("inf")), trial("max", 2.0, 2.0), False, id="one setting diverged"),
        pytest.param(trial("sum", 1.0, float("inf")), trial("max", 2.0, float("inf")), True, id="both diverged there"),
    ],
)
def test_what_beats(one, other, beats):
    found = judge()
    assert found.beats(one, other) is beats
    assert not (beats and found.beats(other, one))


def test_a_constant_is_a_bar_for_learning_something():
    found = judge()
    rows = torch.stack([found.constant_losses, found.constant_losses])
    assert found.constant_losses.mean().item() == pytest.approx(found.constant)
    assert not found.learned_something(rows)
    assert found.learned_something(rows - 1.0)
    assert not found.learned_something(rows - 1.0 + torch.tensor([[0.0], [2.0]]))  # under one setting of two
    assert not found.learned_something(rows - 0.1 + NOISE)  # within chance
    assert not found.learned_something(rows + torch.inf)


@pytest.mark.parametrize(
    ("trials", "chosen"),
    [
        pytest.param([trial("sum", 0.59), trial("sum", 0.5, biases=False), trial("", 1.0)], 1, id="lower and simpler"),
        pytest.param([trial("sum", 1.0), trial("mean", 1.0 - 1e-12), trial("", 1.0)], 0, id="the simplest of equals"),
        pytest.param([trial("max", 1e-3), trial("max and min", 1e-6), trial("", 50.0)], 1, id="a poor GNP is no bar"),
        pytest.param([trial("sum", 1.03), trial("mean", 2.0), trial("", 1.0)], 2, id="the learned one beats them"),
        pytest.param([trial("sum", 1e-11), trial("mean", 1e-14), trial("", 1e-12)], 0, id="exact ones are equal"),
        pytest.param([trial("sum", float("inf")), trial("mean", 2.0), trial("", 3.0)], 1, id="one diverged"),
    ],
)
def test_the_choice_is_the_simplest_that_nothing_beats(trials, chosen):
    assert judge().choose(trials)[0] is trials[chosen]
