"""The models of the paper as recipes."""

from __future__ import annotations

from gnpool.lab.recipes.recipe import Recipe, Variant
from gnpool.tasks import get_task

FIXED = ("sum", "max", "mean", "min")
GRAPH_TASKS = ("invsize", "harmonic", "maxdegree")
SET_TASKS = ("mu_post", "sigma2_post", "mu_map", "sigma2_map")


def graph_gnp(task: str, structure: str | None = None, features: str | None = None, **options: object) -> Recipe:
    """GNP as aggregation and readout of a graph task; ``options`` of the network change its name."""
    pooling = str(options.pop("pooling", "gnp"))
    name = ", ".join([pooling, *(f"{key} {value}" for key, value in options.items())])
    variant: Variant = {"net": "graph", "aggr": pooling, "readout": pooling, **options}
    return Recipe(task, name, (variant,), "graph_gnp", structure, features)


def graph_fixed(task: str, aggregation: str, readout: str, features: str | None = None) -> Recipe:
    """A fixed aggregation and a fixed readout."""
    variant: Variant = {"net": "graph", "aggr": aggregation, "readout": readout}
    return Recipe(task, f"{aggregation},{readout}", (variant,), "graph_fixed", features=features)


def graph_other(task: str, model: str) -> Recipe:
    """SortPool or Set2Set after the natural aggregation of the task, or SAGPool."""
    aggregation = get_task(task).aggregation
    if model == "SortPool":
        return Recipe(task, "sort", ({"net": "graph", "aggr": aggregation, "readout": "sort"},), "graph_fixed")
    if model == "Set2Set":
        base: Variant = {"net": "graph", "aggr": aggregation, "readout": "set2set"}
        variants = tuple({**base, "readout_options": {"processing_steps": steps}} for steps in (1, 2))
        return Recipe(task, "set2set", variants, "graph_fixed")
    return Recipe(task, "sagpool", ({"net": "sagpool"},), "graph_sagpool")


def node(task: str, pooling: str) -> Recipe:
    """A node task with the same aggregation in all layers."""
    variant: Variant = {"net": "node", "aggr": pooling, "edge_weights": task == "shortest"}
    return Recipe(task, pooling, (variant,), "node_gnp" if pooling.startswith("gnp") else "node_fixed")


def set_model(task: str, model: str, reading: str | None = None) -> Recipe:
    """The recipe for a row of the set table: "basic/sum", "deep/set2set", "set_transformer", "basic/gnp"."""
    if model == "set_transformer":
        variants: tuple[Variant, ...] = tuple({"net": "set_transformer", "encoder": kind} for kind in ("sab", "isab"))
        return Recipe(task, model, variants, "set_others", reading=reading)
    depth, pooling = model.split("/")
    base: Variant = {"net": "set", "pool": pooling, "depth": 1 if depth == "basic" else 2}
    name = f"{depth}, {pooling}"
    if pooling == "set2set":
        variants = tuple({**base, "pool_options": {"processing_steps": steps}} for steps in (1, 2))
        return Recipe(task, name, variants, "set_others", reading=reading)
    return Recipe(task, name, (base,), "set_gnp" if pooling.startswith("gnp") else "set_fixed", reading=reading)
