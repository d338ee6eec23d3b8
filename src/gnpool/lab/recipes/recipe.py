"""Recipes (what is trained) and exams (how it is tested), as data. A recipe and an exam give the scores of a cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from gnpool.lab.recipes.grids import GRIDS, Grid
from gnpool.lab.recipes.presets import Preset
from gnpool.lab.running.data import CACHE, Wanted
from gnpool.lab.running.job import digest
from gnpool.models import GraphNet, NodeNet, SAGPoolNet, SetNet, SetTransformer
from gnpool.tasks import Task, get_task
from gnpool.training import Batch, Batches

# The paper does not state the batch size, nor the start of t, which is 0 here. p and q need many steps: with batches of
# 64, GNP misses the published error of maxdegree and mu_post by far. 32 was tried on graph tasks only (docs/lab.md).
BATCH_SIZE = 16
EVALUATION_BATCH = 125  # for validation and test; affects only the time
EVALUATION_PAIRS = 1_250_000  # pairs of nodes in a test batch, for models with dense matrices of large graphs
STAR = "*"  # suffix of a crystallized model's name
# The ways of crystallizing, newest first: a new way never reuses the results of an old one. The record was made with
# the first and the second, which differ only for stacks of layers (docs/protocol.md); stored results stay valid.
METHODS = (4, 3, 2, 1)

NETWORKS = {
    "graph": GraphNet,
    "node": NodeNet,
    "set": SetNet,
    "set_transformer": SetTransformer,
    "sagpool": SAGPoolNet,
}
Variant = Mapping[str, Any]  # "net" and the keyword arguments of that network


@dataclass(frozen=True)
class Recipe:
    """A model to train on a task: every variant of its architecture with every setting of its grid.

    Args:
        task (str): The task.
        model (str): Name of the model, shown to people and used in the store.
        variants (tuple): Architectures among which validation chooses; mostly one.
        grid (str): Name of the search space.
        structure (str, optional): Structure of the training graphs. (default: ER)
        features (str, optional): Node features of the training graphs. (default: the constant 1)
        reading (str, optional): Reading of the task. (default: the task's)
        batch_size (int, optional): Graphs or sets in a batch.
        crystallized (bool, optional): Whether the recipe is for the chosen models with exact poolings; see
            :func:`~gnpool.lab.recipes.crystallized.crystallized`.
        method (int, optional): The way of crystallizing. (default: the newest)
    """

    task: str
    model: str
    variants: tuple[Variant, ...]
    grid: str
    structure: str | None = None
    features: str | None = None
    reading: str | None = None
    batch_size: int = BATCH_SIZE
    crystallized: bool = False
    method: int = METHODS[0]

    @property
    def base(self) -> Recipe:
        """The recipe that is trained: for crystallized models, that of the learned ones."""
        if not self.crystallized:
            return self
        return replace(self, model=self.model.removesuffix(STAR), crystallized=False, method=METHODS[0])

    @property
    def spec(self) -> Task:
        """The task object."""
        return get_task(self.task)

    @property
    def space(self) -> Grid:
        """The grid object."""
        return GRIDS[self.grid]

    @property
    def data(self) -> str:
        """What is not standard about the training data; it is part of the store's key and is shown to people."""
        return "-".join(filter(None, options_of(self).values()))

    def batch_in(self, preset: Preset) -> int:
        """Graphs or sets in a training batch."""
        return preset.batch_size or self.batch_size

    def key(self, preset: Preset, search: str) -> dict[str, Any]:
        """The name in the store. The digest covers everything that a result depends on."""
        if self.crystallized:
            trained = self.base.key(preset, search)
            return {**trained, "table": "crystal", "model": self.model, "method": self.method}
        content = {
            "variants": [dict(variant) for variant in self.variants],
            "settings": [setting.to_dict() for setting in preset.settings(self.space)],
            "seeds": preset.seeds,
            "epochs": preset.epochs_of(self.spec),
            "counts": {split: preset.counts.get(split, self.spec.counts[split]) for split in ("train", "val")},
            "batch_size": self.batch_in(preset),
            "unit": preset.unit,
            "search": search,
        }
        if preset.decay:
            content["decay"] = preset.decay
        drawn = f", data seed {preset.data_seed}" if preset.data_seed else ""
        return {
            "table": "training",
            "task": self.task,
            "data": (self.data or "standard") + drawn,
            "model": self.model,
            "preset": f"{preset.name}-{digest(content)}",
        }

    def batches(self, split: str, preset: Preset) -> Batches:
        """Shuffled training data, or validation data in fixed order; all recipes with this data share it."""
        return CACHE.batches(self.wanted(split, preset))

    def wanted(self, split: str, preset: Preset) -> Wanted:
        """The key of the data that :meth:`batches` requests."""
        size, shuffle = (self.batch_in(preset), 0) if split == "train" else (EVALUATION_BATCH, None)
        drawn = {"seed": preset.data_seed, "count": preset.counts.get(split)}
        return Wanted.of(self.task, split, size, shuffle, **drawn, **options_of(self))

    def build(self, variant: Variant, **changes: Any) -> torch.nn.Module:
        """The network of a variant; ``options`` replace the variant's."""
        options = {**variant, **changes}
        channels = 3 if self.features == "uniform" else self.spec.in_channels
        module: torch.nn.Module = NETWORKS[options.pop("net")](channels, **options)
        return module


def options_of(one: Recipe | Exam) -> dict[str, str | None]:
    """What recipes and exams can change about the data of a task."""
    return {"structure": one.structure, "features": one.features, "reading": one.reading}


DEGREES = {"tree": 2, "ladder": 3, "regular4": 4}  # of structures that stay sparse as they grow


@dataclass(frozen=True)
class Exam:
    """An exam: generated data that selected models are tested on. Exams on other data are subclasses.

    Args:
        structure (str, optional): Structure of the test graphs. (default: ER)
        features (str, optional): Node features. (default: the constant 1)
        reading (str, optional): Reading of the task.
        sizes (tuple, optional): Smallest number of nodes, and the first number that is too large. (default: the task's)
        mask (str, optional): Branch of the readout GNP to set to 0.
        mean_degree (float, optional): Mean degree of ER graphs, instead of the nine edge probabilities.
        count (int, optional): Largest number of graphs, if sizes are given. (default: the preset's)
    """

    structure: str | None = None
    features: str | None = None
    reading: str | None = None
    sizes: tuple[int, int] | None = None
    mask: str | None = None
    mean_degree: float | None = None
    count: int | None = None

    def key(self, training: Mapping[str, Any], preset: Preset, task: Task) -> dict[str, Any]:
        """The name in the store, for the models of one training."""
        return {**training, "table": "score", "exam": f"{self.name(task)}, {self.size(preset, task)}"}

    def name(self, task: Task) -> str:
        """What is special about the exam."""
        parts = [self.structure or "er" if task.structures else "sets", self.features, self.reading]
        parts += [None if self.sizes is None else f"{self.sizes[0]}-{self.sizes[1] - 1} nodes"]
        parts += [None if self.mask is None else f"{self.mask} masked"]
        parts += [None if self.mean_degree is None else f"degree {self.mean_degree:g}"]
        return ", ".join(part for part in parts if part)

    @property
    def given(self) -> str | None:
        """The data set that the exam needs, if its data is not generated."""
        return None

    def square(self, task: Task) -> float:
        """The approximate number of node pairs of a graph that a model looks at."""
        low, high = self.sizes or task.sizes["test"]
        nodes, degree = (low + high) / 2, self.mean_degree or DEGREES.get(self.structure or "")
        return nodes * (2 * degree if degree else nodes)

    def size(self, preset: Preset, task: Task) -> int:
        """Number of graphs or sets."""
        if self.sizes is not None:
            return min(preset.size_count, self.count or preset.size_count)
        return preset.counts.get("test", task.counts["test"])

    def batches(self, task: Task, preset: Preset) -> Iterator[Batch]:
        """The test data, in batches as large as memory allows."""
        yield from CACHE.batches(self.wanted(task, preset))

    def wanted(self, task: Task, preset: Preset) -> Wanted:
        """The key of the data that :meth:`batches` requests."""
        drawn = {"seed": preset.data_seed, "count": self.size(preset, task)}
        options = {"sizes": self.sizes, "mean_degree": self.mean_degree, **options_of(self)}
        return Wanted.of(task.name, "test", self.batch_size(task), None, **drawn, **options)

    def batch_size(self, task: Task) -> int:
        """Graphs or sets to evaluate at once."""
        largest = (self.sizes or task.sizes["test"])[1] - 1
        return max(1, min(EVALUATION_BATCH, EVALUATION_PAIRS // largest**2))

    def changes(self) -> dict[str, Any]:
        """Options of the model that the exam changes."""
        return {} if self.mask is None else {"readout_options": {"mask": self.mask}}
