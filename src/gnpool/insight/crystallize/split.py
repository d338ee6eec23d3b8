"""Which graphs the search refits on and which judge: smaller and larger ones, if sizes differ."""

from __future__ import annotations

import copy
from typing import NamedTuple

from gnpool.insight.crystallize.judge import FEW
from gnpool.training import Batches


class SizeSplit(NamedTuple):
    """The graphs of a search, and a description of those that judge."""

    refitted: Batches
    judging: Batches
    words: str


def split_by_size(train: Batches, validation: Batches) -> SizeSplit:
    """Refit on the smaller half of the training graphs, and judge on all larger graphs.

    If all graphs have about the same size, or hardly any larger graph is held out, the search refits on all training
    graphs and judges on the validation graphs.
    """
    limit = int(train.nodes.median())
    small, large = train.nodes <= limit, train.nodes > limit
    held_out = validation.nodes > limit
    plain = SizeSplit(train, validation, f"{validation.count} validation graphs")
    if train.levels != validation.levels or int(held_out.sum()) < FEW:
        return plain
    judging = validation.select(held_out.nonzero().flatten())
    if bool(large.any()):
        judging = judging.joined(train.select(large.nonzero().flatten()))
    words = (
        f"{judging.count} held-out graphs of more than {limit} nodes, after refits on {int(small.sum())} smaller ones"
    )
    return SizeSplit(train.select(small.nonzero().flatten()), judging, words)


def first(batches: Batches, count: int | None) -> Batches:
    """The batches of the first ``count`` graphs."""
    if count is None or count >= batches.count:
        return batches
    part = copy.copy(batches)
    part.count = count
    return part


def everything(train: Batches, validation: Batches) -> Batches:
    """Training and validation graphs together; only the training graphs if their tensors differ."""
    return train.joined(validation) if train.levels == validation.levels else train
