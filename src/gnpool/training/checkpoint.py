"""Checkpoints of a work unit: one safetensors file, replaced atomically. Loading one never runs code."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import warnings
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

DIGEST = "sha256"


def write_checkpoint(path: Path, tensors: dict[str, Tensor], fingerprint: str) -> None:
    """Write all tensors or none; ``fingerprint`` says which study they belong to."""
    on_cpu = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    metadata = {"fingerprint": fingerprint, DIGEST: _digest(on_cpu)}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(save(on_cpu, metadata))
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise OSError(
            error.errno,
            f"fit_many: cannot write the checkpoint ({error.strerror}); the one before it is unharmed",
            str(path),
        ) from error


def read_checkpoint(path: Path, fingerprint: str) -> dict[str, Tensor] | None:
    """The tensors of a checkpoint; None where there is none, or none that can be read (it is then set aside)."""
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, not a dict
        if metadata.get(DIGEST) != _digest(tensors):
            raise SafetensorError("its content does not match its checksum")
    except SafetensorError as error:
        aside = path.with_name(f"{path.name}.damaged")
        path.replace(aside)
        warnings.warn(
            f"fit_many: the checkpoint {path} is damaged ({error}); it is now {aside.name}, and the unit starts anew",
            stacklevel=2,
        )
        return None
    if metadata.get("fingerprint") != fingerprint:
        raise ValueError(
            f"fit_many: the checkpoint {path} belongs to another study (other settings, seeds, model, data or epochs); "
            "remove it or choose another 'checkpoint' folder"
        )
    return tensors


def fingerprint_of(description: object) -> str:
    """A short name for anything JSON can hold."""
    return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()[:16]


def _digest(tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name]
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.contiguous().flatten().view(torch.uint8).numpy().tobytes() if value.numel() else b"")
    return digest.hexdigest()
