import pytest
import torch
from torch_geometric.nn.aggr import MaxAggregation, MeanAggregation, MinAggregation, SumAggregation

from gnpool.models import MONSTOR
from gnpool.models.networks.monstor import advance, start

PYG = {"max": MaxAggregation, "sum": SumAggregation, "mean": MeanAggregation, "min": MinAggregation}
N, B = 30, 5


@pytest.fixture
def edges():
    key = torch.randperm(N * N)[:140]
    source, target = key // N, key % N
    target[target == 7] = 8  # node 7 has no in-edges
    key = torch.unique(source * N + target)
    return torch.stack([key // N, key % N]), torch.rand(len(key))


def expected(model, x, edges, weight, pool):
    source, target = edges
    h = x
    for layer in model.layers:
        messages = weight[:, None, None] * layer.fc_pool(h)[source]
        h = torch.relu(layer.fc_neigh(torch.cat([h, pool(layer, messages, target)], dim=-1)))
    rise = torch.zeros(N, B).index_add(0, target, weight[:, None] * x[source, :, 2])
    return torch.minimum(x[..., 3] + h.squeeze(-1), (x[..., 3] + rise).clamp(0, 1)), h


def living(aggr, x, edges, weight, pool):
    """The first model whose output is not 0 everywhere."""
    for seed in range(50):
        torch.manual_seed(seed)
        model = MONSTOR(aggr)
        if (expected(model, x, edges, weight, pool)[1] > 0).float().mean() > 0.3:
            return model
    raise AssertionError


@pytest.mark.parametrize("aggr", PYG)
def test_fixed_poolings_of_signed_messages(aggr, edges):
    edge_index, weight = edges
    x = torch.rand(N, B, 4) * torch.tensor([0.1, 0.1, 0.1, 0.5])

    def pool(_, messages, target):
        return PYG[aggr]()(messages.flatten(1), target, dim_size=N).view(N, B, -1)

    model = living(aggr, x, edge_index, weight, pool)
    found, wanted = model(x, edge_index, weight), expected(model, x, edge_index, weight, pool)[0]
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    assert (found > x[..., 3]).any()
    ours = torch.autograd.grad(found.square().sum(), model.parameters())
    theirs = torch.autograd.grad(wanted.square().sum(), model.parameters())
    for name, a, b in zip(dict(model.named_parameters()), ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4, msg=name)


def test_gnp_pools_each_state_as_its_aggregation_would(edges):
    edge_index, weight = edges
    x = torch.rand(N, B, 4) * torch.tensor([0.1, 0.1, 0.1, 0.5])

    def pool(layer, messages, target):
        states = [layer.aggr(messages[:, b], target, dim_size=N) for b in range(B)]
        return torch.stack(states, dim=1)

    model = living("gnp", x, edge_index, weight, pool)
    wanted = expected(model, x, edge_index, weight, pool)[0]
    torch.testing.assert_close(model(x, edge_index, weight), wanted, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(model(x[:, 2], edge_index, weight), wanted[:, 2], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("aggr", ["gnp", "gnp+"])
def test_gnp_is_the_published_one(aggr):
    assert {layer.aggr.coordinates for layer in MONSTOR(aggr).layers} == {"published"}


@pytest.mark.parametrize(("aggr", "parameters"), [("max", 1269), ("gnp", 1809)])
def test_parameters(aggr, parameters):
    model = MONSTOR(aggr)
    assert sum(p.numel() for p in model.parameters()) == parameters
    assert repr(model) == f"MONSTOR('{aggr}', hidden=16, layers=3)"
    names = [name for name in model.state_dict() if "aggr" not in name]
    parts = [f"{part}.{kind}" for part in ("fc_pool", "fc_neigh") for kind in ("weight", "bias")]
    assert names == [f"layers.{layer}.{part}" for layer in range(3) for part in parts]


@pytest.mark.parametrize("aggr", [*PYG, "gnp", "gnp+"])
def test_predictions_rise_and_stay_below_the_union_bound(aggr, edges):
    edge_index, weight = edges
    seeds = (torch.rand(N, B) < 0.1).float()
    model, x = MONSTOR(aggr), start(seeds)
    for _ in range(4):
        after = model(x, edge_index, weight)
        rise = torch.zeros(N, B).index_add(0, edge_index[1], weight[:, None] * x[edge_index[0], :, 2])
        assert (after >= x[..., 3]).all()
        assert (after <= (x[..., 3] + rise + 1e-5).clamp(max=1)).all()
        x = advance(x, after)
    torch.testing.assert_close(model.stacked(seeds, edge_index, weight, 4), x[..., 3])
    once = model.stacked(seeds, edge_index, weight, 99, tolerance=1e9)
    torch.testing.assert_close(once, model(start(seeds), edge_index, weight))


def test_states():
    x = start(torch.tensor([[1.0]]))
    assert x.tolist() == [[[0.0, 0.0, 1.0, 1.0]]]
    assert advance(torch.tensor([[[0.1, 0.2, 0.3, 0.6]]]), torch.tensor([[0.75]])).tolist()[0][0] == pytest.approx(
        [0.2, 0.3, 0.15, 0.75]
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"aggr": "median"}, "'aggr' must be one of sum, mean, max, min, gnp, gnp\\+, got 'median'"),
        ({"hidden": 0}, "'hidden' must be a positive integer, got 0"),
        ({"layers": True}, "'layers' must be a positive integer, got True"),
        ({"aggr": "max", "aggr_options": {"bias": True}}, "'aggr_options' are those of GNP"),
        (
            {"aggr": "gnp", "aggr_options": {"coordinates": "growth"}},
            "'coordinates' in 'aggr_options' must be 'published'",
        ),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        MONSTOR(**arguments)


def test_bad_shape():
    with pytest.raises(ValueError, match=r"'x' must have shape \(N, B, 4\) or \(N, 4\), got \(3, 5\)"):
        MONSTOR()(torch.zeros(3, 5), torch.zeros(2, 0, dtype=torch.long), torch.zeros(0))
