"""Cascades on a GPU: how the work is cut to fit its memory, and the loop over steps."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
import triton
from numpy.typing import NDArray
from torch import Tensor

from gnpool.influence import cascade_triton
from gnpool.influence.cascades import GAMMA, WORD, Order, Sums, block_keys
from gnpool.influence.graph import CascadeGraph

SHARE = 0.5  # of the free memory of the device that words may take
HOST_BYTES = 1 << 28  # where there is no device, in Triton's interpreter
MOST_WORDS, MOST_SETS = 1 << 22, 65_535  # a launch has at most 65,535 programs side by side in its second dimension
TABLES = 3  # of words: active, frontier and what comes next
SPREAD_BLOCK, COUNT_BLOCK, SIZE_BLOCK, SIZE_ROWS = 128, 128, 16, 64


class Lists(NamedTuple):
    """The graph on the device."""

    in_ptr: Tensor
    in_source: Tensor
    threshold: Tensor
    salt: Tensor  # (E,) what an edge adds to the key of a block


def spread_cuda(
    graph: CascadeGraph,
    sets: Sequence[NDArray[np.int64]],
    order: Order,
    blocks: range,
    device: torch.device,
    progress: Callable[[int, int], None] | None,
) -> Sums:
    """:func:`gnpool.influence.cascades.spread` on a GPU: as many words at once as fit."""
    lanes = order.lanes
    most = min(max(1, _bytes(device) // (8 * TABLES * max(1, graph.nodes))), MOST_WORDS)
    at_once, span = max(1, min(most // len(blocks), MOST_SETS)), min(len(blocks), most)
    salt = np.arange(1, graph.edges + 1, dtype=np.uint64) * np.uint64(GAMMA)
    arrays = (graph.in_ptr, graph.source, graph.threshold.view(np.int64), salt.view(np.int64))
    lists = Lists(*(torch.from_numpy(array).to(device) for array in arrays))
    found, done = Sums(len(sets)), 0
    for begin in range(0, len(sets), at_once):
        chosen = sets[begin : begin + at_once]
        for first in range(blocks.start, blocks.stop, span):
            part = range(first, min(first + span, blocks.stop))
            starts = [first if order.paired else (begin + i) * lanes.size + first for i in range(len(chosen))]
            keys = np.concatenate([block_keys(order.seed, at, len(part)) for at in starts])
            with _on(device):
                sizes, counts = _spread(
                    graph, lists, chosen, keys, lanes[part.start : part.stop], order.record, order.max_steps
                )
            pairs = zip(sizes.sum(1).tolist(), sizes.square().sum(1).tolist(), strict=True)
            for i, (total, squares) in enumerate(pairs):
                found.count(begin + i, total, squares, counts[:, i] if order.record else None)
            done += len(chosen) * order.cascades(part)
            if progress is not None:
                progress(done, order.cascades(blocks) * len(sets))
    return found


def _spread(
    graph: CascadeGraph,
    lists: Lists,
    sets: Sequence[NDArray[np.int64]],
    keys: NDArray[np.uint64],
    lanes: NDArray[np.uint64],
    record: bool,
    max_steps: int,
) -> tuple[Tensor, Tensor]:
    """Sizes of the cascades, int64 (S, cascades), and the activations at each step, int32 (T, S, N)."""
    device, N, S, blocks = lists.in_ptr.device, graph.nodes, len(sets), lanes.size
    W = S * blocks
    frontier = torch.zeros((N, S, blocks), dtype=torch.int64, device=device)
    nodes = torch.from_numpy(np.concatenate(sets)).to(device)
    owners = torch.repeat_interleave(torch.arange(S), torch.tensor([len(nodes) for nodes in sets])).to(device)
    frontier[nodes, owners] = torch.from_numpy(lanes.view(np.int64)).to(device)
    active, coming = frontier.clone(), torch.empty_like(frontier)
    starts = torch.from_numpy(keys.view(np.int64)).to(device)
    changed = torch.ones(1, dtype=torch.int32, device=device)
    counts: list[Tensor] = []
    while bool(changed):  # waits for the device, once a step
        if record:
            now = torch.empty((S, N), dtype=torch.int32, device=device)
            cascade_triton.count_kernel[(N, S)](frontier, now, N, W, blocks, BW=COUNT_BLOCK, num_warps=1)
            if len(counts) <= max_steps:
                counts.append(now)
            else:
                counts[-1] += now
        changed.zero_()
        grid = (N, triton.cdiv(W, SPREAD_BLOCK))
        cascade_triton.spread_kernel[grid](
            frontier, active, coming, changed, *lists, starts, W, BW=SPREAD_BLOCK, num_warps=1
        )
        frontier, coming = coming, frontier
    sizes = torch.zeros((W, WORD), dtype=torch.int32, device=device)
    grid = (triton.cdiv(W, SIZE_BLOCK), triton.cdiv(N, SIZE_ROWS))
    cascade_triton.size_kernel[grid](active, sizes, N, W, ROWS=SIZE_ROWS, BW=SIZE_BLOCK, num_warps=4)
    return sizes.view(S, blocks * WORD).long(), torch.stack(counts) if record else sizes


def _bytes(device: torch.device) -> int:
    return int(SHARE * torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else HOST_BYTES


def _on(device: torch.device) -> contextlib.AbstractContextManager[object]:
    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()
