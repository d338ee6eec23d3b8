"""The statements of the theory as numbers that must stay within a bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from gnpool.ops import norm_pool
from gnpool.tasks import get_task
from gnpool.theory.graphs import NeighborSums, neighbor_sums
from gnpool.theory.kernel import (
    Directions,
    angular_directions,
    feature_map,
    linear_head_kernel,
    random_directions,
    scalar_directions,
)
from gnpool.theory.networks import draw_parameters, empirical_kernel, operator_pool
from gnpool.theory.readouts import NormReadout, PlainReadout, Readout

READOUTS: tuple[Readout, ...] = (
    NormReadout(-1.0),
    NormReadout(3.0, 0.5),
    *(PlainReadout(name) for name in ("sum", "mean", "max", "min")),
)
EXACT = 1e-9  # rounding of double precision, with room for sums of many terms
STEP = 1e-5  # of central differences
STEP_ERROR = 1e-7  # what they leave: of the order of the step squared, and of rounding over the step
SAMPLED = 0.05  # Monte Carlo with SAMPLES directions
SAMPLES = 20_000
ANGLES = 20_000


@dataclass(frozen=True)
class Check:
    """One statement, and the number that decides it.

    Args:
        name (str): The statement in words.
        value (float): The computed number.
        bound (float): The bound of the number.
        above (bool, optional): Whether the value must exceed the bound. (default: ``False``, stay at or below it)

    Example:
        >>> from gnpool.theory import Check
        >>> Check("GNP (1, 0) is the sum", value=3e-16, bound=1e-9).holds
        True
        >>> Check("the baselines fail", value=55.0, bound=20.0, above=True).holds
        True
    """

    name: str
    value: float
    bound: float
    above: bool = False

    @property
    def holds(self) -> bool:
        """Whether the statement is true."""
        return self.value > self.bound if self.above else self.value <= self.bound


def special_cases(seed: int = 0) -> list[Check]:
    """Proposition 1: sum, mean, max and, for positive input, min are points or limits of GNP."""
    x = _positive(40, seed)
    n = x.size(0)

    def gap(p: float, q: float, expected: Tensor) -> float:
        return _relative(norm_pool(x, p=p, q=q, eps=0.0)[0], expected)

    top, bottom = x.amax(0), x.amin(0)
    limits = []
    for p in (10.0, 100.0, 1000.0):
        # max <= GNP_p <= n^(1/p) max and n^(-1/p) min <= GNP_-p <= min
        over = norm_pool(x, p=p, eps=0.0)[0] / top
        under = norm_pool(x, p=-p, eps=0.0)[0] / bottom
        room = n ** (1.0 / p)
        limits += [float((over - room).max()), float((1.0 - over).max())]
        limits += [float((1.0 / room - under).max()), float((under - 1.0).max())]
    return [
        Check("GNP (1, 0) is the sum", gap(1.0, 0.0, x.sum(0)), EXACT),
        Check("GNP (1, 1) is the mean", gap(1.0, 1.0, x.mean(0)), EXACT),
        Check("GNP (inf, 0) is the max", gap(math.inf, 0.0, top), EXACT),
        Check("GNP (-inf, 0) is the min of positive input", gap(-math.inf, 0.0, bottom), EXACT),
        Check("p = 10, 100, 1000: within n^(1/p) of max and min", max(limits), EXACT),
    ]


def gradient_in_p(seed: int = 0) -> list[Check]:
    """The derivative in p: the corrected formula holds for every q, the printed one for q = 0 only."""
    x = _positive(30, seed)
    right: list[float] = []
    difference: list[float] = []
    printed_zero: list[float] = []
    printed_other: list[float] = []
    for p in (-3.0, -1.0, 0.7, 2.0, 8.0):
        for q in (0.0, 0.5, -1.0):
            exponent = torch.tensor(p, dtype=torch.float64, requires_grad=True)
            (auto,) = torch.autograd.grad(norm_pool(x, p=exponent, q=q, eps=0.0).sum(), exponent)
            low, high = (norm_pool(x, p=p + d, q=q, eps=0.0).sum() for d in (-STEP, STEP))
            right.append(_relative(gradient_formula(x, p, q).sum(), auto))
            difference.append(_relative((high - low) / (2 * STEP), auto))
            printed = _relative(gradient_formula(x, p, q, printed=True).sum(), auto)
            (printed_other if q else printed_zero).append(printed)
    return [
        Check("d GNP / dp: corrected formula and autograd", max(right), EXACT),
        Check("d GNP / dp: central differences and autograd", max(difference), STEP_ERROR),
        Check("d GNP / dp: printed formula, q = 0", max(printed_zero), EXACT),
        Check("d GNP / dp: printed formula is off for q not 0", min(printed_other), 0.01, above=True),
    ]


def gradient_formula(x: Tensor, p: float, q: float, printed: bool = False) -> Tensor:
    r"""The derivative of GNP in p, (D,), for positive rows ``x`` (n, D).

    .. math::
        \frac{dG}{dp} = \frac{G}{p} \left( -\frac{\log S}{p} + \frac{\sum_i v_i^p \log v_i}{S} \right),
        \qquad S = \sum_i v_i^p = (n^q G)^p

    Args:
        x (torch.Tensor): The elements.
        p (float): Exponent.
        q (float): Exponent of the size.
        printed (bool, optional): Take :math:`S = G^p`, as the paper prints it. (default: ``False``)

    Example:
        >>> import torch
        >>> from gnpool.theory import gradient_formula
        >>> x = torch.tensor([[1.0], [2.0]], dtype=torch.float64)
        >>> gradient_formula(x, p=2.0, q=0.0)
        tensor([-0.2797], dtype=torch.float64)
        >>> norm = lambda p: x.pow(p).sum() ** (1 / p)
        >>> (norm(2 + 1e-6) - norm(2 - 1e-6)) / 2e-6  # the same by differences
        tensor(-0.2797, dtype=torch.float64)
    """
    powers = x**p
    pooled = x.size(0) ** -q * powers.sum(0) ** (1.0 / p)
    total = pooled**p if printed else powers.sum(0)
    return pooled / p * (-total.log() / p + (powers * x.log()).sum(0) / total)


def kernels(seed: int = 0) -> list[Check]:
    """Compare the ways to compute the tangent kernel; each number is the worst over all readouts."""
    scalar, plane = _graphs(1, seed), _graphs(2, seed)
    found: dict[str, list[float]] = {}

    def note(name: str, difference: float) -> None:
        found.setdefault(name, []).append(difference)

    for readout in READOUTS:
        drawn = random_directions(64, 2, seed)
        phi = feature_map(plane, readout, drawn)
        value, slope = _autograd_features(plane, readout, drawn)
        note("feature map and autograd through the operator", _relative(phi.value, value))
        note("feature map and autograd through the operator", _relative(phi.slope, slope))

        # With every outer weight 1 or -1 a network's kernel is the Monte-Carlo sum over its own inner weights.
        parameters = draw_parameters(64, 2, seed=seed)
        parameters["outer"] = parameters["outer"].sign()
        own = Directions(parameters["inner"], 1.0 / 64, 1.0 / 64)
        note(
            "kernel of a network of width 64 and its own feature map",
            _relative(
                empirical_kernel(parameters, plane, readout), linear_head_kernel(feature_map(plane, readout, own))
            ),
        )

        # For w > 0 everything is w times the readout of the degrees; for w < 0 the ReLU leaves nothing.
        closed = operator_pool(scalar.h, scalar, readout)
        exact = linear_head_kernel(feature_map(scalar, readout, scalar_directions()))
        note("scalar features: kernel and its closed form, rank 1", _relative(exact, closed @ closed.T))
        sampled = linear_head_kernel(feature_map(scalar, readout, random_directions(SAMPLES, 1, seed)))
        note(f"scalar features: closed form and {SAMPLES:,} samples", _relative(sampled, exact))

        quadrature = linear_head_kernel(feature_map(plane, readout, angular_directions(ANGLES)))
        sampled = linear_head_kernel(feature_map(plane, readout, random_directions(SAMPLES, 2, seed)))
        note(f"two features: quadrature and {SAMPLES:,} samples", _relative(sampled, quadrature))
    return [Check(name, max(values), SAMPLED if "samples" in name else EXACT) for name, values in found.items()]


def minimum_norm(seed: int = 0) -> list[Check]:
    """The solution in the proof of Theorem 1: 1/2 on both blocks of w > 0, nothing on w < 0."""
    graphs = neighbor_sums(get_task("harmonic").dataset("train", seed=seed, count=90))
    readout = NormReadout(-1.0)
    value, node_slope = readout.pool(graphs.h @ torch.tensor([[1.0, -1.0]], dtype=torch.float64), graphs)
    slope = torch.zeros_like(value).index_add_(0, graphs.index, node_slope * graphs.h)
    features = torch.cat([value, slope], dim=1)  # for w > 0 and w < 0, then the same of the second block
    beta = torch.linalg.pinv(features) @ graphs.y
    expected = torch.tensor([0.5, 0.0, 0.5, 0.0], dtype=torch.float64)
    return [
        Check("Theorem 1: first block of w > 0 is the label", _relative(value[:, 0], graphs.y), EXACT),
        Check("Theorem 1: second block of w > 0 is the label", _relative(slope[:, 0], graphs.y), EXACT),
        Check("Theorem 1: both blocks of w < 0 are 0", float(features[:, 1::2].abs().max()), 0.0),
        Check("Theorem 1: minimum-norm weights are 1/2, 0, 1/2, 0", float((beta - expected).abs().max()), EXACT),
    ]


def jump() -> list[Check]:
    """GNP with p < 0 leaves out values that are not positive, and so jumps where a channel passes 0, unlike p > 0."""
    rest = torch.tensor([[1.0], [2.0]], dtype=torch.float64)

    def gap(p: float) -> float:
        near = torch.tensor([[1e-9], [0.0]], dtype=torch.float64)
        before, after = (norm_pool(torch.cat([rest, row[None]]), p=p, eps=0.0).item() for row in near)
        return abs(after - before)

    return [
        Check("p = -1 jumps by 2/3 where 1 of {1, 2, z} reaches 0", abs(gap(-1.0) - 2.0 / 3.0), 1e-8),
        Check("p = 2 does not", gap(2.0), 1e-8),
    ]


CHECKS: tuple[Callable[[int], list[Check]], ...] = (
    special_cases,
    gradient_in_p,
    kernels,
    minimum_norm,
    lambda _: jump(),
)


def run_checks(seed: int = 0) -> list[Check]:
    """All checks."""
    return [check for group in CHECKS for check in group(seed)]


def _autograd_features(graphs: NeighborSums, readout: Readout, directions: Directions) -> tuple[Tensor, Tensor]:
    """The two blocks of the feature map by differentiating the library's operator."""
    w = directions.w.clone().requires_grad_()
    value = operator_pool(graphs.h @ w.T, graphs, readout)
    slopes = [torch.autograd.grad(row.sum(), w, retain_graph=True)[0].flatten() for row in value]
    return value.detach() * directions.value_weight**0.5, torch.stack(slopes) * directions.slope_weight**0.5


def _graphs(channels: int, seed: int) -> NeighborSums:
    features = None if channels == 1 else (channels, 1.0)
    return neighbor_sums(get_task("harmonic").dataset("train", seed=seed, count=9, sizes=(6, 12), features=features))


def _positive(rows: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 0.1 + 5.0 * torch.rand(rows, 4, generator=generator, dtype=torch.float64)


def _relative(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).norm() / expected.norm())
