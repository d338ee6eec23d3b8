"""If crystallizing is stopped and continued, it gives the same crystal bit by bit and refits nothing twice."""

from __future__ import annotations

import math

import pytest
import torch
from torch_geometric.data import Data

from gnpool import GNPAggregation, Setting, crystallize

GENERATOR = torch.Generator().manual_seed(0)
ROWS = [torch.rand(3 + k % 5, 2, generator=GENERATOR) + 0.1 for k in range(24)]
SETS = [Data(x=x, y=x.sum().view(1)) for x in ROWS]


class StopError(Exception):
    pass


class Net(torch.nn.Module):
    """Batch norm moves its statistics in every forward pass, so that half a step would leave a trace."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(2)
        self.pool = GNPAggregation(2, start="sum")
        self.out = torch.nn.Linear(2, 1)

    def forward(self, x, ptr):
        return self.out(self.pool(self.norm(x), ptr=ptr))


def network(seed=0):
    torch.manual_seed(seed)
    return Net().eval()


class Search:
    """Run ``crystallize``; count how often it asks whether to stop, and how often it computes a loss."""

    def __init__(self, stop=math.inf, shift=0.0):
        self.stop, self.shift, self.looks, self.losses = stop, shift, 0, 0

    def __call__(self, checkpoint=None, model=None, **options):
        settings = [Setting(lr=1e-2, lr_p=1e-2), Setting(lr=1e-3, lr_p=1e-2)]
        options = {"epochs": 2, "trials": 1, "settings": settings, "batch_size": 8} | options
        return crystallize(
            network() if model is None else model,
            SETS,
            SETS,
            self.loss,
            checkpoint=checkpoint,
            check=self.look,
            **options,
        )

    def loss(self, prediction, batch):
        self.losses += prediction.requires_grad  # in training, and in the search for the best constant
        return (prediction.view_as(batch.y) - batch.y).square() - self.shift

    def look(self):
        self.looks += 1
        if self.looks == self.stop:
            raise StopError


def assert_same(one, other):
    assert one.tried == other.tried
    assert (one.choice, one.reason, one.reading) == (other.choice, other.reason, other.reading)
    for a, b in zip([one.choice, *one.tried], [other.choice, *other.tried], strict=True):
        assert a.state.keys() == b.state.keys()
        assert all(torch.equal(a.state[name], b.state[name]) for name in a.state)
    weights = other.model.state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in one.model.state_dict().items())


@pytest.fixture(scope="module")
def undisturbed():
    search = Search()
    return search, search()


@pytest.fixture(scope="module")
def spared(undisturbed, tmp_path_factory):
    """The number of losses that are computed again although every refit is stored."""
    folder = tmp_path_factory.mktemp("done")
    Search()(folder)
    again = Search()
    assert_same(again(str(folder)), undisturbed[1])
    return again.losses


def test_it_looks_before_every_trial_and_every_step(undisturbed, spared):
    search, crystal = undisturbed
    steps = search.losses - spared
    assert search.looks > steps
    assert crystal.steps == steps


def test_a_loss_below_0_is_not_taken_for_a_perfect_one(undisturbed):
    """Looks are skipped only if a loss cannot be beaten; a loss below 0 can be."""
    _, expected = undisturbed
    crystal = Search(shift=1000.0)()
    assert all(trial.loss < 0 for trial in crystal.tried)
    assert [trial.stage for trial in crystal.tried] == [trial.stage for trial in expected.tried]


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 0.7, 1.0])
def test_goes_on_where_it_was_stopped(tmp_path, undisturbed, spared, share):
    whole, expected = undisturbed
    first, second = Search(stop=max(1, round(share * whole.looks))), Search()
    with pytest.raises(StopError):
        first(tmp_path)
    assert_same(second(tmp_path), expected)
    assert whole.losses <= first.losses + second.losses <= whole.losses + spared  # no step is taken twice
    assert {path.name for path in tmp_path.glob("*/*")} == {"unit0000.safetensors"}


def test_stopped_again_and_again(tmp_path, undisturbed):
    whole, expected = undisturbed
    crystal, runs = None, 0
    while crystal is None:
        runs += 1
        search = Search(stop=60)
        try:
            crystal = search(tmp_path)
        except StopError:
            assert runs < whole.looks
    assert runs > 3
    assert_same(crystal, expected)


def test_of_a_finished_search_refits_nothing(undisturbed, spared):
    assert spared < undisturbed[0].losses / 4


def test_another_model_begins_anew(tmp_path):
    """A model of the same shapes with other weights."""
    Search()(tmp_path)
    other, alone = Search(), Search()
    assert_same(other(tmp_path, model=network(1)), alone(model=network(1)))
    assert other.losses == alone.losses


def test_another_search_is_refused(tmp_path):
    Search()(tmp_path)
    with pytest.raises(ValueError, match="belongs to another study"):
        Search()(tmp_path, epochs=3)


def test_interrupt_from_the_keyboard(tmp_path, undisturbed):
    def press(number, total, text):
        if number == 3:
            raise KeyboardInterrupt

    whole, expected = undisturbed
    with pytest.raises(KeyboardInterrupt):
        Search()(tmp_path, progress=press)
    second = Search()
    assert_same(second(tmp_path), expected)
    assert second.losses < whole.losses
