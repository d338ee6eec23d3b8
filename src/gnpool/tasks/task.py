"""The class of tasks, and the register of all tasks."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from gnpool.tasks.graphs import Graph
from gnpool.tasks.streams import Stream
from gnpool.tasks.structures import STRUCTURES, Structure, get_structure

SPLITS = ("train", "val", "test")
PerItem = Callable[[Tensor, Data], Tensor]


@dataclass(frozen=True)
class Request:
    """The checked arguments of :meth:`Task.dataset`.

    Example:
        >>> from gnpool.tasks import Request, get_structure
        >>> request = Request("harmonic", "train", 0, 2, (5, 6), get_structure("er"), 0.5, None, None, None)
        >>> [graph.nodes for graph in request.graphs()], request.stream("features").integer(0, 100)
        ([5, 5], 75)
    """

    task: str
    split: str
    seed: int
    count: int
    sizes: tuple[int, int]
    structure: Structure | None
    probability: float | None
    mean_degree: float | None
    features: tuple[int, float] | None
    reading: str | None

    def stream(self, purpose: str) -> Stream:
        """The random numbers for one purpose. They are independent for different purposes, splits and seeds."""
        return Stream(self.task, self.split, self.structure.name if self.structure else "", self.seed, purpose)

    def graphs(self) -> Iterator[Graph]:
        """The graphs of the dataset."""
        assert self.structure is not None
        stream = self.stream("graphs")
        for k in range(self.count):
            nodes = stream.integer(*self.sizes)
            probability = self.probability
            if self.mean_degree is not None:
                probability = min(1.0, self.mean_degree / (nodes - 1))
            yield self.structure.draw(nodes, k, probability, stream)


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    r"""A synthetic problem: its data, its loss and metric, and how the paper trains on it.

    The three kinds are :class:`GraphTask`, :class:`NodeTask` and :class:`SetTask`; :func:`get_task` finds a task by its
    name and :func:`register` adds one.

    Args:
        name (str): Its name for :func:`get_task`.
        target (str): The label in one line, for tables.
        loss (callable): ``loss(prediction, batch)``, one value per item of ``batch.y``.
        metric (callable): The metric of tables, called in the same way.
        sizes (dict): For each split, the smallest number of nodes or elements, and the first number that is too large.
        counts (dict): Number of graphs or sets of each split.
        epochs (int): Epochs of training in the paper.
        batch_size (int): Graphs or sets in a batch.
        aggregation (str, optional): The pooling of neighbours that gives the label. (default: ``None``)
        readout (str, optional): The pooling of nodes or elements that gives the label. (default: ``None``)
        in_channels (int, optional): Number of node features. (default: ``1``)
        readings (tuple, optional): The possible readings of the paper, if it is ambiguous; the first is the
            default. (default: ``()``)

    Example:
        >>> from gnpool.tasks import get_task
        >>> task = get_task("maxdegree")
        >>> task.target, task.aggregation, task.readout
        ('max of deg(v)', 'sum', 'max')
        >>> (graph,) = task.dataset("test", count=1, structure="er", sizes=(50, 51))
        >>> graph.num_nodes, graph.y
        (50, tensor([31.], dtype=torch.float64))
    """

    level: ClassVar[Literal["graph", "node", "set"]]
    options: ClassVar[tuple[str, ...]]  # keywords of `dataset` beyond those of all tasks

    name: str
    target: str
    loss: PerItem
    metric: PerItem
    sizes: Mapping[str, tuple[int, int]]
    counts: Mapping[str, int]
    epochs: int
    batch_size: int
    aggregation: str | None = None
    readout: str | None = None
    in_channels: int = 1
    readings: tuple[str, ...] = ()

    @property
    def structures(self) -> tuple[str, ...]:
        """The kinds of graphs that it has; none for sets."""
        return tuple(STRUCTURES) if "structure" in self.options else ()

    def dataset(
        self,
        split: str,
        *,
        seed: int = 0,
        count: int | None = None,
        sizes: tuple[int, int] | None = None,
        structure: str | None = None,
        probability: float | None = None,
        mean_degree: float | None = None,
        features: str | tuple[int, float] | None = None,
        reading: str | None = None,
    ) -> list[Data]:
        r"""The graphs or sets of one split.

        Equal arguments give equal data on every machine. Each (task, split, structure, seed) has its own random
        numbers, and a smaller ``count`` gives the first graphs of a larger one.

        Args:
            split (str): ``"train"``, ``"val"`` or ``"test"``.
            seed (int, optional): Seed of the data. (default: ``0``)
            count (int, optional): Number of graphs or sets. (default: the paper's)
            sizes (tuple, optional): Smallest number of nodes or elements, and the first that is too
                large. (default: the paper's)
            structure (str, optional): Kind of graphs, one of :obj:`STRUCTURES`. (default: ``"er"``; sets have none)
            probability (float, optional): Edge probability of ``"er"``, in place of nine values from 0.1 to 0.9, or of
                ``"expander"``, in place of 0.8. (default: ``None``)
            mean_degree (float, optional): The same, as mean number of neighbours. (default: ``None``)
            features (str or tuple, optional): Node features of graph tasks: ``(d, c)`` draws d numbers of U(0, c) for
                every node, ``"uniform"`` is (3, 5) and for the test (3, 10). Labels do not depend on
                them. (default: ``None``, the constant 1)
            reading (str, optional): One of ``readings``. (default: the first)

        Returns:
            One :class:`torch_geometric.data.Data` per graph or set. ``x`` (n, d) is float32, ``edge_index`` (2, E)
            holds both directions of every edge, sorted by destination, then source; ``edge_weight`` (E,) is float32;
            labels ``y`` (1,), for node tasks (n,), and their ``weight`` (0: does not count) are float64.

        Example:
            >>> from gnpool.tasks import get_task
            >>> graph = get_task("maxdegree").dataset("train", count=3)[2]
            >>> graph
            Data(x=[29, 1], edge_index=[2, 732], y=[1])
            >>> graph.y
            tensor([28.], dtype=torch.float64)
        """
        given = {
            "structure": structure,
            "probability": probability,
            "mean_degree": mean_degree,
            "features": features,
            "reading": reading,
        }
        self._check_options(name for name, value in given.items() if value is not None)
        if split not in SPLITS:
            raise ValueError(f"'split' must be one of {', '.join(SPLITS)}, got {split!r}")
        kind = get_structure("er" if structure is None else structure) if "structure" in self.options else None
        _check_probability(kind, probability, mean_degree)
        if reading is not None and reading not in self.readings:
            raise ValueError(
                f"'reading' of task '{self.name}' must be one of {', '.join(self.readings)}, got {reading!r}"
            )
        request = Request(
            task=self.name,
            split=split,
            seed=_whole("seed", seed, None),
            count=_whole("count", self.counts[split] if count is None else count, 1),
            sizes=_check_sizes(self.sizes[split] if sizes is None else sizes, kind),
            structure=kind,
            probability=probability,
            mean_degree=mean_degree,
            features=self._feature_range(features, split),
            reading=reading if reading is not None or not self.readings else self.readings[0],
        )
        return [_to_data(fields) for fields in self.examples(request)]

    @abstractmethod
    def examples(self, request: Request) -> Iterator[dict[str, Any]]:
        """The fields of every graph or set of a dataset, as arrays."""

    def describe(self, split: str) -> str:
        """A short description of the data of one split."""
        low, high = self.sizes[split]
        things, parts = ("sets", "elements")
        if self.structures:
            things, parts = "of each structure" if split == "test" else "ER", "nodes"
        return f"{self.counts[split]:,} {things}, {low} to {high - 1} {parts}"

    def _feature_range(self, features: str | tuple[int, float] | None, split: str) -> tuple[int, float] | None:
        """``features`` as a pair; tasks that have the option override this."""
        assert features is None
        return None

    def _check_options(self, given: Iterator[str]) -> None:
        for name in given:
            allowed = name in self.options if name != "reading" else bool(self.readings)
            if not allowed:
                known = (*self.options, *(["reading"] if self.readings else []))
                raise ValueError(
                    f"'{name}' does not apply to the {self.level} task '{self.name}'; "
                    f"its options are {', '.join(('seed', 'count', 'sizes', *known))}"
                )


_TASKS: dict[str, Task] = {}


def register_task(task: Task) -> Task:
    """Make a task known to :func:`get_task`, and return it. Use ``gnpool --load`` to make it known to the program."""
    if task.name in _TASKS:
        raise ValueError(f"there is already a task '{task.name}'; choose another 'name'")
    for field in ("sizes", "counts"):
        if set(getattr(task, field)) != set(SPLITS):
            raise ValueError(
                f"'{field}' of task '{task.name}' must have the keys {', '.join(SPLITS)}, "
                f"got {', '.join(getattr(task, field))}"
            )
    _TASKS[task.name] = task
    return task


register = register_task  # its first name


def get_task(name: str) -> Task:
    r"""The task of that name.

    Example:
        >>> from gnpool.tasks import get_task
        >>> task = get_task("invsize")
        >>> task.level, task.epochs, task.sizes["test"]
        ('graph', 200, (50, 100))
    """
    if name not in _TASKS:
        raise ValueError(f"there is no task {name!r}; the names are {', '.join(_TASKS)}")
    return _TASKS[name]


def task_names(level: str | None = None) -> list[str]:
    r"""The names of all tasks, or of those of one level: ``"graph"``, ``"node"`` or ``"set"``.

    Example:
        >>> from gnpool.tasks import task_names
        >>> task_names("node")
        ['bfs', 'shortest']
    """
    if level not in (None, "graph", "node", "set"):
        raise ValueError(f"'level' must be graph, node or set, got {level!r}")
    return [name for name, task in _TASKS.items() if level in (None, task.level)]


def _whole(name: str, value: Any, least: int | None) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or (least is not None and number < least):
        raise ValueError(f"'{name}' must be a whole number{'' if least is None else f' from {least}'}, got {value!r}")
    return number


def _check_sizes(sizes: Any, structure: Structure | None) -> tuple[int, int]:
    try:
        low, high = sizes
    except (TypeError, ValueError):
        raise ValueError(f"'sizes' must be two numbers, the second one excluded, got {sizes!r}") from None
    least = 1 if structure is None else structure.min_nodes
    low, high = _whole("sizes", low, 0), _whole("sizes", high, 0)
    if low < least:
        what = "a set" if structure is None else f"a graph of structure '{structure.name}'"
        raise ValueError(f"'sizes' must start at {least} or more for {what}, got {(low, high)}")
    if high <= low:
        raise ValueError(f"'sizes' excludes its second number, which must be larger than the first, got {(low, high)}")
    return low, high


def _check_probability(structure: Structure | None, probability: float | None, mean_degree: float | None) -> None:
    if probability is None and mean_degree is None:
        return
    if probability is not None and mean_degree is not None:
        raise ValueError("'probability' and 'mean_degree' set the same quantity; pass only one of them")
    assert structure is not None
    if not structure.takes_probability:
        name = "probability" if mean_degree is None else "mean_degree"
        takers = ", ".join(other.name for other in STRUCTURES.values() if other.takes_probability)
        raise ValueError(f"'{name}' applies to the structures {takers}, not to '{structure.name}'")
    if probability is not None and not 0.0 < probability <= 1.0:
        raise ValueError(f"'probability' must lie in (0, 1], got {probability}")
    if mean_degree is not None and not mean_degree > 0.0:
        raise ValueError(f"'mean_degree' must be positive, got {mean_degree}")


def _to_data(fields: dict[str, Any]) -> Data:
    single = {"x": torch.float32, "edge_weight": torch.float32, "edge_index": torch.int64}
    return Data(
        **{
            name: torch.as_tensor(np.asarray(value), dtype=single.get(name, torch.float64))
            for name, value in fields.items()
        }
    )
