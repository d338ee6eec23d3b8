"""Molecules with bond features: NNConv with GNP, trained on small molecules and tested on larger ones.

The molecules are made up. The target is a sum over bonds of the masses at their ends, twice for double bonds.

python examples/molecules.py
"""

from __future__ import annotations

import torch
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import NNConv

from gnpool import GNPAggregation, param_groups

MASSES = torch.tensor([0.12, 0.14, 0.16])  # carbon, nitrogen, oxygen, in hundreds


class Net(torch.nn.Module):
    """Messages that depend on the bond, and a readout; both pool."""

    def __init__(self) -> None:
        super().__init__()
        bond = torch.nn.Linear(2, 3 * 8)  # a matrix for each kind of bond
        aggr = GNPAggregation(8, start="sum")
        self.conv = NNConv(3, 8, bond, aggr=aggr, root_weight=False, bias=False)
        self.readout = GNPAggregation(8, start="sum")
        self.output = torch.nn.Linear(8, 1, bias=False)

    def forward(self, batch: Data) -> torch.Tensor:
        """One number for each molecule."""
        h = self.conv(batch.x, batch.edge_index, batch.edge_attr)
        return self.output(self.readout(h, batch.batch, dim_size=batch.num_graphs)).squeeze(-1)


def molecule(atoms: int) -> Data:
    """A random tree of atoms with single and double bonds."""
    kind = torch.randint(3, (atoms,))
    a = torch.arange(1, atoms)
    b = (torch.rand(atoms - 1) * a).long()
    order = torch.randint(1, 3, (atoms - 1,))
    y = (order * (MASSES[kind[a]] + MASSES[kind[b]])).sum()
    edge_index = torch.stack([torch.cat([a, b]), torch.cat([b, a])])
    bonds = torch.nn.functional.one_hot(order.repeat(2) - 1, 2).float()
    return Data(x=torch.nn.functional.one_hot(kind, 3).float(), edge_index=edge_index, edge_attr=bonds, y=y.view(1))


def main(epochs: int = 20) -> float:
    """Train in a plain loop; return the error on larger molecules in percent."""
    torch.manual_seed(0)
    train, larger = ([molecule(int(n)) for n in torch.randint(*sizes)] for sizes in ((5, 15, (300,)), (60, 120, (60,))))
    net = Net()
    optimizer = torch.optim.Adam(param_groups(net, lr=1e-2))
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, epochs)
    for _ in range(epochs):
        for batch in DataLoader(train, batch_size=16, shuffle=True):
            optimizer.zero_grad()
            (net(batch) - batch.y).square().mean().backward()
            optimizer.step()
        schedule.step()
    batch = Batch.from_data_list(larger)
    error = 100 * (net(batch) / batch.y - 1).abs().mean().item()
    print(f"{error:.1f} % error on molecules of 60 to 119 atoms")
    return error


if __name__ == "__main__":
    main()
