r"""Losses and metrics: ``f(prediction, batch)`` returns one value per item of ``batch.y``, in its precision.

A prediction has shape (items,) or (items, 1). Only ``batch.y``, ``batch.weight`` and the statistics that a task adds
are read. An item whose ``batch.weight`` is 0 does not count: its value and its gradient are 0, whatever its label, so
that its NaN never reaches a mean.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

SMALLEST_VARIANCE = 1e-6


def squared_error(prediction: Tensor, batch: Data) -> Tensor:
    r"""The squared error :math:`(\hat y - y)^2`; its mean is the MSE.

    Shapes:
        - **prediction:** (items,) or (items, 1)
        - **output:** (items,)

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool.tasks import squared_error
        >>> squared_error(torch.tensor([1.0, 4.0]), Data(y=torch.tensor([2.0, 7.0]).double()))
        tensor([1., 9.], dtype=torch.float64)
    """
    prediction, y = _items(prediction, batch)
    return (prediction - y).square()


def mae(prediction: Tensor, batch: Data) -> Tensor:
    r"""The absolute error :math:`|\hat y - y|`; its mean is the MAE.

    Shapes:
        - **prediction:** (items,) or (items, 1)
        - **output:** (items,)

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool.tasks import mae
        >>> mae(torch.tensor([1.0, 4.0]), Data(y=torch.tensor([2.0, 7.0]).double()))
        tensor([1., 3.], dtype=torch.float64)
    """
    prediction, y = _items(prediction, batch)
    return (prediction - y).abs()


def mape(prediction: Tensor, batch: Data) -> Tensor:
    r"""The absolute error in percent of the label, :math:`100\, |\hat y - y| / |y|`; its mean is the MAPE.

    There is no guard against labels near 0; a label of exactly 0 gives infinity.

    Shapes:
        - **prediction:** (items,) or (items, 1)
        - **output:** (items,)

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool.tasks import mape
        >>> mape(torch.tensor([[1.0], [5.0]]), Data(y=torch.tensor([2.0, 4.0]).double()))
        tensor([50., 25.], dtype=torch.float64)
    """
    prediction, y = _items(prediction, batch)
    return 100.0 * ((prediction - y) / y).abs()


def median_ape(prediction: Tensor, batch: Data) -> Tensor:
    r"""The median of :func:`mape` over the items that count, repeated for every item.

    Labels near 0 dominate a mean of relative errors, but do not affect a median. The metric must see the whole data set
    as one batch; otherwise the result is a mean of medians.

    Shapes:
        - **prediction:** (items,) or (items, 1)
        - **output:** (items,)

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool.tasks import median_ape
        >>> median_ape(torch.tensor([1.0, 5.0, 9.0]), Data(y=torch.tensor([2.0, 4.0, 0.01]).double()))
        tensor([50., 50., 50.], dtype=torch.float64)
    """
    error = mape(prediction, batch)
    weight = getattr(batch, "weight", None)
    counts = torch.ones_like(batch.y, dtype=torch.bool) if weight is None else weight > 0
    # Not nanquantile, which torch.vmap would call once for every replica.
    ascending = torch.where(counts, error, torch.inf).sort().values
    last = (counts.sum() - 1).clamp(min=0)
    median = ascending.index_select(0, torch.stack((last // 2, (last + 1) // 2))).mean()
    median = torch.where(error.isnan().any(), torch.nan, median)
    return torch.where(counts, median, 0.0)


def mean_nll(prediction: Tensor, batch: Data) -> Tensor:
    r"""The negative log posterior of a predicted mean m, above its minimum.

    For elements of N(m, 1) and a prior N(0, 1) of m it is, up to a constant,

    .. math::
        \tfrac{1}{2} \sum_{i=1}^{n} (x_i - m)^2 + \tfrac{1}{2} m^2 = \tfrac{1}{2} (n + 1) (m - y)^2 + \text{const}

    where y is the MAP estimate and n + 1 the ``precision`` of the batch. The constant, about 15, is left out, since it
    has no gradient and would hide the differences between good models.

    Shapes:
        - **prediction:** (items,) or (items, 1)
        - **output:** (items,)

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool.tasks import mean_nll
        >>> batch = Data(y=torch.tensor([2.0]).double(), precision=torch.tensor([21.0]).double())
        >>> mean_nll(torch.tensor([3.0]), batch)
        tensor([10.5000], dtype=torch.float64)
    """
    prediction, y = _items(prediction, batch)
    return 0.5 * batch.precision * (prediction - y).square()


def variance_nll(prediction: Tensor, batch: Data, *, floor: float = SMALLEST_VARIANCE, revive: bool = True) -> Tensor:
    r"""The negative log posterior of a predicted variance, above its minimum.

    For elements of N(5, s) and an inverse gamma prior of s with parameters a and b it is, up to a constant,

    .. math::
        A \log s + \frac{B}{s} = A \left( \frac{y - s}{s} - \log \Big(1 + \frac{y - s}{s}\Big) \right) + \text{const}

    where :math:`A = n/2 + a + 1` is the ``concentration`` of the batch, :math:`B = b + \frac{1}{2} \sum_i (x_i - 5)^2`
    and :math:`y = B/A` the MAP estimate. A network may predict any number, so s is the prediction or ``floor``,
    whichever is larger.

    Below the floor this loss is flat, so that a network that starts with negative predictions only would never learn.
    About half of all networks start so, but none of the published runs shows this. Therefore a prediction below the
    floor gets the gradient -A/y, which is that of a prediction of 0.62 y, and recovers. The value does not change.

    Args:
        prediction (Tensor): The predicted variances.
        batch (Data): Holds ``y`` and ``concentration``.
        floor (float, optional): The smallest variance. (default: ``1e-6``)
        revive (bool, optional): Whether predictions below the floor get a gradient. (default: ``True``)

    Shapes:
        - **prediction:** (items,) or (items, 1)
        - **output:** (items,)

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool.tasks import variance_nll
        >>> batch = Data(y=torch.tensor([1.0]).double(), concentration=torch.tensor([12.0]).double())
        >>> variance_nll(torch.tensor([2.0]), batch)
        tensor([2.3178], dtype=torch.float64)
    """
    prediction, y = _items(prediction, batch)
    variance = prediction.clamp(min=floor)
    excess = (y - variance) / variance
    value = batch.concentration * (excess - excess.log1p())
    if revive:
        below = prediction.clamp(max=floor)
        value = value - batch.concentration / y * (below - below.detach())
    return value


def _items(prediction: Tensor, batch: Data) -> tuple[Tensor, Tensor]:
    """Prediction and label in the same shape and in the label's precision; both are 1 for items that do not count."""
    y = batch.y
    if prediction.shape != y.shape and prediction.shape != (*y.shape, 1):
        raise ValueError(
            f"'prediction' must have shape ({y.numel()},) or ({y.numel()}, 1), one value per item of 'batch.y', "
            f"got {tuple(prediction.shape)}"
        )
    prediction = prediction.reshape(y.shape).to(y.dtype)
    weight = getattr(batch, "weight", None)
    if weight is None:
        return prediction, y
    return torch.where(weight > 0, prediction, 1.0), torch.where(weight > 0, y, 1.0)
