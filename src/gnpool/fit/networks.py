"""The networks that compete: GNP and the fixed poolings in equal networks."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import torch

from gnpool.data import GraphTable
from gnpool.fit.prepared import Prepared
from gnpool.fit.problem import Problem
from gnpool.models import DeepNet, GraphNet, NodeNet, SetNet
from gnpool.models.networks.parts import FORMS

FIXED = ("sum", "mean", "max", "min")
NETWORKS = {"GraphNet": GraphNet, "SetNet": SetNet, "NodeNet": NodeNet, "DeepNet": DeepNet}
HIDDEN = 32
DEEPEST = 5  # layers


@dataclass(frozen=True)
class Frame:
    """A network without its poolings; ``options`` are those that not all networks have."""

    network: str
    options: tuple[tuple[str, Any], ...] = ()

    def describe(self) -> str:
        """In words."""
        options = dict(self.options)
        parts = []
        if "form" in options:
            parts.append("messages, then pooling" if options["form"] == "message" else "GIN")
        if "depth" in options:
            parts.append(f"{options['depth']} layers per element" if options["depth"] > 1 else "1 layer per element")
        if "layers" in options:
            layers = options["layers"]
            parts.append(f"{layers} layers of messages" if layers > 1 else "1 layer of messages")
        if self.network == "DeepNet":
            parts.append(f"{options['norm']} norm" if options["norm"] else "no norm")
            if options.get("edge_channels"):
                parts.append("features of edges")
            return ", ".join(["GIN", *parts])
        parts.append("with a constant term" if options.get("out_bias") else "without a constant term")
        return ", ".join(parts)


def frames(problem: Problem, edge_width: int = 0, dropout: float = 0.0) -> list[Frame]:
    """Networks to choose from, before poolings are compared; the simplest first.

    With features of edges it is a :class:`gnpool.models.DeepNet`, whose messages have them.
    """
    if edge_width:
        return deeper(problem, edge_width, dropout)[:1]
    biases = (False, True) if problem.task == "regression" else (True,)
    if problem.level == "node":
        return [
            Frame("NodeNet", (("form", form), ("layers", layers), ("out_bias", bias)))
            for form in FORMS
            for layers in (2, 3)
            for bias in biases
        ]
    if not problem.edges:
        return [Frame("SetNet", (("depth", depth), ("out_bias", bias))) for depth in (1, 2) for bias in biases]
    return [Frame("GraphNet", (("form", form), ("out_bias", bias))) for form in FORMS for bias in biases]


def deeper(problem: Problem, edge_width: int = 0, dropout: float = 0.0) -> list[Frame]:
    """Networks of one to five layers with normalisation, which are tried in order as long as depth helps."""
    if not problem.edges:
        return []
    options: dict[str, Any] = {"residual": True, "dropout": dropout}
    if edge_width:
        options["edge_channels"] = edge_width
    found = []
    for layers in range(1, DEEPEST + 1):
        jumping = "cat" if layers > 1 else None
        norm = "batch" if layers > 1 else None  # a shallow network keeps sums as they are
        found.append(Frame("DeepNet", (("layers", layers), ("norm", norm), ("jumping", jumping), *options.items())))
    return found


def slots(problem: Problem) -> tuple[str, ...]:
    """The slots of a network, each of which holds a pooling."""
    if problem.level == "node":
        return ("aggr",)
    return ("aggr", "readout") if problem.edges else ("pool",)


def fixed_poolings(problem: Problem, few: bool) -> list[tuple[str, ...]]:
    """Combinations of fixed poolings; with ``few`` only sums stand before the readout."""
    places = len(slots(problem))
    found = list(itertools.product(FIXED, repeat=places))
    return [names for names in found if not few or places == 1 or names[0] == "sum"]


def usual_sizes(problem: Problem, table: GraphTable) -> dict[str, float]:
    """By slot, the mean number of elements that are pooled there: neighbours, or nodes of a graph."""
    nodes = float(table.sizes.sum())
    edges = 0.0 if table.edge_index is None else float(table.edge_index.shape[1])
    means = {
        "aggr": edges / nodes if nodes else 0.0,
        "readout": float(table.sizes.mean()),
        "pool": float(table.sizes.mean()),
    }
    return {place: max(1.0, round(means[place], 1)) for place in slots(problem)}


def network_spec(prepared: Prepared, frame: Frame, poolings: tuple[str, ...] | None) -> dict[str, Any]:
    """The description of a network, as :func:`gnpool.models.save_model` takes it.

    Without ``poolings`` it has GNP in growth coordinates everywhere, with the usual sizes.
    """
    problem = prepared.problem
    places = slots(problem)
    names: dict[str, Any] = dict(zip(places, poolings or ("gnpg",) * len(places), strict=True))
    if poolings is None:
        sizes = usual_sizes(problem, prepared.train)
        names |= {f"{place}_options": {"size": sizes[place]} for place in places}
    arguments = {"in_channels": prepared.preprocessing.width, "hidden": HIDDEN, "out_channels": problem.outputs}
    if frame.network == "DeepNet" and problem.level == "node":
        names["readout"] = None
    return {"class": frame.network, "arguments": {**arguments, **names, **dict(frame.options)}}


def build(spec: dict[str, Any]) -> torch.nn.Module:
    """A fresh network of a description."""
    return NETWORKS[spec["class"]](**spec["arguments"])
