"""Predicts with a saved fit."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gnpool.data import DataError, GraphTable
from gnpool.data.table import Floats
from gnpool.fit.batches import FlatBatches
from gnpool.fit.edges import with_edge_sums
from gnpool.fit.law import level_of
from gnpool.fit.outputs import outputs_of
from gnpool.fit.prepared import evaluation_size, needs_loops
from gnpool.fit.preprocess import Preprocessing
from gnpool.fit.problem import Problem
from gnpool.fit.trainer import OnProgress
from gnpool.insight.laws import LawNet, LawsNet
from gnpool.models.folder import naming
from gnpool.models.saved import SavedModelError, is_saved_model, load_saved
from gnpool.store.files import replacing

PART_NODES = 1_000_000  # features are computed for this many nodes at once
ROWS = 100_000  # rows of a table that are written at once
# the characters that begin a formula in some spreadsheet, and our own mark
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "'")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True)
class Predictor:
    """A network with the preprocessing that it was trained with; ``classes`` are the classes of the problem, in the
    type in which the user gave them.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool.data import from_list
        >>> from gnpool.fit import Predictor, Preprocessing, Problem
        >>> from gnpool.models import SetNet
        >>> table = from_list([Data(x=torch.ones(2, 1)), Data(x=torch.ones(5, 1))], labelled=False)
        >>> problem = Problem("regression", "graph", edges=False)
        >>> predictor = Predictor(SetNet(1, "sum"), problem, Preprocessing.learn(table))
        >>> outputs, notes = predictor.outputs(table)
        >>> (outputs[1] / outputs[0]).round(3).item()  # the output of a sum is proportional to the size
        2.5
    """

    model: torch.nn.Module
    problem: Problem
    preprocessing: Preprocessing
    classes: tuple[Any, ...] = ()

    def outputs(
        self, table: GraphTable, device: str = "cpu", on_progress: OnProgress = lambda text, done: None
    ) -> tuple[Floats, list[str]]:
        """The outputs for all graphs or nodes, and notes for the user. An output is a number in units of the target,
        (items,) or (items, targets), or a probability for each class, (items, classes).

        Features are computed for about a million nodes at a time, so that the memory beyond the table is bounded; a
        graph is never split. ``on_progress`` is told the share of the work done.
        """
        if self.problem.edges != (table.edge_index is not None):
            has, lacks = ("edges", "none") if self.problem.edges else ("no edges", "some")
            raise DataError(f"the model was trained on data with {has}, but these data have {lacks}")
        parts = _parts(table)
        found, notes = list[Floats](), list[str]()
        for number, (first, stop) in enumerate(parts):
            on_progress("predicting", number / len(parts))
            whole = len(parts) == 1
            outputs, more = self._outputs_of(table if whole else table.select(np.arange(first, stop)), device)
            found.append(outputs)
            notes += more
        return np.concatenate(found), _joined(notes)

    def _outputs_of(self, table: GraphTable, device: str) -> tuple[Floats, list[str]]:
        """The outputs for some of the graphs, computed at once."""
        table = with_edge_sums(table)
        (x, notes), (edge_attr, more) = self.preprocessing.apply(table), self.preprocessing.apply_edges(table)
        loops = needs_loops(self.problem, self.preprocessing)
        batches = FlatBatches(table, x, None, evaluation_size(table), None, loops, edge_attr)
        found = outputs_of(self.model, batches, device)
        if self.problem.task == "regression":
            numbers = found.numpy() * self.problem.scales
            return numbers if self.problem.more else numbers[:, 0], [*notes, *more]
        return found.softmax(1).numpy(), [*notes, *more]

    def labels(self, outputs: Floats) -> NDArray[Any]:
        """The predictions that belong to outputs."""
        if self.problem.task == "regression":
            return outputs
        return np.array(self.classes or self.problem.classes)[outputs.argmax(1)]


def _parts(table: GraphTable) -> list[tuple[int, int]]:
    """The first graph of each part, and the graph after its last."""
    ends = np.cumsum(table.sizes)
    parts, first = list[tuple[int, int]](), 0
    while first < len(ends):
        before = int(ends[first] - table.sizes[first])
        stop = max(first + 1, int(np.searchsorted(ends, before + PART_NODES, side="right")))
        parts.append((first, stop))
        first = stop
    return parts


def _joined(notes: Sequence[str]) -> list[str]:
    """The notes of all parts, each once. Numbers at their beginning are added."""
    counts: dict[str, int] = {}
    for note in notes:
        number, _, words = note.partition(" ")
        counted = number.isdecimal()
        key = words if counted else note
        counts[key] = counts.get(key, 0) + (int(number) if counted else 0)
    return [f"{count} {words}" if count else words for words, count in counts.items()]


def model_folder(folder: str | Path) -> Path:
    """The folder of the model: the given folder, or ``model`` in it."""
    folder = Path(folder)
    inner = folder / "model"
    return inner if not is_saved_model(folder) and is_saved_model(inner) else folder


def load_predictor(folder: str | Path) -> Predictor:
    """Load the model that ``gnpool fit`` or an estimator has saved, from ``DIR`` or ``DIR/model``.

    Example:
        >>> import tempfile
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool import GNPRegressor
        >>> from gnpool.data import from_list
        >>> from gnpool.fit import load_predictor
        >>> sets = [Data(x=torch.ones(n, 1), y=float(n)) for n in range(2, 12) for _ in range(5)]
        >>> with tempfile.TemporaryDirectory() as place:
        ...     predictor = load_predictor(GNPRegressor(epochs=1, seeds=1).fit(sets).save(f"{place}/model"))
        >>> outputs, notes = predictor.outputs(from_list([Data(x=torch.ones(1000, 1))], labelled=False))
        >>> outputs.round(2).tolist()
        [1000.0]
    """
    folder = model_folder(folder)
    saved = load_saved(folder)
    try:
        problem = Problem.from_dict(saved.extra.get("problem"))
        preprocessing = Preprocessing.from_dict(saved.extra.get("preprocessing"))
        classes = saved.extra.get("classes", list(problem.classes))
        if not isinstance(classes, list) or len(classes) != len(problem.classes) or len(set(map(type, classes))) > 1:
            raise ValueError(f"'classes' must be {len(problem.classes)} numbers or words, got {classes!r:.40}")
        _check_fit(saved.model, problem, preprocessing)
    except (ValueError, TypeError, OverflowError) as error:
        raise SavedModelError(f"{folder}: this is not a model that 'gnpool fit' has saved ({error})") from error
    return Predictor(saved.model, problem, preprocessing, tuple(classes))


def _check_fit(model: Any, problem: Problem, preprocessing: Preprocessing) -> None:
    """Raise an error if the network does not fit these columns and this target."""
    kind, name = (
        "NodeNet" if problem.level == "node" else "GraphNet" if problem.edges else "SetNet",
        type(model).__name__,
    )
    laws = list(model.laws) if isinstance(model, LawsNet) else [model] if isinstance(model, LawNet) else []
    outputs = model.out_channels if laws else model.out.out_features
    found = (name, getattr(model, "in_channels", None), outputs)
    if laws:
        kind = name
        if any(law.level != level_of(problem) or bool(law.cuts) != (problem.task == "classification") for law in laws):
            raise ValueError(f"its law is for targets of a {model.level}, but this target is not one")
    if name == "DeepNet" and problem.edges:
        kind = name
        if (model.readout is None) != (problem.level == "node") or model.edge_channels != preprocessing.edge_width:
            raise ValueError("its network does not fit its target or the features of its edges")
    wanted = (kind, preprocessing.width, problem.outputs)
    if getattr(model, "edge_weights", False):
        raise ValueError("its network was built with edge_weights=True, but tables have no edge weights")
    if found != wanted:
        raise ValueError(f"its network {found} does not fit its columns and its target, {wanted}")


def prediction_head(problem: Problem) -> list[str]:
    """The header of the CSV file: names, size, prediction and, for classes, probabilities."""
    predicted = ["prediction"] if not problem.more else [f"prediction of {name}" for name in problem.columns]
    chances = [f"probability of {name}" for name in problem.classes] if problem.task == "classification" else []
    return ["graph", "nodes" if problem.level == "graph" else "node", *predicted, *chances]


def prediction_rows(predictor: Predictor, table: GraphTable, outputs: Floats) -> Iterator[list[Sequence[Any]]]:
    """The rows below :func:`prediction_head`, in lists of at most :data:`ROWS`."""
    problem, first = predictor.problem, table.first
    for start in range(0, len(outputs), ROWS):
        some = outputs[start : start + ROWS]
        stop, labels = start + len(some), predictor.labels(some)
        columns: list[list[Any]] = []
        if problem.level == "graph":
            columns += [table.names[start:stop].tolist(), table.sizes[start:stop].tolist()]
        else:
            graphs = np.searchsorted(first, np.arange(start, stop), side="right") - 1
            names = table.node_names
            own = list(range(start, stop)) if names is None else names[start:stop].tolist()
            columns += [table.names[graphs].tolist(), own]
        columns += labels.T.tolist() if problem.more else [labels.tolist()]
        if problem.task == "classification":
            columns += [[f"{p:.6g}" for p in column] for column in some.T.tolist()]
        yield list(zip(*columns, strict=True))


def as_csv(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table as CSV, see :func:`csv_text`."""
    return csv_text([head, *rows])


def csv_text(rows: Iterable[Sequence[Any]]) -> str:
    """Rows as CSV. A text that a spreadsheet would take for a formula begins with ``'``; see :func:`harmless`."""
    text = io.StringIO(newline="")
    plain = csv.writer(text, lineterminator="\n")
    # the other writer does not quote a lone \r
    quoting = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    for row in rows:
        cells = [harmless(cell) for cell in row]
        (quoting if any(isinstance(cell, str) and "\r" in cell for cell in cells) else plain).writerow(cells)
    return text.getvalue()


def harmless(cell: Any) -> Any:
    """A cell that no spreadsheet runs as a formula.

    A text that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line break gets a ``'`` in front. So does a text that
    begins with ``'``, so that removing one ``'`` always restores the text. Numbers do not change, even as texts.

    Example:
        >>> from gnpool.fit.predict import harmless
        >>> [harmless(cell) for cell in ("=1+1", "'a", "-5", "a=b", -5)]
        ["'=1+1", "''a", '-5', 'a=b', -5]
    """
    if not isinstance(cell, str) or not cell.startswith(FORMULA) or NUMBER.fullmatch(cell):
        return cell
    return f"'{cell}"


def write_file(path: Path, *parts: bytes) -> None:
    """Write a file atomically."""
    write_parts(path, parts)


def write_parts(path: Path, parts: Iterable[bytes]) -> None:
    """Write a file atomically, part by part."""
    if path.is_dir():
        raise IsADirectoryError(21, "it is a folder", str(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(2, "there is no such folder", str(path.parent))
    with naming(path), replacing(path, shared=True) as descriptor:
        for part in parts:
            rest = memoryview(part)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
