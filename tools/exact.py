"""Compares random cases of the operator with mpmath: values and gradients, for rows of any size and every call form.

    python -m tools.exact                                    # 6,000 cases of each kind on the CPU's backend
    python -m tools.exact --backend reference --keep         # also store the outcome, for the table of docs/checks.md
    python -m tools.exact --calls 15 --seed 1

A case is one channel: rows drawn in three segments, with its own p and q or growth. "usual" rows lie between
1e-4 and 1e6, with |p| between 1/4 and 50; "wide" rows lie anywhere in the range of the type, with |p| between 1/20
and 50. Both have infinite p, too. The exact result has 60 digits. Values are compared if the type can hold them.
Gradients are compared if the type can hold all results of the channel, unless a max or min has a second entry that is
as large up to rounding. The error of a value is relative. The error of a gradient in x or in edge weights is relative
to the largest of the channel, and that in p to its two terms. A test runs a few cases on every backend
(tests/ops/test_exact.py).
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import mpmath
import numpy as np
import torch
from torch import Tensor

from tools.outcomes import keep, kept

SEGMENTS = 3
DTYPES = {"float32": torch.float32, "float64": torch.float64}
DECADES = {"usual": dict.fromkeys(DTYPES, (-4.0, 6.0)), "wide": {"float32": (-36.0, 36.0), "float64": (-300.0, 300.0)}}
LEAST_P = {"usual": 0.25, "wide": 0.05}
HELD = {"float32": (1e-36, 3e38), "float64": (1e-290, 1e308)}  # normal numbers, with a margin for their slopes
EPS = {"usual": (1e-6, 0.0, 1e-3), "wide": (0.0, 1e-30, 1e-6)}
FORMS = ({}, {"zeros": "keep"}, {"zeros": "remove"})  # the first form is the one with q
WAYS = ("segments", "neighbors", "weighted")
DIGITS = 60
PAGE = Path(__file__).parents[1] / "docs" / "checks.md"
NEAR = 1e-6  # entries of this relative difference may be equal after x + eps or w x is rounded


class Call(NamedTuple):
    """One call of the operator: x (N, D), the ends of its entries, weights, p and q or growth (D,)."""

    way: str
    x: Tensor
    source: Tensor
    segment: Tensor
    weight: Tensor | None
    p: Tensor
    size: Tensor
    eps: float
    options: dict[str, str]

    def pool(self, x: Tensor, weight: Tensor | None, p: Tensor) -> Tensor:
        """y (SEGMENTS, D)."""
        from gnpool import norm_pool, norm_pool_neighbors

        exponents = {"p": p, "growth" if self.options else "q": self.size, "eps": self.eps, **self.options}
        if self.way == "segments":
            return norm_pool(x, self.segment, dim_size=SEGMENTS, **exponents)
        ends = torch.stack([self.source, self.segment])
        return norm_pool_neighbors(x, ends, edge_weight=weight, dim_size=SEGMENTS, **exponents)


class Pooled(NamedTuple):
    """The exact result of one segment and channel."""

    y: mpmath.mpf
    slopes: list[mpmath.mpf]  # dy/dz of each entry
    by_p: mpmath.mpf
    terms: mpmath.mpf  # size of the terms whose difference is dy/dp
    smooth: bool = True  # if the result is the extreme, whether no other entry equals it up to rounding


@dataclass
class Found:
    """The worst errors so far."""

    cases: int = 0
    gradients: int = 0  # number of cases whose gradients could be compared
    value: float = 0.0
    gradient: float = 0.0
    by_p: float = 0.0
    not_finite: int = 0
    worst: dict[str, str] = field(default_factory=dict)  # the cases with the worst errors

    def meet(self, kind: str, error: float, case: str) -> None:
        """Record an error; an error that is not a number is counted separately."""
        if not np.isfinite(error):
            self.not_finite += 1
            self.worst.setdefault("not_finite", case)
        elif error > getattr(self, kind):
            setattr(self, kind, error)
            self.worst[kind] = case


def draw(rng: np.random.Generator, kind: str, dtype: str, way: str, channels: int) -> Call:
    """A call whose channels are separate cases."""
    entries = int(rng.integers(SEGMENTS, 40))
    rows = entries if way == "segments" else int(rng.integers(2, entries + 1))
    low, high = np.sort(rng.uniform(*DECADES[kind][dtype], (2, channels)), axis=0)
    x = 10.0 ** rng.uniform(low, high, (rows, channels)) * rng.choice([-1.0, 1.0], (rows, channels))
    least = LEAST_P[kind]
    p = np.exp(rng.uniform(np.log(least), np.log(50.0), channels)) * rng.choice([-1.0, 1.0], channels)
    p[rng.random(channels) < 0.1] *= np.inf
    options = FORMS[rng.integers(len(FORMS))]
    if options and kind == "usual":  # through 0, the geometric mean
        small = rng.random(channels) < 0.3
        p[small] = rng.choice([0.0, 1e-6, -1e-3, 0.03, -0.2], small.sum())
    eps = EPS[kind][rng.integers(3)]
    if eps:
        x[rng.random(x.shape) < 0.05] = 0.0
    return Call(
        way,
        torch.tensor(x).to(DTYPES[dtype]),
        torch.arange(rows) if way == "segments" else torch.tensor(rng.integers(0, rows, entries)),
        torch.tensor(rng.integers(0, SEGMENTS, entries)),
        torch.tensor(10.0 ** rng.uniform(-1, 1, entries)).to(DTYPES[dtype]) if way == "weighted" else None,
        torch.tensor(p),
        torch.tensor(rng.uniform(-1.0, 2.0, channels)),
        eps,
        options,
    )


def pooled(z: list[mpmath.mpf], p: float, size: float, eps: mpmath.mpf, options: dict[str, str]) -> Pooled:
    """The exact result for the entries z of one segment; ``size`` is q, or the growth where there are options."""
    nothing = mpmath.mpf(0)
    every = options["zeros"] == "keep" if options else p > 0
    kept = [i for i, one in enumerate(z) if every or abs(one) > eps]
    u = [abs(z[i]) + eps for i in kept]
    if not u:
        return Pooled(nothing, [nothing] * len(z), nothing, nothing)
    factor = mpmath.mpf(len(z)) ** (size if options else -size)
    smooth = True
    if np.isinf(p):
        mean = max(u) if p > 0 else min(u)
        ties = u.count(mean)
        smooth = ties == sum(abs(one / mean - 1) < NEAR if mean else one == 0 for one in u)
        slopes, by_p, terms = [mpmath.mpf(one == mean) / ties for one in u], nothing, nothing
    elif p == 0:
        logs = [mpmath.log(one) for one in u]
        level = sum(logs) / len(u)
        mean = mpmath.exp(level)
        slopes = [mean / one / len(u) for one in u]
        by_p = terms = mean * sum((one - level) ** 2 for one in logs) / len(u) / 2
    else:
        e = mpmath.mpf(p)
        powers = [one**e for one in u]
        total = sum(powers)
        share = total / len(u) if options else total
        mean = share ** (1 / e)
        slopes = [mean / total * power / one for power, one in zip(powers, u, strict=True)]
        unit = max(u) if p > 0 else min(u)
        log_mean = sum(power * mpmath.log(one / unit) for power, one in zip(powers, u, strict=True)) / total
        log_share = mpmath.log(share) - e * mpmath.log(unit)
        by_p = mean / e * (log_mean - log_share / e)
        terms = abs(by_p) + mean * min(1, 1 / e**2)
    placed = dict(zip(kept, slopes, strict=True))
    signed = [factor * placed.get(i, nothing) * mpmath.sign(one) for i, one in enumerate(z)]
    return Pooled(factor * mean, signed, factor * by_p, factor * terms, smooth)


def held(value: mpmath.mpf, dtype: str) -> bool:
    """Whether the type can hold a value as a normal number."""
    low, high = HELD[dtype]
    return value == 0 or low < abs(value) < high


class Channel(NamedTuple):
    """The exact results of one case."""

    y: list[mpmath.mpf]  # of each segment
    by_x: list[mpmath.mpf]
    by_weight: list[mpmath.mpf]
    by_p: mpmath.mpf
    terms: mpmath.mpf
    safe: bool  # whether the type can hold all results


def channel(call: Call, c: int, dtype: str) -> Channel:
    """The exact results of channel c."""
    eps = mpmath.mpf(torch.tensor(call.eps, dtype=DTYPES[dtype]).item())
    source, segment = call.source.tolist(), call.segment.tolist()
    values = [mpmath.mpf(v) for v in call.x[:, c].tolist()]
    factors = [mpmath.mpf(f) for f in ([1] * len(segment) if call.weight is None else call.weight.tolist())]
    z = [f * values[j] for f, j in zip(factors, source, strict=True)]
    results, by_x, by_weight = [], [mpmath.mpf(0)] * len(values), [mpmath.mpf(0)] * len(z)
    for s in range(SEGMENTS):
        entries = [i for i, one in enumerate(segment) if one == s]
        results.append(pooled([z[i] for i in entries], call.p[c].item(), call.size[c].item(), eps, call.options))
        for i, slope in zip(entries, results[-1].slopes, strict=True):
            by_x[source[i]] += slope * factors[i]
            by_weight[i] += slope * values[source[i]]
    numbers = [*z, *by_x, *(one for result in results for one in (result.y, result.by_p))]
    numbers += [] if call.weight is None else by_weight
    safe = all(result.smooth for result in results) and all(held(one, dtype) for one in numbers)
    by_p, terms = sum(result.by_p for result in results), sum(result.terms for result in results)
    return Channel([result.y for result in results], by_x, by_weight, by_p, terms, safe)


def measure(call: Call, dtype: str, found: Found, name: str) -> None:
    """Compare one call with the exact results; each channel is a case."""
    x, p = call.x.clone().requires_grad_(), call.p.clone().requires_grad_()
    y = call.pool(x, call.weight, p)
    by_x, by_p = torch.autograd.grad(y.sum(), (x, p))
    for c in range(call.p.numel()):
        exact = channel(call, c, dtype)
        case = f"{name}, channel {c}: p = {call.p[c].item():.4g}, eps = {call.eps:g}, {call.options or 'q'}"
        found.cases += 1
        for mine, one in zip(y[:, c].tolist(), exact.y, strict=True):
            if held(one, dtype) and one != 0:
                found.meet("value", float(abs(mine / one - 1)), case)
        if not exact.safe:
            continue
        found.gradients += 1
        found.meet("gradient", largest_error(by_x[:, c], exact.by_x), case)
        found.meet("by_p", float(abs(by_p[c].item() - exact.by_p) / (exact.terms or 1)), case)
        if call.weight is not None:  # its gradient is the sum over channels, so each channel is computed alone
            weight, one = call.weight.clone().requires_grad_(), slice(c, c + 1)
            alone = call._replace(size=call.size[one]).pool(call.x[:, one], weight, call.p[one])
            (by_weight,) = torch.autograd.grad(alone.sum(), weight)
            found.meet("gradient", largest_error(by_weight, exact.by_weight), f"{case}, weights")


def largest_error(actual: Tensor, exact: list[mpmath.mpf]) -> float:
    """Errors relative to the largest exact value."""
    error = max(abs(mine - one) for mine, one in zip(actual.tolist(), exact, strict=True))
    return float(error / (max(map(abs, exact)) or 1))


def search(kind: str, dtype: str, calls: int, seed: int, channels: int = 40) -> Found:
    """Run the calls of one kind and type, each with several cases."""
    found = Found()
    with mpmath.workdps(DIGITS):
        for number in range(calls):
            way = WAYS[number % len(WAYS)]
            call = draw(np.random.default_rng([seed, number]), kind, dtype, way, channels)
            measure(call, dtype, found, f"call {number} ({way})")
    return found


def table() -> str:
    """The stored outcomes, in Markdown."""
    lines = [
        "| backend | rows | type | cases | values, in eps | gradients in x and weights | in p | not finite |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for backend in ("reference", "numba", "triton"):
        for row in kept(f"exact {backend}").get("rows", []):
            errors = (row["value"], row["gradient"], row["by_p"])
            cells = (backend, row["kind"], row["dtype"], f"{row['cases']:,}", *(f"{one:.2g}" for one in errors))
            lines.append("| " + " | ".join((*cells, str(row["not_finite"]))) + " |")
    return "\n".join(lines)


def filled(page: str) -> str:
    """The page with its table rewritten."""
    from gnpool.report.markdown.blocks import fill

    return fill(page, {"cases": table()}, PAGE.name, "exact")


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=150, help="calls of each kind and type, with 40 cases each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backend", default="numba", help="numba, reference or triton")
    parser.add_argument("--keep", action="store_true", help="write to results/reliability.json and docs/checks.md")
    given = parser.parse_args()
    os.environ["GNPOOL_BACKEND"] = given.backend
    rows = []
    for kind in DECADES:
        for dtype in DTYPES:
            begin = time.perf_counter()
            found = search(kind, dtype, given.calls, given.seed)
            unit = torch.finfo(DTYPES[dtype]).eps
            print(
                f"{given.backend}, {kind}, {dtype}: {found.cases:,} cases, values {found.value / unit:.1f} eps; "
                f"{found.gradients:,} gradients {found.gradient:.1e}, in p {found.by_p:.1e}; "
                f"{found.not_finite} not finite ({time.perf_counter() - begin:.0f} s)",
                *(f"    {what}: {case}" for what, case in found.worst.items()),
                sep="\n",
                flush=True,
            )
            row = {"kind": kind, "dtype": dtype, "cases": found.cases, "gradients": found.gradients}
            row["not_finite"] = found.not_finite
            errors = {"value": found.value / unit, "gradient": found.gradient, "by_p": found.by_p}
            rows.append(row | {name: float(f"{error:.2g}") for name, error in errors.items()})
    if given.keep:
        keep(f"exact {given.backend}", {"seed": given.seed, "rows": rows})
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
