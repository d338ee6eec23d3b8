"""Learn a pooling on small graphs, test it on graphs three times larger: what gnpool is for, in about two minutes.

Three tasks of the paper: from the graph alone, without node features, predict 1 / number of nodes (invsize), 1 / sum of
1/degree (harmonic) and the largest degree (maxdegree). A one-layer GIN is trained on random graphs of 20 to 29 nodes,
with GNP, which learns how to pool, and with four fixed readouts; then what GNP has learned is crystallized: exact
poolings take its place, chosen by validation (GNP*). All are tested on graphs of 50 to 99 nodes. It is the table
``demo`` of the lab: ``gnpool reproduce demo``. Results go to stdout, progress to stderr.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gnpool.cli.reproduce import run_with_progress, show_result
from gnpool.lab import PRESETS, Preset, find_table
from gnpool.lab.recipes import Recipe
from gnpool.lab.recipes.crystallized import crystallized
from gnpool.store import Store
from gnpool.training import evaluate_items

EXACT = {
    "invsize": "make all nodes equal (degree^0), then anything that gives size^-1, such as the harmonic sum",
    "harmonic": "sum the messages (all equal, so this counts them), then take the harmonic sum",
    "maxdegree": "sum the messages (all equal, so this counts them), then take the max",
}
EXACT_ROW = {"maxdegree": "sum,max"}  # of the table: here a fixed pooling is the answer
NAMED = {"sum": (1, 0), "mean": (1, 1), "max": (math.inf, 0), "min": (-math.inf, 0), "harmonic sum": (-1, 0)}  # p, q
NEAR = 0.2  # (1/p, q) within this distance of a named pooling is near it; names of one branch are 1 or more apart
HARDLY = 2.0  # a branch is hardly used if switching it off adds fewer points of error
LAYERS = (("aggregation", "aggr"), ("readout", "readout"))
BRANCHES = (("positive", "pos", 1), ("negative", "neg", -1))


def nearest_name(p: float, q: float) -> str:
    """The named pooling next to (p, q) in its branch; 1/p stands for p, so that max and min are not infinitely far."""
    distance = {name: math.hypot(1 / p - 1 / p0, q - q0) for name, (p0, q0) in NAMED.items() if p * p0 > 0}
    name = min(distance, key=distance.__getitem__)
    where = "near the" if distance[name] < NEAR else "between the names, nearest is the"
    return f"{where} {name} (p = {NAMED[name][0]:g}, q = {NAMED[name][1]:g})"


def in_words(task: str, layer: str, p: float, q: float) -> str:
    """What a branch computes."""
    power = f"{1 / p - q:.2f}"
    if layer == "aggregation":  # all messages are equal here: n^-q (n m^p)^(1/p) = m n^(1/p - q)
        return f"gives degree^{power} (the sum: degree^1)"
    if task == "invsize":  # and here all nodes, wherever the aggregation has learned its part
        return f"gives size^{power} (the harmonic sum: size^-1)"
    return nearest_name(p, q)


def describe(recipe: Recipe, preset: Preset, store: Store) -> list[str]:
    """Read the exponents of one trained GNP network: a line for each layer and branch, with the error without it."""
    record = store.get(recipe.key(preset, "all"))
    assert record is not None
    assert record.tensors is not None
    runs = record.scores["runs"]
    seed = min(range(len(runs)), key=lambda k: runs[k]["best"]["loss"]["value"] if runs[k]["best"] else math.inf)
    state = {name.removeprefix("loss/"): v[seed] for name, v in record.tensors.items() if name.startswith("loss/")}
    small = recipe.batches("val", preset)

    def error(**changes: Any) -> tuple[Any, float]:
        model = recipe.build(recipe.variants[0], **changes)
        model.load_state_dict(state)
        return model, evaluate_items(model, small, recipe.spec.metric).mean().item()

    model, whole = error()
    lines = []
    for layer, part in LAYERS:
        pooling = getattr(model, part)
        for branch, suffix, sign in BRANCHES:
            p, q = sign * getattr(pooling, f"p_{suffix}").item(), getattr(pooling, f"q_{suffix}").item()
            _, without = error(**{f"{part}_options": {"mask": branch}})
            words = "hardly used" if without < whole + HARDLY else in_words(recipe.task, layer, p, q)
            lines.append(f"  {layer:<12} {branch:<9}{p:>7.2f}{q:>7.2f}{without:>10.1f} %   {words}")
    return lines


def summarize(table: dict[str, Any], task: str) -> str:
    """How GNP does beside the best of the others on the larger graphs."""
    errors = {c["row"]: c["ours"]["mean"] for c in table["cells"] if c["column"] == task}
    known = {row: math.inf if error is None else error for row, error in errors.items()}
    best = min((row for row in known if not row.startswith("GNP")), key=known.__getitem__)
    word = "beats" if known["GNP"] < known[best] else "does not beat"
    exact = ", which is exact here" if EXACT_ROW.get(task) == best else ""
    return f"{task}: GNP {word} the fixed poolings, {known['GNP']:.1f} % against {known[best]:.1f} % of {best}{exact}."


def crystallized_to(table: dict[str, Any], recipe: Recipe, preset: Preset, store: Store) -> str:
    """Which exact poolings took the place of the learned ones, and the error then."""
    record = store.get(crystallized(recipe).key(preset, "all"))
    assert record is not None
    found = list(dict.fromkeys(crystal["text"] for crystal in record.scores["crystals"]))
    (error,) = [c["ours"]["mean"] for c in table["cells"] if c["column"] == recipe.task and c["row"] == "GNP*"]
    shown = "no finite error" if error is None else f"{error:.3f} %"
    return f"  crystallized (GNP*): {'; '.join(found)}: {shown}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the table, print it, and say what was learned."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    small = [name for name, preset in PRESETS.items() if not preset.whole_grid]  # one setting, one form of the network
    parser.add_argument("--preset", choices=small, default="quick", help="how much to do (%(default)s)")
    parser.add_argument("--out", type=Path, help="folder to keep the results in (a temporary one)")
    options = parser.parse_args(arguments)
    if options.out is not None:
        show(options.preset, options.out)
        return
    with tempfile.TemporaryDirectory() as folder:
        show(options.preset, Path(folder))


def show(preset: str, folder: Path) -> None:
    """The demo itself."""
    (results,) = run_with_progress(["demo"], folder, preset=preset, device="cpu")["tables"]
    show_result(results)
    store = Store(folder)
    print(
        "What GNP, n^-q (sum x^p)^(1/p), learned, in the run with the lowest validation loss. p started at +-1.69 and q"
    )
    print("at 0. Without it: the error on small graphs (20 to 29 nodes) when that branch is switched off.\n")
    for cell in find_table("demo").cells:
        if cell.row == "GNP":
            print(summarize(results, cell.column))
            print(f"  {'layer':<12} {'branch':<9}{'p':>7}{'q':>7}{'without it':>12}   reading")
            print("\n".join(describe(cell.recipe, PRESETS[preset], store)))
            print(crystallized_to(results, cell.recipe, PRESETS[preset], store))
            print(f"  exact: {EXACT[cell.column]}\n")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)
