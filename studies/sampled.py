"""Pools sampled neighbours: the bias against the fan-out, with and without the true degrees.

    python -m studies.sampled            # draws new samples, and writes the table of docs/guide-large.md
    python -m studies.sampled --check    # fails if the table does not match the raw outcomes

The degrees of the nodes are log-uniform from 1 to 10,000, and features are uniform in (0.5, 1.5). Neighbours are drawn
without repetition. The outcome of a draw is the mean over nodes of the pooled value, as a share of the value of all
neighbours. A second table shows a correction of the bias, with these features and with log-normal ones.
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
START, END = "<!-- {}:start -->", "<!-- {}:end -->"
LAWS = {  # p and growth
    "sum": (1.0, 1.0),
    "mean": (1.0, 0.0),
    "L2": (2.0, 0.5),
    "harmonic sum": (-1.0, -1.0),
    "max": (math.inf, 0.0),
    "min": (-math.inf, 0.0),
}
CURVED = ("L2", "harmonic sum")  # the laws that get the correction
FEATURES = {"uniform": lambda rng, n: rng.uniform(0.5, 1.5, n), "log-normal": lambda rng, n: rng.lognormal(0.0, 1.0, n)}
FANOUTS = (5, 10, 25)
MOST = 10_000  # largest number of neighbours of a node


def graph(nodes: int, rng: np.random.Generator, features: str = "uniform") -> list[np.ndarray]:
    """The features of each node's neighbours."""
    degrees = np.exp(rng.uniform(0.0, math.log(MOST), nodes)).astype(int)
    degrees[0] = MOST
    return [FEATURES[features](rng, (n, 1)) for n in degrees]


def pooled(lists: list[np.ndarray], law: str, sizes: Tensor | None) -> Tensor:
    """The pooled neighbours of each node under a law, (nodes,)."""
    ptr = torch.tensor(np.cumsum([0, *map(len, lists)]))
    p, growth = LAWS[law]
    return norm_pool(torch.from_numpy(np.concatenate(lists)), ptr=ptr, p=p, growth=growth, sizes=sizes)[:, 0]


def study(nodes: int, draws: int, seed: int) -> list[dict[str, Any]]:
    """The outcomes of all draws, for each law and fan-out."""
    rng = np.random.default_rng(seed)
    lists = graph(nodes, rng)
    sizes = torch.tensor([len(one) for one in lists])
    full = {law: pooled(lists, law, None) for law in LAWS}
    found = []
    for fanout in FANOUTS:
        outcomes: dict[tuple[str, bool], list[float]] = {(law, told): [] for law in LAWS for told in (True, False)}
        for _ in range(draws):
            drawn = sample(lists, fanout, rng)
            for (law, told), column in outcomes.items():
                part = pooled(drawn, law, sizes if told else None) / full[law]
                column.append(round(part.mean().item(), 6))
        found += [
            {"fanout": fanout, "law": law, "sizes": told, "parts": column} for (law, told), column in outcomes.items()
        ]
    return found


def corrected(lists: list[np.ndarray], law: str, sizes: Tensor) -> Tensor:
    """As :func:`pooled`, corrected by the part of the bias that the spread of the drawn neighbours shows, (nodes,).

    M_p = m^(1/p) with m the mean of u^p over k of n neighbours. The mean of M_p over draws is too large by the factor
    1 + (1/p) (1/p - 1) / 2 var(m) / m^2, to first order in var(m), and (M_2p / M_p)^2p - 1 is the variance of u^p
    over m^2.
    """
    p, _ = LAWS[law]
    ptr = torch.tensor(np.cumsum([0, *map(len, lists)]))
    u = torch.from_numpy(np.concatenate(lists))
    mean, high = (norm_pool(u, ptr=ptr, p=e, growth=0.0)[:, 0] for e in (p, 2.0 * p))
    k = ptr.diff()
    spread = ((high / mean) ** (2.0 * p) - 1.0) / (k - 1).clamp(min=1) * (1.0 - k / sizes)
    return pooled(lists, law, sizes) / (1.0 + 0.5 / p * (1.0 / p - 1.0) * spread)


def corrections(nodes: int, draws: int, seed: int) -> list[dict[str, Any]]:
    """The outcomes with and without the correction, for each kind of features, curved law and fan-out."""
    found = []
    for features in FEATURES:
        rng = np.random.default_rng(seed)
        lists = graph(nodes, rng, features)
        sizes = torch.tensor([len(one) for one in lists])
        full = {law: pooled(lists, law, None) for law in CURVED}
        for fanout in FANOUTS:
            parts: dict[tuple[str, bool], list[float]] = {
                (law, mended): [] for law in CURVED for mended in (False, True)
            }
            for _ in range(draws):
                drawn = sample(lists, fanout, rng)
                for (law, mended), column in parts.items():
                    y = corrected(drawn, law, sizes) if mended else pooled(drawn, law, sizes)
                    column.append(round((y / full[law]).mean().item(), 6))
            found += [
                {"features": features, "fanout": fanout, "law": law, "corrected": mended, "parts": column}
                for (law, mended), column in parts.items()
            ]
    return found


def sample(lists: list[np.ndarray], fanout: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Up to ``count`` neighbours of each node, none twice."""
    return [one[rng.choice(len(one), min(fanout, len(one)), replace=False, shuffle=False)] for one in lists]


def bias(one: dict[str, Any]) -> float:
    """The difference, in percent, between the mean over draws and the value of all neighbours."""
    return 100.0 * (sum(one["parts"]) / len(one["parts"]) - 1.0)


def table(found: list[dict[str, Any]]) -> str:
    """The biases in Markdown, with a row for each law; in parentheses, the biases without ``sizes``."""
    by_key = {(one["law"], one["fanout"], one["sizes"]): bias(one) for one in found if "sizes" in one}
    lines = [["pooling", *(f"fan-out {fanout}" for fanout in FANOUTS)], ["---"] * (1 + len(FANOUTS))]
    for law in LAWS:
        cells = [f"{by_key[law, f, True]:+.1f} % ({by_key[law, f, False]:+.0f} %)" for f in FANOUTS]
        lines.append([law, *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def table_of_corrections(found: list[dict[str, Any]]) -> str:
    """The biases with the correction in Markdown; in parentheses, without it."""
    by_key = {
        (one["features"], one["law"], one["fanout"], one["corrected"]): bias(one) for one in found if "features" in one
    }
    lines = [["features", "pooling", *(f"fan-out {fanout}" for fanout in FANOUTS)], ["---"] * (2 + len(FANOUTS))]
    for features in FEATURES:
        for law in CURVED:
            pairs = [[by_key[features, law, f, mended] for mended in (True, False)] for f in FANOUTS]
            lines.append([features, law, *(f"{mended:+.1f} % ({as_is:+.1f} %)" for mended, as_is in pairs)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def filled(page: str, found: list[dict[str, Any]]) -> str:
    """The page with its tables rewritten."""
    for name, written in (("sampled", table(found)), ("corrected", table_of_corrections(found))):
        start, end = START.format(name), END.format(name)
        before, rest = page.split(start)
        page = f"{before}{start}\n\n{written}\n\n{end}{rest.split(end)[1]}"
    return page


def main() -> None:
    """Run from the command line."""
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
    found = study(nodes=500, draws=60, seed=0) + corrections(nodes=500, draws=60, seed=0)
    write_runs(RESULTS, found)
    PAGE.write_text(filled(page, found), encoding="utf-8")


if __name__ == "__main__":
    main()
