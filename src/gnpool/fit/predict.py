"""Use what a fit has saved."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gnpool.data import DataError, GraphTable
from gnpool.data.table import Floats
from gnpool.fit.batches import FlatBatches
from gnpool.fit.law import level_of
from gnpool.fit.prepared import evaluation_size
from gnpool.fit.preprocess import Preprocessing, unused_edges
from gnpool.fit.problem import Problem
from gnpool.insight.laws import LawNet
from gnpool.models.folder import naming
from gnpool.models.saved import SavedModelError, load_saved
from gnpool.store.files import write
from gnpool.training.program import by_name

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "'")  # what begins a formula in some spreadsheet, and our own mark
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True)
class Predictor:
    """A network with the preprocessing that it was trained with; ``classes`` are those of the problem in the type that
    the user gave them.
    """

    model: torch.nn.Module
    problem: Problem
    preprocessing: Preprocessing
    classes: tuple[Any, ...] = ()

    @torch.no_grad()
    def outputs(self, table: GraphTable, device: str = "cpu") -> tuple[Floats, list[str]]:
        """What the network gives for each graph or node: a number in units of the target, or a probability for each
        class, (items, classes); and what a user should know.
        """
        if self.problem.edges != (table.edge_index is not None):
            has, lacks = ("edges", "none") if self.problem.edges else ("no edges", "some")
            raise DataError(f"the model was trained on data with {has}, and here are {lacks}")
        x, notes = self.preprocessing.apply(table)
        notes += unused_edges(table)
        batches = FlatBatches(table, x, None, evaluation_size(table), None, loops=self.problem.level == "node")
        model = self.model.to(device).eval()
        call = by_name(model)
        found = torch.cat([call(model, batch.to(torch.device(device))).double().cpu() for batch in batches])
        self.model.cpu()
        if self.problem.task == "regression":
            return found.squeeze(1).numpy() * self.problem.scale, notes
        return found.softmax(1).numpy(), notes

    def labels(self, outputs: Floats) -> NDArray[Any]:
        """The predictions that belong to outputs."""
        if self.problem.task == "regression":
            return outputs
        return np.array(self.classes or self.problem.classes)[outputs.argmax(1)]


def model_folder(folder: str | Path) -> Path:
    """Where the model is: the folder itself, or ``model`` in it."""
    folder = Path(folder)
    inner = folder / "model"
    return inner if not (folder / "model.json").exists() and (inner / "model.json").exists() else folder


def load_predictor(folder: str | Path) -> Predictor:
    """What ``gnpool fit`` saved: ``DIR`` or ``DIR/model``."""
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
        raise SavedModelError(f"{folder / 'model.json'}: it is not a model of 'gnpool fit' ({error})") from error
    return Predictor(saved.model, problem, preprocessing, tuple(classes))


def _check_fit(model: Any, problem: Problem, preprocessing: Preprocessing) -> None:
    """Complain if the network is not one for these columns and this target."""
    kind = "NodeNet" if problem.level == "node" else "GraphNet" if problem.edges else "SetNet"
    outputs = model.out_channels if isinstance(model, LawNet) else model.out.out_features
    found = (type(model).__name__, getattr(model, "in_channels", None), outputs)
    if isinstance(model, LawNet):
        kind = "LawNet"
        if model.level != level_of(problem) or bool(model.cuts) != (problem.task == "classification"):
            raise ValueError(f"its law is one of targets of a {model.level}, which this target is not")
    wanted = (kind, preprocessing.width, problem.outputs)
    if getattr(model, "edge_weights", False):
        raise ValueError("its network was built with edge_weights=True, but none was given: tables have no such column")
    if found != wanted:
        raise ValueError(f"its network {found} does not fit its columns and its target, {wanted}")


def prediction_rows(predictor: Predictor, table: GraphTable, outputs: Floats) -> tuple[list[str], list[Sequence[Any]]]:
    """Head and rows of the CSV file: names, size, prediction and, for classes, probabilities."""
    labels = predictor.labels(outputs).tolist()
    head, columns = ["graph"], []
    if predictor.problem.level == "graph":
        head += ["nodes", "prediction"]
        columns = [table.names.tolist(), table.sizes.tolist(), labels]
    else:
        names = table.node_names if table.node_names is not None else np.arange(int(table.sizes.sum()))
        head += ["node", "prediction"]
        columns = [table.names[table.graph_of_node].tolist(), names.tolist(), labels]
    if predictor.problem.task == "classification":
        head += [f"probability of {name}" for name in predictor.problem.classes]
        columns += [[f"{p:.6g}" for p in column] for column in outputs.T.tolist()]
    return head, list(zip(*columns, strict=True))


def as_csv(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table as CSV. A text that a spreadsheet would take for a formula begins with ``'``; see :func:`harmless`."""
    text = io.StringIO(newline="")
    plain = csv.writer(text, lineterminator="\n")
    quoting = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)  # the other leaves a lone \r bare
    for row in (head, *rows):
        cells = [harmless(cell) for cell in row]
        (quoting if any(isinstance(cell, str) and "\r" in cell for cell in cells) else plain).writerow(cells)
    return text.getvalue()


def harmless(cell: Any) -> Any:
    """A cell that no spreadsheet runs: a text that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line break gets a
    ``'`` in front, and so does one that begins with ``'``, so that taking one ``'`` away always gives the text.

    Numbers stay, also as texts.

    Example:
        >>> from gnpool.fit.predict import harmless
        >>> [harmless(cell) for cell in ("=1+1", "'a", "-5", "a=b", -5)]
        ["'=1+1", "''a", '-5', 'a=b', -5]
    """
    if not isinstance(cell, str) or not cell.startswith(FORMULA) or NUMBER.fullmatch(cell):
        return cell
    return f"'{cell}"


def write_file(path: Path, data: bytes) -> None:
    """Put a file in its place, wholly or not at all."""
    if path.is_dir():
        raise IsADirectoryError(21, "it is a folder", str(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(2, "there is no such folder", str(path.parent))
    with naming(path):
        write(path, data, shared=True)
