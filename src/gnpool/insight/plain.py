"""Poolings and networks as source code that needs only torch and PyTorch Geometric.

The code contains only numbers of a model, names from this file, and names that were checked to be plain identifiers.
All values go through ``repr``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch_geometric.nn.aggr import MaxAggregation, MeanAggregation, MinAggregation, SumAggregation

from gnpool.display.poolings import BY_NAME
from gnpool.insight.crystal import POWERED, CrystalAggregation
from gnpool.insight.probe import branches_of, curve_name
from gnpool.nn import GNPAggregation

PYG = {SumAggregation: "sum", MeanAggregation: "mean", MaxAggregation: "max", MinAggregation: "min"}
SMALL_P = 1e-9
FUNCTION = {name: name.lower().replace(" ", "_") + "_pool" for name in BY_NAME if name not in POWERED}
POWER = "power of the size"

# Source of the poolings by name: rows x (N, D), the segment of each (N,), and the number of segments.
POOLINGS = {
    **{
        name: f'''
def {name}_pool(x: Tensor, index: Tensor, size: int) -> Tensor:
    return scatter(x, index, dim=0, dim_size=size, reduce="{name}")
'''
        for name in ("sum", "mean", "max", "min")
    },
    "harmonic sum": '''
def harmonic_sum_pool(x: Tensor, index: Tensor, size: int) -> Tensor:
    """1 / sum(1/x) over the rows above 0; 0 where there are none."""
    inverse = torch.where(x > 0, 1 / torch.where(x > 0, x, 1.0), 0.0)
    total = scatter(inverse, index, dim=0, dim_size=size, reduce="sum")
    return torch.where(total > 0, 1 / torch.where(total > 0, total, 1.0), 0.0)
''',
    "harmonic mean": '''
def harmonic_mean_pool(x: Tensor, index: Tensor, size: int) -> Tensor:
    """n / sum(1/x) over the rows above 0, where n counts all rows; 0 where there are none."""
    inverse = torch.where(x > 0, 1 / torch.where(x > 0, x, 1.0), 0.0)
    total = scatter(inverse, index, dim=0, dim_size=size, reduce="sum")
    harmonic = torch.where(total > 0, 1 / torch.where(total > 0, total, 1.0), 0.0)
    return harmonic * scatter(torch.ones_like(x), index, dim=0, dim_size=size, reduce="sum")
''',
    "L2 norm": """
def l2_norm_pool(x: Tensor, index: Tensor, size: int) -> Tensor:
    return scatter(x.square(), index, dim=0, dim_size=size, reduce="sum").sqrt()
""",
    "root mean square": """
def root_mean_square_pool(x: Tensor, index: Tensor, size: int) -> Tensor:
    return scatter(x.square(), index, dim=0, dim_size=size, reduce="mean").sqrt()
""",
    "cubic mean": """
def cubic_mean_pool(x: Tensor, index: Tensor, size: int) -> Tensor:
    return scatter(x**3, index, dim=0, dim_size=size, reduce="mean") ** (1 / 3)
""",
    POWER: '''
def size_power(x: Tensor, index: Tensor, size: int, growth: float) -> Tensor:
    """n^growth, where n is the number of rows of each segment."""
    return scatter(torch.ones_like(x), index, dim=0, dim_size=size, reduce="sum").clamp(min=1.0) ** growth
''',
    "geometric mean": '''
def geometric_mean_pool(x: Tensor, index: Tensor, size: int) -> Tensor:
    """exp of the mean of log x; 0 where a row is 0."""
    logs = scatter(torch.where(x > 0, x, 1.0).log(), index, dim=0, dim_size=size, reduce="mean")
    least = scatter(x, index, dim=0, dim_size=size, reduce="min")
    return torch.where(least > 0, logs.exp(), 0.0)
''',
    "mean with a 0": '''
def mean_with_a_0_pool(x: Tensor, index: Tensor, size: int) -> Tensor:
    """sum(x) / (n + 1)"""
    total = scatter(x, index, dim=0, dim_size=size, reduce="sum")
    return total / (1 + scatter(torch.ones_like(x), index, dim=0, dim_size=size, reduce="sum"))
''',
    "harmonic sum with a 1": '''
def harmonic_sum_with_a_1_pool(x: Tensor, index: Tensor, size: int) -> Tensor:
    """1 / (1 + sum(1/x)) over the rows above 0."""
    inverse = torch.where(x > 0, 1 / torch.where(x > 0, x, 1.0), 0.0)
    return 1 / (1 + scatter(inverse, index, dim=0, dim_size=size, reduce="sum"))
''',
    "learned growth": f'''
def power_mean_pool(
    x: Tensor, index: Tensor, size: int, p: Tensor, growth: Tensor, eps: float, above: float
) -> Tensor:
    """n^growth (mean of u^p)^(1/p) with u = x + eps, of the rows above a limit; n counts all. p = 0: the geometric."""
    logs, kept = (x.double() + eps).log(), x > above
    sign = torch.where(p >= 0, 1.0, -1.0).double()
    key = torch.where(kept, logs * sign, -torch.inf)
    best = torch.full((size, x.size(1)), -torch.inf, dtype=key.dtype, device=x.device)
    best = best.scatter_reduce(0, index[:, None].expand_as(key), key, "amax", include_self=True) * sign
    some = torch.isfinite(best)
    best = torch.where(some, best, 0.0)  # log of the largest row, or of the smallest: the others are measured by it
    off = torch.where(kept, logs - best[index], 0.0)
    near = p.abs() < {SMALL_P!r}  # there the mean of the logarithms
    part = torch.where(kept, torch.where(near, off, torch.expm1(p * off)), 0.0)
    members = scatter(kept.double(), index, dim=0, dim_size=size, reduce="sum").clamp(min=1.0)
    mean = scatter(part, index, dim=0, dim_size=size, reduce="sum") / members
    level = torch.where(near, mean, torch.log1p(mean) / torch.where(near, 1.0, p))
    count = scatter(torch.ones_like(off[:, :1]), index, dim=0, dim_size=size, reduce="sum").clamp(min=1.0)
    return torch.where(some, (best + level + growth * count.log()).exp(), 0.0).to(x.dtype)
''',
    "learned": '''
def norm_pool(x: Tensor, index: Tensor, size: int, p: Tensor, q: Tensor, eps: float) -> Tensor:
    """n^-q (sum of u^p)^(1/p) with u = x + eps; where p is below 0, rows of at most eps are left out."""
    kept = (x > eps) | (p > 0)
    sign = torch.where(p > 0, 1.0, -1.0).to(x.dtype)
    u = torch.where(kept, x + eps, 1.0).double()
    worst = torch.where(p > 0, 0.0, torch.inf).double()
    key = torch.where(kept, u, worst) * sign
    best = torch.full((size, x.size(1)), -torch.inf, dtype=key.dtype, device=x.device)
    best = best.scatter_reduce(0, index[:, None].expand_as(key), key, "amax", include_self=True) * sign
    some = torch.isfinite(best) & (best > 0)
    best = torch.where(some, best, 1.0)  # the largest row, or the smallest: the others are measured by it
    power = torch.where(kept, (u / best[index]) ** p, 0.0)
    total = scatter(power, index, dim=0, dim_size=size, reduce="sum")
    count = scatter(torch.ones_like(x[:, :1], dtype=key.dtype), index, dim=0, dim_size=size, reduce="sum")
    y = best * torch.where(some, total, 1.0) ** (1 / p) * count.clamp(min=1.0) ** -q
    return torch.where(some, y, 0.0).to(x.dtype)
''',
}


def pooling_class(name: str, layer: Any) -> tuple[str, list[str]]:
    """Source of a module that does what ``layer`` does, called ``name``, and the poolings of :obj:`POOLINGS` it needs.

    Its forward takes the rows, the segment of each and the number of segments. It has the mixing layer of the original
    under the same name, and the exponents as buffers.
    """
    setup: list[str] = []
    if type(layer) in PYG:
        kind = PYG[type(layer)]
        body = [f"        return {FUNCTION[kind]}(x, index, size)"]
        return _module(name, f"The {kind}.", [], body), [kind]
    if isinstance(layer, CrystalAggregation):
        given: list[Any] = layer.parts
        parts = [(int(start), int(stop), _call(kind, int(start), int(stop)), str(kind)) for start, stop, kind in given]
        words = "; ".join(f"{kind} of channels {start} to {stop - 1}" for start, stop, _, kind in parts)
        needs = [need for *_, kind in parts for need in ((POWERED[kind], POWER) if kind in POWERED else (kind,))]
    elif type(layer).__name__ in ("GNPAggregation", "StudyGNPAggregation") and getattr(layer, "mask", None) is None:
        growing = layer.coordinates == "growth"
        function, size = ("power_mean_pool", "growth") if growing else ("norm_pool", "q")
        eps = float(layer.eps)
        limit = f", {eps if layer.zeros == 'remove' else -1.0!r}" if growing else ""  # no row is below 0
        parts, needs = [], ["learned growth" if growing else "learned"]
        for part in branches_of(layer):
            start, stop = part.inputs.start, part.inputs.stop
            p, other = (curve_name(kind, part.name) for kind in ("p", size))
            setup += [f'self.register_buffer("{e}", torch.zeros({list(getattr(layer, e).shape)}))' for e in (p, other)]
            sign = "-" if part.name == "negative" else ""
            call = f"{function}(x[:, {start}:{stop}], index, size, {sign}self.{p}, self.{other}, {eps!r}{limit})"
            parts.append((start, stop, call, f"p = {part.p:.4g}, {size} = {getattr(part, size):.4g}"))
        words = "; ".join(f"{kind} for channels {start} to {stop - 1}" for start, stop, _, kind in parts)
        words = f"Learned: {words}"
    else:
        raise TypeError(f"export_model: {type(layer).__name__} cannot be written as plain code")
    if layer.mix is not None:
        wide, out, bias = layer.mix.in_features, layer.mix.out_features, layer.mix.bias is not None
        setup.append(f"self.mix = torch.nn.Linear({wide}, {out}, bias={bias})")
    body = ["        x = x.relu()" if layer.nonneg == "relu" else "        x = x.abs()"]
    calls = [call for _, _, call, _ in parts]
    if len(calls) == 1:
        body.append(f"        y = {calls[0]}")
    else:
        body += ["        y = torch.cat(", "            [", *(f"                {call}," for call in calls)]
        body += ["            ],", "            dim=-1,", "        )"]
    body.append("        return y" if layer.mix is None else "        return self.mix(y)")
    return _module(name, f"{words[0].upper()}{words[1:]}.", setup, body), needs


def _call(kind: str, start: int, stop: int) -> str:
    """The call of a pooling of some channels."""
    rows = f"(x[:, {start}:{stop}], index, size"
    if kind in POWERED:
        return f"{FUNCTION[POWERED[kind]]}{rows}) * size_power{rows}, {BY_NAME[kind].growth!r})"
    return f"{FUNCTION[kind]}{rows})"


def pooling_state(layer: Any) -> dict[str, torch.Tensor]:
    """The tensors of the module that :func:`pooling_class` describes."""
    state: dict[str, torch.Tensor] = {}
    if isinstance(layer, GNPAggregation):
        size = "growth" if layer.coordinates == "growth" else "q"
        names = [curve_name(kind, part.name) for part in branches_of(layer) for kind in ("p", size)]
        state = {name: getattr(layer, name).detach().clone() for name in names}
    mix = getattr(layer, "mix", None)
    if mix is not None:
        state |= {f"mix.{name}": value.detach().clone() for name, value in mix.state_dict().items()}
        if isinstance(layer, GNPAggregation):  # with the factor of the usual size
            state["mix.weight"] = layer.mixing_weight().detach().clone()
    return state


def functions(needs: list[str]) -> str:
    """Source of the poolings, each once."""
    return "\n\n\n".join(POOLINGS[name].strip("\n") for name in dict.fromkeys(needs)) + "\n"


def is_pooling(module: Any) -> bool:
    """Whether this file can write a module as a pooling."""
    return isinstance(module, (GNPAggregation, CrystalAggregation)) or type(module) in PYG


def _module(name: str, words: str, setup: list[str], body: list[str]) -> str:
    if not name.isidentifier():
        raise ValueError(f"export_model: {name!r} cannot be the name of a class")
    lines = [f"class {name}(torch.nn.Module):", f'    """{words}"""', ""]
    if setup:
        lines += ["    def __init__(self) -> None:", "        super().__init__()", *(f"        {s}" for s in setup), ""]
    lines += ["    def forward(self, x: Tensor, index: Tensor, size: int) -> Tensor:", *body]
    return "\n".join(lines) + "\n"
