"""Checks on what a description of a network claims, before anything is built from it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

LARGEST = 2**24  # of a width
MOST_LAYERS = 1000  # each takes time to lay out, and a step of its own
COUNTS = ("blocks", "depth", "heads", "layers", "processing_steps")
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
COUNTER = "num_batches_tracked"
NONNEG = (None, "relu", "abs")


def check_arguments(network: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Complain about the first argument that is not of the type which the constructor names."""
    parameters = inspect.signature(network).parameters
    for name, value in arguments.items():
        if name not in parameters:
            raise ValueError(f"there is no argument {name!r}")
        kind = str(parameters[name].annotation)
        if value is None and (kind.endswith("| None") or kind == "Any"):
            continue
        if kind.startswith("Mapping"):
            if not isinstance(value, Mapping):
                raise ValueError(f"{name!r} must be options by name, got {_shown(value)}")
            for option, one in value.items():
                _check_plain(str(option), one)
            continue
        if kind.startswith("Sequence"):  # of parts, which the constructor checks
            if not isinstance(value, list) or len(value) > MOST_LAYERS:
                raise ValueError(f"{name!r} must be a list of at most {MOST_LAYERS}, got {_shown(value)}")
            continue
        wanted = {"int": _is_count, "float": _is_number, "bool": _is_bool}.get(kind.removesuffix(" | None"), _is_word)
        if not wanted(value):
            raise ValueError(f"{name!r} has a value that it cannot have: {_shown(value)}")
        _check_plain(name, value)


def check_tensors(tensors: Mapping[str, Tensor]) -> None:
    """Complain about weights that no network here computes with: floats of one type, and the counters of batch norm."""
    kinds = {
        value.dtype
        for name, value in tensors.items()
        if not (name.endswith(COUNTER) and value.dtype == torch.int64 and value.dim() == 0)
    }
    if len(kinds) > 1 or not kinds <= set(FLOATS):
        raise ValueError(f"the weights must be floats of one type, got {', '.join(sorted(map(str, kinds)))}")


def check_part(spec: Any) -> None:
    """Complain about the description of a crystallized pooling whose parts do not fit its channels."""
    if not isinstance(spec, Mapping):
        raise ValueError(f"a layer must be described by name, got {_shown(spec)}")
    channels, parts, mix = spec["channels"], spec["parts"], spec["mix"]
    if not _is_count(channels) or not isinstance(parts, list) or not parts or len(parts) > MOST_LAYERS:
        raise ValueError(f"a layer must have channels and parts, got {_shown(channels)} and {_shown(parts)}")
    for part in parts:
        if not isinstance(part, list) or len(part) != 3 or not all(map(_is_whole, part[:2])):
            raise ValueError(f"a part must be two channels and a name, got {_shown(part)}")
        start, stop, name = part
        if not 0 <= start < stop <= channels or not isinstance(name, str):
            raise ValueError(f"a part must lie among {channels} channels, got {_shown(part)}")
    if spec["nonneg"] not in NONNEG:
        raise ValueError(f"'nonneg' must be one of {NONNEG}, got {_shown(spec['nonneg'])}")
    if mix is not None:
        fits = isinstance(mix, list) and len(mix) == 3 and all(map(_is_count, mix[:2])) and _is_bool(mix[2])
        if not fits or mix[0] != sum(stop - start for start, stop, _ in parts):
            raise ValueError(f"the mixing layer does not fit the parts, got {_shown(mix)}")


def _check_plain(name: str, value: Any) -> None:
    most = MOST_LAYERS if name in COUNTS else LARGEST
    if isinstance(value, (list, Mapping)) or (isinstance(value, (int, float)) and not abs(value) <= most):
        raise ValueError(f"{name!r} must be at most {most}, got {_shown(value)}")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_whole(value) and value >= 1


def _is_number(value: Any) -> bool:
    return (_is_whole(value) or isinstance(value, float)) and math.isfinite(value)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_word(value: Any) -> bool:
    return isinstance(value, str)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
