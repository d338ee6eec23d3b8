"""The dense masked forms equal PyG's own modules with the same weights, in value and gradient."""

from __future__ import annotations

import math
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from torch import Tensor
from torch_geometric.nn import GCNConv, SAGPooling, global_max_pool, global_mean_pool
from torch_geometric.nn.aggr import Set2Set as PyGSet2Set
from torch_geometric.nn.aggr import SortAggregation
from torch_geometric.nn.aggr.utils import InducedSetAttentionBlock, MultiheadAttentionBlock

from gnpool.models import AttentionBlock, SAGPoolNet, Set2Set, SetTransformer, SortPooling
from gnpool.models.networks.sagpool import _largest, _places
from gnpool.models.networks.set_transformer import _InducedAttention
from tests.models.cases import alive, gradients, graphs, sets

PTR = torch.tensor([0, 4, 5, 10, 10, 13])
INDEX = torch.arange(5).repeat_interleave(PTR.diff())


def rows(channels: int = 3) -> Tensor:
    return torch.randn(13, channels, dtype=torch.float64, requires_grad=True)


def assert_same(got: Tensor, wanted: Tensor, *inputs: Tensor) -> None:
    torch.testing.assert_close(got, wanted)
    weights = torch.randn_like(wanted)
    for a, b in zip(
        torch.autograd.grad((weights * got).sum(), inputs),
        torch.autograd.grad((weights * wanted).sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("form", [{"index": INDEX, "dim_size": 5}, {"ptr": PTR, "max_num_elements": 7}], ids=list)
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_set2set(steps: int, form: dict[str, Any]) -> None:
    ours, theirs = Set2Set(3, steps).double(), PyGSet2Set(3, steps).double()
    theirs.load_state_dict(ours.state_dict())
    x = rows()
    got, wanted = ours(x, **form), theirs(x, INDEX, dim_size=5)
    torch.testing.assert_close(got, wanted)
    weights = torch.randn_like(wanted)
    for a, b in zip(
        torch.autograd.grad((weights * got).sum(), [x, *ours.parameters()]),
        torch.autograd.grad((weights * wanted).sum(), [x, *theirs.parameters()]),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("form", [{"index": INDEX, "dim_size": 5}, {"ptr": PTR, "max_num_elements": 7}], ids=list)
@pytest.mark.parametrize("k", [1, 3, 20])
def test_sort_of_pyg(k: int, form: dict[str, Any]) -> None:
    x = rows()
    assert_same(SortPooling(3, k, sort_channels=False)(x, **form), SortAggregation(k)(x, INDEX, dim_size=5), x)


@pytest.mark.parametrize("k", [2, 20])
def test_sort_of_dgl_is_that_of_sorted_channels(k: int) -> None:
    x = rows()
    assert_same(SortPooling(3, k)(x, INDEX, dim_size=5), SortAggregation(k)(x.sort(dim=1)[0], INDEX, dim_size=5), x)


def test_sort_keeps_the_order_of_equal_nodes() -> None:
    x = torch.tensor([[1.0, 2.0], [2.0, 2.0], [0.0, 2.0]])
    assert SortPooling(2, 2, sort_channels=False)(x).tolist() == [[1.0, 2.0, 2.0, 2.0]]


class SparseSAGPool(torch.nn.Module):
    """The network out of PyG's sparse layers."""

    def __init__(self, model: SAGPoolNet) -> None:
        super().__init__()
        widths = [model.in_channels, *[model.hidden] * (len(model.convs) - 1)]
        self.convs = torch.nn.ModuleList(GCNConv(width, model.hidden) for width in widths)
        self.pools = torch.nn.ModuleList(SAGPooling(model.hidden, model.ratio, GNN=GCNConv) for _ in widths)
        self.lin1, self.lin2, self.out = model.lin1, model.lin2, model.out
        self.double()
        for pool, score in zip(self.pools, model.scores, strict=True):
            pool.gnn.load_state_dict(score.state_dict())
            torch.nn.init.ones_(pool.select.weight)  # a factor of PyG's that the paper does not have
        self.convs.load_state_dict(model.convs.state_dict())

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor, batch_size: int) -> Tensor:
        total = 0
        for conv, pool in zip(self.convs, self.pools, strict=True):
            x, edge_index, _, batch, _, _ = pool(conv(x, edge_index).relu(), edge_index, batch=batch)
            readouts = [readout(x, batch, batch_size) for readout in (global_max_pool, global_mean_pool)]
            total = total + torch.cat(readouts, dim=1)
        return self.out(self.lin2(self.lin1(total).relu()).relu())


@pytest.mark.parametrize("ratio", [0.3, 0.5, 0.8])
@pytest.mark.parametrize("loops", [False, True], ids=["plain", "loops"])
def test_sagpool(ratio: float, loops: bool) -> None:
    model = alive(lambda: SAGPoolNet(2, hidden=6, ratio=ratio))
    theirs = SparseSAGPool(model)
    inputs = graphs(dummy=(0,))
    if loops:
        inputs["edge_index"] = torch.cat([inputs["edge_index"], torch.tensor([[0, 6, 6], [0, 6, 6]])], dim=1)
    y, got = gradients(model, inputs, 5)
    sparse = {name: inputs[name] for name in ("x", "edge_index", "batch", "batch_size")}
    wanted_y, wanted = gradients(theirs, sparse, 5)
    torch.testing.assert_close(y, wanted_y)
    for name, gradient in got.items():
        other = name.replace("scores.", "pools.")
        if other != name:
            parts = other.split(".")
            other = ".".join([*parts[:2], "gnn", *parts[2:]])
        torch.testing.assert_close(gradient, wanted[other])
    assert float(got["scores.0.lin.weight"].abs().sum()) > 0


def test_sagpool_keeps_the_first_of_equal_nodes() -> None:
    score = torch.tensor([[1.0, 2.0, 2.0, 1.0, 7.0], [3.0, 3.0, 3.0, 3.0, 3.0]])
    held = torch.tensor([[True, True, True, True, False], [True, True, True, True, True]])
    chosen = _largest(score, held, torch.tensor([1, 3]), 3)
    assert chosen.int().argmax(2).tolist() == [[1, 0, 0], [0, 1, 2]]
    assert chosen.any(2).tolist() == [[True, False, False], [True, True, True]]


@given(ratio=st.floats(0.01, 1.0), longest=st.integers(1, 3000), dtype=st.sampled_from([torch.float32, torch.float64]))
def test_sagpool_has_a_place_for_every_node_that_stays(ratio: float, longest: int, dtype: torch.dtype) -> None:
    staying = (ratio * torch.arange(longest + 1).to(dtype)).ceil().long()
    assert int(staying.max()) <= _places(ratio, longest) <= longest


def as_pyg(block: AttentionBlock) -> MultiheadAttentionBlock:
    """PyG's block with the weights of ours, whose queries it does not project in the residual.

    That makes the projection the identity. PyG also divides scores by the width of one head and ours by that of all,
    and it has one more projection behind.
    """
    d, heads = block.out.in_features, block.heads
    torch.nn.init.eye_(block.query.weight)
    torch.nn.init.zeros_(block.query.bias)
    theirs = MultiheadAttentionBlock(d, heads, layer_norm=False).double()
    with torch.no_grad():
        query = torch.eye(d) / math.sqrt(heads)
        theirs.attn.in_proj_weight.copy_(torch.cat([query, block.key.weight, block.value.weight]))
        theirs.attn.in_proj_bias.copy_(torch.cat([torch.zeros(d), block.key.bias, block.value.bias]))
        theirs.attn.out_proj.weight.copy_(torch.eye(d))
        theirs.attn.out_proj.bias.zero_()
        theirs.lin.load_state_dict(block.out.state_dict())
    return theirs


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_attention_block(heads: int) -> None:
    block = alive(lambda: AttentionBlock(8, 8, 8, heads))
    theirs = as_pyg(block)
    queries, keys = (torch.randn(3, n, 8, dtype=torch.float64, requires_grad=True) for n in (2, 5))
    mask = torch.arange(5) < torch.tensor([5, 1, 3])[:, None]
    assert_same(block(queries, keys, mask), theirs(queries, keys, y_mask=mask), queries, keys)


def test_induced_attention() -> None:
    block = alive(lambda: _InducedAttention(8, 8, 2, points=3))
    theirs = InducedSetAttentionBlock(8, 3, heads=2, layer_norm=False).double()
    theirs.mab1, theirs.mab2 = as_pyg(block.gather), as_pyg(block.spread)
    theirs.ind = block.points
    x = torch.randn(3, 5, 8, dtype=torch.float64, requires_grad=True)
    mask = torch.arange(5) < torch.tensor([5, 1, 3])[:, None]
    assert_same(block(x, mask)[mask], theirs(x, mask)[mask], x)


@pytest.mark.parametrize("encoder", ["sab", "isab"])
def test_set_transformer_is_its_blocks(encoder: str) -> None:
    # Each set alone, without a mask, and PyG's block as the pooling behind the encoder.
    model = alive(lambda: SetTransformer(2, encoder=encoder, hidden=8, heads=2, points=3))
    pooling = as_pyg(model.pool)
    inputs = sets()
    wanted = []
    for k in range(4):
        h = inputs["x"][inputs["batch"] == k][None]
        for block in model.blocks:
            h = block.attention(h, h) if encoder == "sab" else block.spread(h, block.gather(block.points, h))
        wanted.append(model.out(pooling(model.seed, h).flatten()))
    torch.testing.assert_close(model(**inputs), torch.stack(wanted))


def test_attention_block_by_hand() -> None:
    block = alive(lambda: AttentionBlock(2, 3, 4, heads=2))
    queries, keys = torch.randn(1, 2, 2).double(), torch.randn(1, 3, 3).double()
    q, k, v = block.query(queries)[0], block.key(keys)[0], block.value(keys)[0]
    o = q.clone()
    for i in range(2):
        for head in (slice(0, 2), slice(2, 4)):
            scores = torch.stack([(q[i, head] * k[j, head]).sum() / 2.0 for j in range(3)]).exp()  # sqrt(4)
            o[i, head] += sum(scores[j] / scores.sum() * v[j, head] for j in range(3))
    torch.testing.assert_close(block(queries, keys)[0], o + block.out(o).relu())
