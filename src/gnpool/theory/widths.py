"""Compares networks of growing width with their kernels, before training and after gradient descent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gnpool.tasks import get_task
from gnpool.theory.graphs import NeighborSums, join, neighbor_sums
from gnpool.theory.kernel import HEADS, angular_directions, feature_map, scalar_directions
from gnpool.theory.networks import Parameters, draw_parameters, empirical_kernel, network, train_network
from gnpool.theory.readouts import NormReadout, Readout
from gnpool.theory.regression import kernel_regression

GRAPHS = 18  # two of each edge probability
TRAIN_SIZES, TEST_SIZES = (8, 16), (16, 32)
STEPS = 50
ANGLES = 20_000
SEEDS = 8


@dataclass(frozen=True)
class Case:
    """One kind of network: its pooling, its head, and how many features its nodes have.

    Example:
        >>> from gnpool.theory import CASES
        >>> [(case.name, case.head, case.channels) for case in CASES][:2]
        [('GNP (-1, 0), MLP head', 'mlp', 1), ('GNP (2, 0), 2 features', 'linear', 2)]
    """

    name: str
    readout: NormReadout
    head: str
    channels: int


CASES = (
    Case("GNP (-1, 0), MLP head", NormReadout(-1.0), "mlp", 1),
    Case("GNP (2, 0), 2 features", NormReadout(2.0), "linear", 2),
    Case("GNP (-1, 0), 2 features", NormReadout(-1.0), "linear", 2),
)


@dataclass(frozen=True)
class WidthRow:
    """Networks of one width beside their kernel; every list has one number per network.

    Args:
        case (str): Which kind of network.
        width (int): Its channels.
        kernel (list): Relative distance of the tangent kernel at the start from the infinite one.
        function (list): Relative distance on the test graphs between the trained network and gradient descent with the
            kernel, after the same number of steps.
        flipped (list): The part of :func:`linearization_gap` from channels that changed a sign; empty for an MLP head.
        unflipped (list): The part from all other channels; empty for an MLP head.
    """

    case: str
    width: int
    kernel: list[float]
    function: list[float]
    flipped: list[float]
    unflipped: list[float]


def compare_widths(case: Case, widths: Sequence[int], seed: int = 0) -> list[WidthRow]:
    """Train networks of several widths on small graphs, and compare them with the kernel on larger ones."""
    train, test = width_graphs(case.channels, seed)
    both = join([train, test])
    directions = scalar_directions() if case.channels == 1 else angular_directions(ANGLES)
    kernel = HEADS[case.head](feature_map(both, case.readout, directions))
    count = len(train)
    rate = 1.0 / float(torch.linalg.eigvalsh(kernel[:count, :count])[-1])
    expected = kernel_regression(kernel, both.y, count, steps=STEPS)[count:]
    rows = []
    for width in widths:
        row = WidthRow(case.name, width, [], [], [], [])
        for k in range(SEEDS):
            start = draw_parameters(width, case.channels, case.head, seed=seed * SEEDS + k)
            row.kernel.append(float((empirical_kernel(start, both, case.readout) - kernel).norm() / kernel.norm()))
            end, _ = train_network(start, train, case.readout, STEPS, rate)
            learned = network(end, test, case.readout) - network(start, test, case.readout)
            row.function.append(float((learned - expected).norm() / expected.norm()))
            if case.head == "linear":
                flipped, unflipped = linearization_gap(start, end, test, case.readout)
                row.flipped.append(float(flipped.norm() / expected.norm()))
                row.unflipped.append(float(unflipped.norm() / expected.norm()))
        rows.append(row)
    return rows


def linearization_gap(
    start: Parameters, end: Parameters, graphs: NeighborSums, readout: Readout
) -> tuple[Tensor, Tensor]:
    r"""What a network with a linear head has learned beyond its linearisation at the start, in two parts, (G,) each.

    Kernel regression describes training as far as :math:`f(\theta)` follows its first-order expansion at
    :math:`\theta_0`. The difference is a sum over channels; for each graph it is split into the channels where some
    :math:`w_k^\top h_u` has another sign than at the start, and the others.

    Example:
        >>> from gnpool.tasks import get_task
        >>> from gnpool.theory import NormReadout, draw_parameters, linearization_gap, neighbor_sums
        >>> graphs = neighbor_sums(get_task("harmonic").dataset("train", count=3))
        >>> start = draw_parameters(64, 1)
        >>> [part.tolist() for part in linearization_gap(start, start, graphs, NormReadout(2.0))]  # nothing was trained
        [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    before, after = (graphs.h @ parameters["inner"].T for parameters in (start, end))
    value, slope = readout.pool(before, graphs)
    moved = torch.zeros_like(value).index_add_(0, graphs.index, slope * (after - before))
    linear = moved * start["outer"] + value * (end["outer"] - start["outer"])
    gap = readout.pool(after, graphs)[0] * end["outer"] - value * start["outer"] - linear
    gap = gap / start["outer"].numel() ** 0.5
    flips = torch.zeros_like(value).index_add_(0, graphs.index, ((before > 0) != (after > 0)).double()) > 0
    return torch.where(flips, gap, 0.0).sum(1), torch.where(flips, 0.0, gap).sum(1)


def width_graphs(channels: int, seed: int) -> tuple[NeighborSums, NeighborSums]:
    """The training and test graphs of the comparison, labelled by the harmonic task."""
    task = get_task("harmonic")
    features = None if channels == 1 else (channels, 1.0)
    train = task.dataset("train", seed=seed, count=GRAPHS, sizes=TRAIN_SIZES, features=features)
    test = task.dataset("test", seed=seed, count=GRAPHS, sizes=TEST_SIZES, features=features)
    return neighbor_sums(train), neighbor_sums(test)
