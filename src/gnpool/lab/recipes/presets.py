"""How much of a study a preset does: from seconds of work, for tests, to the paper's full amount."""

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
        name (str): Name of the preset.
        seeds (int): Number of runs of every setting; their seeds are 0, 1, ...
        whole_grid (bool): Whether to run all settings of a grid and both forms of a graph network. Otherwise the quick
            setting runs in one form.
        epochs (float): Share of the epochs of a task.
        counts (Mapping): Graphs or sets of each split; a split that is not named keeps all.
        notes (str): What was reduced, as a note on the results.
        size_count (int): Graphs of each size in figures of the error against the size.
        unit (int): Runs in a work unit, which is one program and one thread of a CPU. It belongs to the study and not
            to the machine, because rounding depends on it.
        batch_size (int, optional): Graphs or sets in a batch, if not the recipe's number.
        decay (float): Share of the epochs, at the end, in which all rates fall to 0; the paper has no decay.
        data_seed (int): Seed of all generated graphs and sets. The seeds of the runs set their initial weights.

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
        """The number of epochs."""
        return max(1, round(self.epochs * task.epochs))

    def schedule(self, epochs: int) -> Callable[[int], float] | None:
        """The factor of all rates by epoch, or None if they are constant."""
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
    """The preset called ``name``; ``data_seed`` selects other data of the same kind.

    Example:
        >>> from gnpool.lab import get_preset
        >>> get_preset("quick").seeds, get_preset("quick", data_seed=7).data_seed
        (1, 7)
    """
    return preset_of(Scope(name, data_seed=data_seed))


def preset_of(scope: Scope) -> Preset:
    """The preset of a scope, with the scope's data."""
    if scope.data_seed < 0:
        raise ValueError(f"'data_seed' must be at least 0, got {scope.data_seed}")
    return replace(scope.of(PRESETS), data_seed=scope.data_seed)
