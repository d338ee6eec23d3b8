r"""The public functions. They check their arguments, bring them to one form, and call the kernels."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.jit._trace import is_tracing

from gnpool.ops import library, reference
from gnpool.ops.autograd import EagerPool, Pool, in_forward_mode, pool_in_transform
from gnpool.ops.form import NORM, ZEROS
from gnpool.ops.layout import Layout, checking
from gnpool.ops.reference import rounded, wide_dtype

_FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
_INTEGERS = (torch.int64, torch.int32)
NO_TORCHSCRIPT = (
    "TorchScript is not supported; use torch.compile, torch.export or, for ONNX, torch.onnx.export(..., dynamo=True)"
)


def norm_pool(
    x: Tensor,
    index: Tensor | None = None,
    *,
    p: float | Tensor,
    q: float | Tensor | None = None,
    growth: float | Tensor | None = None,
    ptr: Tensor | None = None,
    dim_size: int | None = None,
    eps: float = 1e-6,
    zeros: str = "keep",
    sizes: Tensor | None = None,
) -> Tensor:
    r"""Norm-based pooling of the rows of ``x`` by segment, from `"Learning to Pool in Graph Neural Networks for
    Extrapolation" <https://arxiv.org/abs/2106.06210>`_.

    .. math::
        y_{s,d} = n_s^{-q_d} \Big( \sum_{i \in s} u_{i,d}^{\,p_d} \Big)^{1/p_d},
        \qquad u = |x| + \epsilon

    where :math:`n_s` is the number of rows in segment :math:`s`. The sign of p picks the branch: for :math:`p > 0`
    every row takes part; for :math:`p < 0` rows with :math:`|x| \le \epsilon` are removed (their weight is exactly
    0, though :math:`n_s` still counts them), and if none is left the output is 0.

    With ``growth`` in place of q, the same poolings have other coordinates:

    .. math::
        y_{s,d} = n_s^{\,g_d} \, M_{p_d}(u_{\cdot,d}), \qquad
        M_p(u) = \Big( \frac{1}{k} \sum_{i=1}^{k} u_i^{\,p} \Big)^{1/p}

    where the power mean :math:`M_p` does not grow with n, and the growth :math:`g = 1/p - q` alone says how the result
    grows. In this form p = 0 is allowed and is the geometric mean; value and derivatives are smooth through it.

    ===============  ===========  ==========================================
    p, q             p, growth    pooling of non-negative rows
    ===============  ===========  ==========================================
    1, 0             1, 1         sum
    1, 1             1, 0         mean
    2, 0             2, 1/2       Euclidean norm
    2, 1/2           2, 0         root mean square
    inf, 0           inf, 0       max (the limit, exact)
    -1, 0            -1, -1       harmonic sum :math:`1 / \sum 1/x`
    -1, -1           -1, 0        harmonic mean
    -inf, 0          -inf, 0      min (the limit, exact)
    none             0, 0         geometric mean
    ===============  ===========  ==========================================

    The two forms treat rows of 0 differently. The q form removes them for :math:`p < 0`. In the growth form ``zeros``
    decides for every p. ``"keep"`` counts such a row as eps, so that the minimum of a segment with a 0 is eps, and the
    plane has no hole. ``"remove"`` leaves out the rows with :math:`|x| \le \epsilon`: :math:`M_p` averages the k rows
    that stay, while :math:`n^g` still counts all rows. Then (1, 1) is no longer the sum of a segment with zeros.

    If the rows of a segment are a sample, ``sizes`` gives the true number of rows. With k rows drawn from :math:`n_s`
    the result is

    .. math::
        y_{s,d} = n_s^{-q_d} \Big( \frac{n_s}{k} \sum_{i \in s} u_{i,d}^{\,p_d} \Big)^{1/p_d}
        \qquad \text{or} \qquad n_s^{\,g_d} \, M_{p_d}(u_{\cdot,d})

    so that each drawn row counts as n / k rows. Sum and mean are then right on average. Every other pooling is biased
    as long as rows are missing, and the bias falls as more rows are drawn. Max and min (:math:`p = \pm\infty`) are
    those of the drawn rows. If all rows are drawn, ``sizes`` changes nothing.

    An empty segment gives 0. NaN gives NaN in its segment and channel only, an infinite entry gives the limit, and
    nothing is clamped. Values are computed relative to the extreme of each segment, so that no intermediate result
    overflows. Sums run in float64 or in blocks of float32 that are merged in a fixed order, so that the same input
    gives the same bits on every run and for any number of threads.

    Gradients flow to x, p, q and growth, to second order. :math:`d|x|/dx = 0` at 0; removed rows and empty segments
    get 0; at :math:`p = \pm\infty` ties share the gradient evenly and :math:`dy/dp = 0`;
    :math:`dy/dq = -y \log n` and :math:`dy/dg = y \log n`.

    Args:
        x (torch.Tensor): The rows to pool, float64, float32, bfloat16 or float16.
        index (torch.Tensor, optional): The segment of each row, in any order. Without ``index`` and ``ptr`` all rows
            are one segment.
        p (float or torch.Tensor): The exponent: a number, a 0-d tensor or one value per channel. ``inf`` and ``-inf``
            are exact. Without ``growth`` a number must not be 0, and a 0 inside a tensor gives NaN in its channel.
        q (float or torch.Tensor, optional): The exponent of the size, in the same forms. (default: ``0.0``, unless
            ``growth`` is given)
        growth (float or torch.Tensor, optional): The growth g, which replaces q.
        ptr (torch.Tensor, optional): Boundaries of the segments when rows of one segment stand together; segment
            ``s`` is ``x[ptr[s]:ptr[s + 1]]``.
        dim_size (int, optional): The number of segments. By default it is ``index.max() + 1``, which on a GPU waits for
            the device.
        eps (float, optional): The tolerance, at least 0. (default: ``1e-6``)
        zeros (str, optional): What the growth form does with rows of 0, ``"keep"`` or ``"remove"``.
            (default: ``"keep"``)
        sizes (torch.Tensor, optional): The true number of rows of each segment, above 0, if x holds only a sample of
            them. It may be less than the number of rows in x, for example if these were drawn with replacement. A
            segment without rows gives 0, whatever its size. No gradient flows to sizes. (default: the number of rows)

    Shapes:
        - **input:** x :math:`(N, *, D)`, index :math:`(N)`, ptr :math:`(S + 1)`, sizes :math:`(S)`, p, q and growth
          :math:`()` or :math:`(D)`
        - **output:** :math:`(S, *, D)` in the dtype of x

    .. note::
        Indices are checked on the CPU, and on a GPU with ``GNPOOL_CHECK=1``.

    Example:
        >>> import torch
        >>> from gnpool import norm_pool
        >>> x = torch.tensor([[20.0], [30.0], [40.0], [7.0]])
        >>> index = torch.tensor([0, 0, 0, 1])
        >>> norm_pool(x, index, p=2, q=0.5)  # root mean square
        tensor([[31.0913],
                [ 7.0000]])
        >>> norm_pool(x, index, p=-1)  # harmonic sum: 1 / (1/20 + 1/30 + 1/40)
        tensor([[9.2308],
                [7.0000]])
        >>> norm_pool(x, index, p=0, growth=0)  # geometric mean: the cube root of 20 * 30 * 40
        tensor([[28.8450],
                [ 7.0000]])
    """
    return pool_segments(
        x,
        index,
        p=p,
        q=q,
        growth=growth,
        ptr=ptr,
        dim_size=dim_size,
        eps=eps,
        zeros=zeros,
        sizes=sizes,
        relu=False,
    )


def norm_pool_neighbors(
    x: Tensor,
    edge_index: Tensor | tuple[Tensor, Tensor],
    *,
    p: float | Tensor,
    q: float | Tensor | None = None,
    growth: float | Tensor | None = None,
    edge_weight: Tensor | None = None,
    dim_size: int | None = None,
    eps: float = 1e-6,
    zeros: str = "keep",
    sizes: Tensor | None = None,
) -> Tensor:
    r"""Norm-based pooling over the neighbours of each node.

    It equals ``norm_pool(edge_weight[:, None] * x[edge_index[0]], edge_index[1], ...)`` but does not store the messages
    of all edges: with the kernels, the memory beside input and output does not grow with E times D. The tolerance is
    applied after the product with the weight.

    .. math::
        y_{i,d} = n_i^{-q_d} \Big( \sum_{(j, i) \in \mathcal{E}}
        \big(|w_{ji} x_{j,d}| + \epsilon\big)^{p_d} \Big)^{1/p_d}

    where :math:`n_i` is the number of edges into node :math:`i`; a node without edges gets 0. Limits, gradients and
    numerics are those of :func:`norm_pool`, and so is the form with ``growth``; gradients flow to x, p, q, growth and
    edge_weight.

    Args:
        x (torch.Tensor): The source nodes.
        edge_index (torch.Tensor, torch_geometric.EdgeIndex or tuple): Sources in the first row, destinations in the
            second, in any order. A sorted ``EdgeIndex`` of known ``sparse_size`` keeps the lists that the kernels
            need from call to call. A pair ``(ptr, source)`` is the compressed form that samplers give: the edges into
            node i come from ``source[ptr[i]:ptr[i + 1]]``, and the kernels take it as it is.
        p (float or torch.Tensor): The exponent, as in :func:`norm_pool`.
        q (float or torch.Tensor, optional): The exponent of the size. (default: ``0.0``, unless ``growth`` is given)
        growth (float or torch.Tensor, optional): The growth, which replaces q.
        edge_weight (torch.Tensor, optional): One factor per edge.
        dim_size (int, optional): The number of destination nodes. (default: the number of source nodes, or what ``ptr``
            says)
        eps (float, optional): The tolerance, at least 0. (default: ``1e-6``)
        zeros (str, optional): What the growth form does with rows of 0, as in :func:`norm_pool`.
            (default: ``"keep"``)
        sizes (torch.Tensor, optional): The true number of edges into each node if ``edge_index`` holds only a sample of
            them, as in :func:`norm_pool`. (default: the number of edges)

    Shapes:
        - **input:** x :math:`(N, D)`, edge_index :math:`(2, E)`, edge_weight :math:`(E)`, sizes :math:`(M)`
        - **output:** :math:`(M, D)` in the dtype of x, with M = dim_size or N

    Example:
        >>> import torch
        >>> from gnpool import norm_pool_neighbors
        >>> x = torch.tensor([[1.0], [2.0], [4.0]])
        >>> edge_index = torch.tensor([[0, 1, 2, 2], [1, 2, 1, 0]])
        >>> norm_pool_neighbors(x, edge_index, p=1, eps=0.0)
        tensor([[4.],
                [5.],
                [2.]])
    """
    return pool_neighbors(
        x,
        edge_index,
        p=p,
        q=q,
        growth=growth,
        edge_weight=edge_weight,
        dim_size=dim_size,
        eps=eps,
        zeros=zeros,
        sizes=sizes,
        relu=False,
    )


def pool_segments(
    x: Tensor,
    index: Tensor | None,
    *,
    p: float | Tensor,
    q: float | Tensor | None = None,
    growth: float | Tensor | None = None,
    ptr: Tensor | None,
    dim_size: int | None,
    eps: float,
    zeros: str = "keep",
    sizes: Tensor | None = None,
    relu: bool,
) -> Tensor:
    """:func:`norm_pool`; ``relu=True`` takes relu(x) instead of |x|."""
    name = "norm_pool"
    _check_call(x, eps, name)
    if x.dim() < 2:
        raise ValueError(
            f"{name}: 'x' must have shape (N, ..., D), got {tuple(x.shape)}; for a single channel use x[:, None]"
        )
    if index is not None and ptr is not None:
        raise ValueError(f"{name}: pass either 'index' or 'ptr', not both")
    rows = x.size(0)
    if dim_size is not None:
        _check_dim_size(dim_size, name)
    if index is not None:
        _check_list(index, "index", name)
        if index.size(0) != rows:
            raise ValueError(
                f"{name}: 'index' must have one value for each of the {rows} rows of 'x', got {index.size(0)}"
            )
        if dim_size is None:
            dim_size = int(index.max()) + 1 if rows > 0 else 0
        lists = None if _to_onnx() else Layout(*library.build_csr(index, dim_size, f"{name}: 'index'"))
    elif ptr is not None:
        _check_list(ptr, "ptr", name)
        if ptr.size(0) < 1:
            raise ValueError(f"{name}: 'ptr' must have at least one value, got none")
        if dim_size is not None and dim_size != ptr.size(0) - 1:
            raise ValueError(f"{name}: 'ptr' has {ptr.size(0) - 1} segments but 'dim_size' is {dim_size}")
        dim_size = ptr.size(0) - 1
        lists = None if _to_onnx() else Layout(library.checked_ptr(ptr, rows, f"{name}: 'ptr'"))
    else:
        if dim_size not in (None, 1):
            raise ValueError(f"{name}: without 'index' and 'ptr' there is one segment, but 'dim_size' is {dim_size}")
        dim_size = 1
        lists = None if _to_onnx() else Layout(torch.tensor([0, rows], device=x.device))
    channels = x.size(-1)
    folded = x if x.dim() == 2 else x.flatten(1)
    repeats = folded.size(1) // channels if channels else 0
    p, q, form = _exponents(p, q, growth, zeros, channels, repeats, x, name)
    if sizes is not None:
        _check_sizes(sizes, dim_size, x, name)
    if lists is None:
        y = _pool_in_onnx(folded, _segments(index, ptr, rows, x.device), dim_size, p, q, eps, relu, form, sizes)
    else:
        y = _pool(folded, None, p, q, lists, eps, relu, form, sizes, name)
    return y if x.dim() == 2 else y.reshape(y.size(0), *x.shape[1:])


def pool_neighbors(
    x: Tensor,
    edge_index: Tensor | tuple[Tensor, Tensor],
    *,
    p: float | Tensor,
    q: float | Tensor | None = None,
    growth: float | Tensor | None = None,
    edge_weight: Tensor | None,
    dim_size: int | None,
    eps: float,
    zeros: str = "keep",
    sizes: Tensor | None = None,
    relu: bool,
) -> Tensor:
    """:func:`norm_pool_neighbors`; ``relu=True`` takes relu(w x) instead of |w x|."""
    name = "norm_pool_neighbors"
    _check_call(x, eps, name)
    if x.dim() != 2:
        raise ValueError(f"{name}: 'x' must have shape (N, D), got {tuple(x.shape)}")
    if isinstance(edge_index, tuple):
        dim_size = _check_compressed(edge_index, dim_size, name)
    elif not isinstance(edge_index, Tensor) or edge_index.dtype not in _INTEGERS:
        raise TypeError(f"{name}: 'edge_index' must be an int64 or int32 tensor, got {_kind(edge_index)}")
    elif edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise ValueError(f"{name}: 'edge_index' must have shape (2, E), got {tuple(edge_index.shape)}")
    edges = edge_index[1].size(0)
    if edge_weight is not None:
        if not isinstance(edge_weight, Tensor) or edge_weight.dtype not in _FLOATS:
            raise TypeError(f"{name}: 'edge_weight' must be a floating point tensor, got {_kind(edge_weight)}")
        if edge_weight.shape != (edges,):
            raise ValueError(
                f"{name}: 'edge_weight' must have one value for each of the {edges} edges, "
                f"got shape {tuple(edge_weight.shape)}"
            )
    if dim_size is None:
        dim_size = x.size(0)
    _check_dim_size(dim_size, name)
    p, q, form = _exponents(p, q, growth, zeros, x.size(1), 1, x, name)
    if sizes is not None:
        _check_sizes(sizes, dim_size, x, name)
    if _to_onnx():
        source, destination = edge_index
        if isinstance(edge_index, tuple):
            source, destination = destination, reference.destinations(source, edges)
        messages = x[source] if edge_weight is None else x[source] * edge_weight[:, None]
        return _pool_in_onnx(messages, destination, dim_size, p, q, eps, relu, form, sizes)
    # Only gradients in x and weight need the lists by source, so constant features, the largest layer, do without.
    transposed = _needs_gradient(x, edge_weight) or (not torch.compiler.is_compiling() and library.in_transform())
    if isinstance(edge_index, tuple):
        layout = _compressed_edges(edge_index, x.size(0), transposed, edge_weight is not None, name)
    else:
        layout = _edges(edge_index, x.size(0), dim_size, transposed, edge_weight is not None, name)
    return _pool(x, edge_weight, p, q, layout, eps, relu, form, sizes, name)


def _edges(edge_index: Any, sources: int, destinations: int, transposed: bool, weighted: bool, name: str) -> Layout:
    """The edges grouped by destination and, for the backward pass, by source; they are numbered only for weights."""
    order = None
    if hasattr(edge_index, "as_tensor"):  # a PyG EdgeIndex; if its size is unknown it takes the largest index
        if edge_index.is_sorted and not torch.compiler.is_compiling():
            if None not in edge_index.sparse_size():
                return _cached_edges(edge_index, sources, destinations, transposed, name)
            order = edge_index.sort_order
        edge_index = edge_index.as_tensor()
    source, destination = edge_index[0].long(), edge_index[1].long()
    ptr, eid = _grouped(destination, destinations, order == "col", f"{name}: 'edge_index[1]'")
    if not transposed:
        source = library.checked_index(source, sources, f"{name}: 'edge_index[0]'")
        return Layout(ptr, _taken(source, eid), eid if weighted else None)
    if order == "row":
        t_ptr, t_eid = _grouped(source, sources, True, f"{name}: 'edge_index[0]'")
        lists = (t_ptr, _taken(destination, t_eid), t_eid)
    else:
        lists = library.transpose(source, destination, ptr, sources, weighted, f"{name}: 'edge_index[0]'")
    return Layout(ptr, _taken(source, eid), eid if weighted else None, *lists)


def _grouped(index: Tensor, size: int, ordered: bool, name: str) -> tuple[Tensor, Tensor | None]:
    """``ptr`` of an index and the order of its entries. If the numbers are not checked, ``ordered`` is trusted."""
    if ordered and not checking(index):
        return torch.searchsorted(index, torch.arange(size + 1, device=index.device)), None
    return library.build_csr(index, size, name)


def _taken(values: Tensor, perm: Tensor | None) -> Tensor:
    """``values[perm]``; None says that the order is right already."""
    return values if perm is None else values[perm]


def _compressed_edges(
    edge_index: tuple[Tensor, Tensor], sources: int, transposed: bool, weighted: bool, name: str
) -> Layout:
    """The lists of a pair (ptr, source). Only the transposed lists must be computed."""
    ptr, source = edge_index
    ptr = library.checked_ptr(ptr, source.size(0), f"{name}: 'edge_index[0]'")
    source = source.long()
    if not transposed:
        return Layout(ptr, library.checked_index(source, sources, f"{name}: 'edge_index[1]'"))
    lists = library.transpose(source, None, ptr, sources, weighted, f"{name}: 'edge_index[1]'")
    return Layout(ptr, source, None, *lists)


def _check_compressed(edge_index: Any, dim_size: int | None, name: str) -> int:
    """The number of destinations of a pair (ptr, source)."""
    if len(edge_index) != 2:
        raise ValueError(f"{name}: a compressed 'edge_index' must be a pair (ptr, source), got {len(edge_index)} parts")
    for k, part in enumerate(edge_index):
        _check_list(part, f"edge_index[{k}]", name)
    ptr = edge_index[0]
    if ptr.size(0) < 1:
        raise ValueError(f"{name}: 'edge_index[0]' must have at least one value, got none")
    if dim_size is not None and dim_size != ptr.size(0) - 1:
        raise ValueError(f"{name}: 'edge_index[0]' has {ptr.size(0) - 1} nodes but 'dim_size' is {dim_size}")
    nodes: int = ptr.size(0) - 1
    return nodes


def _cached_edges(edge_index: Any, sources: int, destinations: int, transposed: bool, name: str) -> Layout:
    """The lists that a sorted PyG ``EdgeIndex`` computes once and keeps."""
    if edge_index._T_perm is None and (transposed or edge_index.is_sorted_by_row):
        _fill_transposed(edge_index, name)
    (ptr, col), eid = edge_index.get_csc()
    ptr = _fit(ptr, destinations, f"{name}: 'edge_index[1]'")
    col = library.checked_index(col, sources, f"{name}: 'edge_index[0]'")
    forward = (ptr.long(), col, None if eid is None else eid.long())
    if not transposed:
        return Layout(*forward)
    (t_ptr, t_row), t_eid = edge_index.get_csr()
    t_ptr = _fit(t_ptr, sources, f"{name}: 'edge_index[0]'")
    return Layout(*forward, t_ptr.long(), t_row.long(), None if t_eid is None else t_eid.long())


def _fill_transposed(edge_index: Any, name: str) -> None:
    """Gives an EdgeIndex the lists that PyG would sort for."""
    first, second = (1, 0) if edge_index.is_sorted_by_row else (0, 1)
    plain = edge_index.as_tensor()
    size, kind = edge_index.sparse_size(first), plain.dtype
    ptr, perm = library.build_csr(plain[first].long(), size, f"{name}: 'edge_index[{first}]'")
    if perm is None:
        perm = torch.arange(plain.size(1), device=plain.device)
    ends = (plain[first][perm], plain[second][perm])
    edge_index._T_perm, edge_index._T_indptr = perm.to(kind), ptr.to(kind)
    edge_index._T_index = ends if first == 0 else ends[::-1]


def _fit(ptr: Tensor, size: int, name: str) -> Tensor:
    """``ptr`` for exactly ``size`` nodes. An EdgeIndex may have fewer nodes, or more nodes without edges."""
    known = ptr.size(0) - 1
    if known < size:
        return torch.cat([ptr, ptr[-1:].expand(size - known)])
    if known > size:
        if bool((ptr[size:] != ptr[-1]).any()):
            raise IndexError(f"{name} must lie in [0, {size}), but the EdgeIndex has edges beyond")
        return ptr[: size + 1]
    return ptr


def _pool(
    x: Tensor,
    weight: Tensor | None,
    p: Tensor,
    q: Tensor,
    layout: Layout,
    eps: float,
    relu: bool,
    form: int,
    sizes: Tensor | None,
    name: str,
) -> Tensor:
    compiling = torch.compiler.is_compiling()
    in_transform = not compiling and library.in_transform()
    if not compiling and in_forward_mode():
        y = reference.pool(x, weight, p, q, layout.ptr, layout.col, layout.eid, float(eps), relu, form)
    elif in_transform or _needs_gradient(x, weight, p, q):
        inputs = (x, weight, p, q, *layout, float(eps), relu, form)
        if in_transform:
            y = pool_in_transform(*inputs)
        else:
            y = Pool.apply(*inputs)[0] if compiling else EagerPool.apply(*inputs)
    else:
        y = library.pool(x, weight, layout.ptr, layout.col, layout.eid, p, q, float(eps), relu, form)
    if sizes is not None:
        sizes = library.checked_sizes(sizes, layout.ptr, f"{name}: 'sizes'")
        y = _of_true_sizes(y, sizes, layout.ptr.diff(), p, q, form)
    return y if y.dtype == x.dtype else y.to(x.dtype)


def _to_onnx() -> bool:
    """Whether this is traced for ONNX. It lacks our operator, so the operations of the reference are exported."""
    return torch.compiler.is_compiling() and torch.onnx.is_in_onnx_export()


def _pool_in_onnx(
    z: Tensor,
    index: Tensor,
    size: int,
    p: Tensor,
    q: Tensor,
    eps: float,
    relu: bool,
    form: int,
    sizes: Tensor | None,
) -> Tensor:
    """Pool the entries z (E, D) by the reference, without lists, since ONNX can neither sort stably nor search."""
    index = index.long()
    y = reference.pool_terms(z.to(p.dtype), index, size, p, q, rounded(eps, z.dtype), relu, form).y
    if sizes is not None:
        counts = reference.segment_sum(p.new_ones(index.numel(), 1), index, size)[:, 0]
        y = _of_true_sizes(y, sizes, counts, p, q, form)
    return y.to(z.dtype)


def _of_true_sizes(y: Tensor, sizes: Tensor, counts: Tensor, p: Tensor, q: Tensor, form: int) -> Tensor:
    """Correct y (S, D) of sampled segments to their true ``sizes`` (S,).

    Both forms are the result of the drawn entries times a power of size / count. The power is taken in two steps, so
    that a y of 0 stays 0 if the power overflows.
    """
    log_share = torch.where(counts > 0, sizes.detach().to(p.dtype) / counts.clamp(min=1), 1.0).log()
    exponent = 1.0 / p - q if form == NORM else -q
    root = (0.5 * log_share[:, None] * exponent).exp()
    return (y * root * root).to(y.dtype)


def _segments(index: Tensor | None, ptr: Tensor | None, rows: int, device: torch.device) -> Tensor:
    """The segment of each row."""
    if index is not None:
        return index
    marks = torch.zeros(rows + 1, dtype=torch.int64, device=device)
    if ptr is None:
        return marks[:rows]
    ends = ptr[1:].long()
    return marks.scatter_add(0, ends, torch.ones_like(ends)).cumsum(0)[:rows]


def _needs_gradient(*tensors: Tensor | None) -> bool:
    if torch.is_grad_enabled():
        for t in tensors:
            if t is not None and t.requires_grad:
                return True
    return False


def _check_rows(x: Any, name: str) -> None:
    if not isinstance(x, Tensor) or x.dtype not in _FLOATS:
        hint = "; convert it with x.float()" if isinstance(x, Tensor) and not x.is_complex() else ""
        raise TypeError(f"{name}: 'x' must be a floating point tensor, got {_kind(x)}{hint}")


def _check_list(values: Any, argument: str, name: str) -> None:
    if not isinstance(values, Tensor) or values.dtype not in _INTEGERS:
        raise TypeError(f"{name}: '{argument}' must be an int64 or int32 tensor, got {_kind(values)}")
    if values.dim() != 1:
        raise ValueError(f"{name}: '{argument}' must have one dimension, got shape {tuple(values.shape)}")


def _kind(value: Any) -> str:
    return str(value.dtype) if isinstance(value, Tensor) else type(value).__name__


def _exponents(
    p: float | Tensor,
    q: float | Tensor | None,
    growth: float | Tensor | None,
    zeros: str,
    channels: int,
    repeats: int,
    x: Tensor,
    name: str,
) -> tuple[Tensor, Tensor, int]:
    """p and the exponent of the size as kernels take them, (repeats * D,) each, and the form."""
    if zeros not in ZEROS:
        raise ValueError(f"{name}: 'zeros' must be one of {tuple(ZEROS)}, got {zeros!r}")
    if growth is None:
        if not isinstance(p, Tensor) and p == 0:
            raise ValueError(
                f"{name}: 'p' must not be 0 with 'q', since the norm has no value there; pass 'growth' instead of 'q'"
            )
        q = _exponent(0.0 if q is None else q, "q", channels, repeats, x, name)
        return _exponent(p, "p", channels, repeats, x, name), q, NORM
    if q is not None:
        raise ValueError(f"{name}: pass either 'q' or 'growth', not both; growth = 1/p - q")
    growth = _exponent(growth, "growth", channels, repeats, x, name)
    return _exponent(p, "p", channels, repeats, x, name), -growth, ZEROS[zeros]


def _exponent(value: float | Tensor, argument: str, channels: int, repeats: int, x: Tensor, name: str) -> Tensor:
    """``value`` in any of its forms -> (repeats * D,) in the dtype of exponents."""
    dtype = wide_dtype(x.device)
    if not isinstance(value, Tensor):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(f"{name}: '{argument}' must be a number or a tensor, got {_kind(value)}")
        if value != value:  # NaN, in a form that torch.compile traces
            raise ValueError(f"{name}: '{argument}' must be a number, got nan")
        return torch.full((channels * repeats,), value, dtype=dtype, device=x.device)
    if value.dtype not in _FLOATS:
        raise TypeError(f"{name}: '{argument}' must be a floating point tensor, got {_kind(value)}")
    if value.dim() and value.shape != (channels,):
        raise ValueError(
            f"{name}: '{argument}' must be a number, a 0-d tensor or a tensor of shape ({channels},), one value per "
            f"channel; got shape {tuple(value.shape)}"
        )
    if value.device != x.device:
        raise ValueError(f"{name}: '{argument}' is on {value.device} but 'x' is on {x.device}")
    if repeats == 1:
        return value.expand(channels).to(dtype)
    return value.expand(repeats, channels).flatten().to(dtype)


def _check_sizes(sizes: Any, segments: int, x: Tensor, name: str) -> None:
    if not isinstance(sizes, Tensor) or sizes.dtype not in (*_INTEGERS, *_FLOATS):
        raise TypeError(f"{name}: 'sizes' must be a tensor of integers or floating point numbers, got {_kind(sizes)}")
    if sizes.dim() != 1 or (not torch.compiler.is_compiling() and sizes.size(0) != segments):
        raise ValueError(
            f"{name}: 'sizes' must have one value for each of the {segments} segments, got shape {tuple(sizes.shape)}"
        )
    if sizes.device != x.device:
        raise ValueError(f"{name}: 'sizes' is on {sizes.device} but 'x' is on {x.device}")


def _check_dim_size(dim_size: int, name: str) -> None:
    if torch.compiler.is_compiling():  # it may depend on the index and be unknown during tracing
        torch._check(dim_size >= 0)
    elif dim_size < 0:
        raise ValueError(f"{name}: 'dim_size' must be at least 0, got {dim_size}")


def _check_call(x: Any, eps: float, name: str) -> None:
    if is_tracing():
        raise RuntimeError(f"{name}: {NO_TORCHSCRIPT}")
    _check_rows(x, name)
    if not 0 <= eps < math.inf:
        raise ValueError(f"{name}: 'eps' must be at least 0 and finite, got {eps}")
