"""Kernel regression, and gradient descent in the space of functions."""

from __future__ import annotations

import torch
from torch import Tensor

RCOND = 1e-12  # eigenvalues below this share of the largest are noise of double precision


def kernel_regression(kernel: Tensor, y: Tensor, train: int, steps: int | None = None, rate: float = 1.0) -> Tensor:
    r"""Predict all graphs from the labels of the first ``train``.

    The minimum-norm solution :math:`K_{\cdot X} K_{XX}^{+} y`, where :math:`K^+` is the pseudo-inverse, since kernels
    of scalar features have rank 1. It is where gradient descent from 0 ends; with ``steps`` the function is taken after
    that many steps of gradient descent on :math:`\tfrac12 \lVert f(X) - y \rVert^2`:
    :math:`K_{\cdot X} K_{XX}^{+} (1 - (1 - \eta K_{XX})^t)\, y`.

    Args:
        kernel (torch.Tensor): The kernel of all graphs, (G, G), those with labels first.
        y (torch.Tensor): Labels, of which the first ``train`` are read.
        train (int): How many graphs are trained on.
        steps (int, optional): Number t of steps. (default: ``None``, the limit)
        rate (float, optional): The learning rate, as a share of the inverse of the largest eigenvalue. (default:
            ``1.0``)

    Example:
        >>> import torch
        >>> from gnpool.theory import kernel_regression
        >>> g = torch.tensor([1.0, 2.0, 10.0], dtype=torch.float64)
        >>> kernel_regression(torch.outer(g, g), 3 * g, train=2)
        tensor([ 3.,  6., 30.], dtype=torch.float64)
    """
    values, vectors = torch.linalg.eigh(kernel[:train, :train])
    kept = values > RCOND * values[-1]
    values, vectors = values[kept], vectors[:, kept]
    shares = vectors.T @ y[:train] / values
    if steps is not None:
        shares = shares * (1.0 - (1.0 - rate * values / values[-1]) ** steps)
    return kernel[:, :train] @ (vectors @ shares)


def mean_relative_error(prediction: Tensor, y: Tensor) -> float:
    """The mean of |prediction - y| / |y|, in percent.

    Example:
        >>> import torch
        >>> from gnpool.theory import mean_relative_error
        >>> round(mean_relative_error(torch.tensor([1.1, 3.0]), torch.tensor([1.0, 2.0])), 2)
        30.0
    """
    return 100.0 * ((prediction - y).abs() / y.abs()).mean().item()
