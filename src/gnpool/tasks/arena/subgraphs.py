"""Training graphs that have lost some of their nodes: a way to show a network more shapes and sizes than there are."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data

from gnpool.tasks.streams import Stream


def thinned(graphs: Sequence[Data], most: float = 0.4, seed: int = 0) -> list[Data]:
    r"""A copy of each graph without a random share of its nodes, under the same label.

    The share is uniform in [0, ``most``], another one for each graph, and at least one node stays. A label that hangs
    on a small part of the graph is wrong for some of the copies: it becomes noise, which a network can stand, while the
    rest of the graph takes shapes that no training graph has.

    Args:
        graphs (Sequence[Data]): With ``edge_index``. Tensors whose first dimension is the number of nodes, or of edges,
            belong to them; all others to the graph.
        most (float, optional): The largest share of nodes to leave out. (default: ``0.4``)
        seed (int, optional): Another number, other nodes. (default: ``0``)

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool.tasks.arena import thinned
        >>> path = torch.stack((torch.arange(9), torch.arange(1, 10)))
        >>> thinned([Data(x=torch.ones(10, 1), edge_index=path, y=torch.tensor([1]))], seed=1)
        [Data(x=[8, 1], edge_index=[2, 6], y=[1])]
    """
    if not 0.0 <= most < 1.0:
        raise ValueError(f"thinned: 'most' must lie in [0, 1), got {most}")
    stream = Stream("arena", "thinned", seed)
    found = []
    for graph in graphs:
        nodes = int(graph.num_nodes or 0)
        gone = min(nodes - 1, int(float(stream.uniform((), most)) * nodes + 0.5))
        stays = torch.ones(nodes, dtype=torch.bool)
        stays[torch.from_numpy(stream.permutation(nodes)[:gone])] = False
        found.append(_induced(graph, stays))
    return found


def _induced(graph: Data, stays: Tensor) -> Data:
    """The graph of the nodes that stay."""
    assert graph.edge_index is not None
    nodes, edges = stays.numel(), graph.edge_index.size(1)
    held = stays[graph.edge_index[0]] & stays[graph.edge_index[1]]
    number = stays.cumsum(0) - 1
    fields = {"edge_index": number[graph.edge_index[:, held]]}
    for name, value in graph.to_dict().items():
        if name != "edge_index" and isinstance(value, Tensor):
            rows = value.size(0) if value.dim() else -1
            fields[name] = value[stays] if rows == nodes else value[held] if rows == edges else value
    return Data(**{name: fields[name] for name in graph.to_dict() if name in fields})
