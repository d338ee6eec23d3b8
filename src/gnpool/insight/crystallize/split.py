"""Which graphs the search refits on, and which judge: smaller ones and larger ones, where sizes differ."""

from __future__ import annotations

import copy
from typing import NamedTuple

from gnpool.insight.crystallize.judge import FEW
from gnpool.training import Batches


class SizeSplit(NamedTuple):
    """The graphs of a search, and in words which of them judge."""

    refitted: Batches
    judging: Batches
    words: str


def split_by_size(train: Batches, validation: Batches) -> SizeSplit:
    """The smaller half of the training graphs to refit on, and all graphs that are larger than those to judge.

    Where all have about one size, or hardly any larger one is held out, all training graphs and plain validation.
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
    """The batches of the first graphs alone."""
    if count is None or count >= batches.count:
        return batches
    part = copy.copy(batches)
    part.count = count
    return part


def everything(train: Batches, validation: Batches) -> Batches:
    """Training and validation graphs together; training graphs alone where the others hold other tensors."""
    return train.joined(validation) if train.levels == validation.levels else train
