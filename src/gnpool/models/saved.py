r"""A network in a folder: ``model.json`` says what it is, ``model.safetensors`` holds its weights.

Reading such a folder never runs code that it brings: ``model.json`` can name the classes below and nothing else.
"""

from __future__ import annotations

import hashlib
import importlib
import json
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
from gnpool.store.regular import read_regular

FORMAT = 1
DESCRIPTION, WEIGHTS = "model.json", "model.safetensors"
MOST_SHOWN = 300  # characters of an error of torch's
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
# Layers that may have taken the place of a pooling.
PARTS = {"CrystalAggregation": CrystalAggregation}


class SavedModelError(ValueError):
    """A folder does not hold a model, or not any more."""


@dataclass(frozen=True)
class SavedModel:
    """What a folder holds: the network, the description it was built from, and what was stored beside them."""

    model: torch.nn.Module
    spec: dict[str, Any]
    extra: dict[str, Any] = field(default_factory=dict)


def save_model(
    folder: str | Path, model: torch.nn.Module, spec: Mapping[str, Any], extra: Mapping[str, Any] | None = None
) -> Path:
    r"""Writes a network of :mod:`gnpool.models` into a folder, wholly or not at all.

    Args:
        folder (str or Path): The folder. One that holds a saved model is replaced; any other must not exist or be
            empty.
        model (torch.nn.Module): The network. Poolings that :func:`gnpool.crystallize` replaced are found and described.
        spec (Mapping): How the network was made: ``{"class": "GraphNet", "arguments": {"in_channels": 3}}``, with
            poolings given by name.
        extra (Mapping, optional): Anything else to keep with it that JSON can hold.

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
    kept = {name: value.detach().cpu().clone().contiguous() for name, value in model.state_dict().items()}
    _build(plain, kept)  # what cannot be read back is not written
    weights = safetensors.torch.save(kept)
    description = {
        "format": FORMAT,
        "spec": plain,
        "extra": dict(extra or {}),
        "weights": {"bytes": len(weights), "sha256": hashlib.sha256(weights).hexdigest()},
    }
    text = json.dumps(description, indent=2, allow_nan=False) + "\n"
    return {DESCRIPTION: text.encode(), WEIGHTS: weights}


def load_model(folder: str | Path) -> torch.nn.Module:
    r"""The network that :func:`save_model` or ``gnpool fit`` wrote into a folder.

    Loading never runs code that the files hold.

    Args:
        folder (str or Path): The folder, with ``model.json`` and ``model.safetensors``.

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
    """Like :func:`load_model`, with the description and what was stored beside it."""
    folder = Path(folder)
    description = read_description(folder)
    claimed = description["weights"].get("bytes")
    if isinstance(claimed, bool) or not isinstance(claimed, int) or not 0 <= claimed < 2**62:
        raise SavedModelError(f"{folder / DESCRIPTION}: 'weights' does not say how many bytes they have")
    weights = _read(folder / WEIGHTS, claimed)
    _check_weights(folder / WEIGHTS, weights, description["weights"])
    try:
        tensors = safetensors.torch.load(weights)
    except Exception as error:  # headers that lie meet whatever torch raises
        raise SavedModelError(f"{folder / WEIGHTS}: it is not a safetensors file ({error})") from error
    spec = _plain_spec(description["spec"], f"{folder / DESCRIPTION}: 'spec'")
    try:
        model = _build(spec, tensors)
    except SavedModelError as error:
        raise SavedModelError(f"{folder / DESCRIPTION}: {error}") from error
    return SavedModel(model, spec, description["extra"])


def read_description(folder: Path) -> dict[str, Any]:
    """What ``model.json`` of a folder holds, checked as far as it can be without the weights."""
    path = folder / DESCRIPTION
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
        raise SavedModelError(f"{path}: it has {path.stat().st_size} bytes in place of {expected.get('bytes')}")
    if hashlib.sha256(weights).hexdigest() != expected.get("sha256"):
        raise SavedModelError(f"{path}: it is damaged, or belongs to another {DESCRIPTION} (its checksum differs)")


def _plain_spec(spec: Any, where: str) -> dict[str, Any]:
    got = spec.get("class") if isinstance(spec, Mapping) else type(spec).__name__
    if not isinstance(spec, Mapping) or not isinstance(got, str) or got not in NETWORKS:
        raise SavedModelError(f"{where} must have as 'class' one of {', '.join(NETWORKS)}, got {got!r:.60}")
    arguments, replaced, unbiased = spec.get("arguments", {}), spec.get("replaced", {}), spec.get("unbiased", [])
    paths = isinstance(unbiased, list) and all(isinstance(path, str) for path in unbiased)
    if not isinstance(arguments, Mapping) or not isinstance(replaced, Mapping) or not paths:
        raise SavedModelError(f"{where} must have 'arguments' by name")
    return {"class": spec["class"], "arguments": dict(arguments), "replaced": dict(replaced), "unbiased": unbiased}


def _build(spec: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> torch.nn.Module:
    """The network of a description. It is laid out without memory, so that a lie about sizes costs nothing."""
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
    except Exception as error:  # constructors meet whatever the file says
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
    """Linear layers without a bias: crystallizing may have dropped one that the description would bring back."""
    return [path for path, layer in model.named_modules() if isinstance(layer, torch.nn.Linear) and layer.bias is None]


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
