"""GNP of a stack on a GPU: an autograd function around the kernels of kernels.py."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gnpool.models.stacked.edges import EdgePowers, Kind
from gnpool.models.stacked.kernels import (
    dots_kernel,
    exponents_kernel,
    extremes_kernel,
    parameters_kernel,
    pool_kernel,
    powers_kernel,
    rows_kernel,
    slopes_kernel,
)
from gnpool.models.stacked.replicas import Membership, Neighbors, Pattern
from gnpool.ops.cuda.launch import cdiv, device_of, launch, power_of_2

CHUNKS = 16  # parts of the rows whose extremes are found side by side
ROWS, CHANNELS = 16, 128  # rows and channels of a program
LONG = (1, 16)  # rows and entries of a tile if rows have many entries, such as the nodes of a graph
SHORT = (8, 2)  # the same for rows with few entries, such as the neighbours of a node


def gnp_on_cuda(x: Tensor, *arguments: Any) -> Tensor:
    """Compute the same as the function of gnp.py, and apply ``nonneg`` to x on the way."""
    with device_of(x):
        y: Tensor = _Gnp.apply(x, *arguments)
    return y


class _Gnp(torch.autograd.Function):
    """GNP with its gradients. Autograd runs the backward pass on the device of the forward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        raw: Tensor,
        weight: Tensor | None,
        pattern: Pattern,
        kind: Kind,
        nonneg: str | None,
    ) -> Tensor:
        x = x.contiguous()
        R, N, D = x.shape
        pq = torch.empty(R, 4, dtype=torch.float64, device=x.device)
        launch(exponents_kernel, (cdiv(R, 64),), raw, pq, R, P_MAX=kind.p_max, BLOCK=64, num_warps=2)
        BD = min(CHANNELS, power_of_2(D))
        shared: dict[str, Any] = {"EPS": kind.eps, "POSITIVE": kind.positive, "NONNEG": nonneg or "", "BD": BD}
        extremes = x.new_empty(R, CHUNKS, D)
        grid = (R, CHUNKS, cdiv(D, BD))
        launch(extremes_kernel, grid, x, extremes, N, D, cdiv(N, CHUNKS), **shared, CHUNKS=CHUNKS, BN=ROWS, num_warps=4)
        centre, power = x.new_empty(R, D), torch.empty_like(x, dtype=kind.dtype)
        blocks = cdiv(N, ROWS)
        launch(
            powers_kernel, (R * blocks, cdiv(D, BD)), x, pq, extremes, centre, power, N, D, blocks,
            **shared, OFFSET=kind.offset, CHUNKS=CHUNKS, BN=ROWS, num_warps=4,
        )  # fmt: skip
        edges = None if weight is None else EdgePowers(weight, pq[:, :2], pattern, kind)
        values, shift = (power, pq) if edges is None else (edges.values, edges.centre / pq[:, :2])
        rows = pattern.rows
        total = torch.empty(rows, D, dtype=kind.dtype, device=x.device)
        y = x.new_empty(R, rows // R, D)
        BR, BE = tile(pattern)
        launch(
            pool_kernel, (cdiv(rows, BR), cdiv(D, BD)), power, pattern.ptr, pattern.col, values, pq, centre, shift,
            total, y, rows, rows // R, D, OFFSET=kind.offset, WEIGHTED=edges is not None, POSITIVE=kind.positive,
            BR=BR, BE=BE, BD=BD, num_warps=4,
        )  # fmt: skip
        ctx.save_for_backward(x, raw, pq, weight, power, centre, total, y)
        ctx.pattern, ctx.edges, ctx.kind, ctx.nonneg = pattern, edges, kind, nonneg
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        x, raw, pq, weight, power, centre, total, y = ctx.saved_tensors
        kind, edges, pattern = ctx.kind, ctx.edges, ctx.pattern
        (R, N, D), M = x.shape, pattern.rows // x.size(0)
        grad, BD = grad.contiguous(), min(CHANNELS, power_of_2(D))
        blocks, of_rows = cdiv(M, ROWS), cdiv(N, ROWS)
        pull, sums = torch.empty_like(total), pq.new_empty(4, R, blocks)
        launch(
            slopes_kernel, (R * blocks,), grad, y, total, pattern.ptr, pull, sums, M, D, R, blocks,
            OFFSET=kind.offset, POSITIVE=kind.positive, BR=ROWS, BD=BD, num_warps=4,
        )  # fmt: skip
        wanted, owned = ctx.needs_input_grad[0], isinstance(pattern, Membership)
        by_x, inner = torch.empty_like(x) if wanted else None, pq.new_empty(2, R, of_rows)
        values = pull if edges is None else edges.values[pattern.mirror]
        owner = pattern.owner if isinstance(pattern, Membership) else pattern.ptr
        launch(
            rows_kernel, (R * of_rows,), x, power, centre, pull, pattern.ptr, pattern.col, values, owner,
            x if by_x is None else by_x, inner, N, D, R, of_rows, EPS=kind.eps, WEIGHTED=edges is not None,
            OWNED=owned, WANTED=wanted, POSITIVE=kind.positive, NONNEG=ctx.nonneg or "", BR=ROWS, BE=1, BD=BD,
            num_warps=4,
        )  # fmt: skip
        by_weight, more = None, None
        if edges is not None:
            by_weight, more = edges.slopes(dots(pull, power, pattern, kind.positive), pq[:, :2])
            by_weight = by_weight.to(weight.dtype) if ctx.needs_input_grad[2] else None
        of_raw = x.new_empty(R, 4)
        launch(
            parameters_kernel, (R,), raw, pq, sums, inner, inner if more is None else more, of_raw, R, blocks, of_rows,
            P_MAX=kind.p_max, MORE=more is not None, BB=power_of_2(blocks), BI=power_of_2(of_rows), num_warps=4,
        )  # fmt: skip
        return by_x, of_raw, by_weight, None, None, None


def tile(pattern: Pattern) -> tuple[int, int]:
    """Number of rows and entries that a program takes at a time."""
    return SHORT if isinstance(pattern, Neighbors) else LONG


def dots(pull: Tensor, power: Tensor, pattern: Pattern, positive: int) -> Tensor:
    """The product of each entry's row of ``pull`` and column of ``power``, by branch: (E, 2)."""
    E, D = pattern.col.numel(), pull.size(1)
    out = pull.new_empty(E, 2)
    BD = min(CHANNELS, power_of_2(D))
    launch(
        dots_kernel, (cdiv(E, ROWS),), pull, power, pattern.row, pattern.col, out, E, D,
        POSITIVE=positive, BE=ROWS, BD=BD, num_warps=4,
    )  # fmt: skip
    return out
