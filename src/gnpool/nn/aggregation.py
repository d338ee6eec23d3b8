"""GNP as an aggregation of PyTorch Geometric."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric.nn.aggr import Aggregation

from gnpool.nn.exponent import check_p_max, exponent, raw_exponent
from gnpool.ops.functional import pool_neighbors, pool_segments

BRANCHES = ("split", "both", "positive", "negative")
NONNEG = ("relu", "abs", None)
SMALL_T = -6.0  # p = 1.0025: as near to 1 as still has a useful gradient
STARTS = {
    # name: which branch starts where, (t or None for p_max, q)
    "sum": ("pos", SMALL_T, 0.0),
    "mean": ("pos", SMALL_T, 1.0),
    "max": ("pos", None, 0.0),
    "harmonic": ("neg", SMALL_T, 0.0),
    "min": ("neg", None, 0.0),
}


class GNPAggregation(Aggregation):
    r"""Generalized norm-based pooling from `"Learning to Pool in Graph Neural Networks for Extrapolation"
    <https://arxiv.org/abs/2106.06210>`_: an aggregation that learns which pooling the task needs.

    .. math::
        \mathrm{GNP}(\mathcal{X}) = \mathbf{W} \left[\, n^{-q_+} \Big(\sum_i u_i^{\,p_+}\Big)^{1/p_+}
        \;\Big\Vert\; n^{-q_-} \Big(\sum_i u_i^{-p_-}\Big)^{-1/p_-} \right] \; (+\, \mathbf{b})

    where :math:`u = \mathrm{ReLU}(x) + \epsilon`, the first :math:`\lfloor d/2 \rfloor` channels go through the
    positive branch and the others through the negative one (``branches="split"``), n is the number of pooled
    elements, and :math:`p_\pm = \min(1 + \mathrm{softplus}(t_\pm), p_{max})` and :math:`q_\pm` are learned. Sum, mean
    and max are points of the positive branch, min and the harmonic sum points of the negative one. The numerics
    are those of :func:`gnpool.norm_pool`.

    Cost: four scalars and :math:`d^2` parameters a layer, with a bias :math:`d^2 + d`.

    Args:
        channels (int): Size d of the last dimension of the input, and of the output.
        branches (str, optional): ``"split"`` halves the channels; ``"both"`` sends all channels through both
            branches and mixes 2d to d (what ``"split"`` does for a single channel); ``"positive"`` or ``"negative"``
            uses one branch only. (default: ``"split"``)
        mix (bool, optional): Whether the linear layer follows. Without it the pooled channels are returned, 2d of
            them for ``"both"``. (default: ``True``)
        bias (bool, optional): Whether the linear layer has a bias. Without one the layer is homogeneous (twice the
            input, twice the output) and extrapolates far better, so the default is off, though the paper writes one.
            An empty segment gives the bias. (default: ``False``)
        per_channel (bool, optional): Whether each channel learns its own p and q. (default: ``False``)
        nonneg (str, optional): How negative input is treated: ``"relu"``, ``"abs"``, or ``None``, which says that there
            is none and computes what ``"abs"`` does. (default: ``"relu"``)
        p_max (float, optional): The cap of both exponents. At the cap a gradient passes only if following it lowers
            p. (default: ``50.0``)
        eps (float, optional): The tolerance of :func:`gnpool.norm_pool`. (default: ``1e-6``)
        start (str, optional): Start at a named pooling, ``"sum"``, ``"mean"``, ``"max"``, ``"harmonic"`` or
            ``"min"``, in its branch. Otherwise p starts at 1.69 (t = 0) and q at 0. (default: ``None``)

    The learned exponents are read and set as ``p_pos``, ``q_pos``, ``p_neg`` (positive; the operator gets -p_neg) and
    ``q_neg``. The optimiser sees ``raw_p_pos`` (t), ``raw_q_pos``, ...; they stay float32 when the model is cast to
    half precision. :func:`gnpool.param_groups` gives them their own learning rates.

    .. note::
        PyG's convolutions reset the aggregation that they are given. Set exponents afterwards, or use ``start``, which
        a reset restores.

    Shapes:
        - **input:** x :math:`(*, N, d)` pooled along ``dim``, index :math:`(N)` or ptr :math:`(S + 1)`
        - **output:** :math:`(*, S, d)`

    Example:
        >>> import torch
        >>> from torch_geometric.nn import SAGEConv
        >>> from gnpool import GNPAggregation
        >>> aggr = GNPAggregation(2, mix=False, start="mean")
        >>> aggr.p_neg = 50.0
        >>> x = torch.tensor([[1.0, 6.0], [3.0, 5.0], [8.0, 9.0]])
        >>> aggr(x, torch.tensor([0, 0, 1])).detach()  # mean of the first channel, min of the second
        tensor([[2.00, 5.00],
                [8.00, 9.00]])
        >>> SAGEConv(16, 32, aggr=GNPAggregation(16))
        SAGEConv(16, 32, aggr=GNPAggregation(16))
    """

    def __init__(
        self,
        channels: int,
        *,
        branches: str = "split",
        mix: bool = True,
        bias: bool = False,
        per_channel: bool = False,
        nonneg: str | None = "relu",
        p_max: float = 50.0,
        eps: float = 1e-6,
        start: str | None = None,
    ) -> None:
        super().__init__()
        if isinstance(channels, bool) or not isinstance(channels, int) or channels < 1:
            raise ValueError(f"GNPAggregation: 'channels' must be a positive integer, got {channels!r}")
        if branches not in BRANCHES:
            raise ValueError(f"GNPAggregation: 'branches' must be one of {BRANCHES}, got {branches!r}")
        if nonneg not in NONNEG:
            raise ValueError(f"GNPAggregation: 'nonneg' must be one of {NONNEG}, got {nonneg!r}")
        if start is not None and start not in STARTS:
            raise ValueError(f"GNPAggregation: 'start' must be one of {tuple(STARTS)}, got {start!r}")
        if bias and not mix:
            raise ValueError("GNPAggregation: 'bias' belongs to the mixing layer; it needs mix=True")
        if not 0 <= eps < math.inf:
            raise ValueError(f"GNPAggregation: 'eps' must be at least 0 and finite, got {eps}")
        self.channels = channels
        self.branches = branches
        self.per_channel = per_channel
        self.nonneg = nonneg
        self.p_max = check_p_max(p_max)
        self.eps = eps
        self.start = start

        split = branches == "split" and channels > 1
        widths = {"pos": channels // 2 if split else channels, "neg": channels - channels // 2 if split else channels}
        unused = {"positive": "neg", "negative": "pos"}.get(branches)
        self._widths = {name: width for name, width in widths.items() if name != unused}
        if start is not None and STARTS[start][0] not in self._widths:
            raise ValueError(f"GNPAggregation: start={start!r} needs the branch that branches={branches!r} leaves out")
        dtype = torch.promote_types(torch.get_default_dtype(), torch.float32)
        for name, width in self._widths.items():
            shape = (width,) if per_channel else ()
            for raw in ("raw_p", "raw_q"):
                self.register_parameter(f"{raw}_{name}", torch.nn.Parameter(torch.empty(shape, dtype=dtype)))
        self.mix: torch.nn.Linear | None = None
        self.reset_parameters()
        if mix:  # after the reset: it draws its own weights, and a second draw would part seed from state
            self.mix = torch.nn.Linear(sum(self._widths.values()), channels, bias=bias)

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        for name in self._widths:
            self._set(f"raw_p_{name}", 0.0)
            self._set(f"raw_q_{name}", 0.0)
        if self.start is not None:
            name, t, q = STARTS[self.start]
            if t is None:
                self._set_p(name, self.p_max)
            else:
                self._set(f"raw_p_{name}", t)
            self._set(f"raw_q_{name}", q)
        if self.mix is not None:
            self.mix.reset_parameters()

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
    ) -> Tensor:
        r"""Pools ``x`` along ``dim``.

        Args:
            x (torch.Tensor): The source tensor.
            index (torch.Tensor, optional): The segment of each element, in any order.
            ptr (torch.Tensor, optional): Boundaries of the segments of sorted input; taken when both are given.
            dim_size (int, optional): The number of segments.
            dim (int, optional): The dimension to pool. (default: ``-2``)
        """
        self._check_channels(x)
        if dim in (-1, x.dim() - 1):
            raise ValueError(
                f"GNPAggregation: 'dim' must not be the last dimension, which holds the channels (got {dim})"
            )
        rows = x.movedim(dim, 0)
        out = self._branches(
            lambda p, q: pool_segments(
                rows,
                None if ptr is not None else index,
                p=p,
                q=q,
                ptr=ptr,
                dim_size=dim_size,
                eps=self.eps,
                relu=self.nonneg == "relu",
            )
        )
        return out.movedim(0, dim)

    def pool_neighbors(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None, dim_size: int | None = None
    ) -> Tensor:
        r"""Pools the neighbours of each node: ``forward(edge_weight[:, None] * x[edge_index[0]], edge_index[1])``
        without the tensor of messages.

        Args:
            x (torch.Tensor): The source nodes, (N, d).
            edge_index (torch.Tensor or torch_geometric.EdgeIndex): The edges, (2, E).
            edge_weight (torch.Tensor, optional): One factor per edge, (E).
            dim_size (int, optional): The number of destination nodes. (default: N)
        """
        self._check_channels(x)
        return self._branches(
            lambda p, q: pool_neighbors(
                x,
                edge_index,
                p=p,
                q=q,
                edge_weight=edge_weight,
                dim_size=dim_size,
                eps=self.eps,
                relu=self.nonneg == "relu",
            )
        )

    def _branches(self, pool: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        names, widths = list(self._widths), list(self._widths.values())
        if len(names) == 2 and sum(widths) == self.channels:  # split: one pass, the sign of p picks the branch
            raw_p, raw_q = self.exponents()
            both = torch.cat if self.per_channel else torch.stack
            p_pos, p_neg = exponent(both(tuple(raw_p)), self.p_max).split(widths if self.per_channel else [1, 1])
            p = torch.cat([p_pos.expand(widths[0]), -p_neg.expand(widths[1])])
            out = pool(p, torch.cat([q.expand(width) for q, width in zip(raw_q, widths, strict=True)]))
        else:
            signs = {"pos": 1, "neg": -1}
            out = torch.cat([pool(signs[name] * self._p(name), self._q(name)) for name in names], dim=-1)
        return out if self.mix is None else self.mix(out)

    def _check_channels(self, x: Tensor) -> None:
        if x.size(-1) != self.channels:
            raise ValueError(
                f"{self}: the last dimension of 'x' must hold {self.channels} channels, got {x.size(-1)} "
                f"in shape {tuple(x.shape)}"
            )

    def _p(self, name: str) -> Tensor:
        return exponent(getattr(self, f"raw_p_{name}"), self.p_max)

    def _q(self, name: str) -> Tensor:
        q: Tensor = getattr(self, f"raw_q_{name}")
        return q

    @torch.no_grad()
    def _set(self, parameter: str, value: float | Tensor) -> None:
        raw = getattr(self, parameter)
        value = torch.as_tensor(value, dtype=torch.float64)
        if value.dim() > 0 and value.shape != raw.shape:
            forms = f"a number or one of shape {tuple(raw.shape)}" if self.per_channel else "a number"
            name = parameter.removeprefix("raw_")
            raise ValueError(f"{self}: '{name}' must be {forms}, got shape {tuple(value.shape)}")
        raw.copy_(value.expand_as(raw))

    def _set_p(self, name: str, value: float | Tensor) -> None:
        value = torch.as_tensor(value, dtype=torch.float64)
        self._set(f"raw_p_{name}", raw_exponent(value, self.p_max, f"{self}: 'p_{name}'"))

    @property
    def p_pos(self) -> Tensor:
        """Exponent of the positive branch."""
        return self._p("pos")

    @p_pos.setter
    def p_pos(self, value: float | Tensor) -> None:
        self._set_p("pos", value)

    @property
    def q_pos(self) -> Tensor:
        """Exponent of the size in the positive branch."""
        return self._q("pos")

    @q_pos.setter
    def q_pos(self, value: float | Tensor) -> None:
        self._set("raw_q_pos", value)

    @property
    def p_neg(self) -> Tensor:
        """Exponent of the negative branch, as a positive number."""
        return self._p("neg")

    @p_neg.setter
    def p_neg(self, value: float | Tensor) -> None:
        self._set_p("neg", value)

    @property
    def q_neg(self) -> Tensor:
        """Exponent of the size in the negative branch."""
        return self._q("neg")

    @q_neg.setter
    def q_neg(self, value: float | Tensor) -> None:
        self._set("raw_q_neg", value)

    def exponents(self) -> tuple[list[torch.nn.Parameter], list[torch.nn.Parameter]]:
        """The raw parameters behind p and behind q."""
        names = tuple(self._widths)
        return [getattr(self, f"raw_p_{n}") for n in names], [getattr(self, f"raw_q_{n}") for n in names]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> GNPAggregation:
        raw = [t for column in self.exponents() for t in column]
        keep = {id(t) for t in raw} | {id(t.grad) for t in raw if t.grad is not None}

        def apply(t: Tensor) -> Tensor:
            out = fn(t)
            half = out.dtype in (torch.float16, torch.bfloat16)
            return t.to(out.device, torch.float32) if half and id(t) in keep else out

        super()._apply(apply, recurse)
        return self

    def __repr__(self) -> str:
        values = {"mix": self.mix is not None, "bias": self.mix is not None and self.mix.bias is not None}
        options = []
        for name, parameter in inspect.signature(GNPAggregation).parameters.items():
            value = values[name] if name in values else getattr(self, name)
            if parameter.default is not parameter.empty and value != parameter.default:
                options.append(f"{name}={value!r}")
        return f"{self.__class__.__name__}({', '.join([str(self.channels), *options])})"
