"""One large graph, trained on sampled neighbours: ``sizes`` tells the pooling how many neighbours there really are.

The target of a node is the sum over its neighbours. Each step draws 10 of up to 400 neighbours for 500 nodes.

python examples/large_graph.py
"""

from __future__ import annotations

import torch

from gnpool import GNPAggregation, param_groups

FANOUT, BATCH = 10, 500


class Net(torch.nn.Module):
    """One layer: a network on each neighbour, and a pooling over the neighbours."""

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.output = torch.nn.Linear(1, 8), torch.nn.Linear(8, 1, bias=False)
        self.pool = GNPAggregation(8, start="sum", size=200)

    def forward(self, x: torch.Tensor, group: torch.Tensor, nodes: int, sizes: torch.Tensor) -> torch.Tensor:
        """One number for each of ``nodes`` nodes, from the features ``x`` of their drawn neighbours."""
        return self.output(self.pool(self.encode(x).relu(), group, dim_size=nodes, sizes=sizes)).squeeze(-1)


def sample(
    ptr: torch.Tensor, neighbors: torch.Tensor, seeds: torch.Tensor, fanout: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Up to ``fanout`` neighbours of each seed, the seed of each, and how many neighbours the seeds have."""
    degrees = ptr[seeds + 1] - ptr[seeds]
    group = torch.repeat_interleave(torch.arange(len(seeds)), degrees)
    place = torch.arange(len(group)) - (degrees.cumsum(0) - degrees)[group]
    kept = (group + torch.rand(len(group), dtype=torch.float64)).argsort()[place < fanout]
    return neighbors[ptr[seeds][group[kept]] + place[kept]], group[kept], degrees


def main(nodes: int = 20_000, steps: int = 400) -> float:
    """Train on samples; return the error with all neighbours in percent."""
    torch.manual_seed(0)
    degrees = torch.randint(1, 400, (nodes,))
    ptr = torch.cat([torch.zeros(1, dtype=torch.long), degrees.cumsum(0)])
    neighbors, x = torch.randint(nodes, (int(ptr[-1]),)), torch.rand(nodes, 1)
    group = torch.repeat_interleave(torch.arange(nodes), degrees)
    y = torch.zeros(nodes).index_add(0, group, x[neighbors, 0])
    net = Net()
    optimizer = torch.optim.Adam(param_groups(net, lr=1e-2))
    for _ in range(steps):
        seeds = torch.randint(nodes, (BATCH,))
        drawn, of_seed, sizes = sample(ptr, neighbors, seeds, FANOUT)
        optimizer.zero_grad()
        ((net(x[drawn], of_seed, BATCH, sizes) - y[seeds]) / y.mean()).square().mean().backward()
        optimizer.step()
    with torch.no_grad():
        error = 100 * (net(x[neighbors], group, nodes, degrees) - y).abs().sum().item() / y.sum().item()
    print(f"{error:.1f} % error with all neighbours, after training on {FANOUT} of up to 400")
    return error


if __name__ == "__main__":
    main()
