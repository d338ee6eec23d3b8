"""torch.compile with GNP inside: one graph without a break, for batches of any size.

python examples/compiled.py                    # needs a C++ compiler
python examples/compiled.py --backend eager    # needs none: it only captures the graph
"""

from __future__ import annotations

import argparse

import torch

from gnpool import GNPAggregation


class Net(torch.nn.Module):
    """A network on each row, a pooling and a linear output."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU())
        self.readout, self.output = GNPAggregation(16), torch.nn.Linear(16, 1)

    def forward(self, x: torch.Tensor, batch: torch.Tensor, graphs: int) -> torch.Tensor:
        """One number for each graph."""
        return self.output(self.readout(self.encode(x), batch, dim_size=graphs)).squeeze(-1)


def main(backend: str = "inductor") -> float:
    """Compare values and gradients with the plain module; return the largest difference."""
    torch.manual_seed(0)
    net = Net()
    compiled = torch.compile(net, fullgraph=True, dynamic=True, backend=backend)
    largest = 0.0
    for nodes, graphs in ((60, 6), (500, 40)):
        x, batch = torch.rand(nodes, 4), torch.randint(graphs, (nodes,)).sort().values
        results = []
        for model in (net, compiled):
            net.zero_grad()
            y = model(x, batch, graphs)
            y.square().mean().backward()
            results.append([y.detach(), *(p.grad.clone() for p in net.parameters())])
        largest = max(largest, *((a - b).abs().max().item() for a, b in zip(*results, strict=True)))
    print(f"compiled and plain differ by at most {largest:.1e}")
    return largest


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--backend", default="inductor")
    main(parser.parse_args().backend)
