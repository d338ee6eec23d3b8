"""Exams on real graphs for models that were trained on random graphs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch_geometric.data import Data

from gnpool.lab.recipes.presets import Preset
from gnpool.lab.recipes.recipe import EVALUATION_BATCH, EVALUATION_PAIRS, Exam
from gnpool.lab.running.data import CACHE
from gnpool.tasks import Task
from gnpool.tasks.real_graphs import real_dataset
from gnpool.training import Batch, Batches

REAL = ("D&D", "PROTEINS", "NCI1")
#: Graphs in which every node has a neighbour, and all graphs: the others have no harmonic label and are left out.
COUNTS = {"D&D": 1178, "PROTEINS": 1108, "NCI1": 3711}
SQUARES = {"D&D": 155_000, "PROTEINS": 3_600, "NCI1": 1_100}  # mean of the squared number of nodes, for estimates


def by_size(graphs: Sequence[Data], most: int, pairs: int) -> Iterator[list[Data]]:
    """Split graphs, smallest first, into lists of at most ``most`` graphs and ``pairs`` padded squares in total."""
    part: list[Data] = []
    for graph in graphs:
        nodes = int(graph.num_nodes or 0)
        if part and (len(part) == most or (len(part) + 1) * nodes**2 > pairs):
            yield part
            part = []
        part.append(graph)
    if part:
        yield part


@dataclass(frozen=True)
class RealExam(Exam):
    """An exam on a data set of real graphs, called ``real``."""

    real: str = REAL[0]

    @property
    def given(self) -> str | None:
        return self.real

    def name(self, task: Task) -> str:
        return self.real

    def square(self, task: Task) -> float:
        return SQUARES[self.real]

    def size(self, preset: Preset, task: Task) -> int:
        return min(COUNTS[self.real], preset.counts.get("test", COUNTS[self.real]))

    def batches(self, task: Task, preset: Preset) -> Iterator[Batch]:
        count = self.size(preset, task)

        def make() -> list[Batches]:
            # Sizes of real graphs differ by a factor of a hundred, so graphs of similar size share a batch.
            parts = by_size(real_dataset(task, self.real, count), EVALUATION_BATCH, EVALUATION_PAIRS)
            return [Batches(part, len(part), seed=None, sorted_edges=True) for part in parts]

        for part in CACHE.held(repr((task.name, self.real, count)), make):
            yield from part
