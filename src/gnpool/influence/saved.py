"""A trained MONSTOR as one safetensors file: weights, architecture and how often it is applied."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from gnpool.models.checked import MOST_LAYERS, check_tensors
from gnpool.models.networks.monstor import MONSTOR
from gnpool.models.saved import SavedModelError
from gnpool.store.files import write
from gnpool.store.regular import read_regular

FIELD, KIND = "gnpool", "monstor"


@dataclass(frozen=True, eq=False)
class SavedMonstor:
    """The content of a file.

    Args:
        model (MONSTOR): The base model.
        stacked (int): How often it is applied.
        about (dict): Notes about its training.

    Example:
        >>> import tempfile
        >>> from gnpool.influence import load_monstor, save_monstor
        >>> from gnpool.models import MONSTOR
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     found = load_monstor(
        ...         save_monstor(f"{folder}/model.safetensors", MONSTOR("sum"), 4, {"graphs": ["a.txt"]})
        ...     )
        >>> found.stacked, found.about
        (4, {'graphs': ['a.txt']})
    """

    model: MONSTOR
    stacked: int
    about: dict[str, Any] = field(default_factory=dict)


def save_monstor(path: str | Path, model: MONSTOR, stacked: int, about: Mapping[str, Any] | None = None) -> Path:
    """Write a model to a file atomically; the folder must exist.

    Example:
        >>> import tempfile
        >>> from gnpool.influence import save_monstor
        >>> from gnpool.models import MONSTOR
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = save_monstor(f"{folder}/model.safetensors", MONSTOR("gnp"), stacked=3)
        ...     print(path.name)
        model.safetensors
    """
    spec = {
        "kind": KIND,
        "aggr": model.aggr,
        "hidden": model.hidden,
        "layers": len(model.layers),
        "aggr_options": model.aggr_options,
        "stacked": stacked,
        "about": dict(about or {}),
    }
    weights = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    write(Path(path), safetensors.torch.save(weights, {FIELD: json.dumps(spec)}), shared=True)
    return Path(path)


def load_monstor(path: str | Path) -> SavedMonstor:
    """Load a model that :func:`save_monstor` wrote, without running code from the file.

    Raises:
        SavedModelError: It names the file, if that holds something else.

    Example:
        >>> import tempfile
        >>> import torch
        >>> from gnpool.influence import load_monstor, save_monstor
        >>> from gnpool.models import MONSTOR
        >>> model = MONSTOR("max")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     again = load_monstor(save_monstor(f"{folder}/model.safetensors", model, stacked=3)).model
        >>> all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters()))
        True
    """
    data = read_regular(path)
    try:
        weights = safetensors.torch.load(data)
        check_tensors(weights)
        length = int.from_bytes(data[:8], "little")  # of the header, which has been checked by now
        spec = json.loads(json.loads(data[8 : 8 + length])["__metadata__"][FIELD])
        if spec["kind"] != KIND:
            raise KeyError(KIND)
        if spec["layers"] > len(weights):
            raise ValueError("layers without weights")
        with torch.device("meta"):  # laid out without memory, so that a lie about sizes costs nothing
            model = MONSTOR(
                spec["aggr"], hidden=spec["hidden"], layers=spec["layers"], aggr_options=spec["aggr_options"] or None
            )
        model.load_state_dict(weights, assign=True)
        for parameter in model.parameters():
            parameter.requires_grad_()
        if not 1 <= int(spec["stacked"]) <= MOST_LAYERS or not isinstance(spec["about"], dict):
            raise ValueError("'stacked' or 'about' cannot be that")
        return SavedMonstor(model.eval(), int(spec["stacked"]), spec["about"])
    except Exception as error:  # a file that lies meets whatever torch raises
        raise SavedModelError(f"{path}: this is not a model that 'gnpool influence train' has written") from error
