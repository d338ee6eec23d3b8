"""GNP as an aggregation of PyTorch Geometric."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn.aggr import Aggregation

from gnpool.nn.exponent import check_p_max, exponent, raw_exponent, raw_signed_exponent, signed_exponent
from gnpool.ops.form import ZEROS
from gnpool.ops.functional import NO_TORCHSCRIPT, pool_neighbors, pool_segments

COORDINATES = {"growth": "one", "published": "split"}  # with the branches each has where nobody says
P_MAX = {"growth": 500.0, "published": 50.0}
BRANCHES = ("one", "split", "both", "positive", "negative")
NONNEG = ("relu", "abs", None)
SMALL_T = -6.0  # p = 1.0025: as near to 1 as still has a useful gradient
STARTS = {
    # name: p (infinite: p_max) and growth
    "sum": (1.0, 1.0),
    "mean": (1.0, 0.0),
    "max": (math.inf, 0.0),
    "min": (-math.inf, 0.0),
    "harmonic": (-1.0, -1.0),
    "harmonic mean": (-1.0, 0.0),
    "geometric": (0.0, 0.0),
    "rms": (2.0, 0.0),
    "l2": (2.0, 0.5),
}


def _raw(kind: str, branch: str) -> str:
    """The name of a parameter: of "p", "q" or "growth" in the branch "", "pos" or "neg"."""
    return f"raw_{kind}_{branch}" if branch else f"raw_{kind}"


def _exponent_property(branch: str) -> Any:
    what = {"": "The exponent.", "pos": "Exponent of the positive branch."}
    doc = what.get(branch, "Exponent of the negative branch, as a positive number.")
    return property(lambda self: self._p(branch), lambda self, value: self._set_p(branch, value), doc=doc)


def _size_property(kind: str, branch: str) -> Any:
    what = "growth" if kind == "growth" else "exponent of the size, q = 1/p - growth,"
    where = {"": "", "pos": " of the positive branch", "neg": " of the negative branch"}[branch]
    return property(
        lambda self: self._sizes(kind, branch),
        lambda self, value: self._set_size(kind, branch, value),
        doc=f"The {what}{where}.",
    )


class GNPAggregation(Aggregation):
    r"""Generalized norm-based pooling from `"Learning to Pool in Graph Neural Networks for Extrapolation"
    <https://arxiv.org/abs/2106.06210>`_: an aggregation that learns which pooling the task needs.

    In growth coordinates, the default, it learns the exponent p of a power mean, of any sign, and the growth g:

    .. math::
        \mathrm{GNP}(\mathcal{X}) = \mathbf{W} \Big(\frac{n}{n_0}\Big)^{g}
        \Big(\frac{1}{n} \sum_i u_i^{\,p}\Big)^{1/p} \; (+\, \mathbf{b})

    where :math:`u = \mathrm{ReLU}(x) + \epsilon`, n is the number of pooled elements, and
    :math:`p = \sinh(t)`, cut off at :math:`\pm p_{max}`. The growth alone says how the result grows with n, and p
    says which elements count. Mean, max, min and the geometric mean (p = 0) have growth 0, the sum has (1, 1).
    The usual size :math:`n_0` is a constant that W could take as well: with it a step of g changes the trend over sizes
    and not the scale of the output, which makes training faster. Without W there is no :math:`n_0` either.

    In the coordinates of the paper, ``coordinates="published"``, it learns p and q of two branches:

    .. math::
        \mathrm{GNP}(\mathcal{X}) = \mathbf{W} \left[\, n^{-q_+} \Big(\sum_i u_i^{\,p_+}\Big)^{1/p_+}
        \;\Big\Vert\; n^{-q_-} \Big(\sum_i u_i^{-p_-}\Big)^{-1/p_-} \right] \; (+\, \mathbf{b})

    where the first :math:`\lfloor d/2 \rfloor` channels go through the positive branch and the others through the
    negative one, and :math:`p_\pm = \min(1 + \mathrm{softplus}(t_\pm), p_{max})`. The poolings are the same, with
    :math:`g = 1/p - q`, but there every step of p also moves the growth, and training is slower and less accurate.
    The numerics of both are those of :func:`gnpool.norm_pool`.

    Cost: two scalars (published: four) and :math:`d^2` parameters a layer, with a bias :math:`d^2 + d`.

    Args:
        channels (int): Size d of the last dimension of the input, and of the output.
        coordinates (str, optional): ``"growth"`` or ``"published"``. (default: ``"growth"``)
        branches (str, optional): ``"one"`` pools all channels with one p of any sign, and needs growth coordinates.
            ``"split"`` halves the channels between a branch of positive and one of negative p; ``"both"`` sends all
            channels through both branches and mixes 2d to d (what ``"split"`` does for a single channel);
            ``"positive"`` or ``"negative"`` uses one of the two. (default: ``"one"``, published: ``"split"``)
        mix (bool, optional): Whether the linear layer follows. Without it the pooled channels are returned, 2d of
            them for ``"both"``. (default: ``True``)
        bias (bool, optional): Whether the linear layer has a bias. Without one the layer is homogeneous (twice the
            input, twice the output) and extrapolates far better, so the default is off, though the paper writes one.
            An empty segment gives the bias. (default: ``False``)
        per_channel (bool, optional): Whether each channel learns its own exponents. (default: ``False``)
        nonneg (str, optional): How negative input is treated: ``"relu"``, ``"abs"``, or ``None``, which says that there
            is none and computes what ``"abs"`` does. (default: ``"relu"``)
        p_max (float, optional): The cap of abs(p). At the cap a gradient passes only if following it lowers abs(p).
            (default: ``500.0``, published: ``50.0``)
        eps (float, optional): The tolerance of :func:`gnpool.norm_pool`. (default: ``1e-6``)
        start (str, optional): Start at a named pooling: ``"sum"``, ``"mean"``, ``"max"``, ``"min"``, ``"harmonic"``
            (the harmonic sum), ``"harmonic mean"``, ``"geometric"``, ``"rms"`` or ``"l2"``, in the branch that has it.
            Otherwise one branch starts at the mean; of two branches p starts at 1.69 (t = 0) and the growth or q at 0.
            (default: ``None``)
        zeros (str, optional): What growth coordinates do with rows of 0, see :func:`gnpool.norm_pool`.
            (default: ``"keep"``)
        size (float, optional): A usual number of pooled elements, :math:`n_0` above, for growth coordinates with a
            mixing layer. The right order of magnitude is enough. (default: ``16.0``)

    The learned values are read and set as ``p`` and ``growth``, and ``q`` can be read. With two branches they are
    ``p_pos``, ``growth_pos``, ``p_neg`` (positive; the operator gets -p_neg) and ``growth_neg``; published ``p_pos``,
    ``q_pos``, ``p_neg`` and ``q_neg``, where the growth can be read. The optimiser sees ``raw_p`` (t),
    ``raw_growth``, ...; they stay float32 when the model is cast to half precision. :func:`gnpool.param_groups` gives
    them learning rates of their own, without which they hardly move.

    .. note::
        PyG's convolutions reset the aggregation that they are given. Set exponents afterwards, or use ``start``, which
        a reset restores.

    .. note::
        A module is one layer wherever it stands. PyG's models of several layers, as
        ``GIN(..., aggr=GNPAggregation(16))``, hand one instance to all of them, and all then share its exponents and
        its mixing layer. For layers of their own call :func:`gnpool.register_with_pyg` and give the name:
        ``GIN(..., aggr="gnp", aggr_kwargs={"channels": 16})``.

    Shapes:
        - **input:** x :math:`(*, N, d)` pooled along ``dim``, index :math:`(N)` or ptr :math:`(S + 1)`
        - **output:** :math:`(*, S, d)`

    Example:
        >>> import torch
        >>> from torch_geometric.nn import SAGEConv
        >>> from gnpool import GNPAggregation
        >>> aggr = GNPAggregation(2, mix=False, start="mean")
        >>> x = torch.tensor([[1.0, 6.0], [3.0, 5.0], [8.0, 9.0]])
        >>> aggr(x, torch.tensor([0, 0, 1])).detach()
        tensor([[2.00, 5.50],
                [8.00, 9.00]])
        >>> aggr.growth = 1.0  # the sum
        >>> aggr(x, torch.tensor([0, 0, 1])).detach()
        tensor([[ 4.00, 11.00],
                [ 8.00,  9.00]])
        >>> SAGEConv(16, 32, aggr=GNPAggregation(16))
        SAGEConv(16, 32, aggr=GNPAggregation(16))
    """

    def __init__(
        self,
        channels: int,
        *,
        coordinates: str = "growth",
        branches: str | None = None,
        mix: bool = True,
        bias: bool = False,
        per_channel: bool = False,
        nonneg: str | None = "relu",
        p_max: float | None = None,
        eps: float = 1e-6,
        start: str | None = None,
        zeros: str = "keep",
        size: float = 16.0,
    ) -> None:
        super().__init__()
        if isinstance(channels, bool) or not isinstance(channels, int) or channels < 1:
            raise ValueError(f"GNPAggregation: 'channels' must be a positive integer, got {channels!r}")
        options = {"coordinates": (coordinates, tuple(COORDINATES)), "nonneg": (nonneg, NONNEG)}
        options |= {"branches": (branches, (*BRANCHES, None)), "start": (start, (*STARTS, None))}
        options |= {"zeros": (zeros, tuple(ZEROS))}
        for name, (value, allowed) in options.items():
            if value not in allowed:
                shown = tuple(one for one in allowed if one is not None or name == "nonneg")
                raise ValueError(f"GNPAggregation: {name!r} must be one of {shown}, got {value!r}")
        if branches == "one" and coordinates == "published":
            raise ValueError("GNPAggregation: branches='one' needs coordinates='growth': q has no value at p = 0")
        if bias and not mix:
            raise ValueError("GNPAggregation: 'bias' belongs to the mixing layer; it needs mix=True")
        if not 0 <= eps < math.inf:
            raise ValueError(f"GNPAggregation: 'eps' must be at least 0 and finite, got {eps}")
        if not 0 < size < math.inf:
            raise ValueError(f"GNPAggregation: 'size' must be above 0 and finite, got {size}")
        self.channels = channels
        self.coordinates = coordinates
        self.branches = COORDINATES[coordinates] if branches is None else branches
        self.per_channel = per_channel
        self.nonneg = nonneg
        self.p_max = check_p_max(P_MAX[coordinates] if p_max is None else p_max)
        self.eps = eps
        self.start = start
        self.zeros = zeros
        self.size = size

        self._widths = self._branch_widths()
        if start is not None and not self.can_start_at(start):
            raise ValueError(
                f"GNPAggregation: start={start!r} lies in no branch of branches={self.branches!r}; "
                f"branches='one' has them all"
            )
        dtype = torch.promote_types(torch.get_default_dtype(), torch.float32)
        for name, width in self._widths.items():
            shape = (width,) if per_channel else ()
            for raw in ("p", self._of_size):
                self.register_parameter(_raw(raw, name), torch.nn.Parameter(torch.empty(shape, dtype=dtype)))
        self.mix: torch.nn.Linear | None = None
        self.reset_parameters()
        if mix:  # after the reset: it draws its own weights, and a second draw would part seed from state
            self.mix = torch.nn.Linear(sum(self._widths.values()), channels, bias=bias)

    @property
    def _of_size(self) -> str:
        """The name of the exponent of the size."""
        return "growth" if self.coordinates == "growth" else "q"

    def _branch_widths(self) -> dict[str, int]:
        """The channels of each branch, by the end of its parameters' names: "" for one branch, "pos" and "neg"."""
        d = self.channels
        if self.branches == "one":
            return {"": d}
        split = self.branches == "split" and d > 1
        widths = {"pos": d // 2 if split else d, "neg": d - d // 2 if split else d}
        unused = {"positive": "neg", "negative": "pos"}.get(self.branches)
        return {name: width for name, width in widths.items() if name != unused}

    def _branch_of(self, start: str) -> str | None:
        """The branch in which a named pooling lies; None: in a hole between the two."""
        p = STARTS[start][0]
        if self.branches == "one":
            return ""
        return None if abs(p) < 1 else "pos" if p > 0 else "neg"

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        for name in self._widths:
            self._set(_raw("p", name), 0.0)
            self._set(_raw(self._of_size, name), 0.0)
        if self.branches == "one" or self.start is not None:
            self.set_start(self.start or "mean")
        if self.mix is not None:
            self.mix.reset_parameters()

    def can_start_at(self, start: str) -> bool:
        r"""Whether one of the branches has the named pooling."""
        return self._branch_of(start) in self._widths

    def set_start(self, start: str) -> None:
        r"""Moves the exponents to a named pooling, as the option ``start`` does, and leaves the weights as they are."""
        if start not in STARTS:
            raise ValueError(f"{self}: 'start' must be one of {tuple(STARTS)}, got {start!r}")
        name = self._branch_of(start)
        if name is None or not self.can_start_at(start):
            raise ValueError(f"{self}: start={start!r} lies in none of its branches")
        p, growth = STARTS[start]
        p = math.copysign(min(abs(p), self.p_max), p)
        if name == "":
            self._set_p(name, p)
        elif abs(p) == 1:  # the end of the branch, where p has no gradient
            self._set(_raw("p", name), SMALL_T)
        else:
            self._set_p(name, abs(p))
        infinite = math.isinf(STARTS[start][0])
        size = growth if self._of_size == "growth" else (0.0 if infinite else 1 / p) - growth
        self._set(_raw(self._of_size, name), size)

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
        *,
        sizes: Tensor | None = None,
    ) -> Tensor:
        r"""Pools ``x`` along ``dim``.

        Args:
            x (torch.Tensor): The source tensor.
            index (torch.Tensor, optional): The segment of each element, in any order.
            ptr (torch.Tensor, optional): Boundaries of the segments of sorted input; taken when both are given.
            dim_size (int, optional): The number of segments.
            dim (int, optional): The dimension to pool. (default: ``-2``)
            sizes (torch.Tensor, optional): The true number of elements of each segment where x holds a sample of them,
                see :func:`gnpool.norm_pool`.
        """
        self._check_channels(x)
        if dim in (-1, x.dim() - 1):
            raise ValueError(
                f"GNPAggregation: 'dim' must not be the last dimension, which holds the channels (got {dim})"
            )
        rows = x.movedim(dim, 0)
        out = self._branches(
            lambda p, size: pool_segments(
                rows,
                None if ptr is not None else index,
                p=p,
                ptr=ptr,
                dim_size=dim_size,
                eps=self.eps,
                zeros=self.zeros,
                sizes=sizes,
                relu=self.nonneg == "relu",
                **{self._of_size: size},
            )
        )
        return out.movedim(0, dim).contiguous()

    def pool_neighbors(
        self,
        x: Tensor,
        edge_index: Tensor | tuple[Tensor, Tensor],
        edge_weight: Tensor | None = None,
        dim_size: int | None = None,
        sizes: Tensor | None = None,
    ) -> Tensor:
        r"""Pools the neighbours of each node: ``forward(edge_weight[:, None] * x[edge_index[0]], edge_index[1])``
        without the tensor of messages.

        Args:
            x (torch.Tensor): The source nodes, (N, d).
            edge_index (torch.Tensor, torch_geometric.EdgeIndex or tuple): The edges, (2, E), or a pair (ptr, source),
                see :func:`gnpool.norm_pool_neighbors`.
            edge_weight (torch.Tensor, optional): One factor per edge, (E).
            dim_size (int, optional): The number of destination nodes. (default: N)
            sizes (torch.Tensor, optional): The true number of edges into each node where ``edge_index`` holds a sample.
        """
        self._check_channels(x)
        return self._branches(
            lambda p, size: pool_neighbors(
                x,
                edge_index,
                p=p,
                edge_weight=edge_weight,
                dim_size=dim_size,
                eps=self.eps,
                zeros=self.zeros,
                sizes=sizes,
                relu=self.nonneg == "relu",
                **{self._of_size: size},
            )
        )

    def _branches(self, pool: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        names, widths = list(self._widths), list(self._widths.values())
        if len(names) == 2 and sum(widths) == self.channels:  # split: one pass, the sign of p picks the branch
            both = torch.cat if self.per_channel else torch.stack
            raw_p, raw_size = ([getattr(self, _raw(kind, name)) for name in names] for kind in ("p", self._of_size))
            p_pos, p_neg = exponent(both(tuple(raw_p)), self.p_max).split(widths if self.per_channel else [1, 1])
            p = torch.cat([p_pos.expand(widths[0]), -p_neg.expand(widths[1])])
            out = pool(p, torch.cat([size.expand(width) for size, width in zip(raw_size, widths, strict=True)]))
        elif names == [""]:
            out = pool(self.p, self._sizes("growth", ""))
        else:
            signs = {"pos": 1, "neg": -1}
            parts = [pool(signs[name] * self._p(name), getattr(self, _raw(self._of_size, name))) for name in names]
            out = torch.cat(parts, dim=-1)
        if self.mix is None or self.coordinates == "published":
            return out if self.mix is None else self.mix(out)
        return torch.nn.functional.linear(out, self.mixing_weight(), self.mix.bias)

    def mixing_weight(self) -> Tensor:
        """The matrix that mixes the pooled channels: the weight of ``mix``, with the factor of the usual size."""
        if self.mix is None:
            raise AttributeError(f"{self}: there is no mixing layer")
        weight = self.mix.weight
        if self.coordinates == "published":
            return weight
        growth = [getattr(self, _raw("growth", name)).expand(width) for name, width in self._widths.items()]
        factor = (-math.log(self.size) * torch.cat(growth)).exp()
        return weight * factor.to(weight.dtype)

    def _check_channels(self, x: Tensor) -> None:
        if x.size(-1) != self.channels:
            raise ValueError(
                f"{self}: the last dimension of 'x' must hold {self.channels} channels, got {x.size(-1)} "
                f"in shape {tuple(x.shape)}"
            )

    def _p(self, name: str) -> Tensor:
        return self.readable(_raw("p", name), getattr(self, _raw("p", name)))

    def readable(self, raw: str, value: Tensor) -> Tensor:
        """What the parameter called ``raw`` means where it has this value: p for t, and the value itself else."""
        if not raw.startswith("raw_p"):
            return value
        return (signed_exponent if raw == "raw_p" else exponent)(value, self.p_max)

    @torch.no_grad()
    def _set(self, parameter: str, value: float | Tensor) -> None:
        raw = getattr(self, parameter)
        value = torch.as_tensor(value, dtype=torch.float64, device="cpu")
        if value.dim() > 0 and value.shape != raw.shape:
            forms = f"a number or one of shape {tuple(raw.shape)}" if self.per_channel else "a number"
            name = parameter.removeprefix("raw_")
            raise ValueError(f"{self}: '{name}' must be {forms}, got shape {tuple(value.shape)}")
        raw.copy_(value.expand_as(raw))

    def _set_p(self, name: str, value: float | Tensor) -> None:
        value = torch.as_tensor(
            value, dtype=torch.float64, device="cpu"
        )  # it is looked at, which a meta tensor cannot be
        inverse = raw_exponent if name else raw_signed_exponent
        raw = _raw("p", name)
        self._set(raw, inverse(value, self.p_max, f"{self}: '{raw.removeprefix('raw_')}'"))

    def _sizes(self, kind: str, name: str) -> Tensor:
        """The growth or q of a branch; the one that is not learned follows from p: each is 1/p minus the other."""
        learned: Tensor = getattr(self, _raw(self._of_size, name))
        if kind == self._of_size:
            return learned
        p = self._p(name)
        return (-1.0 if name == "neg" else 1.0) / p - learned

    def _set_size(self, kind: str, name: str, value: float | Tensor) -> None:
        if kind != self._of_size:
            raise AttributeError(f"{self}: {kind!r} can be read and not set; it learns {self._of_size!r}")
        self._set(_raw(kind, name), value)

    p, p_pos, p_neg = (_exponent_property(name) for name in ("", "pos", "neg"))
    growth, growth_pos, growth_neg = (_size_property("growth", name) for name in ("", "pos", "neg"))
    q, q_pos, q_neg = (_size_property("q", name) for name in ("", "pos", "neg"))

    def exponents(self) -> dict[str, list[torch.nn.Parameter]]:
        """The raw parameters behind p, behind q and behind the growth."""
        found: dict[str, list[torch.nn.Parameter]] = {"p": [], "q": [], "growth": []}
        for name in self._widths:
            for kind in ("p", self._of_size):
                found[kind].append(getattr(self, _raw(kind, name)))
        return found

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        *_, errors = args
        there = {coordinates for coordinates, size in (("published", "q"), ("growth", "growth"))
                 if any(f"{prefix}raw_{size}{end}" in state_dict for end in ("", "_pos", "_neg"))}  # fmt: skip
        if there and self.coordinates not in there:
            errors.append(
                f"{prefix.rstrip('.') or 'the layer'} was saved with other coordinates: make it as "
                f"GNPAggregation({self.channels}, coordinates={there.pop()!r})"
            )
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> GNPAggregation:
        raw = [t for column in self.exponents().values() for t in column]
        keep = {id(t) for t in raw} | {id(t.grad) for t in raw if t.grad is not None}

        def apply(t: Tensor) -> Tensor:
            out = fn(t)
            half = out.dtype in (torch.float16, torch.bfloat16)
            return t.to(out.device, torch.float32) if half and id(t) in keep else out

        super()._apply(apply, recurse)
        return self

    def __prepare_scriptable__(self) -> None:
        raise RuntimeError(f"GNPAggregation: {NO_TORCHSCRIPT}")

    def __repr__(self) -> str:
        values = {"mix": self.mix is not None, "bias": self.mix is not None and self.mix.bias is not None}
        usual = {"branches": COORDINATES[self.coordinates], "p_max": P_MAX[self.coordinates]}
        options = []
        for name, parameter in inspect.signature(GNPAggregation).parameters.items():
            value = values[name] if name in values else getattr(self, name)
            if parameter.default is not parameter.empty and value != usual.get(name, parameter.default):
                options.append(f"{name}={value!r}")
        return f"{self.__class__.__name__}({', '.join([str(self.channels), *options])})"
