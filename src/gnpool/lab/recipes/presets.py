"""How much of a study is done: from seconds, for tests, to what the paper did."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from gnpool.lab.recipes.grids import Grid
from gnpool.lab.table import Scope
from gnpool.tasks import Task
from gnpool.training import Setting


@dataclass(frozen=True)
class Preset:
    """A share of the full study.

    Args:
        name (str): How it is asked for.
        seeds (int): Runs of every setting, with the seeds 0, 1, ...
        whole_grid (bool): All settings of a grid, and both forms of a graph network, or its quick one in one form.
        epochs (float): Share of the epochs of a task.
        counts (Mapping): Graphs or sets of each split; a split without number has all.
        notes (str): What was reduced, for the reader of a result.
        size_count (int): Graphs of each size where the error is shown against the size.
        unit (int): Runs of a work unit: one program, one thread of a CPU. A number of the study and not of the machine,
            since rounding depends on it.
        batch_size (int, optional): Graphs or sets of a batch, where it is not the recipe's.
        decay (float): Share of the epochs, at the end, in which all rates fall to 0; the paper has none.
        data_seed (int): Of all generated graphs and sets. The seeds of the runs are those of their initial weights.

    Example:
        >>> from gnpool.lab import PRESETS
        >>> [(preset.name, preset.seeds) for preset in PRESETS.values()]
        [('smoke', 2), ('quick', 1), ('paper', 5)]
    """

    name: str
    seeds: int = 5
    whole_grid: bool = True
    epochs: float = 1.0
    counts: Mapping[str, int] = field(default_factory=dict)
    notes: str = ""
    size_count: int = 100
    unit: int = 120
    batch_size: int | None = None
    decay: float = 0.0
    data_seed: int = 0

    def settings(self, grid: Grid) -> tuple[Setting, ...]:
        """The settings to train."""
        return grid.settings if self.whole_grid else (grid.quick,)

    def epochs_of(self, task: Task) -> int:
        """How long to train."""
        return max(1, round(self.epochs * task.epochs))

    def schedule(self, epochs: int) -> Callable[[int], float] | None:
        """Factor of all rates by epoch, or None where they are constant."""
        return (lambda epoch: min(1.0, (1 - epoch / epochs) / self.decay)) if self.decay else None


PRESETS = {
    "smoke": Preset(
        "smoke",
        seeds=2,
        whole_grid=False,
        epochs=0.01,
        counts={"train": 32, "val": 8, "test": 9},
        notes="smoke: only to see that everything runs; the numbers mean nothing",
        size_count=1,
        unit=2,
    ),
    "quick": Preset(
        "quick",
        seeds=1,
        whole_grid=False,
        epochs=0.12,
        counts={"train": 1600, "val": 200, "test": 300},
        notes="quick: one setting instead of a grid, 1 seed instead of 5, 1,600 graphs or sets instead of 4,000 or "
        "5,000, 12 % of the epochs; to make up for that, batches of 8 and rates that fall to 0 in the second half; "
        "setting and schedule were chosen for GNP, by test error",
        size_count=20,
        unit=1,
        batch_size=8,
        decay=0.5,
    ),
    "paper": Preset("paper"),
}


def get_preset(name: str, data_seed: int = 0) -> Preset:
    """The preset called ``name``, perhaps on other data of the same kind.

    Example:
        >>> from gnpool.lab import get_preset
        >>> get_preset("quick").seeds, get_preset("quick", data_seed=7).data_seed
        (1, 7)
    """
    return preset_of(Scope(name, data_seed=data_seed))


def preset_of(scope: Scope) -> Preset:
    """The preset of a scope, on the scope's data."""
    if scope.data_seed < 0:
        raise ValueError(f"'data_seed' must be at least 0, got {scope.data_seed}")
    return replace(scope.of(PRESETS), data_seed=scope.data_seed)
