"""Pooling sampled neighbours: the bias against the fan-out, with the true degrees and without.

    python -m studies.sampled            # draws anew, and writes the table of docs/guide-large.md
    python -m studies.sampled --check    # fails if the table is out of step with the raw outcomes

The degrees of the nodes are log-uniform from 1 to 10,000 and features uniform in (0.5, 1.5). Neighbours are drawn
without repetition. An outcome is, for each draw, the mean over nodes of the pooled value, as a part of that of all
neighbours.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnpool.ops import norm_pool
from studies.files import read_runs, write_runs

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "learned" / "sampled.json"
PAGE = ROOT / "docs" / "guide-large.md"
START, END = "<!-- sampled:start -->", "<!-- sampled:end -->"
LAWS = {  # p and growth
    "sum": (1.0, 1.0),
    "mean": (1.0, 0.0),
    "L2": (2.0, 0.5),
    "harmonic sum": (-1.0, -1.0),
    "max": (math.inf, 0.0),
    "min": (-math.inf, 0.0),
}
FANOUTS = (5, 10, 25)
MOST = 10_000  # neighbours of a node


def graph(nodes: int, rng: np.random.Generator) -> list[np.ndarray]:
    """The features of each node's neighbours."""
    degrees = np.exp(rng.uniform(0.0, math.log(MOST), nodes)).astype(int)
    degrees[0] = MOST
    return [rng.uniform(0.5, 1.5, (n, 1)) for n in degrees]


def pooled(lists: list[np.ndarray], law: str, sizes: Tensor | None) -> Tensor:
    """Each node's neighbours under a law, (nodes,)."""
    ptr = torch.tensor(np.cumsum([0, *map(len, lists)]))
    p, growth = LAWS[law]
    return norm_pool(torch.from_numpy(np.concatenate(lists)), ptr=ptr, p=p, growth=growth, sizes=sizes)[:, 0]


def study(nodes: int, draws: int, seed: int) -> list[dict[str, Any]]:
    """For each law and fan-out the outcomes of all draws."""
    rng = np.random.default_rng(seed)
    lists = graph(nodes, rng)
    sizes = torch.tensor([len(one) for one in lists])
    full = {law: pooled(lists, law, None) for law in LAWS}
    found = []
    for fanout in FANOUTS:
        outcomes: dict[tuple[str, bool], list[float]] = {(law, told): [] for law in LAWS for told in (True, False)}
        for _ in range(draws):
            sample = [one[rng.choice(len(one), min(fanout, len(one)), replace=False, shuffle=False)] for one in lists]
            for (law, told), column in outcomes.items():
                part = pooled(sample, law, sizes if told else None) / full[law]
                column.append(round(part.mean().item(), 6))
        found += [
            {"fanout": fanout, "law": law, "sizes": told, "parts": column} for (law, told), column in outcomes.items()
        ]
    return found


def bias(one: dict[str, Any]) -> float:
    """By how much the mean over draws differs from all neighbours, in percent."""
    return 100.0 * (sum(one["parts"]) / len(one["parts"]) - 1.0)


def table(found: list[dict[str, Any]]) -> str:
    """The biases in Markdown, a row for each law; in parentheses what they would be without ``sizes``."""
    by_key = {(one["law"], one["fanout"], one["sizes"]): bias(one) for one in found}
    lines = [["pooling", *(f"fan-out {fanout}" for fanout in FANOUTS)], ["---"] * (1 + len(FANOUTS))]
    for law in LAWS:
        cells = [f"{by_key[law, f, True]:+.1f} % ({by_key[law, f, False]:+.0f} %)" for f in FANOUTS]
        lines.append([law, *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def filled(page: str, found: list[dict[str, Any]]) -> str:
    """The page with its table anew."""
    before, rest = page.split(START)
    return f"{before}{START}\n\n{table(found)}\n\n{END}{rest.split(END)[1]}"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--check", action="store_true", help="Compare the page with the raw outcomes, and draw nothing."
    )
    given = parser.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    if given.check:
        if filled(page, read_runs(RESULTS)) != page:
            sys.exit(f"{PAGE} is out of step with {RESULTS}; run: python -m studies.sampled")
        return
    found = study(nodes=500, draws=60, seed=0)
    write_runs(RESULTS, found)
    PAGE.write_text(filled(page, found), encoding="utf-8")


if __name__ == "__main__":
    main()
