r"""Saves a network to a folder: ``model.json`` describes it, and ``model.safetensors`` holds its weights.

On the Hugging Face hub the first is called ``config.json``, see :mod:`gnpool.models.hub`. Reading such a folder never
runs code from it, since the description can only name the classes below.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from gnpool.insight.crystal import CrystalAggregation
from gnpool.models.checked import check_arguments, check_part, check_tensors
from gnpool.models.folder import write_folder
from gnpool.nn import GNPAggregation
from gnpool.store.regular import read_regular

FORMAT = 1
DESCRIPTION, WEIGHTS = "model.json", "model.safetensors"
CONFIG, LIBRARY = "config.json", "gnpool"  # the description on the Hugging Face hub, and its "model_type"
LATER = ("sizes", "selfless")  # parts that older readers do not know; written only if there are any
MOST_SHOWN = 300  # characters shown of an error from torch
LARGEST_DESCRIPTION = 16 * 2**20  # bytes; a description is a few hundred
NETWORKS = (
    "GraphNet",
    "NodeNet",
    "SetNet",
    "DeepNet",
    "RecurrentNet",
    "SetTransformer",
    "SAGPoolNet",
    "LawNet",
    "LawsNet",
)  # of gnpool.models
# Layers that may have replaced a pooling.
PARTS = {"CrystalAggregation": CrystalAggregation}


class SavedModelError(ValueError):
    """A folder does not hold a valid model.

    Example:
        >>> import tempfile
        >>> from gnpool.models import SavedModelError, load_model
        >>> with tempfile.TemporaryDirectory() as place:
        ...     try:
        ...         load_model(f"{place}/model")
        ...     except SavedModelError as error:
        ...         print(str(error).partition(": ")[2])
        there is no such folder
    """


@dataclass(frozen=True)
class SavedModel:
    """The content of a folder: the network, its description, and the data stored beside them.

    Example:
        >>> import tempfile
        >>> from gnpool.models import SetNet, load_saved, save_model
        >>> spec = {"class": "SetNet", "arguments": {"in_channels": 2, "pool": "max"}}
        >>> with tempfile.TemporaryDirectory() as place:
        ...     saved = load_saved(save_model(f"{place}/model", SetNet(2, "max"), spec, extra={"data": "June"}))
        >>> type(saved.model).__name__, saved.spec["arguments"]["pool"], saved.extra
        ('SetNet', 'max', {'data': 'June'})
    """

    model: torch.nn.Module
    spec: dict[str, Any]
    extra: dict[str, Any] = field(default_factory=dict)


def save_model(
    folder: str | Path, model: torch.nn.Module, spec: Mapping[str, Any], extra: Mapping[str, Any] | None = None
) -> Path:
    r"""Writes a network of :mod:`gnpool.models` into a folder, atomically.

    Args:
        folder (str or Path): The folder. One that holds a saved model is replaced; any other must not exist or be
            empty.
        model (torch.nn.Module): The network. Poolings that :func:`gnpool.crystallize` replaced are found and described.
        spec (Mapping): How the network was made: ``{"class": "GraphNet", "arguments": {"in_channels": 3}}``, with
            poolings given by name.
        extra (Mapping, optional): Further data to store with it, which JSON can hold.

    Returns:
        Path: The folder.

    Example:
        >>> import tempfile
        >>> from gnpool.models import SetNet, load_model, save_model
        >>> arguments = {"in_channels": 2, "pool": "mean", "hidden": 8}
        >>> with tempfile.TemporaryDirectory() as place:
        ...     folder = save_model(f"{place}/model", SetNet(**arguments), {"class": "SetNet", "arguments": arguments})
        ...     print(load_model(folder))
        SetNet(2, pool=MeanAggregation(), depth=1, hidden=8, activation='relu')
    """
    write_folder(folder, model_files(model, spec, extra), replaces=_is_ours)
    return Path(folder)


def model_files(
    model: torch.nn.Module, spec: Mapping[str, Any], extra: Mapping[str, Any] | None = None
) -> dict[str, bytes]:
    """The files that :func:`save_model` writes, by name."""
    plain = _plain_spec(spec, "save_model: 'spec'")
    plain["replaced"] = {path: _describe_part(part) for path, part in _parts_of(model).items()}
    plain["unbiased"] = _without_bias(model)
    plain["selfless"] = _without_own(model)
    plain["sizes"] = _sizes_of(model)
    kept = {name: value.detach().cpu().clone().contiguous() for name, value in model.state_dict().items()}
    _build(plain, kept)  # an error now if it could not be read back
    weights = safetensors.torch.save(kept)
    description = {
        "format": FORMAT,
        "spec": {name: part for name, part in plain.items() if name not in LATER or part},
        "extra": dict(extra or {}),
        "weights": {"bytes": len(weights), "sha256": hashlib.sha256(weights).hexdigest()},
    }
    text = json.dumps(description, indent=2, allow_nan=False) + "\n"
    return {DESCRIPTION: text.encode(), WEIGHTS: weights}


def load_model(folder: str | Path) -> torch.nn.Module:
    r"""The network that :func:`save_model` or ``gnpool fit`` wrote into a folder.

    Loading never runs code that the files hold.

    Args:
        folder (str or Path): The folder, with ``model.json`` (or ``config.json``, as on the Hugging Face hub) and
            ``model.safetensors``.

    Returns:
        torch.nn.Module: The network, on the CPU and in evaluation mode.

    Example:
        >>> import tempfile
        >>> import torch
        >>> from gnpool import load_model, save_model
        >>> from gnpool.models import GraphNet
        >>> arguments = {"in_channels": 1, "aggr": "sum", "readout": "max", "hidden": 8}
        >>> model = GraphNet(**arguments)
        >>> with tempfile.TemporaryDirectory() as place:
        ...     _ = save_model(f"{place}/model", model, {"class": "GraphNet", "arguments": arguments})
        ...     again = load_model(f"{place}/model")
        >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> torch.equal(again(torch.ones(3, 1), path), model(torch.ones(3, 1), path))
        True
    """
    return load_saved(folder).model


def load_saved(folder: str | Path) -> SavedModel:
    """Load a network like :func:`load_model`, with its description and the data stored beside it.

    Example:
        >>> import tempfile
        >>> from gnpool.models import SetNet, load_saved, save_model
        >>> spec = {"class": "SetNet", "arguments": {"in_channels": 2, "pool": "max"}}
        >>> with tempfile.TemporaryDirectory() as place:
        ...     saved = load_saved(save_model(f"{place}/model", SetNet(2, "max"), spec, extra={"columns": ["x", "y"]}))
        >>> saved.extra["columns"]
        ['x', 'y']
    """
    folder = Path(folder)
    description, path = read_description(folder), folder / _description_in(folder)
    claimed = description["weights"].get("bytes")
    if isinstance(claimed, bool) or not isinstance(claimed, int) or not 0 <= claimed < 2**62:
        raise SavedModelError(f"{path}: 'weights' does not say how many bytes they have")
    weights = _read(folder / WEIGHTS, claimed)
    _check_weights(folder / WEIGHTS, weights, description["weights"])
    try:
        tensors = safetensors.torch.load(weights)
    except Exception as error:  # torch may raise anything for a false header
        raise SavedModelError(f"{folder / WEIGHTS}: it is not a safetensors file ({error})") from error
    spec = _plain_spec(description["spec"], f"{path}: 'spec'")
    try:
        model = _build(spec, tensors)
    except SavedModelError as error:
        raise SavedModelError(f"{path}: {error}") from error
    return SavedModel(model, spec, description["extra"])


def is_saved_model(folder: Path) -> bool:
    """Whether a folder holds a saved model, by its files."""
    return (folder / _description_in(folder)).exists()


def _description_in(folder: Path) -> str:
    """The name of the description in a folder."""
    only_config = not (folder / DESCRIPTION).exists() and (folder / CONFIG).exists()
    return CONFIG if only_config else DESCRIPTION


def read_description(folder: Path) -> dict[str, Any]:
    """What ``model.json`` of a folder holds, checked as far as it can be without the weights."""
    path = folder / _description_in(folder)
    if not folder.is_dir():
        what = "it is a file; expected the folder of a model" if folder.exists() else "there is no such folder"
        raise SavedModelError(f"{folder}: {what}")
    text = _read(path, LARGEST_DESCRIPTION)
    if len(text) > LARGEST_DESCRIPTION:
        raise SavedModelError(f"{path}: it has more than {LARGEST_DESCRIPTION} bytes, which no description has")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SavedModelError(f"{path}: it is not JSON ({error})") from error
    if path.name == CONFIG and not (isinstance(found, dict) and found.get("model_type") == LIBRARY):
        raise SavedModelError(f"{path}: it describes a model of another library; expected {LIBRARY!r} as 'model_type'")
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        got = found.get("format") if isinstance(found, dict) else type(found).__name__
        raise SavedModelError(f"{path}: expected a model of format {FORMAT}, got {got!r:.60}")
    for name in ("spec", "extra", "weights"):
        if not isinstance(found.get(name), dict):
            raise SavedModelError(f"{path}: {name!r} is missing")
    return found


def _is_ours(folder: Path) -> bool:
    return {path.name for path in folder.iterdir()} <= {DESCRIPTION, WEIGHTS}


def _read(path: Path, most: int) -> bytes:
    try:
        return read_regular(path, most)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and path.name == DESCRIPTION:
            raise SavedModelError(f"{path.parent}: there is no saved model, that is, no {DESCRIPTION} in it") from error
        raise SavedModelError(f"{path}: it cannot be read ({error.strerror})") from error


def _check_weights(path: Path, weights: bytes, expected: Mapping[str, Any]) -> None:
    if len(weights) != expected.get("bytes"):
        raise SavedModelError(f"{path}: it has {path.stat().st_size} bytes, but should have {expected.get('bytes')}")
    if hashlib.sha256(weights).hexdigest() != expected.get("sha256"):
        raise SavedModelError(f"{path}: it is damaged, or belongs to another {DESCRIPTION} (its checksum differs)")


def _plain_spec(spec: Any, where: str) -> dict[str, Any]:
    got = spec.get("class") if isinstance(spec, Mapping) else type(spec).__name__
    if not isinstance(spec, Mapping) or not isinstance(got, str) or got not in NETWORKS:
        raise SavedModelError(f"{where} must have as 'class' one of {', '.join(NETWORKS)}, got {got!r:.60}")
    arguments, replaced, unbiased = spec.get("arguments", {}), spec.get("replaced", {}), spec.get("unbiased", [])
    sizes, selfless = spec.get("sizes", {}), spec.get("selfless", [])
    paths = all(isinstance(part, list) and all(isinstance(one, str) for one in part) for part in (unbiased, selfless))
    if not all(isinstance(part, Mapping) for part in (arguments, replaced, sizes)) or not paths:
        raise SavedModelError(f"{where} must have 'arguments' by name")
    named = {"arguments": dict(arguments), "replaced": dict(replaced), "sizes": dict(sizes)}
    return {"class": spec["class"], **named, "unbiased": unbiased, "selfless": selfless}


def _build(spec: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> torch.nn.Module:
    """The network of a description. It is built without memory at first, so that false sizes cost nothing."""
    networks = importlib.import_module("gnpool.models")
    network = getattr(networks, spec["class"])
    try:
        check_arguments(network, spec["arguments"])
        check_tensors(tensors)
        with torch.device("meta"):
            model: torch.nn.Module = network(**spec["arguments"])
            for path, part in spec["replaced"].items():
                parent, _, attribute = str(path).rpartition(".")
                owner = model.get_submodule(parent)
                if not isinstance(getattr(owner, attribute), torch.nn.Module):
                    raise ValueError(f"there is no layer {path!r} to replace")
                setattr(owner, attribute, _build_part(part))
            for path in spec["unbiased"]:
                layer = model.get_submodule(path)
                if not isinstance(layer, torch.nn.Linear):
                    raise ValueError(f"{path!r} is not a linear layer")
                layer.register_parameter("bias", None)
            for path in spec["selfless"]:
                adder: Any = model.get_submodule(path)
                if not getattr(adder, "adds_own", False):
                    raise ValueError(f"{path!r} does not add the value of the node itself")
                adder.eps = adder.eps if isinstance(adder.eps, Tensor) else -1.0
            for path, size in spec["sizes"].items():
                _set_size(model.get_submodule(path), path, size)
    except Exception as error:  # constructors may raise anything for the values of a file
        raise SavedModelError(f"{spec['class']} cannot be built from its description ({_one_line(error)})") from error
    wanted = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    found = {name: tuple(value.shape) for name, value in tensors.items()}
    if wanted != found:
        names = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
        raise SavedModelError(
            f"the weights do not fit the description: {names[0]!r} has shape {found.get(names[0])} "
            f"in place of {wanted.get(names[0])}"
        )
    model.load_state_dict(dict(tensors), assign=True)
    for parameter in model.parameters():
        parameter.requires_grad_()
    return model.eval()


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def _parts_of(model: torch.nn.Module) -> dict[str, torch.nn.Module]:
    return {path: module for path, module in model.named_modules() if type(module).__name__ in PARTS}


def _without_bias(model: torch.nn.Module) -> list[str]:
    """The linear layers without a bias, since crystallizing may have dropped biases that the description has."""
    return [path for path, layer in model.named_modules() if isinstance(layer, torch.nn.Linear) and layer.bias is None]


def _without_own(model: torch.nn.Module) -> list[str]:
    """The layers that no longer add the node's own value, since crystallizing may have dropped it."""
    return [path for path, layer in model.named_modules() if getattr(layer, "adds_own", False) and layer.eps == -1]


def _sizes_of(model: torch.nn.Module) -> dict[str, float]:
    """The usual size of each GNP that has one, since it may have been measured after the model was made."""
    return {
        path: layer.size
        for path, layer in model.named_modules()
        if isinstance(layer, GNPAggregation) and layer.coordinates == "growth"
    }


def _set_size(layer: torch.nn.Module, path: str, size: Any) -> None:
    number = isinstance(size, (int, float)) and not isinstance(size, bool)
    if not isinstance(layer, GNPAggregation) or not number or not 0 < size < math.inf:
        raise ValueError(f"{path!r} must be a GNPAggregation and its size above 0 and finite, got {size!r:.40}")
    layer.size = size


def _describe_part(part: Any) -> dict[str, Any]:
    mix = part.mix
    linear = None if mix is None else [mix.in_features, mix.out_features, mix.bias is not None]
    parts = [list(one) for one in part.parts]
    return {
        "class": type(part).__name__,
        "channels": part.channels,
        "parts": parts,
        "nonneg": part.nonneg,
        "mix": linear,
    }


def _build_part(spec: Mapping[str, Any]) -> torch.nn.Module:
    found = spec.get("class") if isinstance(spec, Mapping) else None
    if not isinstance(found, str) or found not in PARTS:
        raise ValueError(f"a layer must be one of {', '.join(PARTS)}, got {found!r}")
    check_part(spec)
    kind = PARTS[spec["class"]]
    mix = None
    if spec["mix"] is not None:
        inputs, outputs, bias = spec["mix"]
        mix = torch.nn.Linear(inputs, outputs, bias=bool(bias))
    part: torch.nn.Module = kind(spec["channels"], [tuple(one) for one in spec["parts"]], spec["nonneg"], mix)
    return part
