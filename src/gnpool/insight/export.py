r"""``export_model`` writes a model that runs without gnpool."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from gnpool.insight.crystal import NeighborAggregation
from gnpool.insight.networks import network_source, traced_source
from gnpool.insight.plain import functions, is_pooling, pooling_class, pooling_state

HEAD = '''"""A trained model in plain torch and PyTorch Geometric.

    from model import load
    model = load()  # the weights stand beside this file

model.pt2 holds the same model for torch.export.load.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch_geometric.utils import scatter
'''
TAIL = '''
def load(path: str | Path | None = None) -> Model:
    """The model with its weights, ready to predict."""
    model = Model()
    model.load_state_dict(load_file(path or Path(__file__).with_name("model.safetensors")))
    return model.eval()
'''
TOLERANCE = 1e-4  # relative; sums in float32 may be taken in another order


def export_model(model: torch.nn.Module, folder: str | Path, example: Any) -> Path:
    r"""Writes a model as files that need torch and PyTorch Geometric alone.

    ``model.py`` and ``model.safetensors`` are source and weights: a network of :mod:`gnpool.models` becomes a few
    readable lines, any other module becomes the list of its operations. ``model.pt2`` is the same model for
    :func:`torch.export.load`; it takes any number of nodes, edges and graphs. Exact poolings are written as formulas,
    the harmonic sum as 1 / sum(1/x); a learned GNP layer is written with its exponents. The written model is run once
    on the example, and a prediction that differs from the model's is an error.

    Args:
        model (torch.nn.Module): The model, such as ``crystallize(...).model``; it is not changed.
        folder (str or Path): Where to write; it is created if it does not exist.
        example (PyG batch or Mapping): Input of the model by the names of its arguments, with at least two graphs.

    Returns:
        Path: The folder.

    Example:
        >>> import tempfile
        >>> import torch
        >>> from gnpool import export_model
        >>> from gnpool.models import SetNet
        >>> model = SetNet(2, "mean", hidden=8)
        >>> example = {"x": torch.rand(5, 2), "ptr": torch.tensor([0, 2, 5])}  # two sets
        >>> with tempfile.TemporaryDirectory() as place:
        ...     folder = export_model(model, f"{place}/plain", example)
        ...     print(sorted(path.name for path in folder.iterdir()))
        ['model.pt2', 'model.py', 'model.safetensors']
    """
    model = copy.deepcopy(model).cpu().eval()
    source = network_source(model)
    if source is None:
        plain = _with_plain_poolings(model)
        inputs = _inputs(example, plain)
        source = traced_source(_traced(plain, inputs), inputs)
    text = HEAD + "\n\n" + source.code + "\n" + TAIL
    namespace: dict[str, Any] = {"__name__": "model"}
    exec(compile(text, "model.py", "exec"), namespace)  # noqa: S102 -- our own text, to see that it runs
    written: torch.nn.Module = namespace["Model"]()
    written.load_state_dict(source.tensors)
    written.eval()
    inputs = _inputs(example, written)
    _compare(model, written, example, inputs)
    program = _traced(written, inputs)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: value.contiguous() for name, value in source.tensors.items()}, folder / "model.safetensors")
    (folder / "model.py").write_text(text, encoding="utf-8")
    torch.export.save(program, folder / "model.pt2")
    return folder


class _Slot(NeighborAggregation):
    """A plain pooling where PyG expects an aggregation."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        source, needs = pooling_class("Pooling", layer)
        namespace: dict[str, Any] = {"__name__": "pooling"}
        text = f"{HEAD}\n{functions(needs)}\n{source}"
        exec(compile(text, "pooling.py", "exec"), namespace)  # noqa: S102 -- our own text, numbers filled in
        self.pooling: torch.nn.Module = namespace["Pooling"]()
        self.pooling.load_state_dict(pooling_state(layer))

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        """As a plain module: PyG's own looks for the number of segments in a way that torch.export cannot follow."""
        y: Tensor = torch.nn.Module.__call__(self, *args, **kwargs)
        return y

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
    ) -> Tensor:
        if dim not in (-2, 0) or x.dim() != 2:
            raise ValueError(f"export_model: a pooling must get rows (N, channels) to be written, got {tuple(x.shape)}")
        if index is None and ptr is not None:
            rows = torch.arange(x.size(0), device=x.device)
            index, dim_size = torch.searchsorted(ptr, rows, right=True) - 1, ptr.size(0) - 1
        if index is None:
            index, dim_size = x.new_zeros(x.size(0), dtype=torch.long), 1
        size: Any = index.max().item() + 1 if dim_size is None else dim_size
        torch._check(size > 0)
        y: Tensor = self.pooling(x, index, size)
        return y


def _with_plain_poolings(model: torch.nn.Module) -> torch.nn.Module:
    if is_pooling(model):
        return _Slot(model)
    for path, module in list(model.named_modules()):
        if is_pooling(module):
            parent, _, attribute = path.rpartition(".")
            setattr(model.get_submodule(parent), attribute, _Slot(module))
    return model


def _inputs(example: Any, module: torch.nn.Module) -> dict[str, Tensor]:
    """The tensors that the module's ``forward`` takes, in the order of its arguments."""
    found: dict[str, Tensor] = {}
    for name, parameter in inspect.signature(module.forward).parameters.items():
        value = example.get(name) if isinstance(example, Mapping) else getattr(example, name, None)
        if isinstance(value, Tensor):
            found[name] = value.as_tensor() if hasattr(value, "as_tensor") else value
        elif parameter.default is parameter.empty:
            raise ValueError(f"export_model: 'example' must have the tensor {name!r}, which the model needs")
    return found


def _traced(module: torch.nn.Module, inputs: Mapping[str, Tensor]) -> torch.export.ExportedProgram:
    free = {
        name: {dim: torch.export.Dim.AUTO for dim, size in enumerate(value.shape) if size > 1}
        for name, value in inputs.items()
    }
    try:
        return torch.export.export(module, (), dict(inputs), dynamic_shapes=free)
    except Exception as error:  # of many kinds
        reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise ValueError(f"export_model: torch.export cannot follow {type(module).__name__}: {reason}") from error


@torch.no_grad()
def _compare(model: torch.nn.Module, written: torch.nn.Module, example: Any, inputs: Mapping[str, Tensor]) -> None:
    expected, found = model(**_inputs(example, model)), written(**inputs)
    scale = expected.abs().max().clamp(min=1e-30)
    if expected.shape != found.shape or not bool(((expected - found).abs().max() / scale) <= TOLERANCE):
        raise ValueError(
            "export_model: the written model predicts other values than the model; check that the example is complete, "
            "with 'ptr' if there are several graphs"
        )
