"""The law behind the data of a user, in the units of that data, and as a network that predicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from gnpool.data import GraphTable
from gnpool.data.table import Floats
from gnpool.fit.prepared import Prepared
from gnpool.fit.preprocess import Preprocessing
from gnpool.fit.problem import Problem
from gnpool.insight.laws import Finding, Law, LawsNet, Sample
from gnpool.insight.laws.finding import LEAST, find_law_of
from gnpool.insight.laws.space import Level

MOST_GRAPHS, MOST_NODES = 20_000, 500_000  # that a law is looked for in; the first ones, whose order is random
MOST_FEATURES = 64


def find_in(prepared: Prepared) -> list[Finding]:
    """The law behind each target; none where the data is too little, or has too many features, to look for one."""
    problem, preprocessing, split = prepared.problem, prepared.preprocessing, prepared.split
    names, scales = law_features(preprocessing)
    seen = np.concatenate([split.train, split.validation])
    table, rows = (_first(prepared.table.select(seen)), None) if split.unit == "graph" else (prepared.table, seen)
    y = problem.true_values(table)
    if len(y if rows is None else rows) < LEAST or len(names) > MOST_FEATURES:
        return []
    x = preprocessing.apply(table)[0].double().numpy()[:, : len(names)] * scales
    edges = table.edge_index
    if edges is not None and problem.level == "node":
        edges = edges[:, edges[0] != edges[1]]
    sample = Sample.of_arrays(x, table.sizes, edges)
    if rows is not None:
        return []
    every = y.reshape(len(y), -1)
    of_classes = problem.task == "classification"
    return [find_law_of(sample, column, level_of(problem), names, classes=of_classes) for column in every.T]


def formulas(findings: Sequence[Finding], problem: Problem) -> list[str | None]:
    """The formula of each target, with its name where there are several."""
    laws = [finding.law for finding in findings]
    if len(laws) == 1:
        return [None if law is None else str(law) for law in laws]
    named = zip(laws, problem.columns, strict=True)
    return [None if law is None else name + str(law).removeprefix("y") for law, name in named]


def level_of(problem: Problem) -> Level:
    """What the targets belong to."""
    if problem.level == "node":
        return "node"
    return "graph" if problem.edges else "set"


def law_features(preprocessing: Preprocessing) -> tuple[tuple[str, ...], Floats]:
    """The name of each feature of a network in a formula, and what turns it back into the user's unit."""
    names: list[str] = []
    scales: list[float] = []
    for rule in preprocessing.of("node"):
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


def law_network(laws: Sequence[Law], noise: float, prepared: Prepared) -> tuple[torch.nn.Module, dict[str, Any]]:
    """The laws of all targets as a network of preprocessed features and scaled targets, and its description."""
    problem, preprocessing = prepared.problem, prepared.preprocessing
    _, scales = law_features(preprocessing)
    networks = []
    for law, unit in zip(laws, problem.scales.tolist(), strict=True):
        network = law.model(preprocessing.width, loops=problem.level != "node", outputs=len(problem.classes) or 1)
        with torch.no_grad():
            network.scales[: len(scales)] = torch.from_numpy(scales)
            network.unit.fill_(unit if problem.task == "regression" else 1.0)
            network.set_error(noise)
        networks.append(network)
    if len(networks) == 1:
        return networks[0], {"class": "LawNet", "arguments": networks[0].arguments}
    several = LawsNet([network.arguments for network in networks])
    several.load_state_dict({f"laws.{k}.{n}": v for k, one in enumerate(networks) for n, v in one.state_dict().items()})
    return several, {"class": "LawsNet", "arguments": several.arguments}


def _first(table: GraphTable) -> GraphTable:
    nodes = np.cumsum(table.sizes)
    count = min(MOST_GRAPHS, len(nodes), int(np.searchsorted(nodes, MOST_NODES)) + 1)
    return table if count == len(nodes) else table.select(np.arange(count))
