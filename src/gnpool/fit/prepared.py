"""A table of graphs as the networks of a study meet it: split, preprocessed, cut into batches."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gnpool.data import DataError, GraphTable
from gnpool.fit.batches import FlatBatches
from gnpool.fit.preprocess import Preprocessing, unused_edges
from gnpool.fit.problem import Problem, recognise
from gnpool.fit.split import Split, make_split
from gnpool.fit.study import Options

STEPS = 1500  # of training, where the user does not say how many epochs
EPOCHS = (8, 200)  # bounds of their number
MANY_NODES = 200_000  # in training: from here on fewer poolings, settings and seeds are tried
EVALUATION_NODES = 200_000  # in a batch of an evaluation, about


@dataclass(frozen=True)
class Prepared:
    """What all networks of a study stand on.

    Args:
        table (GraphTable): All graphs.
        split (Split): Which of them train, validate and test.
        tables (dict[str, GraphTable]): The graphs of each part.
        problem (Problem): What is to be predicted.
        preprocessing (Preprocessing): From columns to features.
        data (dict[str, FlatBatches]): The batches of each part.
        options (Options): What the user said.
        epochs (int): Of a whole training.
        few (bool): Whether the data is so much that fewer combinations are tried.
        notes (tuple[str, ...]): What the user should know.
    """

    table: GraphTable
    split: Split
    tables: dict[str, GraphTable]
    problem: Problem
    preprocessing: Preprocessing
    data: dict[str, FlatBatches]
    options: Options
    epochs: int
    few: bool
    notes: tuple[str, ...]


def prepare(table: GraphTable, options: Options) -> Prepared:
    """Split, recognise the task, learn the preprocessing from the training graphs, and cut batches."""
    if table.y is None:
        raise DataError("the data has no targets to learn from")
    if table.level == "node" and table.edge_index is None:
        raise DataError("to predict targets of nodes, the data needs edges")
    split = make_split(table.sizes, options.split, options.seed)
    tables = {name: table.select(part) for name, part in split.parts().items()}
    problem = recognise(table, tables["train"], options.task)
    preprocessing = Preprocessing.learn(tables["train"])
    notes = [*table.notes, *unused_edges(table), *([split.note] if split.note else [])]
    features = {name: preprocessing.apply(part) for name, part in tables.items()}
    notes += [f"{name}: {note}" for name, (_, found) in features.items() for note in found]
    few = int(tables["train"].sizes.sum()) > MANY_NODES
    if few:
        notes.append("much data: fewer combinations of poolings, settings and seeds are tried")
    data = {
        name: FlatBatches(
            part,
            features[name][0],
            problem.targets(part),
            batch_size_for(len(part.sizes)) if name == "train" else evaluation_size(part),
            0 if name == "train" else None,
            loops=problem.level == "node",
        )
        for name, part in tables.items()
    }
    epochs = options.epochs or min(max(math.ceil(STEPS / len(data["train"])), EPOCHS[0]), EPOCHS[1])
    return Prepared(table, split, tables, problem, preprocessing, data, options, epochs, few, tuple(notes))


def batch_size_for(graphs: int) -> int:
    """Between 16 and 512 graphs, about a fiftieth of all."""
    return int(min(512, max(16, 2 ** round(math.log2(max(1, graphs / 50))))))


def evaluation_size(table: GraphTable) -> int:
    """Graphs in a batch of an evaluation."""
    return max(1, min(len(table.sizes), int(EVALUATION_NODES / max(1.0, float(table.sizes.mean())))))
