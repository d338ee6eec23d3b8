"""What the tests of datasets share."""

from __future__ import annotations

import networkx as nx
import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_networkx

STATISTICS = {"mu_map": "precision", "sigma2_map": "concentration"}


def simple(data: Data) -> nx.Graph:
    """The graph without its self-loops."""
    graph = nx.Graph(to_networkx(data, to_undirected=True))
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    return graph


def same(one: list[Data], other: list[Data]) -> bool:
    return len(one) == len(other) and all(
        a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a.keys())  # noqa: SIM118 - not a dict
        for a, b in zip(one, other, strict=True)
    )
