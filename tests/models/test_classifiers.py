"""SAGPool and ASAPool as classifiers: PyG's values, the formula of GNP, and networks in a stack as alone."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.nn import ASAPooling as PygASAPooling
from torch_geometric.nn import GCNConv, LEConv, SAGPooling, global_max_pool, global_mean_pool
from torch_geometric.utils import erdos_renyi_graph, to_undirected

from gnpool.models import ASAPClassifier, SAGClassifier, replica_gnp
from gnpool.models.asap_classifier import ASAPooling, LocalExtrema
from gnpool.models.replica_gnp import gnp, set_range
from gnpool.models.replicas import Dice, Graphs, GraphStack, Neighbors, dropout, largest, propagate, stack_of_one
from gnpool.nn import GNPAggregation

CHANNELS, CLASSES, HIDDEN = 5, 3, 8


def random_batch(sizes: tuple[int, ...] = (7, 1, 12, 5), seed: int = 0) -> Batch:
    torch.manual_seed(seed)
    graphs = []
    for n in sizes:
        edges = to_undirected(erdos_renyi_graph(n, 0.4), num_nodes=n) if n > 1 else torch.empty(2, 0, dtype=torch.long)
        graphs.append(Data(x=torch.rand(n, CHANNELS, dtype=torch.float64), edge_index=edges, num_nodes=n))
    return Batch.from_data_list(graphs)


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


def gnp_layer(p: tuple[float, float], q: tuple[float, float], nonneg: str = "relu") -> GNPAggregation:
    aggr = GNPAggregation(6, mix=False, nonneg=nonneg).double()
    aggr.p_pos, aggr.p_neg = p
    aggr.q_pos, aggr.q_neg = q
    return aggr


def neighbors() -> tuple[Tensor, Neighbors]:
    torch.manual_seed(4)
    batch = random_batch((6, 9))
    x = torch.randn(15, 6, dtype=torch.float64)
    x[batch.batch == 1] *= 1e-3  # the smallest values of the network are far from the largest
    x[:6, 5] = -1.0  # a graph without anything above the tolerance in a negative channel
    return x, stack_of_one(x, batch.edge_index, batch.batch).edges


@pytest.mark.parametrize("nonneg", ["relu", "abs"])
@pytest.mark.parametrize("p", [(1.01, 1.01), (1.7, 1.7), (3.0, 8.0), (20.0, 12.0), (50.0, 50.0)])
def test_gnp_by_way_of_the_nodes_is_gnp(p: tuple[float, float], nonneg: str) -> None:
    x, edges = neighbors()
    aggr = gnp_layer(p, (0.3, -0.6), nonneg)
    g = torch.randn(15, 6, dtype=torch.float64)
    results = []
    for pool in (
        lambda v: gnp(aggr, v[None], edges)[0],
        lambda v: aggr(v[edges.col], edges.row, dim_size=15),
    ):
        v = x.clone().requires_grad_()
        y = pool(v)
        results.append([y, *torch.autograd.grad((y * g).sum(), [v, *aggr.parameters()])])
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("of_weights", [True, False])
def test_gnp_with_weights_and_their_gradients(of_weights: bool) -> None:
    x, edges = neighbors()
    aggr = gnp_layer((2.5, 3.5), (0.5, 0.1))
    aggr.eps = 0.0  # the tolerance stands in front of the weight here, and behind it there
    weight = torch.rand(edges.col.numel(), dtype=torch.float64) + 0.05
    g = torch.randn(15, 6, dtype=torch.float64)
    results = []
    for pool in (
        lambda v, w: gnp(aggr, v[None], edges, w)[0],
        lambda v, w: aggr(w[:, None] * v[edges.col], edges.row, dim_size=15),
    ):
        v, w = x.clone().requires_grad_(), weight.clone().requires_grad_(of_weights)
        y = pool(v, w)
        wanted = [v, *aggr.parameters(), *([w] if of_weights else [])]
        results.append([y, *torch.autograd.grad((y * g).sum(), wanted)])
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("p", [(1.01, 1.01), (1.7, 2.5), (4.0, 4.0)])
@pytest.mark.parametrize("weighted", [False, True])
def test_small_exponents_do_with_float32(p: tuple[float, float], weighted: bool) -> None:
    x, edges = neighbors()
    aggr = gnp_layer(p, (0.3, -0.6)).float()
    weight = torch.rand(edges.col.numel()) * (torch.rand(edges.col.numel()) > 0.2) if weighted else None
    g = torch.randn(15, 6)
    results = []
    for largest_p in (50.0, max(p)):
        set_range(aggr, largest_p)
        v = x.float().requires_grad_()
        w = None if weight is None else weight.clone().requires_grad_()
        y = gnp(aggr, v[None], edges, w)[0]
        wanted = [v, *aggr.parameters(), *([] if w is None else [w])]
        results.append([y, *torch.autograd.grad((y * g).sum(), wanted)])
    assert aggr.narrow
    torch.testing.assert_close(*results, rtol=2e-4, atol=1e-5)


def test_an_edge_of_weight_zero_takes_no_part_and_counts() -> None:
    x, edges = neighbors()
    x, aggr = x.abs() + 0.1, gnp_layer((2.0, 2.0), (1.0, 1.0))
    weight = torch.ones(edges.col.numel(), dtype=torch.float64)
    lost = edges.row == 3
    lost &= edges.col != 3
    weight[lost] = 0.0
    out = gnp(aggr, x[None], edges, weight)[0, 3]
    torch.testing.assert_close(out, (x[3] + aggr.eps) / (edges.row == 3).sum())


@pytest.mark.parametrize("make", [SAGClassifier, ASAPClassifier])
def test_gnp_takes_every_place(make: type[torch.nn.Module]) -> None:
    model = make(CHANNELS, CLASSES, pooling="gnp", hidden=HIDDEN)
    count = {SAGClassifier: 3 + 3 + 3, ASAPClassifier: 3 + 3 * 3 + 3}[make]
    assert sum(isinstance(module, GNPAggregation) for module in model.modules()) == count
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


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a compiler")
def test_the_parts_that_a_gpu_compiles_compile() -> None:
    """On a CPU, and once for all shapes: what is compiled there is the same code."""
    torch.compiler.reset()
    plain = {f.__name__: f.__wrapped__ for f in (replica_gnp.powers, replica_gnp.root, replica_gnp.slopes)}
    plain["slopes_of_rows"] = replica_gnp.slopes_of_rows.__wrapped__
    compiled = {name: torch.compile(function, dynamic=True) for name, function in plain.items()}
    for parts, nodes, channels in ((3, 20, 8), (5, 31, 6), (2, 12, 10)):
        positive, exponents = channels // 2, torch.tensor([[2.0, -3.0]]).expand(parts, 2).double()
        for dtype, offset in ((torch.float64, 0.0), (torch.float32, 64.0)):
            x, count = torch.rand(parts, nodes, channels), torch.rand(parts, nodes, 1, dtype=dtype)
            found = []
            for functions in (plain, compiled):
                power, ratio, centre = functions["powers"](x, exponents, 1e-6, positive, dtype, offset)
                y = functions["root"](power, exponents, exponents, centre, exponents, count, positive, offset)
                back = functions["slopes"](x, y, power, count, positive, offset)
                rows = functions["slopes_of_rows"](x, power, ratio, back[0], 1e-6, positive)
                found.append([power, ratio, centre, y, *back, *rows])
            torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)
