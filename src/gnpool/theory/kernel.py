r"""The graph neural tangent kernel of the one-layer network, through its feature map.

The network is :math:`f(\theta, G) = m^{-1/2} \sum_k a_k\, P(\{w_k^\top h_u\}_u)` with all :math:`a_k` and :math:`w_k`
standard normal. As its width m grows, its tangent kernel tends to

.. math::
    \Theta(G, G') = \mathbb{E}_w\!\left[P(w; G)\, P(w; G')\right]
    + \mathbb{E}_w\!\left[\langle \partial_w P(w; G),\, \partial_w P(w; G') \rangle\right],
    \qquad \partial_w P = \sum_u \frac{\partial P}{\partial z_u}\, h_u ,

the inner product of two blocks of features for every direction w. What differs between the ways to evaluate it is
only which directions are taken, and with which weights: see :class:`Directions`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from gnpool.theory.graphs import NeighborSums
from gnpool.theory.readouts import Readout

CHUNK = 2**22  # numbers in one (N, K) block, 32 MiB


@dataclass(frozen=True)
class Directions:
    r"""A rule that replaces the expectation over w ~ N(0, I) by a weighted sum.

    The pooled value is homogeneous of degree 1 in w and its derivative of degree 0, so the length of w can be
    integrated away: with unit vectors e, :math:`\mathbb{E}[P P'] = d\, \mathbb{E}_e[P P']`.

    Args:
        w (torch.Tensor): The directions, (K, d).
        value_weight (float): Weight of each in the first expectation.
        slope_weight (float): Weight of each in the second.

    Example:
        >>> from gnpool.theory import scalar_directions
        >>> rule = scalar_directions()
        >>> rule.w.flatten().tolist(), rule.value_weight, rule.slope_weight
        ([1.0, -1.0], 0.5, 0.5)
    """

    w: Tensor
    value_weight: float
    slope_weight: float


def scalar_directions() -> Directions:
    """The exact rule for one feature: only the two signs of w matter.

    Example:
        >>> from gnpool.theory import scalar_directions
        >>> scalar_directions().w.flatten().tolist()
        [1.0, -1.0]
    """
    return Directions(torch.tensor([[1.0], [-1.0]], dtype=torch.float64), 0.5, 0.5)


def angular_directions(count: int) -> Directions:
    """Quadrature for two features: ``count`` angles in even steps.

    Example:
        >>> from gnpool.theory import angular_directions
        >>> rule = angular_directions(4)
        >>> rule.w.round(decimals=3).abs().tolist()
        [[0.707, 0.707], [0.707, 0.707], [0.707, 0.707], [0.707, 0.707]]
    """
    angle = (torch.arange(count, dtype=torch.float64) + 0.5) * (2.0 * math.pi / count)
    return Directions(torch.stack([angle.cos(), angle.sin()], dim=1), 2.0 / count, 1.0 / count)


def random_directions(count: int, channels: int, seed: int = 0) -> Directions:
    """Monte Carlo: ``count`` draws of w ~ N(0, I), for any number of features.

    Example:
        >>> from gnpool.theory import random_directions
        >>> rule = random_directions(1000, channels=3)
        >>> rule.w.shape, rule.value_weight
        (torch.Size([1000, 3]), 0.001)
    """
    generator = torch.Generator().manual_seed(seed)
    w = torch.randn(count, channels, generator=generator, dtype=torch.float64)
    return Directions(w, 1.0 / count, 1.0 / count)


@dataclass(frozen=True)
class FeatureMap:
    """Features of G graphs whose inner products are the two parts of the kernel.

    Args:
        value (torch.Tensor): The first block, the pooled values, (G, K).
        slope (torch.Tensor): The second block, their derivatives in w, (G, K d).

    Example:
        >>> from gnpool.tasks import get_task
        >>> from gnpool.theory import NormReadout, feature_map, neighbor_sums, random_directions
        >>> graphs = neighbor_sums(get_task("harmonic").dataset("train", count=5, features=(3, 5.0)))
        >>> phi = feature_map(graphs, NormReadout(2.0), random_directions(100, channels=3))
        >>> phi.value.shape, phi.slope.shape
        (torch.Size([5, 100]), torch.Size([5, 300]))
    """

    value: Tensor
    slope: Tensor


def feature_map(graphs: NeighborSums, readout: Readout, directions: Directions) -> FeatureMap:
    r"""The feature map of the one-layer network over a rule of directions.

    Example:
        >>> from gnpool.tasks import get_task
        >>> from gnpool.theory import NormReadout, feature_map, neighbor_sums, scalar_directions
        >>> graphs = neighbor_sums(get_task("harmonic").dataset("test", structure="ladder", sizes=(6, 7), count=1))
        >>> phi = feature_map(graphs, NormReadout(-1.0), scalar_directions())
        >>> (phi.value * 2**0.5).tolist(), (phi.slope * 2**0.5).tolist()  # both blocks are the label, for w > 0
        ([[0.375, 0.0]], [[0.375, 0.0]])
    """
    w = directions.w
    if w.size(1) != graphs.channels:
        raise ValueError(f"'directions' have {w.size(1)} channels, but the graphs have {graphs.channels} features")
    values, slopes = [], []
    for part in w.split(max(1, CHUNK // graphs.h.size(0))):
        value, slope = readout.pool(graphs.h @ part.T, graphs)
        values.append(value)
        by_channel = [
            torch.zeros_like(value).index_add_(0, graphs.index, slope * graphs.h[:, c : c + 1])
            for c in range(graphs.channels)
        ]
        slopes.append(torch.stack(by_channel, dim=2).flatten(1))
    return FeatureMap(
        value=torch.cat(values, dim=1) * directions.value_weight**0.5,
        slope=torch.cat(slopes, dim=1) * directions.slope_weight**0.5,
    )


def linear_head_kernel(phi: FeatureMap) -> Tensor:
    """The kernel (G, G) of the network whose output is linear in the pooled channels.

    Example:
        >>> from gnpool.tasks import get_task
        >>> from gnpool.theory import NormReadout, feature_map, linear_head_kernel, neighbor_sums, scalar_directions
        >>> graphs = neighbor_sums(get_task("harmonic").dataset("train", count=2))
        >>> kernel = linear_head_kernel(feature_map(graphs, NormReadout(-1.0), scalar_directions()))
        >>> (kernel[0, 1] / (graphs.y[0] * graphs.y[1])).round(decimals=6).item()  # the product of the labels
        1.0
    """
    return phi.value @ phi.value.T + phi.slope @ phi.slope.T


def mlp_head_kernel(phi: FeatureMap) -> Tensor:
    r"""The kernel (G, G) of the network with one hidden ReLU layer, with biases, after the pooling.

    With :math:`\Sigma` and :math:`\dot\Theta` the two parts of the kernel of the pooled channels, and
    :math:`(s, s') \sim \mathcal{N}(0, \Lambda)`, :math:`\Lambda = \Sigma + 1` for the biases,

    .. math::
        2\, \mathbb{E}[\mathrm{ReLU}(s)\, \mathrm{ReLU}(s')]
        + 2\, \mathbb{P}[s > 0,\, s' > 0] \, (\Sigma + 1 + \dot\Theta) .

    Both expectations are functions of the angle between the features extended by a 1, which is taken from their
    distance: an angle from the cosine would lose half of the digits where two graphs are alike.

    Example:
        >>> import torch
        >>> from gnpool.tasks import get_task
        >>> from gnpool.theory import NormReadout, feature_map, mlp_head_kernel, neighbor_sums, scalar_directions
        >>> graphs = neighbor_sums(get_task("harmonic").dataset("train", count=4))
        >>> kernel = mlp_head_kernel(feature_map(graphs, NormReadout(-1.0), scalar_directions()))
        >>> kernel.shape, bool((torch.linalg.eigvalsh(kernel) > 0).all())
        (torch.Size([4, 4]), True)
    """
    ones = torch.ones_like(phi.value[:, :1])
    extended = torch.cat([phi.value, ones], dim=1)
    length = extended.norm(dim=1)
    unit = extended / length[:, None]
    chord = torch.cdist(unit, unit, compute_mode="donot_use_mm_for_euclid_dist")
    angle = 2.0 * (chord / 2.0).clamp(max=1.0).asin()
    both = (math.pi - angle) / (2.0 * math.pi)
    product = length[:, None] * length * (angle.sin() / (2.0 * math.pi) + both * angle.cos())
    return 2.0 * product + 2.0 * both * (extended @ extended.T + phi.slope @ phi.slope.T)


HEADS = {"linear": linear_head_kernel, "mlp": mlp_head_kernel}
