"""Disturbed copies of training graphs, which show a network more shapes and sizes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data

from gnpool.tasks.streams import Stream


def disturbed(
    graphs: Sequence[Data], nodes: float = 0.4, edges: float = 0.0, cut: float = 0.0, seed: int = 0
) -> list[Data]:
    r"""Copies each graph without a random share of its nodes and edges and with new random edges, under the same label.

    The shares are drawn for each graph, uniform in [0, ``nodes``], [0, ``edges``] and [0, ``cut``], and at least one
    node stays. If the label depends on a small part of the graph, it is wrong for some of the copies. A network can
    tolerate this noise, and in return sees shapes of the rest of the graph that no training graph has.

    Args:
        graphs (Sequence[Data]): With an ``edge_index`` that holds both directions of each edge. Tensors whose first
            dimension is the number of nodes belong to them, all others to the graph. Edges must have no features.
        nodes (float, optional): The largest share of nodes to leave out. (default: ``0.4``)
        edges (float, optional): The largest number of random edges to add, as a share of those that are left.
            (default: ``0.0``)
        cut (float, optional): The largest share of edges to leave out. (default: ``0.0``)
        seed (int, optional): Seed of the copies. (default: ``0``)

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool.tasks.arena import disturbed
        >>> path = torch.stack((torch.arange(9), torch.arange(1, 10)))
        >>> path = torch.cat((path, path.flip(0)), dim=1)
        >>> disturbed([Data(x=torch.ones(10, 1), edge_index=path, y=torch.tensor([1]))], seed=1)
        [Data(x=[7, 1], edge_index=[2, 10], y=[1])]
    """
    if not 0.0 <= nodes < 1.0:
        raise ValueError(f"disturbed: 'nodes' must lie in [0, 1), got {nodes}")
    if not 0.0 <= cut <= 1.0:
        raise ValueError(f"disturbed: 'cut' must lie in [0, 1], got {cut}")
    if edges < 0.0:
        raise ValueError(f"disturbed: 'edges' must not be below 0, got {edges}")
    stream = Stream("arena", "disturbed", seed)
    found = []
    for graph in graphs:
        count = int(graph.num_nodes or 0)
        gone = min(count - 1, int(float(stream.uniform((), nodes)) * count + 0.5))
        stays = torch.ones(count, dtype=torch.bool)
        stays[torch.from_numpy(stream.permutation(count)[:gone])] = False
        share = float(stream.uniform((), edges))
        left = _induced(graph, stays)
        if cut:
            left = _cut(left, float(stream.uniform((), cut)), stream)
        found.append(_joined(left, share, stream) if share else left)
    return found


def _cut(graph: Data, share: float, stream: Stream) -> Data:
    """The graph without a share of its edges; both directions of an edge go together."""
    assert graph.edge_index is not None
    first, second = graph.edge_index.sort(dim=0).values
    pairs, pair = (first * int(graph.num_nodes or 0) + second).unique(return_inverse=True)
    stays = torch.ones(len(pairs), dtype=torch.bool)
    stays[torch.from_numpy(stream.permutation(len(pairs))[: int(share * len(pairs) + 0.5)])] = False
    return graph.update({"edge_index": graph.edge_index[:, stays[pair]]})


def _joined(graph: Data, share: float, stream: Stream) -> Data:
    """The graph with random edges added in both directions; loops and edges that exist already are not added."""
    assert graph.edge_index is not None
    nodes, edges = int(graph.num_nodes or 0), graph.edge_index
    wanted = int(share * edges.size(1) / 2 + 0.5)
    ends = torch.from_numpy(stream.integers(0, nodes, 2 * wanted)).view(2, wanted)
    ends = ends[:, ends[0] != ends[1]]
    both = torch.cat([edges, ends, ends.flip(0)], dim=1)
    place = (both[1] * nodes + both[0]).unique()  # sorted by destination, then source
    return graph.update({"edge_index": torch.stack((place % nodes, place // nodes))})


def _induced(graph: Data, stays: Tensor) -> Data:
    """The graph of the nodes that stay."""
    assert graph.edge_index is not None
    held = stays[graph.edge_index[0]] & stays[graph.edge_index[1]]
    number = stays.cumsum(0) - 1
    fields = dict(graph.to_dict())
    for name, value in fields.items():
        if name == "edge_index":
            fields[name] = number[value[:, held]]
        elif isinstance(value, Tensor) and value.dim() and value.size(0) == stays.numel():
            fields[name] = value[stays]
    return Data(**fields)
