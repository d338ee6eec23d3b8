"""Small data and models for the tests of training."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GCNConv, GINConv, global_add_pool

from gnpool import GNPAggregation, GNPConv

COORDINATES = {"gnp": "published", "gnpg": "growth"}  # of the kinds of networks with GNP


def graphs(count: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> list[Data]:
    """Random graphs of 3 to 8 nodes on a ring with chords, features in [0, 1), the sum of squares as label."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for _ in range(count):
        n = int(torch.randint(3, 9, (), generator=generator))
        upper = (torch.rand(n, n, generator=generator) < 0.4).triu(1)
        ring = torch.arange(n)
        upper[torch.minimum(ring, (ring + 1) % n), torch.maximum(ring, (ring + 1) % n)] = True
        edge_index = (upper | upper.T).nonzero().T.flip(0).contiguous()  # sorted by destination
        x = torch.rand(n, 2, generator=generator, dtype=torch.float64)
        found.append(Data(x=x.to(dtype), edge_index=edge_index, y=x.square().sum()[None]))
    return found


def squared(prediction: Tensor, batch: Any) -> Tensor:
    return (prediction.view_as(batch.y) - batch.y).square()


def absolute(prediction: Tensor, batch: Any) -> Tensor:
    return (prediction.view_as(batch.y) - batch.y).abs()


class Net(torch.nn.Module):
    """A convolution of PyG, a pooling, a linear output."""

    def __init__(self, kind: str = "gnp") -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(6) if kind == "batch_norm" else torch.nn.Identity()
        mlp = torch.nn.Sequential(
            torch.nn.Linear(2, 6, bias=kind != "batch_norm"), self.norm, torch.nn.ReLU(), torch.nn.Linear(6, 6)
        )
        if kind in COORDINATES:
            self.conv: Any = GNPConv(mlp, GNPAggregation(2, coordinates=COORDINATES[kind]))
            self.pool: Any = GNPAggregation(6, coordinates=COORDINATES[kind])
        else:
            self.conv = {"gat": lambda: GATConv(2, 6), "gcn": lambda: GCNConv(2, 6)}.get(kind, lambda: GINConv(mlp))()
            self.pool = global_add_pool
        self.dropout = torch.nn.Dropout(0.5 if kind == "dropout" else 0.0)
        self.output = torch.nn.Linear(6, 1)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor, batch_size: int) -> Tensor:
        h = self.dropout(self.conv(x, edge_index).relu())
        size = {"size" if self.pool is global_add_pool else "dim_size": batch_size}
        return self.output(self.pool(h, batch, **size)).squeeze(-1)


def call(model: torch.nn.Module, batch: Any) -> Tensor:
    return model(batch.x, batch.edge_index, batch.batch, batch.batch_size)
