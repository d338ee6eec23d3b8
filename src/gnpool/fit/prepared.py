"""A table of graphs prepared for the networks of a study: split, preprocessed and cut into batches."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from gnpool.data import DataError, GraphTable
from gnpool.fit.batches import FlatBatches
from gnpool.fit.edges import with_edge_sums
from gnpool.fit.measures import check_metric
from gnpool.fit.preprocess import Preprocessing
from gnpool.fit.problem import Problem, recognise
from gnpool.fit.split import Split, split_table
from gnpool.fit.study import Options

STEPS = 1500  # steps of a training, if the user does not give the epochs
EPOCHS = (8, 200)  # bounds of the number of epochs
MANY_NODES = 200_000  # with this many training nodes, fewer poolings, settings and seeds are tried
EVALUATION_NODES = 200_000  # nodes in a batch of an evaluation, about


@dataclass(frozen=True)
class Prepared:
    """The data, the task and the options that all networks of a study share.

    Args:
        table (GraphTable): All graphs, with the sums of their edges' features.
        split (Split): Which graphs, or which nodes, are for training, validation and test.
        problem (Problem): The task and its targets.
        preprocessing (Preprocessing): Turns columns into features.
        data (dict[str, FlatBatches]): The batches of each part.
        y (dict[str, torch.Tensor]): The targets of each part, in the form that the loss takes.
        options (Options): The options of the user.
        epochs (int): The epochs of a whole training.
        few (bool): Whether the data are so large that fewer combinations are tried.
        notes (tuple[str, ...]): Notes for the user.
    """

    table: GraphTable
    split: Split
    problem: Problem
    preprocessing: Preprocessing
    data: dict[str, FlatBatches]
    y: dict[str, Tensor]
    options: Options
    epochs: int
    few: bool
    notes: tuple[str, ...]

    @property
    def train(self) -> GraphTable:
        """The training graphs; if the training items are nodes of one graph, that graph."""
        return self.table.select(self.split.train) if self.split.unit == "graph" else self.table


def prepare(table: GraphTable, options: Options) -> Prepared:
    """Split, recognise the task, learn the preprocessing from the training graphs, and cut batches."""
    if table.y is None:
        raise DataError("the data have no targets to learn from")
    if table.level == "node" and table.edge_index is None:
        raise DataError("to predict targets of nodes, the data must have edges")
    table = with_edge_sums(table)
    split = split_table(table, options.split, options.seed, options.train_up_to, options.test_from)
    of_graphs = split.unit == "graph"
    tables = {name: table.select(part) if of_graphs else table for name, part in split.parts().items()}
    train = tables["train"].targets if of_graphs else [column.take(split.train) for column in table.targets]
    problem = recognise(table, train, options.task, options.class_weights)
    check_metric(options.metric, problem.task)
    preprocessing = Preprocessing.learn(tables["train"])
    notes = [*table.notes, *([split.note] if split.note else [])]
    if options.task is None and table.targets[0].categories is None and len(problem.classes) > 2:
        notes.append(
            f"the {len(problem.classes)} whole numbers of {problem.column!r} are taken for classes; if they count "
            "something, say --task regression"
        )
    few = int(tables["train"].sizes.sum()) > MANY_NODES
    if few:
        notes.append("the data are large, so fewer combinations of poolings, settings and seeds are tried")
    data, y = dict[str, FlatBatches](), dict[str, Tensor]()
    for name, part in split.parts().items():
        every = problem.targets(tables[name])
        if of_graphs or not data:  # the nodes of one graph share their features
            x, of_nodes = preprocessing.apply(tables[name])
            edge_attr, of_edges = preprocessing.apply_edges(tables[name])
            notes += [f"{name}: {note}" if of_graphs else note for note in (*of_nodes, *of_edges)]
        y[name] = every if of_graphs else every[part]
        weight = None if of_graphs else torch.zeros(len(every)).index_fill(0, torch.from_numpy(part), 1.0)
        size = batch_size_for(len(part)) if name == "train" else evaluation_size(tables[name])
        size = size if of_graphs else len(table.sizes)  # in every batch some items must count
        seed = 0 if name == "train" else None
        loops = needs_loops(problem, preprocessing)
        data[name] = FlatBatches(tables[name], x, every, size, seed, loops, edge_attr, weight)
    epochs = options.epochs or min(max(math.ceil(STEPS / len(data["train"])), EPOCHS[0]), EPOCHS[1])
    return Prepared(table, split, problem, preprocessing, data, y, options, epochs, few, tuple(notes))


def needs_loops(problem: Problem, preprocessing: Preprocessing) -> bool:
    """Whether batches have self-loops, since :class:`gnpool.models.NodeNet` has no other term for the node itself."""
    return problem.level == "node" and preprocessing.edge_width == 0


def batch_size_for(graphs: int) -> int:
    """Between 16 and 512 graphs, about a fiftieth of all."""
    return int(min(512, max(16, 2 ** round(math.log2(max(1, graphs / 50))))))


def evaluation_size(table: GraphTable) -> int:
    """Graphs in a batch of an evaluation."""
    return max(1, min(len(table.sizes), int(EVALUATION_NODES / max(1.0, float(table.sizes.mean())))))
