"""The law behind the data of a user, in the units of that data, and as a network that predicts."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gnpool.data import GraphTable
from gnpool.data.table import Floats
from gnpool.fit.preprocess import Preprocessing
from gnpool.fit.problem import Problem
from gnpool.insight.laws import Finding, Law, LawNet, Sample
from gnpool.insight.laws.finding import LEAST, find_law_of
from gnpool.insight.laws.space import Level

MOST_GRAPHS, MOST_NODES = 20_000, 500_000  # that a law is looked for in; the first ones, whose order is random
MOST_FEATURES = 64


def find_in(table: GraphTable, problem: Problem, preprocessing: Preprocessing) -> Finding | None:
    """The law behind a table; None where the data is too little, or has too many features, to look for one."""
    names, scales = law_features(preprocessing)
    table = _first(table)
    y = problem.true_values(table)
    if len(y) < LEAST or len(names) > MOST_FEATURES:
        return None
    x = preprocessing.apply(table)[0].double().numpy()[:, : len(names)] * scales
    edges = table.edge_index
    if edges is not None and problem.level == "node":
        edges = edges[:, edges[0] != edges[1]]
    sample = Sample.of_arrays(x, table.sizes, edges)
    return find_law_of(sample, y, level_of(problem), names, classes=problem.task == "classification")


def level_of(problem: Problem) -> Level:
    """What the targets belong to."""
    if problem.level == "node":
        return "node"
    return "graph" if problem.edges else "set"


def law_features(preprocessing: Preprocessing) -> tuple[tuple[str, ...], Floats]:
    """The name of each feature of a network in a formula, and what turns it back into the user's unit."""
    names: list[str] = []
    scales: list[float] = []
    for rule in preprocessing.rules:
        if rule.kind == "one-hot":
            names += [f"{rule.name}={category}" for category in rule.categories]
            scales += [1.0] * len(rule.categories)
        elif rule.kind != "constant":
            names.append(rule.name if rule.kind == "scale" else f"log({rule.name})")
            scales.append(rule.scale if rule.kind == "scale" else 1.0)
        if rule.missing and rule.kind != "constant":
            names.append(f"missing({rule.name})")
            scales.append(1.0)
    return tuple(names), np.array(scales)


def law_network(
    law: Law, noise: float, problem: Problem, preprocessing: Preprocessing
) -> tuple[LawNet, dict[str, Any]]:
    """The law as a network of preprocessed features and scaled targets, and its description for saving."""
    _, scales = law_features(preprocessing)
    network = law.model(preprocessing.width, loops=problem.level != "node", outputs=problem.outputs)
    with torch.no_grad():
        network.scales[: len(scales)] = torch.from_numpy(scales)
        network.unit.fill_(problem.scale if problem.task == "regression" else 1.0)
        network.set_error(noise)
    return network, {"class": "LawNet", "arguments": network.arguments}


def _first(table: GraphTable) -> GraphTable:
    nodes = np.cumsum(table.sizes)
    count = min(MOST_GRAPHS, len(nodes), int(np.searchsorted(nodes, MOST_NODES)) + 1)
    return table if count == len(nodes) else table.select(np.arange(count))
