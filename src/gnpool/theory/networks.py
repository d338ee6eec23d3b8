r"""The same networks at finite width, with the library's operator inside and torch's derivatives."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.func import grad_and_value, jacrev

from gnpool.ops import norm_pool
from gnpool.theory.graphs import NeighborSums
from gnpool.theory.readouts import NormReadout, PlainReadout, Readout

Parameters = dict[str, Tensor]


def draw_parameters(width: int, channels: int, head: str = "linear", seed: int = 0) -> Parameters:
    r"""Standard normal parameters of a network with ``width`` channels before the pooling, and after it.

    Args:
        width (int): Number m of channels.
        channels (int): Number d of node features.
        head (str, optional): ``"linear"`` or ``"mlp"``. (default: ``"linear"``)
        seed (int, optional): Seed of the network. (default: ``0``)

    Example:
        >>> from gnpool.theory import draw_parameters
        >>> {name: tuple(value.shape) for name, value in draw_parameters(width=64, channels=3).items()}
        {'inner': (64, 3), 'outer': (64,)}
    """
    shapes: dict[str, tuple[int, ...]] = {"inner": (width, channels)}
    if head == "mlp":
        shapes |= {"hidden": (width, width), "bias": (width,)}
    elif head != "linear":
        raise ValueError(f"'head' must be linear or mlp, got {head!r}")
    shapes["outer"] = (width,)
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=generator, dtype=torch.float64) for name, shape in shapes.items()}


def network(parameters: Parameters, graphs: NeighborSums, readout: Readout) -> Tensor:
    r"""One output per graph, (G,).

    .. math::
        f = m^{-1/2} \sum_k a_k\, y_k
        \qquad\text{or, with a hidden layer,}\qquad
        f = (2 / m)^{1/2} \sum_j a_j\, \mathrm{ReLU}\Big(m^{-1/2} \sum_k V_{jk}\, y_k + b_j\Big)

    where :math:`y_k` pools :math:`\{w_k^\top h_u\}_u`.

    Example:
        >>> from gnpool.tasks import get_task
        >>> from gnpool.theory import NormReadout, draw_parameters, neighbor_sums, network
        >>> graphs = neighbor_sums(get_task("harmonic").dataset("train", count=3))
        >>> network(draw_parameters(64, 1), graphs, NormReadout(-1.0)).shape
        torch.Size([3])
    """
    width = parameters["outer"].numel()
    pooled = operator_pool(graphs.h @ parameters["inner"].T, graphs, readout)
    if "hidden" not in parameters:
        return pooled @ parameters["outer"] / width**0.5
    hidden = pooled @ parameters["hidden"].T / width**0.5 + parameters["bias"]
    return hidden.relu() @ parameters["outer"] * (2.0 / width) ** 0.5


def operator_pool(z: Tensor, graphs: NeighborSums, readout: Readout) -> Tensor:
    """Pool ``z`` (N, K) as ``readout`` does, by the library's operator and torch's reductions, (G, K)."""
    if isinstance(readout, NormReadout):
        return norm_pool(z.relu(), graphs.index, p=readout.p, q=readout.q, dim_size=len(graphs), eps=0.0)
    if not isinstance(readout, PlainReadout):
        raise TypeError(f"'readout' must be a NormReadout or a PlainReadout, got {type(readout).__name__}")
    how = {"sum": "sum", "mean": "mean", "max": "amax", "min": "amin"}[readout.name]
    v = z.relu() if readout.relu else z
    out = v.new_zeros(len(graphs), v.size(1))
    return out.scatter_reduce(0, graphs.index[:, None].expand_as(v), v, how, include_self=False)


def empirical_kernel(parameters: Parameters, graphs: NeighborSums, readout: Readout) -> Tensor:
    """The tangent kernel (G, G) of one network: inner products of its gradients in all parameters.

    Example:
        >>> from gnpool.tasks import get_task
        >>> from gnpool.theory import NormReadout, draw_parameters, empirical_kernel, neighbor_sums
        >>> graphs = neighbor_sums(get_task("harmonic").dataset("train", count=3))
        >>> kernel = empirical_kernel(draw_parameters(4096, 1), graphs, NormReadout(-1.0))
        >>> round((kernel[0, 1] / (graphs.y[0] * graphs.y[1])).item(), 1)  # 1 at infinite width
        1.0
    """
    jacobian = jacrev(network)(parameters, graphs, readout)
    rows = torch.cat([part.flatten(1) for part in jacobian.values()], dim=1)
    return rows @ rows.T


def train_network(
    parameters: Parameters, train: NeighborSums, readout: Readout, steps: int, rate: float
) -> tuple[Parameters, list[float]]:
    r"""Plain gradient descent on :math:`\tfrac12 \sum_i (f(\theta, G_i) - f(\theta_0, G_i) - y_i)^2`.

    The output of the untrained network is subtracted, since kernel regression starts at the function 0.

    Returns:
        The trained parameters, and the loss before each step.

    Example:
        >>> from gnpool.tasks import get_task
        >>> from gnpool.theory import NormReadout, draw_parameters, neighbor_sums, train_network
        >>> graphs = neighbor_sums(get_task("harmonic").dataset("train", count=3))
        >>> trained, losses = train_network(draw_parameters(64, 1), graphs, NormReadout(-1.0), steps=20, rate=0.1)
        >>> len(losses), losses[-1] < losses[0]
        (20, True)
    """
    start = network(parameters, train, readout)

    def loss(current: Parameters) -> Tensor:
        return 0.5 * (network(current, train, readout) - start - train.y).square().sum()

    step = grad_and_value(loss)
    losses = []
    for _ in range(steps):
        gradient, value = step(parameters)
        parameters = {name: parameters[name] - rate * gradient[name] for name in parameters}
        losses.append(float(value))
    return parameters, losses
