"""What is cross-validated, as data: the method, the data set, and the amount."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from gnpool.lab.running.job import digest
from gnpool.lab.table import Scope
from gnpool.models.stacked.crossval import Method
from gnpool.models.stacked.folds import FOLDS, SEEDS, Fold
from gnpool.store import Record, Store
from gnpool.training import Setting

DATASETS = ("D&D", "PROTEINS", "NCI1")
ORIGINAL, GNP, RMSPROP = "original", "with GNP", "with GNP, RMSprop"

# SAGPool: the defaults of the authors' program, because they did not publish the values for each data set.
SAG_RATE, SAG_CLIP = 5e-4, 1000.0
SAG_P = {"D&D": 1.0, "PROTEINS": 20.0, "NCI1": 10.0}  # learning rate of p, as a multiple of the base rate
# ASAPool: (batch, hidden, dropout of attention, rate) as the authors print them, and (rate of p, rate of q).
ASAP = {"D&D": (64, 16, 0.3, 1e-2), "PROTEINS": (128, 64, 0.1, 1e-2), "NCI1": (128, 128, 0.0, 1e-2)}
ASAP_PQ = {"D&D": (3e-2, 3e-3), "PROTEINS": (1e-1, 1e-2), "NCI1": (3e-2, 3e-3)}


def sag_method(dataset: str, variant: str) -> Method:
    """Hierarchical SAGPool on a data set."""
    gnp = variant != ORIGINAL
    optimizer = "rmsprop" if variant == RMSPROP else "adam"
    lr_p = SAG_P[dataset] * SAG_RATE if gnp else None
    return Method(
        "sag",
        {"pooling": "gnp" if gnp else "original", "hidden": 128, "ratio": 0.5, "dropout": 0.5},
        Setting(lr=SAG_RATE, lr_p=lr_p, weight_decay=1e-4, optimizer=optimizer),
        batch_size=128,
        epochs=100_000,
        select="loss",
        patience=50,
        gnp_clip=SAG_CLIP if gnp else None,
    )


def asap_method(dataset: str, variant: str) -> Method:
    """ASAPool on a data set."""
    gnp = variant != ORIGINAL
    batch, hidden, attention, rate = ASAP[dataset]
    lr_p, lr_q = ASAP_PQ[dataset] if gnp else (None, None)
    pooling = "gnp" if gnp else "original"
    optimizer = "rmsprop" if variant == RMSPROP else "adam"
    return Method(
        "asap",
        {"pooling": pooling, "hidden": hidden, "ratio": 0.5, "dropout": 0.5, "attention_dropout": attention},
        Setting(lr=rate, lr_p=lr_p, lr_q=lr_q, weight_decay=5e-4, optimizer=optimizer),
        batch_size=batch,
        epochs=100,
        select="accuracy",
        halve=50,
    )


FAMILIES = {"SAGPool": sag_method, "ASAPool": asap_method}


@dataclass(frozen=True)
class Amount:
    """A share of the cross-validation.

    Args:
        preset (str): The preset it belongs to.
        seeds (int): How many of the twenty seeds to run, starting with the first.
        folds (int): How many of the ten folds to test, starting with the first.
        graphs (int, optional): Number of graphs, taken at even spacing from the data set. (default: all)
        epochs (int, optional): Largest number of epochs. (default: the method's)
        datasets (tuple, optional): Train on these data sets only. (default: all)
    """

    preset: str
    seeds: int = len(SEEDS)
    folds: int = FOLDS
    graphs: int | None = None
    epochs: int | None = None
    datasets: tuple[str, ...] = DATASETS

    @property
    def runs(self) -> list[Fold]:
        """The runs, ordered by seed and then by fold."""
        return [Fold(seed, fold) for seed in SEEDS[: self.seeds] for fold in range(self.folds)]

    @property
    def notes(self) -> str:
        """What was reduced, as a note on the results."""
        parts = []
        if self.seeds < len(SEEDS):
            parts.append(f"{self.seeds} of {len(SEEDS)} seeds")
        if self.folds < FOLDS:
            parts.append(f"{self.folds} of {FOLDS} folds")
        if self.graphs is not None:
            parts.append(f"{self.graphs} graphs")
        if self.epochs is not None:
            parts.append(f"at most {self.epochs} epochs")
        return f"{self.preset}: {', '.join(parts)}" if parts else ""


AMOUNTS = {
    "smoke": Amount("smoke", seeds=1, folds=1, graphs=60, epochs=2),
    "quick": Amount("quick", seeds=1, folds=2, graphs=400, epochs=15),
    "paper": Amount("paper"),
}


def amount_of(scope: Scope) -> Amount:
    """The amount of a preset; seeds, folds and data sets can be overridden."""
    amount = scope.of(AMOUNTS)
    unknown = [name for name in scope.datasets or () if name not in DATASETS]
    if unknown:
        raise ValueError(f"'datasets' must be among {', '.join(DATASETS)}, got {unknown[0]!r}")
    if scope.datasets:
        amount = dataclasses.replace(amount, datasets=tuple(scope.datasets))
    for name, value, most in (("seeds", scope.seeds, len(SEEDS)), ("folds", scope.folds, FOLDS)):
        if value is not None:
            if not 1 <= value <= most:
                raise ValueError(f"'{name}' must lie in 1 to {most}, got {value}")
            amount = dataclasses.replace(amount, **{name: value})  # type: ignore[arg-type]
    return amount


@dataclass(frozen=True)
class Trial:
    """A method on a data set, which is a cell of a table. What is trained for it does not depend on the table."""

    family: str
    variant: str
    dataset: str

    @property
    def row(self) -> str:
        """Name of the model, shown to people and used in the store."""
        return f"{self.family} {self.variant}"

    @property
    def column(self) -> str:
        """Name of the data set."""
        return self.dataset

    @property
    def gnp(self) -> bool:
        """Whether the method uses GNP."""
        return self.variant != ORIGINAL

    def method(self, amount: Amount) -> Method:
        """The method to train."""
        method = FAMILIES[self.family](self.dataset, self.variant)
        return (
            method if amount.epochs is None else dataclasses.replace(method, epochs=min(method.epochs, amount.epochs))
        )

    def records(self, store: Store | None, amount: Amount) -> dict[Fold, Record]:
        """The stored runs."""
        found = {} if store is None else {run: store.get(self.key(amount, run)) for run in amount.runs}
        return {run: record for run, record in found.items() if record is not None}

    def key(self, amount: Amount, run: Fold) -> dict[str, Any]:
        """The name of a run in the store. Its digest covers everything else that the result depends on."""
        content = {"method": self.method(amount).to_dict(), "graphs": amount.graphs, "folds": FOLDS}
        return {
            "table": "classification",
            "dataset": self.dataset,
            "model": self.row,
            "preset": f"{amount.preset}-{digest(content)}",
            "seed": run.seed,
            "fold": run.fold,
        }
