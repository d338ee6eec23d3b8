"""A training loop of PyTorch Geometric with GNP in it: only the layer and the line with ``param_groups`` are new.

The target is the largest sum over the neighbours of a node. Graphs have 10 to 19 nodes in training and 100 to 199 in
the test.

python examples/plain_loop.py
"""

from __future__ import annotations

import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import MeanAggregation, SimpleConv
from torch_geometric.utils import erdos_renyi_graph, scatter

from gnpool import GNPAggregation, param_groups


class Net(torch.nn.Module):
    """One convolution and a readout; both pool."""

    def __init__(self, aggr: torch.nn.Module, readout: torch.nn.Module) -> None:
        super().__init__()
        self.encode = torch.nn.Sequential(torch.nn.Linear(1, 16), torch.nn.ReLU())
        self.conv, self.readout = SimpleConv(aggr=aggr), readout
        self.output = torch.nn.Linear(16, 1)

    def forward(self, batch: Data) -> torch.Tensor:
        """One number for each graph."""
        h = self.conv(self.encode(batch.x), batch.edge_index).relu()
        return self.output(self.readout(h, batch.batch, dim_size=batch.num_graphs))


def draw(count: int, low: int, high: int) -> list[Data]:
    """Random graphs with about five neighbours a node."""
    graphs = []
    for n in torch.randint(low, high, (count,)).tolist():
        x, edge_index = torch.rand(n, 1), erdos_renyi_graph(n, 5 / n)
        y = scatter(x[edge_index[0]], edge_index[1], dim_size=n).max()
        graphs.append(Data(x=x, edge_index=edge_index, y=y.view(1, 1)))
    return graphs


def main(epochs: int = 20) -> dict[str, float]:
    """Train with means and with GNP; return the errors on larger graphs in percent."""
    torch.manual_seed(0)
    train, larger, errors = draw(400, 10, 20), draw(100, 100, 200), {}
    for name, net in {
        "mean": Net(MeanAggregation(), MeanAggregation()),
        "GNP": Net(GNPAggregation(16, start="sum"), GNPAggregation(16)),
    }.items():
        optimizer = torch.optim.Adam(param_groups(net, lr=1e-2))
        for _ in range(epochs):
            for batch in DataLoader(train, batch_size=16, shuffle=True):
                optimizer.zero_grad()
                (net(batch) - batch.y).square().mean().backward()
                optimizer.step()
        with torch.no_grad():
            (batch,) = DataLoader(larger, batch_size=100)
            errors[name] = 100 * (net(batch) / batch.y - 1).abs().mean().item()
        print(f"{name}: {errors[name]:.1f} % error on larger graphs")
    return errors


if __name__ == "__main__":
    main()
