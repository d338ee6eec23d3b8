"""The law behind a user's data, in the units of the data, and as a network that predicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from gnpool.data import GraphTable
from gnpool.data.table import Floats, Ints
from gnpool.fit.prepared import Prepared
from gnpool.fit.preprocess import Preprocessing
from gnpool.fit.problem import Problem
from gnpool.insight.laws import Finding, Law, LawsNet, Sample
from gnpool.insight.laws.finding import LEAST, find_law_of
from gnpool.insight.laws.space import Level

MOST_GRAPHS, MOST_NODES = 20_000, 500_000  # the search uses at most this many, the first ones, whose order is random
MOST_FEATURES = 64


def why_not(prepared: Prepared) -> str | None:
    """The reason why no law is searched for, or None."""
    split, features = prepared.split, len(law_features(prepared.preprocessing)[0])
    items = len(split.train) + len(split.validation)
    if prepared.table.level == "node" and split.unit == "graph":
        items = int(split.sizes[np.concatenate([split.train, split.validation])].sum())
    if items < LEAST:
        return f"no law was searched for: it needs at least {LEAST} targets to learn from, and there are {items}"
    if features > MOST_FEATURES:
        return f"no law was searched for: there are {features} features, and at most {MOST_FEATURES} are possible"
    if split.unit == "node" and int(prepared.table.sizes.sum()) > MOST_NODES:
        return f"no law was searched for: there are more than {MOST_NODES:,} nodes"
    return None


def find_in(prepared: Prepared) -> list[Finding]:
    """The finding for each target; an empty list if :func:`why_not` gives a reason."""
    if why_not(prepared) is not None:
        return []
    problem, level = prepared.problem, level_of(prepared.problem)
    names, _ = law_features(prepared.preprocessing)
    sample, y = (_sample_of_graphs if prepared.split.unit == "graph" else _sample_of_nodes)(prepared)
    of_classes = problem.task == "classification"
    return [find_law_of(sample, column, level, names, classes=of_classes) for column in y.reshape(len(y), -1).T]


def _sample_of_graphs(prepared: Prepared) -> tuple[Sample, Floats]:
    """The training and validation graphs, in the units of the user, and their targets."""
    split = prepared.split
    table = _first(prepared.table.select(np.concatenate([split.train, split.validation])))
    return Sample.of_arrays(_features(prepared, table), table.sizes, _edges(table)), prepared.problem.true_values(table)


def _sample_of_nodes(prepared: Prepared) -> tuple[Sample, Floats]:
    """All nodes as the nodes of one graph, in the units of the user, and the targets of the first ones, which train and
    validate, in random order.
    """
    table, split = prepared.table, prepared.split
    seen = np.random.default_rng(prepared.options.seed).permutation(np.concatenate([split.train, split.validation]))
    order = np.concatenate([seen, np.setdiff1d(np.arange(int(table.sizes.sum())), seen)])
    place = np.argsort(order)
    edges = _edges(table)
    assert edges is not None
    sample = Sample.of_arrays(_features(prepared, table)[order], np.array([len(order)]), place[edges])
    return sample, prepared.problem.true_values(table)[seen]


def _features(prepared: Prepared, table: GraphTable) -> Floats:
    names, scales = law_features(prepared.preprocessing)
    found: Floats = prepared.preprocessing.apply(table)[0].double().numpy()[:, : len(names)] * scales
    return found


def _edges(table: GraphTable) -> Ints | None:
    """The edges; for targets of nodes, without self-loops."""
    edges = table.edge_index
    return edges[:, edges[0] != edges[1]] if edges is not None and table.level == "node" else edges


def formulas(findings: Sequence[Finding], problem: Problem) -> list[str | None]:
    """The formula of each target, with the names of the target and its classes."""
    named = zip(findings, problem.columns, strict=False)
    return [None if found.law is None else found.law.text(name, problem.classes) for found, name in named]


def level_of(problem: Problem) -> Level:
    """The level of the targets."""
    if problem.level == "node":
        return "node"
    return "graph" if problem.edges else "set"


def law_features(preprocessing: Preprocessing) -> tuple[tuple[str, ...], Floats]:
    """For each feature of a network, its name in a formula and the factor that restores the user's unit."""
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
