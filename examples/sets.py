"""Sets of different sizes: train a pooling, read what it has learned, and replace it by the exact one.

python examples/sets.py
"""

from __future__ import annotations

import torch
from torch_geometric.data import Data

from gnpool import GNPAggregation, Setting, crystallize, fit_many, read


class Net(torch.nn.Module):
    """A pooling between two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.lift, self.pool, self.head = torch.nn.Linear(1, 8), GNPAggregation(8), torch.nn.Linear(8, 1)

    def forward(self, x: torch.Tensor, batch: torch.Tensor, batch_size: int | None = None) -> torch.Tensor:
        """One number for each set."""
        return self.head(self.pool(self.lift(x).relu(), batch, dim_size=batch_size))


def loss(prediction: torch.Tensor, batch: Data) -> torch.Tensor:
    """The squared error of each set."""
    return (prediction.view_as(batch.y) - batch.y).square()


def main(epochs: int = 20) -> tuple[str, float]:
    """Learn the largest number of a set; return the exact pooling and its error on a set of 1,000 in percent."""
    torch.manual_seed(0)
    draws = [torch.rand(n, 1) for n in torch.randint(5, 15, (300,)).tolist()]
    sets = [Data(x=x, y=x.max().view(1)) for x in draws]
    train, validation = sets[:240], sets[240:]
    setting = Setting(lr=1e-2, optimizer="adam")
    fit = fit_many(Net, train, loss, setting, seeds=2, validation=validation, epochs=epochs, batch_size=16)
    model = fit.model(fit.best())
    print(read(model))
    crystal = crystallize(model, train, validation, loss, epochs=5, trials=4)
    large = torch.rand(1000, 1)
    exact = crystal.model(large, torch.zeros(1000, dtype=torch.long)).item()
    error = 100 * abs(exact / large.max().item() - 1)
    print(f"{crystal.choice.describe()}: {error:.3f} % error on a set of 1,000")
    return crystal.choice.describe(), error


if __name__ == "__main__":
    main()
