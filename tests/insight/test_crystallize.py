"""Crystallising: the exact pooling where validation says so, the learned one where it does not."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from gnpool import Batches, GNPAggregation, Setting, crystallize, fit_many
from gnpool.models import GraphNet, SetNet
from gnpool.tasks import get_task
from gnpool.training import evaluate_items


def squared(prediction, batch):
    return (prediction.view_as(batch.y) - batch.y).square()


def near(model, **points):
    """Put the exponents of a model near given points, as training would, and switch off what is not named."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.abs_()  # so that no channel is dead
        for path, (branch, p, q) in points.items():
            layer = model.get_submodule(path)
            setattr(layer, f"p_{branch}", p)
            setattr(layer, f"q_{branch}", q)
            half = layer.channels // 2
            layer.mix.weight[:, slice(half, None) if branch == "pos" else slice(0, half)] *= 1e-4
    return model


def test_harmonic_becomes_exact():
    """From a network that has learned about the right exponents to one that is right on every structure."""
    task = get_task("harmonic")
    torch.manual_seed(0)
    model = near(GraphNet(1, hidden=8), aggr=("pos", 1.02, 0.01), readout=("neg", 1.05, 0.02))
    train, validation = task.dataset("train", count=96), task.dataset("val", count=48)
    crystal = crystallize(model, Batches(train, 16, sorted_edges=True), validation, task.loss, epochs=12)
    assert crystal.choice.poolings == {"aggr": {"positive": "sum"}, "readout": {"negative": "harmonic sum"}}
    assert "chosen: aggr: sum, readout: harmonic sum: lowest validation loss" in str(crystal)
    for structure in ("er", "tree", "ladder"):
        test = Batches(task.dataset("test", count=20, structure=structure), 20, seed=None)
        assert evaluate_items(crystal.model, test, task.metric).mean() < 0.1, structure


def test_the_model_given_is_not_changed():
    torch.manual_seed(0)
    model = GraphNet(1, hidden=4)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    task = get_task("maxdegree")
    data = task.dataset("train", count=16)
    crystallize(model, data, data, task.loss, epochs=1, trials=2, settings=[Setting(lr=1e-3)])
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


@pytest.mark.filterwarnings("ignore:.*does not work under torch.vmap")  # PyG looks for the size of a lone segment
def test_the_model_as_given_is_measured_and_not_trained():
    """Batch norm would move its statistics in a training step; the loss must be that of the statistics it came with."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.BatchNorm1d(4), GNPAggregation(4), torch.nn.Linear(4, 1))
    net.eval()
    data = [Data(x=torch.rand(3, 2) + k, y=torch.ones(1, 1)) for k in range(6)]

    def forward(model, batch):
        return model(batch.x).expand(batch.batch_size, 1)

    crystal = crystallize(
        net, data, data, squared, forward=forward, epochs=1, trials=1, settings=[Setting(lr=1e-3)], batch_size=6
    )
    with torch.no_grad():
        expected = squared(forward(net, Batches(data, 6, seed=None).cut(torch.arange(6))), Data(y=torch.ones(6, 1)))
    given = next(trial for trial in crystal.tried if trial.setting is None)
    assert given.loss == pytest.approx(expected.double().mean().item(), rel=1e-5)


@pytest.mark.slow
def test_where_no_name_is_right_the_learned_pooling_stays():
    """Target (sum x^2.5)^(1/2.5) n^-0.3: between the names in both exponents."""

    def draw(count, low, high, seed):
        generator = torch.Generator().manual_seed(seed)
        found = []
        for _ in range(count):
            n = int(torch.randint(low, high, (), generator=generator))
            x = torch.rand(n, 1, generator=generator, dtype=torch.float64) * 2
            found.append(Data(x=x.float(), y=(x**2.5).sum(0) ** 0.4 * n**-0.3))
        return found

    train, validation = draw(300, 5, 20, 0), draw(100, 5, 20, 1)
    fit = fit_many(
        lambda: SetNet(1, "gnp", hidden=8), train, squared, Setting(lr=3e-3, lr_p=3e-2), seeds=2, epochs=60,
        batch_size=16, validation=validation,
    )  # fmt: skip
    crystal = crystallize(fit.model(fit.best()), train, validation, squared, epochs=15)
    assert crystal.choice.poolings == {"pool": {}}
    assert "learned GNP" in str(crystal)
