"""``crystallize`` puts in the exact pooling if validation agrees, and keeps the learned one if not."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from gnpool import Batches, GNPAggregation, Setting, crystallize, fit_many, fit_portfolio
from gnpool.insight.crystallize import Trial
from gnpool.models import GraphNet, NodeNet, SetNet
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
    """The network has learned nearly the right exponents; the crystallized one is right on every structure."""
    task = get_task("harmonic")
    torch.manual_seed(0)
    model = near(GraphNet(1, hidden=8), aggr=("pos", 1.02, 0.01), readout=("neg", 1.05, 0.02))
    train, validation = task.dataset("train", count=96), task.dataset("val", count=48)
    crystal = crystallize(model, Batches(train, 16, sorted_edges=True), validation, task.loss, epochs=12, trials=8)
    assert crystal.choice.poolings == {"aggr": {"positive": "sum"}, "readout": {"negative": "harmonic sum"}}
    assert "aggr: sum, readout: harmonic sum" in str(crystal).splitlines()[-1]
    assert len(str(crystal).splitlines()) <= 16  # however many were tried
    for structure in ("er", "tree", "ladder"):
        test = Batches(task.dataset("test", count=20, structure=structure), 20, seed=None)
        assert evaluate_items(crystal.model, test, task.metric).mean() < 0.1, structure


@pytest.mark.parametrize(
    ("name", "names"),
    [
        pytest.param("maxdegree", ("sum", "max"), id="maxdegree"),
        pytest.param("harmonic", ("sum", "harmonic sum"), id="harmonic", marks=pytest.mark.slow),
    ],
)
def test_a_network_that_learned_the_growth_becomes_exact(name, names):
    """After a short training with one branch the network is wrong on larger graphs; its crystal is right."""
    task = get_task(name)
    train, validation = task.dataset("train", count=128), task.dataset("val", count=48)
    fit = fit_many(
        lambda: GraphNet(1, "gnpg", "gnpg", hidden=8), train, task.loss, Setting(lr=3e-3, optimizer="adam"), epochs=20,
        batch_size=16, validation=validation,
    )  # fmt: skip
    learned = fit.model(fit.best())
    crystal = crystallize(learned, train, validation, task.loss, epochs=12)
    assert crystal.choice.poolings == {"aggr": {"one": names[0]}, "readout": {"one": names[1]}}
    test = Batches(task.dataset("test", count=20), 20, seed=None)
    before, after = (evaluate_items(model, test, task.metric).mean() for model in (learned, crystal.model))
    assert after < 1.0 < before


def test_a_geometric_mean_is_found():
    """Only a layer with one branch can learn it, because neither branch of the paper has p = 0."""
    generator = torch.Generator().manual_seed(0)
    rows = [0.1 + torch.rand(3 + k % 8, 1, generator=generator) * 3 for k in range(120)]
    sets = [Data(x=x, y=x.double().log().mean(0).exp()) for x in rows]

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.pool = GNPAggregation(1)

        def forward(self, x, ptr):
            return self.pool(x, ptr=ptr)

    model = Net()
    torch.nn.init.constant_(model.pool.mix.weight, 0.9)
    model.pool.p, model.pool.growth = 0.2, 0.1
    crystal = crystallize(model, sets[::2], sets[1::2], squared, epochs=20, trials=8)
    assert crystal.choice.poolings == {"pool": {"one": "geometric mean"}}
    large = torch.rand(1000, 1, generator=generator) + 0.5
    answer = crystal.model(large, torch.tensor([0, 1000])).item()
    assert answer == pytest.approx(large.double().log().mean().exp().item(), rel=1e-2)


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
    """A training step would move the statistics of batch norm, but the loss must come from the statistics as given."""
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
    """Target (sum x^2.5)^(1/2.5) n^-0.15: between the names in both exponents."""

    def draw(count, low, high, seed):
        generator = torch.Generator().manual_seed(seed)
        found = []
        for _ in range(count):
            n = int(torch.randint(low, high, (), generator=generator))
            x = torch.rand(n, 1, generator=generator, dtype=torch.float64) * 2
            found.append(Data(x=x.float(), y=(x**2.5).sum(0) ** 0.4 * n**-0.15))
        return found

    train, validation = draw(300, 5, 20, 0), draw(100, 5, 20, 1)
    learned = fit_portfolio(
        lambda: SetNet(1, "gnpg", hidden=8), train, squared, validation=validation, epochs=40, batch_size=16,
        settings=Setting(lr=1e-2, clip=10.0, optimizer="adam"),
    ).model  # fmt: skip
    crystal = crystallize(learned, train, validation, squared, epochs=15, trials=6)
    assert crystal.choice.poolings == {"pool": {}}
    assert crystal.choice.stage == "given"
    assert "no named pooling is as good" in crystal.reason
    assert "the model stays as it was given" in str(crystal)
    for name, value in crystal.model.state_dict().items():
        assert torch.equal(value, learned.state_dict()[name])
    branches = [branch for branch in crystal.reading.branches if branch.used]
    assert not all(branch.near for branch in branches)  # and the reading says so


def test_an_estimate_with_a_prior_loses_its_biases_and_gains_a_zero():
    """Target sum x / (n + 1): no point of the plane is right, and with biases the answer is right near the data."""

    def draw(count, low, high, seed):
        generator = torch.Generator().manual_seed(seed)
        sizes = torch.randint(low, high, (count,), generator=generator).tolist()
        rows = [torch.randn(n, 1, generator=generator) for n in sizes]
        return [Data(x=x, y=x.double().sum(0) / (len(x) + 1)) for x in rows]

    torch.manual_seed(0)
    model = SetNet(1, "gnp", hidden=8)
    with torch.no_grad():
        model.pool.p_pos, model.pool.q_pos = 1.01, 0.95
        model.mlp.layers[0].weight[:4] = torch.tensor([[1.0], [-1.0], [0.5], [-0.5]])
    crystal = crystallize(model, draw(200, 5, 15, 0), draw(100, 5, 15, 1), squared, epochs=15, trials=8)
    assert crystal.choice.describe() == "pool: mean with a 0, no biases"
    assert all(name.endswith("weight") for name in crystal.model.state_dict())
    large = Batches(draw(20, 100, 200, 2), 20, seed=None)
    assert evaluate_items(crystal.model, large, squared).max() < 1e-8


def test_without_a_mixing_layer_no_branch_is_dropped():
    """Both branches feed the layer behind them, which needs all of its channels."""

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.pool = GNPAggregation(2, branches="both", mix=False)
            self.out = torch.nn.Linear(4, 1)

        def forward(self, x, batch, batch_size=None):
            return self.out(self.pool(x, batch, dim_size=batch_size))

    torch.manual_seed(0)
    rows = [torch.rand(3 + k % 4, 2) + 0.1 for k in range(24)]
    sets = [Data(x=x, y=x.sum().view(1)) for x in rows]
    crystal = crystallize(Net(), sets, sets, squared, epochs=2, trials=3, batch_size=8, settings=[Setting(lr=1e-2)])
    assert all(len(names) in (0, 2) for trial in crystal.tried for names in trial.poolings.values())
    assert len(crystal.tried) > 2


def test_a_model_of_poolings_alone():
    """With fixed poolings no weight is left to refit, and validation chooses among the poolings as they are."""

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.pool = GNPAggregation(1, branches="positive", mix=False, start="sum")

        def forward(self, x, batch, batch_size=None):
            return self.pool(x, batch, dim_size=batch_size)

    torch.manual_seed(0)
    rows = [torch.rand(3 + k % 4, 1) for k in range(24)]
    sets = [Data(x=x, y=x.sum().view(1)) for x in rows]
    halves = [Data(x=x, y=x.sum().view(1) / 2) for x in rows]
    crystal = crystallize(Net(), halves, halves, squared, epochs=2, trials=3, batch_size=8)
    assert {trial.stage for trial in crystal.tried} == {"given", "screened", "refitted"}  # none is exact
    crystal = crystallize(Net(), sets, sets, squared, epochs=2, trials=3, batch_size=8)
    assert crystal.choice.describe() == "pool: sum"
    assert crystal.model(torch.ones(1000, 1), torch.zeros(1000, dtype=torch.long)).item() == pytest.approx(1000)


def test_one_pooling_throughout_a_stack_is_simpler_than_several():
    def trial(*names):
        return Trial({str(place): {"positive": name} for place, name in enumerate(names)}, True, "refitted")

    assert trial("max", "max", "max").complexity < trial("sum", "sum", "max").complexity
    assert trial("max", "max").complexity > trial("sum", "max").complexity  # two layers are no stack: names decide


def test_fresh_weights_follow_from_the_learned_ones_and_frozen_ones_stay():
    task = get_task("shortest")
    graphs = task.dataset("train", count=16, seed=0)

    def fresh(seed, frozen=False):
        torch.manual_seed(seed)
        model = NodeNet(1, aggr="gnp", edge_weights=True, layers=3, hidden=4)
        model.out.requires_grad_(not frozen)
        found = crystallize(
            model, graphs, graphs, task.loss, epochs=1, trials=1, batch_size=8, settings=[Setting(1e-3)]
        )
        return next(trial for trial in found.tried if trial.fresh)

    trial = fresh(0)
    assert trial.describe(weights=True) == f"{trial.describe()}, from fresh weights"
    weights, again, other = (fresh(seed).state["out.weight"] for seed in (0, 0, 1))
    assert torch.equal(weights, again)
    assert not torch.equal(weights, other)  # what was learned from other weights begins with others
    torch.manual_seed(0)
    given = NodeNet(1, aggr="gnp", edge_weights=True, layers=3, hidden=4).out.weight
    assert torch.equal(fresh(0, frozen=True).state["out.weight"], given)


def drawn(law, count, seed):
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(5, 15, (count,), generator=generator).tolist()
    rows = [torch.rand(n, 1, generator=generator) for n in sizes]
    return [Data(x=x, y=law(x.double()).view(1, 1)) for x in rows]


class OnePlace(torch.nn.Module):
    """The network is untrained, so its pooling is at the mean."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.lift, self.pool, self.out = torch.nn.Linear(1, 4), GNPAggregation(4), torch.nn.Linear(4, 1)
        torch.nn.init.ones_(self.lift.weight)
        torch.nn.init.zeros_(self.lift.bias)

    def forward(self, x, ptr):
        return self.out(self.pool(self.lift(x).relu(), ptr=ptr))


@pytest.mark.parametrize(
    ("law", "names"),
    [
        pytest.param(lambda x: x.mean() + x.min(), "mean and min", id="mean and min"),
        pytest.param(lambda x: x.max() - x.min(), "max and min", id="range of a poor model"),
    ],
)
def test_two_poolings_in_one_place(law, names):
    """No single pooling is right, and at a first look each of the two alone is far behind others."""
    crystal = crystallize(OnePlace(), drawn(law, 160, 0), drawn(law, 60, 1), squared, epochs=10, trials=11)
    assert crystal.choice.poolings == {"pool": {"one": names}}
    large = torch.rand(1000, 1)
    answer = crystal.model(large, torch.tensor([0, 1000])).item()
    assert answer == pytest.approx(law(large).item(), rel=1e-2)


def test_learned_weights_do_not_hide_the_answer():
    """Every channel is dead, so a refit of these weights can only give a constant."""
    model = OnePlace()
    torch.nn.init.constant_(model.lift.bias, -100.0)
    torch.nn.init.constant_(model.lift.weight, 1e-3)
    crystal = crystallize(
        model, drawn(torch.sum, 120, 0), drawn(torch.sum, 60, 1), squared, epochs=30, trials=4,
        settings=[Setting(lr=1e-2, optimizer="adam")],
    )  # fmt: skip
    assert crystal.choice.poolings == {"pool": {"one": "sum"}}
    assert crystal.choice.loss < 1e-3 * crystal.constant


def test_it_says_who_judged_and_what_was_spent():
    sets, held = drawn(torch.sum, 60, 0), drawn(torch.sum, 40, 1)
    options = {"epochs": 1, "trials": 1, "settings": [Setting(lr=1e-3)], "batch_size": 20}
    crystal = crystallize(OnePlace(), sets, held, squared, **options)
    limit = int(torch.tensor([len(one.x) for one in sets]).median())
    large = [one for one in (*sets, *held) if len(one.x) > limit]
    assert crystal.judged.startswith(f"{len(large)} held-out graphs of more than {limit} nodes")
    y = torch.cat([one.y for one in large])
    assert crystal.constant == pytest.approx((y - y.mean()).square().mean().item(), rel=1e-6)
    assert crystal.steps > 0
    assert f"{crystal.steps:,} steps" in str(crystal)


@pytest.mark.parametrize("final_validation", [True, False])
def test_the_chosen_form_learns_from_all_that_it_may(final_validation):
    """Labels for validation are a fifth larger than those for training; a model that trains on both ends between."""
    train, validation = drawn(torch.sum, 40, 0), drawn(lambda x: 1.2 * x.sum(), 40, 1)
    options = {"epochs": 40, "trials": 4, "settings": [Setting(lr=1e-2, optimizer="adam")], "batch_size": 20}
    crystal = crystallize(OnePlace(), train, validation, squared, final_validation=final_validation, **options)
    assert crystal.choice.poolings == {"pool": {"one": "sum"}}
    answer = crystal.model(torch.full((10, 1), 0.5), torch.tensor([0, 10])).item()
    assert (answer > 5.2) is final_validation
