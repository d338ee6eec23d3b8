"""The classifiers SAGPool and ASAPool have PyG's values and GNP's formula, and give the same in a stack as alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch
from torch_geometric.nn import ASAPooling as PygASAPooling
from torch_geometric.nn import GCNConv, LEConv, SAGPooling, global_max_pool, global_mean_pool

from gnpool.models import ASAPClassifier, SAGClassifier
from gnpool.models.stacked.asap import ASAPooling, LocalExtrema
from gnpool.models.stacked.replicas import (
    Dice,
    Graphs,
    GraphStack,
    Neighbors,
    dropout,
    largest,
    propagate,
    stack_of_one,
)
from gnpool.nn import GNPAggregation
from tests.models.stacks import CHANNELS, neighbors, random_batch

CLASSES, HIDDEN = 3, 8


def double(model: torch.nn.Module) -> torch.nn.Module:
    return model.double().eval()


def positive(pool: torch.nn.Module) -> None:
    """PyG's selection has a weight of random sign in front of the score, which the published layers do not have."""
    with torch.no_grad():
        pool.select.weight.fill_(1.0)


def test_sagpool_is_pygs() -> None:
    torch.manual_seed(1)
    batch = random_batch()
    model = double(SAGClassifier(CHANNELS, CLASSES, hidden=HIDDEN))
    h, edge_index, where, total = batch.x, batch.edge_index, batch.batch, 0.0
    for conv, to_score in zip(model.convs, model.scores, strict=True):
        pool = SAGPooling(HIDDEN, ratio=0.5, GNN=GCNConv).double()
        pool.gnn.load_state_dict(to_score.state_dict())
        positive(pool)
        h = conv(h, edge_index).relu()
        h, edge_index, _, where, _, _ = pool(h, edge_index, None, where)
        total = total + torch.cat([global_max_pool(h, where, 4), global_mean_pool(h, where, 4)], dim=1)
    h = model.lin2(model.lin1(total).relu()).relu()
    torch.testing.assert_close(model(batch.x, batch.edge_index, batch.batch), model.lin3(h).log_softmax(-1))


def as_pyg(ours: ASAPooling) -> PygASAPooling:
    """PyG's pooling with our weights: its LEConv is sum_j (a_j - b_i) + lin3(x_i), loops included."""
    theirs = PygASAPooling(HIDDEN, ratio=0.5, GNN=GCNConv, add_self_loops=True).double()
    theirs.lin.load_state_dict(ours.lin.state_dict())
    theirs.att.load_state_dict(ours.att.state_dict())
    theirs.gnn_intra_cluster.load_state_dict(ours.gnn_intra_cluster.state_dict())
    theirs.gnn_score = le_conv(ours.fitness)
    positive(theirs)
    return theirs.eval()


def le_conv(ours: LocalExtrema) -> LEConv:
    theirs = LEConv(HIDDEN, 1).double()
    with torch.no_grad():
        a, b, c = theirs.lin1, theirs.lin2, theirs.lin3
        a.weight.copy_(ours.theta.weight)
        a.bias.copy_(ours.lin1.bias)  # once for each neighbour, and for the loop
        b.weight.copy_(-ours.lin1.weight)
        c.weight.copy_(ours.lin2.weight - ours.theta.weight - ours.lin1.weight)
        c.bias.copy_(ours.lin2.bias - ours.lin1.bias)
    return theirs


def test_asapool_is_pygs_but_for_the_form_of_leconv() -> None:
    torch.manual_seed(2)
    batch = random_batch((9, 4, 14, 1))
    model = double(ASAPClassifier(CHANNELS, CLASSES, hidden=HIDDEN))
    h, edge_index, weight, where, total = batch.x, batch.edge_index, None, batch.batch, 0.0
    weight = torch.ones(edge_index.size(1), dtype=torch.float64)
    for conv, pool in zip(model.convs, model.pools, strict=True):
        h = conv(h, edge_index, weight).relu()
        h, edge_index, weight, where, _ = as_pyg(pool)(h, edge_index, weight, where)
        diagonal = edge_index[0] == edge_index[1]
        weight = torch.where(diagonal, 1.0, weight)  # the authors put 1 there, PyG keeps what the product gave
        total = total + torch.cat([global_mean_pool(h, where, 4), global_max_pool(h, where, 4)], dim=1)
    expected = model.lin2(model.lin1(total).relu()).log_softmax(-1)
    torch.testing.assert_close(model(batch.x, batch.edge_index, batch.batch), expected)


def test_pygs_leconv_with_the_same_numbers_is_another_function() -> None:
    torch.manual_seed(0)
    ours, batch = LocalExtrema(HIDDEN).double(), random_batch((6,))
    stack = stack_of_one(torch.rand(6, HIDDEN, dtype=torch.float64), batch.edge_index, None)
    plain = LEConv(HIDDEN, 1).double()
    plain.lin1.load_state_dict(ours.lin1.state_dict())
    plain.lin2.load_state_dict(ours.theta.state_dict())
    plain.lin3.load_state_dict(ours.lin2.state_dict())
    looped = torch.stack([stack.edges.col, stack.edges.row])
    mine = ours(stack.x, stack.edges)[0]
    assert not torch.allclose(mine, plain(stack.x[0], looped))
    torch.testing.assert_close(mine, le_conv(ours)(stack.x[0], looped))


@pytest.mark.parametrize("make", [SAGClassifier, ASAPClassifier])
def test_gnp_takes_every_place(make: type[torch.nn.Module]) -> None:
    model = make(CHANNELS, CLASSES, pooling="gnp", hidden=HIDDEN)
    count = {SAGClassifier: 3 + 3 + 3, ASAPClassifier: 3 + 3 * 3 + 3}[make]
    layers = [module for module in model.modules() if isinstance(module, GNPAggregation)]
    assert len(layers) == count
    assert {layer.coordinates for layer in layers} == {"published"}
    assert model.lin1.in_features == HIDDEN
    assert make(CHANNELS, CLASSES, hidden=HIDDEN).lin1.in_features == 2 * HIDDEN
    batch = random_batch()
    model = model.double()
    model(batch.x, batch.edge_index, batch.batch).sum().backward()
    grads = [p.grad for p in model.parameters()]
    assert all(g is not None and bool(g.isfinite().all()) for g in grads)


def stack(batches: list[Batch], drop: int | None = None) -> GraphStack:
    """Batches side by side, one part each, padded."""
    count = max(b.num_graphs for b in batches)
    sizes = np.zeros((len(batches), count), dtype=np.int64)
    for r, b in enumerate(batches):
        sizes[r, : b.num_graphs] = b.ptr.diff().numpy()
    graphs = Graphs(sizes, torch.device("cpu"))
    x = graphs.spread(torch.cat([b.x for b in batches]))
    alone = [stack_of_one(b.x, b.edge_index, b.batch).edges for b in batches]
    row = torch.cat([e.row + r * graphs.width for r, e in enumerate(alone)])
    col = torch.cat([e.col + r * graphs.width for r, e in enumerate(alone)])
    zeros = torch.zeros(sizes.shape, dtype=torch.long)
    return GraphStack(x, graphs, Neighbors(row, col, graphs), zeros, torch.from_numpy(sizes) > 0)


@pytest.mark.parametrize("pooling", ["original", "gnp"])
@pytest.mark.parametrize("make", [SAGClassifier, ASAPClassifier])
def test_a_network_in_a_stack_is_the_network_alone(make: type[torch.nn.Module], pooling: str) -> None:
    batches = [random_batch((7, 4, 12), 1), random_batch((3, 9), 2), random_batch((5, 5, 5, 2), 3)]
    models = []
    for seed in range(3):
        torch.manual_seed(seed)
        models.append(double(make(CHANNELS, CLASSES, pooling=pooling, hidden=HIDDEN)))
        with torch.no_grad():  # exponents of their own
            for name, value in models[-1].named_parameters():
                if "raw" in name:
                    value += 0.3 * torch.randn(())
    params = {n: torch.stack([dict(m.named_parameters())[n].detach() for m in models]).requires_grad_()
              for n, _ in models[0].named_parameters()}  # fmt: skip
    out = torch.func.functional_call(models[0], params, (stack(batches),))
    together = torch.autograd.grad(out.logsumexp(-1).sum() + out[..., 0].square().sum(), list(params.values()))
    for r, (model, batch) in enumerate(zip(models, batches, strict=True)):
        own = model(batch.x, batch.edge_index, batch.batch)
        torch.testing.assert_close(out[r, : batch.num_graphs], own)
        alone = torch.autograd.grad(own.logsumexp(-1).sum() + own[:, 0].square().sum(), list(model.parameters()))
        if batch.num_graphs == 4:  # no padding graphs: the sum above is this one's
            torch.testing.assert_close([g[r] for g in together], list(alone))


def test_edges_given_twice_or_as_loops_count_once() -> None:
    batch = random_batch()
    model = double(SAGClassifier(CHANNELS, CLASSES, hidden=HIDDEN))
    loops = torch.arange(batch.num_nodes).repeat(2, 1)
    more = torch.cat([batch.edge_index, batch.edge_index, loops], dim=1)
    torch.testing.assert_close(model(batch.x, more, batch.batch), model(batch.x, batch.edge_index, batch.batch))


def test_the_largest_scores_stay_and_of_equal_ones_the_first() -> None:
    graphs = Graphs(np.array([[3, 2], [4, 0]]), torch.device("cpu"))
    assert graphs.width == 5
    score = torch.tensor([[0.5, -2.0, 0.5, -0.0, 0.0], [1.0, 3.0, 2.0, 2.0, 9.0]])
    kept, rows = graphs.keep(score, 0.5)
    assert kept.sizes.tolist() == [[2, 1], [2, 0]]
    assert rows.tolist() == [0, 2, 3, 6, 7]
    assert kept.members.tolist() == [0, 1, 2, 3, 4]


def test_ties_share_the_gradient_of_a_maximum() -> None:
    graphs = Graphs(np.array([[3, 0]]), torch.device("cpu"))
    x = torch.tensor([[[2.0], [1.0], [2.0]]], requires_grad=True)
    y = largest(x, graphs.pattern)
    assert y.flatten().tolist() == [2.0, 0.0]
    assert torch.autograd.grad(y.sum(), x)[0].flatten().tolist() == [0.5, 0.0, 0.5]


def test_gradient_of_a_weighted_sum() -> None:
    x, edges = neighbors()
    weight = torch.rand(edges.col.numel(), dtype=torch.float64, requires_grad=True)
    v = x.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda a, w: propagate(a[None], edges, w), (v, weight))


def test_sums_stay_on_the_device_of_their_input() -> None:
    x, edges = neighbors()
    expected = edges.times(x)
    with torch.device("meta"):  # as the user's default device
        torch.testing.assert_close(edges.times(x), expected, rtol=0, atol=0)


def test_dice_do_not_know_who_else_is_there() -> None:
    seeds = torch.tensor([11, -5, 7])
    x = torch.ones(3, 40, 50)
    all_three = dropout(x, 0.3, True, Dice(seeds, 4))
    torch.testing.assert_close(all_three[1:2], dropout(x[1:2], 0.3, True, Dice(seeds[1:2], 4)))
    share = (all_three > 0).double().mean(dim=(1, 2))
    assert bool(((share - 0.7).abs() < 0.03).all())
    assert all_three.max() == pytest.approx(1 / 0.7)
    other = dropout(x, 0.3, True, Dice(seeds, 5))
    agree = ((all_three > 0) == (other > 0)).double().mean().item()
    assert agree == pytest.approx(0.7**2 + 0.3**2, abs=0.03)


@pytest.mark.parametrize("make", [SAGClassifier, ASAPClassifier])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pooling": "max"}, "'pooling' must be one of"),
        ({"ratio": 0.0}, "'ratio' must lie in"),
        ({"dropout": 1.0}, "'dropout' must lie in"),
    ],
)
def test_options_are_checked(make: type[torch.nn.Module], options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(2, 2, **options)
