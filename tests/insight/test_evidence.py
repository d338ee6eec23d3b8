"""What the data say beside the losses: laws as proposals, formulas, the certificate, and the node's own value."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GINConv

from gnpool import Batches, GNPAggregation, Setting, crystallize
from gnpool.insight.crystallize import Certificate, replaced
from gnpool.insight.crystallize.evidence import Evidence
from gnpool.insight.crystallize.replace import inherited
from gnpool.insight.crystallize.search import proposed
from gnpool.insight.reading import read
from gnpool.models import DeepNet, GraphNet, NodeNet, SetNet, load_model, save_model
from gnpool.training.program import by_name


def squared(prediction, batch):
    return (prediction.view_as(batch.y) - batch.y).square()


def sets_of(law, count=80, size=None):
    generator = torch.Generator().manual_seed(0)
    rows = [torch.rand(size or 5 + k % 9, 1, generator=generator) + 0.1 for k in range(count)]
    return [Data(x=x, y=torch.as_tensor(law(x.double())).view(1, 1)) for x in rows]


def graphs_of(label, count=60):
    """Rings with chords; ``label`` gets the features and a function that pools over neighbours."""
    generator = torch.Generator().manual_seed(0)
    found = []
    for k in range(count):
        n = 6 + k % 7
        x = torch.rand(n, 1, generator=generator) + 0.1
        ring = torch.stack([torch.arange(n), (torch.arange(n) + 1) % n])
        chords = torch.randint(0, n, (2, n), generator=generator)
        pairs = torch.cat([ring, chords[:, chords[0] != chords[1]]], dim=1)
        edges = torch.cat([pairs, pairs.flip(0)], dim=1).unique(dim=1)

        def over(values, reduce, edges=edges):
            return torch.zeros_like(values).scatter_reduce(0, edges[1], values[edges[0]], reduce, include_self=False)

        found.append(Data(x=x, edge_index=edges, y=label(x[:, 0].double(), over).view(-1, 1)))
    return found


def evidence_of(model, graphs, loss=squared):
    return Evidence.of(Batches(graphs, 16), model, loss, by_name(model))


@pytest.mark.parametrize(
    ("law", "names"),
    [
        pytest.param(lambda x: x.mean() + x.min(), "mean and min", id="two"),
        pytest.param(lambda x: 2 * x.max() + x.mean(), "mean and max", id="two of one sign"),
        pytest.param(lambda x: (x**3).mean() ** (1 / 3), "cubic mean", id="p = 3"),
        pytest.param(lambda x: x.sum() / len(x) ** 0.5, "n^(1/2) mean", id="growth 1/2"),
        pytest.param(lambda x: x.sum() / (len(x) + 1), "mean with a 0", id="an element more"),
    ],
)
def test_a_law_of_the_targets_is_the_first_proposal(law, names):
    model = SetNet(1, "gnpg", hidden=4)
    laws = evidence_of(model, sets_of(law)).proposals({"pool": ["one"]}, own=False)
    assert laws[0] == ({"pool": {"one": names}}, True)
    trials = proposed(model, read(model), 3, laws[:1])
    assert [trial.poolings for trial in trials[:6]] == [{"pool": {"one": names}}] * 6
    assert [(trial.biases, trial.fresh) for trial in trials[:6]] == [(b, f) for b in (True, False) for f in range(3)]
    assert len({repr(trial.poolings) for trial in trials}) == 3


@pytest.mark.parametrize(
    ("label", "own", "names"),
    [
        (lambda x, over: (over(x, "mean") + over(x, "amin")).mean(), True, ("mean and min", "mean")),
        (lambda x, over: (x + over(x, "sum")).max(), True, ("sum", "max")),
    ],
    ids=["without the node", "with the node"],
)
def test_a_law_of_graphs_names_each_layer(label, own, names):
    model = GraphNet(1, "gnpg", "gnpg", hidden=4, form="gin")
    laws = evidence_of(model, graphs_of(label)).proposals({"aggr": ["one"], "readout": ["one"]}, own)
    assert laws[0] == ({"aggr": {"one": names[0]}, "readout": {"one": names[1]}}, names[1] == "max")


def test_a_pooling_goes_to_the_branch_of_its_sign():
    evidence = evidence_of(SetNet(1, "gnp", hidden=4), sets_of(lambda x: x.max() - x.min()))
    found = evidence.proposals({"pool": ["positive", "negative"]}, own=False)
    assert found[0] == ({"pool": {"positive": "max", "negative": "min"}}, True)


def test_data_or_losses_of_other_kinds_say_nothing():
    graphs = graphs_of(lambda x, over: over(x, "sum").max())
    model = GraphNet(1, "gnpg", "gnpg", hidden=4)
    assert evidence_of(model, graphs) is not None
    likelihood = torch.nn.functional.binary_cross_entropy_with_logits
    assert (
        evidence_of(model, graphs, lambda said, batch: likelihood(said, (batch.y > 1).to(said), reduction="none"))
        is None
    )
    assert (
        evidence_of(model, [*graphs, Data(x=torch.ones(5001, 1), edge_index=graphs[0].edge_index, y=graphs[0].y)])
        is None
    )
    for graph in graphs:
        graph.edge_weight = torch.ones(graph.edge_index.size(1))
    assert evidence_of(model, graphs) is None
    classes = [Data(x=one.x, y=(one.x.mean() > 0.6).long().view(1)) for one in sets_of(torch.sum)]
    net = SetNet(1, "gnpg", hidden=4, out_channels=2)
    evidence = evidence_of(net, classes, lambda said, batch: torch.nn.functional.cross_entropy(said, batch.y))
    assert evidence.classes
    assert evidence.proposals({"pool": ["one"]}, own=False)[0][0] == {"pool": {"one": "mean"}}


def positive(model):
    """No channel is dead, so that the network is a sum of its channels."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.abs_()
    return model


def test_the_formula_of_a_network_is_that_of_its_targets_or_none():
    graphs = graphs_of(lambda x, over: 2 * over(x, "sum").max())
    poolings = {"aggr": {"one": "sum"}, "readout": {"one": "max"}}
    model = positive(replaced(GraphNet(1, "gnpg", "gnpg", hidden=4), poolings, biases=False))
    evidence = evidence_of(model, graphs)
    law = evidence.formula(model, poolings, by_name(model))
    assert str(law) == "y = 2 * max_v(sum_u(x_u))"
    assert law.latex().startswith(r"y = 2 \, \max_{v} \sum_{u \in N(v)}")
    assert evidence.is_noise(law.predict(evidence.sample))
    bent = positive(replaced(GraphNet(1, "gnpg", "gnpg", hidden=4, activation="elu"), poolings))
    bent.mlp.layers[0].bias.data -= 2.0  # no longer linear
    assert evidence.formula(bent, poolings, by_name(bent)) is None
    assert evidence.formula(model, {**poolings, "aggr": {}}, by_name(model)) is None  # a learned layer


def test_errors_are_noise_or_not():
    evidence = evidence_of(SetNet(1, "gnpg", hidden=4), sets_of(lambda x: x.sum(), 200))
    random = np.random.default_rng(0).normal(size=200)
    assert evidence.is_noise(evidence.y + 0.1 * random)
    assert evidence.error(evidence.y + 0.1 * random) == pytest.approx(0.1 / evidence.y.mean(), rel=0.2)
    sizes = np.diff(evidence.sample.starts)
    assert not evidence.is_noise(evidence.y + 0.1 * random + 0.05 * sizes)
    assert evidence.is_noise(evidence.y + 1e-7 * sizes)  # nothing is left to explain


@pytest.mark.parametrize(("name", "times"), [("sum", 16), ("mean", 1)])
def test_models_that_agree_here_are_trusted_until_they_part(name, times):
    """All sets have 10 elements: a tenth of the sum is the mean here, and nowhere else."""
    net = SetNet(1, "gnpg", hidden=4)
    one = positive(replaced(net, {"pool": {"one": "sum"}}, biases=False))
    other = positive(replaced(net, {"pool": {"one": name}}, biases=False))
    if name == "mean":
        other.pool.mix.weight.data = 10.0 * one.pool.mix.weight.data
    trust = evidence_of(net, sets_of(torch.sum, size=10)).trust(one, [other], by_name(net), 0.01)
    assert trust.size == 10 * times


class Alone(torch.nn.Module):
    """A pooling with the factor 1 and nothing else; it stands at the mean."""

    def __init__(self):
        super().__init__()
        self.pool = GNPAggregation(1, size=1.0)
        torch.nn.init.ones_(self.pool.mix.weight)

    def forward(self, x, ptr):
        return self.pool(x, ptr=ptr)


def crystal_of(law, count=40, model=None, **options):
    data = sets_of(law, 2 * count)
    options = {"epochs": 3, "trials": 1, "settings": [Setting(lr=1e-2, optimizer="adam")], "batch_size": 8, **options}
    torch.manual_seed(0)
    return crystallize(model or SetNet(1, "gnpg", hidden=4), data[::2], data[1::2], squared, **options)


def test_of_noise_nothing_is_learned():
    generator = torch.Generator().manual_seed(1)
    crystal = crystal_of(lambda x: torch.rand((), generator=generator))
    assert crystal.verdict == "nothing"
    assert crystal.choice.stage == "given"
    assert (crystal.law, crystal.trusted_size) == (None, None)
    assert str(crystal).startswith("Nothing was learned")


def test_a_law_is_certified_with_its_formula():
    options = {"model": Alone(), "settings": [Setting(lr=1e-7, optimizer="adam")]}  # its factor stays 1
    crystal = crystal_of(lambda x: x.sum() / len(x) ** 0.5, count=80, **options)
    assert crystal.choice.poolings == {"pool": {"one": "n^(1/2) mean"}}
    assert str(crystal.law) == "y = n^(1/2)*mean_i(x_i)"
    assert crystal.verdict == "law"
    assert crystal.trusted_size == 16 * 13


def test_what_is_not_a_law_is_approximate_and_not_trusted():
    crystal = crystal_of(torch.median)
    assert crystal.verdict == "approximate"
    assert crystal.trusted_size == 13
    assert "Do not trust it beyond 13 nodes." in str(crystal)


def test_a_certificate_in_words():
    words = str(Certificate("undecided", noise=0.05, trusted_size=58, tolerance=0.05, largest=29))
    assert "58 nodes" in words
    assert "5 %" in words
    assert "since exponents stay learned" in str(Certificate("approximate", why="exponents stay learned"))


def conv(train_eps):
    layers = torch.nn.Sequential(torch.nn.Linear(1, 1))
    return GINConv(layers, train_eps=train_eps, aggr=GNPAggregation(1))


@pytest.mark.parametrize(
    "make",
    [
        lambda: GraphNet(1, "gnpg", "sum", hidden=4, form="gin"),
        lambda: NodeNet(1, "gnpg", hidden=4, layers=1, form="gin"),
        lambda: DeepNet(1, "gnpg", None, hidden=4, layers=1, norm=None, train_eps=True),
        lambda: conv(False),
        lambda: conv(True),
    ],
    ids=["GraphNet", "NodeNet", "DeepNet", "GINConv", "GINConv, learned"],
)
def test_the_value_of_the_node_itself_is_dropped(make):
    """Only node 1 has a neighbour, node 0: with its own value the answer depends on node 1, too."""
    torch.manual_seed(0)
    model = positive(make())
    edges, x = torch.tensor([[0], [1]]), torch.tensor([[1.0], [2.0]], requires_grad=True)
    with_own, without = model(x, edges), replaced(model, {}, own=False)(x, edges)
    depends = [bool(torch.autograd.grad(y.sum(), x)[0][1] != 0) for y in (with_own, without)]
    assert depends == [True, False]
    child = inherited(replaced(model, {}, own=False), model)
    torch.testing.assert_close(child(x, edges), without)
    assert not any(name.endswith("eps") for name, _ in child.named_parameters())


def test_a_model_without_the_node_itself_can_be_saved(tmp_path):
    arguments = {"in_channels": 1, "aggr": "gnpg", "readout": "gnpg", "hidden": 4, "form": "gin"}
    torch.manual_seed(0)
    model = replaced(GraphNet(**arguments), {"aggr": {"one": "n^(1/2) max"}}, own=False).eval()
    again = load_model(save_model(tmp_path / "model", model, {"class": "GraphNet", "arguments": arguments}))
    (graph,) = graphs_of(lambda x, over: x.sum(), 1)
    with torch.no_grad():
        torch.testing.assert_close(again(graph.x, graph.edge_index), model(graph.x, graph.edge_index))
    assert again.eps == -1.0


def test_fresh_weights_of_two_kinds():
    crystal = crystal_of(torch.sum, epochs=1)
    states = {trial.fresh: trial.state for trial in crystal.tried if trial.fresh and not trial.biases}
    assert set(states) == {1, 2}
    assert not torch.equal(states[1]["out.weight"], states[2]["out.weight"])
