"""Writes networks of :mod:`gnpool.models` as readable source, and any other module as its traced operations."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from gnpool.insight.plain import functions, is_pooling, pooling_class, pooling_state

ACTIVATIONS = {"relu": "torch.nn.ReLU()", "leaky_relu": "torch.nn.LeakyReLU()", "elu": "torch.nn.ELU()"}
OWN = "gnpool.models."

SEGMENTS = '''
def segments(x: Tensor, ptr: Tensor | None) -> tuple[Tensor, int]:
    """The graph of each row and the number of graphs; ptr (G + 1,) says where each graph begins, and N."""
    if ptr is None:
        return x.new_zeros(x.size(0), dtype=torch.long), 1
    rows = torch.arange(x.size(0), device=x.device)
    return torch.searchsorted(ptr, rows, right=True) - 1, ptr.size(0) - 1
'''


@dataclass
class Source:
    """Code of a class ``Model``, and the tensors it loads by name."""

    code: str
    tensors: dict[str, Tensor] = field(default_factory=dict)


def network_source(model: torch.nn.Module) -> Source | None:
    """Readable source of a network of this library, or None if the network or a pooling in it has none."""
    writers = {"GraphNet": _graph_net, "SetNet": _set_net, "NodeNet": _node_net, "DeepNet": _deep_net}
    kind = type(model)
    if not kind.__module__.startswith(OWN) or kind.__name__ not in writers:
        return None
    slots = [part for name in ("aggr", "readout", "pool") if (part := getattr(model, name, None)) is not None]
    slots += [layer.aggr for layer in getattr(model, "layers", ())]
    if not all(is_pooling(slot) and getattr(slot, "mask", None) is None for slot in slots):
        return None
    return writers[kind.__name__](model)


class _Writer:
    """Collects classes, lines of ``__init__`` and ``forward``, and tensors."""

    def __init__(self) -> None:
        self.classes: list[str] = []
        self.needs: list[str] = []
        self.setup: list[str] = []
        self.lines: list[str] = []
        self.tensors: dict[str, Tensor] = {}

    def pooling(self, attribute: str, name: str, layer: Any) -> None:
        source, needs = pooling_class(name, layer)
        self.classes.append(source)
        self.needs += needs
        self.setup.append(f"self.{attribute} = {name}()")
        self.tensors |= {f"{attribute}.{key}": value for key, value in pooling_state(layer).items()}

    def layers(self, attribute: str, layers: list[Any], activation: str | None) -> None:
        parts = []
        for place, layer in enumerate(layers):
            parts.append(_linear(layer))
            key = f"{attribute}.{2 * place}" if activation else attribute
            self.tensors |= {f"{key}.{n}": v.detach().clone() for n, v in layer.state_dict().items()}
            if activation:
                parts.append(ACTIVATIONS[activation])
        if activation is None:
            self.setup.append(f"self.{attribute} = {parts[0]}")
        else:
            self.setup += [f"self.{attribute} = torch.nn.Sequential(", *(f"    {part}," for part in parts), ")"]

    def norm(self, attribute: str, layer: Any) -> str:
        """The call of a normalisation; without normalisation, just its argument."""
        if isinstance(layer, torch.nn.BatchNorm1d):
            self.setup.append(f"self.{attribute} = torch.nn.BatchNorm1d({layer.num_features}, eps={layer.eps!r})")
        elif isinstance(layer, torch.nn.LayerNorm):
            self.setup.append(f"self.{attribute} = torch.nn.LayerNorm({layer.normalized_shape[0]}, eps={layer.eps!r})")
        else:
            return "{}"
        self.tensors |= {f"{attribute}.{name}": value.detach().clone() for name, value in layer.state_dict().items()}
        return f"self.{attribute}({{}})"

    def source(self, arguments: str, words: str) -> Source:
        lines = [
            "class Model(torch.nn.Module):",
            f'    """{words}"""',
            "",
            "    def __init__(self) -> None:",
            "        super().__init__()",
            *(f"        {line}" for line in self.setup),
            "",
            f"    def forward(self, {arguments}) -> Tensor:",
            *(f"        {line}" for line in self.lines),
        ]
        parts = [functions(self.needs), SEGMENTS if "segments(" in "\n".join(self.lines) else "", *self.classes]
        return Source(
            "\n\n\n".join(part.strip("\n") for part in [*parts, "\n".join(lines)] if part) + "\n", self.tensors
        )


def _linear(layer: Any) -> str:
    return f"torch.nn.Linear({layer.in_features}, {layer.out_features}, bias={layer.bias is not None})"


def _graph_net(model: Any) -> Source:
    write = _Writer()
    if model.lift is not None:
        write.layers("lift", list(model.lift.layers), model.activation)
    write.layers("mlp", list(model.mlp.layers), model.activation)
    write.setup.append(f"self.act = {ACTIVATIONS[model.activation]}")
    write.pooling("aggr", "Aggregation", model.aggr)
    write.pooling("readout", "Readout", model.readout)
    write.layers("out", [model.out], None)
    write.lines = ["source, destination = edge_index[0], edge_index[1]"]
    if model.lift is None:
        write.lines += ["h = self.mlp(x)", "h = self.act(self.aggr(h[source], destination, x.size(0)))"]
    else:
        neighbours = f"{1 + float(model.eps)!r} * h + self.aggr(h[source], destination, x.size(0))"
        write.lines += ["h = self.lift(x)", f"h = self.mlp({neighbours})"]
    write.lines += ["graph, graphs = segments(x, ptr)", "return self.out(self.readout(h, graph, graphs))"]
    return write.source(
        "x: Tensor, edge_index: Tensor, ptr: Tensor | None = None", "Graphs (x, edge_index, ptr) to a value each."
    )


def _set_net(model: Any) -> Source:
    write = _Writer()
    write.layers("mlp", list(model.mlp.layers), model.activation)
    write.pooling("pool", "Pooling", model.pool)
    write.layers("out", [model.out], None)
    write.lines = ["group, groups = segments(x, ptr)", "return self.out(self.pool(self.mlp(x), group, groups))"]
    return write.source("x: Tensor, ptr: Tensor | None = None", "Sets (x, ptr) to a value each.")


def _node_net(model: Any) -> Source:
    write = _Writer()
    write.setup.append(f"self.act = {ACTIVATIONS[model.activation]}")
    write.lines = ["source, destination = edge_index[0], edge_index[1]"]
    if model.lift is not None:
        write.layers("lift", list(model.lift.layers), model.activation)
        write.lines.append("x = self.lift(x)")
    for k, layer in enumerate(model.layers):
        write.pooling(f"aggr{k}", f"Aggregation{k}", layer.aggr)
        if model.lift is not None:
            write.layers(f"mlp{k}", list(layer.mlp.layers), layer.activation)
            message = "x[source]"
            if model.edge_weights:
                write.layers(f"edge{k}", [layer.edge], None)
                message = f"self.act({message} + self.edge{k}(edge_weight[:, None]))"
            write.lines.append(f"m = {message}")
            own = f"{1 + float(layer.eps)!r} * x"
            write.lines.append(f"x = self.mlp{k}({own} + self.aggr{k}(m, destination, x.size(0)))")
            continue
        write.layers(f"mlp{k}", [layer.lin1, layer.lin2], layer.activation)
        if model.edge_weights:
            write.lines.append(f"m = self.mlp{k}(torch.cat([x[source], edge_weight[:, None]], dim=1))")
        else:
            write.lines.append(f"m = self.mlp{k}(x)[source]")
        write.lines.append(f"x = self.act(self.aggr{k}(m, destination, x.size(0)))")
    write.layers("out", [model.out], None)
    write.lines.append("return self.out(x)")
    weights = ", edge_weight: Tensor" if model.edge_weights else ""
    return write.source(f"x: Tensor, edge_index: Tensor{weights}", "A value for each node of a graph.")


def _deep_net(model: Any) -> Source:
    write = _Writer()
    write.setup.append(f"self.act = {ACTIVATIONS[model.activation]}")
    write.lines = ["source, destination = edge_index[0], edge_index[1]"]
    states = [_deep_layer(write, model, number) for number in range(len(model.layers))]
    joined = {"cat": f"torch.cat([{', '.join(states)}], dim=1)", "max": f"torch.stack([{', '.join(states)}]).amax(0)"}
    write.lines.append(f"h = {joined.get(model.jumping, states[-1])}")
    if model.readout is not None:
        write.pooling("readout", "Readout", model.readout)
        write.lines += ["graph, graphs = segments(x, ptr)", "h = self.readout(h, graph, graphs)"]
    if model.head is not None:
        write.layers("head", [model.head], None)
        write.lines.append("h = self.act(self.head(h))")
    write.layers("out", [model.out], None)
    write.lines.append("return self.out(h)")
    inputs = ["x: Tensor", "edge_index: Tensor", *["edge_attr: Tensor"] * bool(model.edge_channels)]
    if model.readout is None:
        return write.source(", ".join(inputs), "A value for each node of a graph.")
    return write.source(", ".join([*inputs, "ptr: Tensor | None = None"]), "Graphs to a value each.")


def _deep_layer(write: _Writer, model: Any, number: int) -> str:
    """Write one layer and return the name of its output."""
    layer, before, after = model.layers[number], f"h{number}" if number else "x", f"h{number + 1}"
    write.pooling(f"aggr{number}", f"Aggregation{number}", layer.aggr)
    message = f"{before}[source]"
    if layer.edge is not None:
        write.layers(f"edge{number}", [layer.edge], None)
        message = f"self.act({message} + self.edge{number}(edge_attr))"
    write.layers(f"lin{number}a", [layer.lin1], None)
    write.layers(f"lin{number}b", [layer.lin2], None)
    inner = write.norm(f"norm{number}a", layer.inner_norm).format(f"self.lin{number}a(h)")
    outer = write.norm(f"norm{number}b", layer.outer_norm).format(f"self.lin{number}b(self.act({inner}))")
    own = 1 + (layer.eps.item() if isinstance(layer.eps, Tensor) else float(layer.eps))
    activate = model.last_activation or number + 1 < len(model.layers)
    found = f"self.act({outer})" if activate else outer
    add = model.residual and layer.lin1.in_features == layer.lin2.out_features
    write.lines += [
        f"h = {own!r} * {before} + self.aggr{number}({message}, destination, x.size(0))",
        f"{after} = {f'{before} + ' if add else ''}{found}",
    ]
    return after


def traced_source(program: torch.export.ExportedProgram, inputs: Mapping[str, Tensor]) -> Source:
    """Source of any exported module: its operations one by one."""
    signature = program.graph_signature
    held = {**dict(program.state_dict), **dict(program.constants)}
    given = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    given |= signature.inputs_to_lifted_tensor_constants
    code = program.graph.python_code("self").src
    check_code(code)
    body = re.sub(r"^def forward\(self, ", "def compute(", code.strip(), count=1)
    tensors = {name: held[target].detach().clone() for name, target in given.items()}
    setup = [
        f'        self.register_buffer("{n}", torch.zeros({list(v.shape)}, dtype={v.dtype}))'
        for n, v in tensors.items()
    ]
    call = ", ".join([*(f"self.{name}" for name in given), *inputs])
    model = [
        "class Model(torch.nn.Module):",
        '    """The operations of a traced model."""',
        "",
        "    def __init__(self) -> None:",
        "        super().__init__()",
        *setup,
        "",
        f"    def forward(self, {', '.join(f'{name}: Tensor' for name in inputs)}) -> Tensor:",
        f"        return compute({call})[0]",
    ]
    return Source(
        "from math import inf, nan\n\nfrom torch import device\n\n\n" + body + "\n\n\n" + "\n".join(model) + "\n",
        tensors,
    )


def check_code(code: str) -> None:
    """Refuse traced code with anything in it but calls of torch's own operations."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, (ast.Import, ast.ImportFrom, ast.Lambda, ast.ClassDef)):
            raise ValueError("export_model: the traced model may hold only calls of torch's operations")
        if isinstance(node, ast.Call):
            path = ast.unparse(node.func)
            known = path == "device" or re.fullmatch(r"(torch\.ops\.aten|torch\.sym_\w+|operator)(\.\w+)*", path)
            if not known:
                raise ValueError(f"export_model: the traced model calls {path}, which plain torch does not have")
