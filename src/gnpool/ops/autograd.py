"""Derivatives and vmap of the pooling kernels.

:class:`Pool` runs the forward kernel; its derivative is :class:`PoolGradient`, which runs the backward kernel; the
derivative of that goes through the reference. ``torch.library.register_autograd`` would be shorter but does not
compose with ``torch.func``. Neither has a ``jvp``: ``torch.compile`` refuses functions that do, and torch drops the
outer tangent of nested ones, so that forward mode takes the reference from the start (:func:`in_forward_mode`).

Both functions take their tensors flat, a rule of torch, in the order of :class:`PoolInputs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gnpool.ops import library, reference
from gnpool.ops.vmapped import only_vmap


class PoolInputs(NamedTuple):
    """The arguments of one pooling, which are all that a derivative needs."""

    x: Tensor  # (N, D)
    weight: Tensor | None  # (E,)
    p: Tensor  # (D,)
    q: Tensor  # (D,)
    ptr: Tensor  # the six lists of a Layout
    col: Tensor | None
    eid: Tensor | None
    t_ptr: Tensor | None
    t_row: Tensor | None
    t_eid: Tensor | None
    eps: float
    relu: bool
    form: int  # see gnpool.ops.form


N_TENSORS = 10  # of PoolInputs; then come numbers
N_INPUTS = len(PoolInputs._fields)
N_TERMS = len(reference.Terms._fields)
_FOLDABLE = ("x", "p", "q")  # replicas of these become channels


class Pool(torch.autograd.Function):
    """``(y, extreme, scale, slope)``, (S, D) each, of which only y has a derivative."""

    @staticmethod
    def forward(  # torch.compile counts the parameters: no *args here
        x: Tensor,
        weight: Tensor | None,
        p: Tensor,
        q: Tensor,
        ptr: Tensor,
        col: Tensor | None,
        eid: Tensor | None,
        t_ptr: Tensor | None,
        t_row: Tensor | None,
        t_eid: Tensor | None,
        eps: float,
        relu: bool,
        form: int,
    ) -> tuple[Tensor, ...]:
        return library.pool_fwd(x, weight, ptr, col, eid, p, q, eps, relu, form)[:N_TERMS]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.save_for_backward(*inputs[:N_TENSORS], *output)
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)  # make no zeros for outputs without derivative
        ctx.numbers = inputs[N_TENSORS:]

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Any, ...]:
        if grad is None:  # y was used only for other derivatives
            return (None,) * N_INPUTS
        saved = ctx.saved_tensors  # read once, since every access unpacks all of them
        tensors, terms, more = saved[:N_TENSORS], saved[N_TENSORS : N_TENSORS + N_TERMS], saved[N_TENSORS + N_TERMS :]
        need_x, need_weight, need_p, need_q = ctx.needs_input_grad[:4]
        if torch.is_grad_enabled() or torch.compiler.is_compiling() or library.in_transform():
            grads = PoolGradient.apply(grad, *tensors, *ctx.numbers, *terms, need_x, need_weight)
        else:
            x, weight, p, q, *lists = tensors
            needs = (need_x, need_weight)
            grads = library.pool_bwd(grad, x, weight, *lists, p, q, *terms, *ctx.numbers, *needs, *more)
        grad_x, grad_weight, grad_p, grad_q = grads
        return (
            grad_x if need_x else None,
            grad_weight if need_weight else None,
            grad_p if need_p else None,
            grad_q if need_q else None,
            *(None,) * (N_INPUTS - 4),
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        if _only_batched(in_dims, _FOLDABLE, PoolInputs._fields):
            x, p, q = (_fold(args[i], in_dims[i], info.batch_size) for i in (0, 2, 3))
            outputs = Pool.apply(x, args[1], p, q, *args[4:])
            return tuple(_unfold(out, info.batch_size) for out in outputs), (1, 1, 1, 1)
        return library.one_by_one(Pool.apply, info, in_dims, *args)


class EagerPool(torch.autograd.Function):
    """A cheaper :class:`Pool` for when no transform is active. Only y is an output, and torch binds no arguments.

    All further outputs of the forward kernel are kept for the backward kernel.
    """

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Tensor:
        x, weight, p, q, ptr, col, eid = args[:7]
        ctx.numbers = args[N_TENSORS:]
        terms = library.pool_fwd(x, weight, ptr, col, eid, p, q, *ctx.numbers)
        ctx.save_for_backward(*args[:N_TENSORS], *terms)
        return terms[0]

    backward = Pool.backward


def pool_in_transform(*inputs: Any) -> Tensor:
    """y of ``inputs``, in the order of :class:`PoolInputs`, while a transform of ``torch.func`` is active."""
    vmap = only_vmap()
    if vmap is not None:
        args, dims = zip(*map(vmap.unwrap, inputs), strict=True)
        if any(dim is not None for dim in dims) and _only_batched(dims, _FOLDABLE, PoolInputs._fields):

            def compute() -> Tensor:
                x, p, q = (_fold(args[i], dims[i], vmap.size) for i in (0, 2, 3))
                y: Tensor = EagerPool.apply(x, args[1], p, q, *args[4:])
                return _unfold(y, vmap.size)

            return vmap.below(compute, 1)
    y: Tensor = Pool.apply(*inputs)[0]
    return y


class PoolGradient(torch.autograd.Function):
    """Gradients in x, weight, p and q for ``grad`` (S, D); arguments: grad, PoolInputs, four terms, two needs."""

    @staticmethod
    def forward(
        grad: Tensor,
        x: Tensor,
        weight: Tensor | None,
        p: Tensor,
        q: Tensor,
        ptr: Tensor,
        col: Tensor | None,
        eid: Tensor | None,
        t_ptr: Tensor | None,
        t_row: Tensor | None,
        t_eid: Tensor | None,
        eps: float,
        relu: bool,
        form: int,
        y: Tensor,
        extreme: Tensor,
        scale: Tensor,
        slope: Tensor,
        need_x: bool,
        need_weight: bool,
    ) -> tuple[Tensor, ...]:
        lists = (ptr, col, eid, t_ptr, t_row, t_eid)
        terms = (y, extreme, scale, slope)
        result: tuple[Tensor, ...] = library.pool_bwd(
            grad, x, weight, *lists, p, q, *terms, eps, relu, form, need_x, need_weight
        )
        return result

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.save_for_backward(*inputs[: 1 + N_TENSORS])
        ctx.numbers = inputs[1 + N_TENSORS : 1 + N_INPUTS]
        ctx.mark_non_differentiable(*(out for out in output[:2] if out.dim() == 1 and out.numel() == 0))

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> tuple[Any, ...]:
        grad, x, weight, p, q, ptr, col, eid = ctx.saved_tensors[:8]

        def gradients(grad: Tensor, x: Tensor, p: Tensor, q: Tensor, *weight: Tensor) -> tuple[Tensor, ...]:
            w = weight[0] if weight else None
            by_x, by_weight, by_p, by_q = reference.first_derivatives(grad, x, w, p, q, ptr, col, eid, *ctx.numbers)
            return by_x.to(x.dtype), by_weight.to(x.dtype if w is None else w.dtype), by_p, by_q

        present = [grad, x, p, q] if weight is None else [grad, x, p, q, weight]
        outputs, pullback = torch.func.vjp(gradients, *present)[:2]
        by_grad, by_x, by_p, by_q, *by_weight = pullback(
            tuple(  # gradients that were not needed are empty
                cotangent if cotangent.shape == output.shape else torch.zeros_like(output)
                for cotangent, output in zip(cotangents, outputs, strict=True)
            )
        )
        rest = (None,) * (len(ctx.needs_input_grad) - 5)
        return (by_grad, by_x, by_weight[0] if by_weight else None, by_p, by_q, *rest)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        size = info.batch_size
        names = ("grad", *PoolInputs._fields, *reference.Terms._fields, "need_x", "need_weight")
        foldable = ("grad", "x", "p", "q", *reference.Terms._fields)
        need_x, need_weight = args[-2:]
        # the gradient of a weight sums over one replica only
        if need_weight or not _only_batched(in_dims, foldable, names):
            return library.one_by_one(PoolGradient.apply, info, in_dims, *args)
        folded = [
            _fold(arg, dim, size) if name in foldable else arg
            for name, arg, dim in zip(names, args, in_dims, strict=True)
        ]
        grad_x, grad_weight, grad_p, grad_q = PoolGradient.apply(*folded)
        grad_x = _unfold(grad_x, size) if need_x else grad_x.new_empty(0, size)
        grads = (grad_x, grad_weight.new_empty(size, 0), grad_p.view(size, -1), grad_q.view(size, -1))
        return grads, (1, 0, 0, 0)


def _only_batched(in_dims: Sequence[Any], allowed: Sequence[str], names: Sequence[str]) -> bool:
    return all(dim is None or name in allowed for name, dim in zip(names, in_dims, strict=True))


def _fold(tensor: Tensor, dim: int | None, size: int) -> Tensor:
    """(B, N, D), or (N, D) that is the same for all replicas, -> (N, B * D); also (B, D) -> (B * D,)."""
    if dim is None:
        tensor = tensor.unsqueeze(-2).expand(*tensor.shape[:-1], size, tensor.size(-1))
    else:
        tensor = tensor.movedim(dim, -2)
    return tensor.flatten(-2)


def _unfold(tensor: Tensor, size: int) -> Tensor:
    """(S, B * D) -> (S, B, D)."""
    return tensor.view(tensor.size(0), size, tensor.size(1) // size)


def in_forward_mode() -> bool:
    """Whether forward-mode derivatives are active, by ``torch.func.jvp`` or with dual tensors."""
    if torch.autograd.forward_ad._current_level >= 0:
        return True
    if not library.in_transform():
        return False
    stack = torch._C._functorch.get_interpreter_stack() or ()
    return any(level.key() == torch._C._functorch.TransformType.Jvp for level in stack)
