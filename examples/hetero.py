"""A heterogeneous graph: authors write papers, papers cite papers, and every relation learns its pooling.

The target of an author is the largest number of citations among the papers that the author wrote.

python examples/hetero.py
"""

from __future__ import annotations

import torch
from torch_geometric.data import HeteroData
from torch_geometric.nn import HeteroConv, SAGEConv, SimpleConv

from gnpool import GNPAggregation, param_groups

CITES, WRITTEN_BY = ("paper", "cites", "paper"), ("paper", "written by", "author")


class Net(torch.nn.Module):
    """Two layers of ``HeteroConv``: first over citations, then over the papers of an author."""

    def __init__(self) -> None:
        super().__init__()
        self.first = HeteroConv({CITES: SimpleConv(aggr=GNPAggregation(8, start="sum"))})
        self.second = HeteroConv({WRITTEN_BY: SAGEConv((8, 1), 1, aggr=GNPAggregation(8, start="max"))})

    def forward(self, x: dict[str, torch.Tensor], edges: dict[tuple[str, str, str], torch.Tensor]) -> torch.Tensor:
        """One number for each author."""
        cited = self.first(x, edges)["paper"].relu()
        return self.second({**x, "paper": cited}, edges)["author"].squeeze(-1)


def draw(authors: int, papers: int, cites: int) -> tuple[HeteroData, torch.Tensor]:
    """A random graph, and the target of each author."""
    data = HeteroData()
    data["paper"].x, data["author"].x = torch.ones(papers, 8), torch.zeros(authors, 1)
    data[CITES].edge_index = torch.randint(papers, (2, cites * papers))
    author = torch.cat([torch.arange(authors), torch.randint(authors, (3 * authors,))])
    data[WRITTEN_BY].edge_index = torch.stack([torch.randint(papers, author.shape), author])
    citations = data[CITES].edge_index[1].bincount(minlength=papers).float()
    written = data[WRITTEN_BY].edge_index
    return data, torch.zeros(authors).scatter_reduce(0, author, citations[written[0]], "amax")


def main(steps: int = 400) -> float:
    """Train on one graph; return the error on a graph with eight times as many citations in percent."""
    torch.manual_seed(0)
    (data, y), (larger, wanted), net = draw(300, 500, 4), draw(300, 500, 32), Net()
    optimizer = torch.optim.Adam(param_groups(net, lr=1e-2))
    for _ in range(steps):
        optimizer.zero_grad()
        (net(data.x_dict, data.edge_index_dict) - y).square().mean().backward()
        optimizer.step()
    error = 100 * (net(larger.x_dict, larger.edge_index_dict) / wanted - 1).abs().mean().item()
    print(f"{error:.1f} % error with eight times as many citations")
    return error


if __name__ == "__main__":
    main()
