"""Molecules with bond features: GINEConv with GNP, trained on small molecules and tested on larger ones.

The molecules are made up. The target is a sum over bonds of the masses at their ends, twice for double bonds.

python examples/molecules.py
"""

from __future__ import annotations

import torch
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GINEConv

from gnpool import GNPAggregation, fit_portfolio

MASSES = torch.tensor([0.12, 0.14, 0.16])  # carbon, nitrogen, oxygen, in hundreds


class Net(torch.nn.Module):
    """One layer over the bonds and a readout."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = torch.nn.Linear(3, 16)
        layers = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU())
        self.conv = GINEConv(layers, edge_dim=2, aggr=GNPAggregation(16))
        self.readout = GNPAggregation(16)
        self.output = torch.nn.Linear(16, 1)

    def forward(self, x, edge_index, edge_attr, batch, batch_size):  # noqa: ANN001, ANN201 -- fields of the batch
        """One number for each molecule."""
        h = self.conv(self.encode(x), edge_index, edge_attr)
        return self.output(self.readout(h, batch, dim_size=batch_size)).squeeze(-1)


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


def main(epochs: int = 30) -> float:
    """Train from several starts; return the error on larger molecules in percent."""
    torch.manual_seed(0)
    train, validation, larger = ([molecule(int(n)) for n in torch.randint(low, high, (count,))] 
                                 for low, high, count in ((5, 15, 300), (5, 15, 60), (60, 120, 60)))  # fmt: skip
    found = fit_portfolio(
        Net, train, lambda out, batch: (out - batch.y).square(), validation=validation, epochs=epochs, batch_size=16
    )
    batch = Batch.from_data_list(larger)
    out = found.model(batch.x, batch.edge_index, batch.edge_attr, batch.batch, batch.num_graphs)
    error = 100 * (out / batch.y - 1).abs().mean().item()
    print(f"start {found.choice.setting.start}: {error:.1f} % error on molecules of 60 to 119 atoms")
    return error


if __name__ == "__main__":
    main()
