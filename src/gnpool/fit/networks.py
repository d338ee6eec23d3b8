"""The networks that compete: GNP and the fixed poolings, in the same places."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import torch

from gnpool.data import GraphTable
from gnpool.fit.prepared import Prepared
from gnpool.fit.problem import Problem
from gnpool.models import GraphNet, NodeNet, SetNet
from gnpool.models.networks.parts import FORMS

FIXED = ("sum", "mean", "max", "min")
NETWORKS = {"GraphNet": GraphNet, "SetNet": SetNet, "NodeNet": NodeNet}
HIDDEN = 32


@dataclass(frozen=True)
class Frame:
    """A network but for its poolings; ``options`` beyond those that all have."""

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
            parts.append(f"{options['layers']} layers of messages")
        parts.append("with a constant term" if options.get("out_bias") else "without a constant term")
        return ", ".join(parts)


def frames(problem: Problem) -> list[Frame]:
    """Networks to choose from, before poolings are compared; the simplest first."""
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


def slots(problem: Problem) -> tuple[str, ...]:
    """The places of a network for a pooling."""
    if problem.level == "node":
        return ("aggr",)
    return ("aggr", "readout") if problem.edges else ("pool",)


def fixed_poolings(problem: Problem, few: bool) -> list[tuple[str, ...]]:
    """Combinations of fixed poolings; ``few``: only sums in front of the readout."""
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
        sizes = usual_sizes(problem, prepared.tables["train"])
        names |= {f"{place}_options": {"size": sizes[place]} for place in places}
    arguments = {"in_channels": prepared.preprocessing.width, "hidden": HIDDEN, "out_channels": problem.outputs}
    return {"class": frame.network, "arguments": {**arguments, **names, **dict(frame.options)}}


def build(spec: dict[str, Any]) -> torch.nn.Module:
    """A fresh network of a description."""
    return NETWORKS[spec["class"]](**spec["arguments"])
