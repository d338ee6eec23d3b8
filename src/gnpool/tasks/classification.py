r"""Losses and metrics of classifiers: ``f(scores, batch)`` returns one value per item of ``batch.y``.

Scores have shape (items, classes): logits, or logarithms of probabilities. ``batch.y`` holds the classes as numbers.
An item whose ``batch.weight`` is 0 does not count. A metric of a whole data set, such as :func:`mcc`, is repeated for
every item that counts. It must see the whole data set as one batch; otherwise the result is a mean over batches.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data


class CrossEntropy:
    r"""The cross entropy. If shares of the classes are given, classes are weighted by the inverse of their shares.

    As in :class:`torch.nn.CrossEntropyLoss`, the mean over a batch is divided by the mean weight of its items.

    Args:
        shares (Sequence[float], optional): The share of each class in the training data, all above 0. (default:
            ``None``, all classes count alike)

    Shapes:
        - **scores:** (items, classes)
        - **output:** (items,)

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool.tasks import CrossEntropy
        >>> loss = CrossEntropy(shares=(0.75, 0.25))
        >>> loss(torch.zeros(2, 2), Data(y=torch.tensor([0, 1])))  # 1 / 0.25 is three times 1 / 0.75
        tensor([0.3466, 1.0397])
    """

    def __init__(self, shares: Sequence[float] | None = None) -> None:
        if shares is not None and not all(share > 0 for share in shares):
            raise ValueError(f"CrossEntropy: every class needs a share above 0, got {tuple(shares)}")
        self.shares = None if shares is None else tuple(shares)

    def __call__(self, scores: Tensor, batch: Data) -> Tensor:
        y, counts = _labels(scores, batch)
        value = -scores.log_softmax(-1).gather(-1, y[:, None]).squeeze(-1)
        if self.shares is not None:
            if len(self.shares) != scores.size(-1):
                raise ValueError(
                    f"CrossEntropy: 'shares' must have {scores.size(-1)} values, one a class, got {len(self.shares)}"
                )
            weights = 1.0 / torch.tensor(self.shares, dtype=scores.dtype, device=scores.device)
            of_item = weights.index_select(0, y)
            value = value * of_item * counts.sum() / (of_item * counts).sum()
        return torch.where(counts > 0, value, 0.0)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(shares={self.shares})"


def accuracy(scores: Tensor, batch: Data) -> Tensor:
    r"""1 where the class of the highest score is right, else 0; the mean is the accuracy.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool.tasks import accuracy
        >>> accuracy(torch.tensor([[2.0, 1.0], [2.0, 1.0]]), Data(y=torch.tensor([0, 1])))
        tensor([1., 0.])
    """
    y, counts = _labels(scores, batch)
    return ((scores.argmax(-1) == y) & (counts > 0)).to(scores.dtype)


def balanced_accuracy(scores: Tensor, batch: Data) -> Tensor:
    r"""The share of right items in each class, averaged over the classes that occur and repeated for every item.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool.tasks import balanced_accuracy
        >>> scores = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> balanced_accuracy(scores, Data(y=torch.tensor([0, 0, 1, 1])))
        tensor([0.7500, 0.7500, 0.7500, 0.7500])
    """
    confusion, counts = _confusion(scores, batch)
    of_class = confusion.sum(1)
    recall = torch.where(of_class > 0, confusion.diagonal() / of_class.clamp(min=1.0), 0.0)
    return _repeated(recall.sum() / (of_class > 0).sum(), counts)


def mcc(scores: Tensor, batch: Data) -> Tensor:
    r"""Matthews' correlation coefficient, repeated for every item; 0 where it is not defined.

    With s items, c of them right, :math:`p_k` predicted as class k and :math:`t_k` of class k it is

    .. math::
        \frac{c s - \sum_k p_k t_k}{\sqrt{(s^2 - \sum_k p_k^2) (s^2 - \sum_k t_k^2)}}

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool.tasks import mcc
        >>> scores = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> mcc(scores, Data(y=torch.tensor([0, 0, 1, 1])))
        tensor([0.5774, 0.5774, 0.5774, 0.5774])
    """
    confusion, counts = _confusion(scores, batch)
    total, right = confusion.sum(), confusion.diagonal().sum()
    predicted, true = confusion.sum(0), confusion.sum(1)
    square = (total.square() - predicted.square().sum()) * (total.square() - true.square().sum())
    defined = square > 0
    value = (right * total - (predicted * true).sum()) / torch.where(defined, square, 1.0).sqrt()
    return _repeated(torch.where(defined, value, 0.0), counts)


def roc_auc(scores: Tensor, batch: Data) -> Tensor:
    r"""The area under the ROC curve of two classes, repeated for every item; NaN if one of them does not occur.

    It is the probability that a random item of class 1 has a higher score than a random item of class 0. Ties count
    half.

    Shapes:
        - **scores:** (items, 2), whose difference is the score, or (items,) or (items, 1)
        - **output:** (items,)

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool.tasks import roc_auc
        >>> roc_auc(torch.tensor([0.1, 0.4, 0.4, 0.8]), Data(y=torch.tensor([0, 0, 1, 1])))
        tensor([0.8750, 0.8750, 0.8750, 0.8750])
    """
    if scores.dim() == 2:
        if scores.size(1) > 2:
            raise ValueError(f"roc_auc: there must be two classes, got {scores.size(1)}")
        scores = scores[:, 1] - scores[:, 0] if scores.size(1) == 2 else scores[:, 0]
    y, counts = _labels(scores[:, None], batch)
    counted = counts > 0
    scores = torch.where(counted, scores, torch.inf)  # behind all others, whose ranks do not change
    ascending = scores.sort().values
    below = torch.searchsorted(ascending, scores)
    up_to = torch.searchsorted(ascending, scores, right=True)
    rank = (below + up_to + 1).to(scores.dtype) / 2
    positive, negative = counted & (y == 1), counted & (y == 0)
    ones, zeros = positive.sum().to(scores.dtype), negative.sum().to(scores.dtype)
    above = torch.where(positive, rank, 0.0).sum() - ones * (ones + 1) / 2
    return _repeated(above / (ones * zeros), counts)  # 0 / 0 if a class is missing


def _labels(scores: Tensor, batch: Data) -> tuple[Tensor, Tensor]:
    """The classes of the items as integers, and 1 for each item that counts, else 0."""
    y = batch.y.flatten().long()
    if scores.shape[:-1] != y.shape:
        raise ValueError(
            f"'scores' must have one row for each of the {len(y)} items of 'batch.y', got {tuple(scores.shape)}"
        )
    weight = getattr(batch, "weight", None)
    counts = torch.ones_like(y) if weight is None else (weight.flatten() > 0).long()
    return y, counts


def _confusion(scores: Tensor, batch: Data) -> tuple[Tensor, Tensor]:
    """(classes, classes) items by true and predicted class, and which items count."""
    y, counts = _labels(scores, batch)
    classes = torch.arange(scores.size(-1), device=scores.device)
    true = ((y[:, None] == classes) & (counts > 0)[:, None]).to(scores.dtype)
    predicted = (scores.argmax(-1)[:, None] == classes).to(scores.dtype)
    return true.T @ predicted, counts


def _repeated(value: Tensor, counts: Tensor) -> Tensor:
    return torch.where(counts > 0, value, 0.0)
