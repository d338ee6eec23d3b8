"""Checkpoints of a work unit: one safetensors file, replaced atomically. Loading one never runs code."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from gnpool.store.damage import free_name
from gnpool.store.errors import Damaged
from gnpool.store.files import check_ordinary, write
from gnpool.store.tensors import checked as reading_tensors

DIGEST = "sha256"


def write_checkpoint(path: Path, tensors: dict[str, Tensor], fingerprint: str) -> None:
    """Write all tensors or none; ``fingerprint`` says which study they belong to."""
    on_cpu = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    metadata = {"fingerprint": fingerprint, DIGEST: _digest(on_cpu)}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, save(on_cpu, metadata), shared=True)
    except OSError as error:
        raise OSError(
            error.errno,
            f"fit_many: cannot write the checkpoint ({error.strerror}); the previous checkpoint is unharmed",
            str(path),
        ) from error


def read_checkpoint(
    path: Path, fingerprint: str, check: Callable[[dict[str, Tensor]], None] = lambda tensors: None
) -> dict[str, Tensor] | None:
    """The tensors of a checkpoint; None if there is no checkpoint or it is damaged (it is then renamed).

    Args:
        path (pathlib.Path): The checkpoint.
        fingerprint (str): The study that it must belong to; a checkpoint of another study is an error.
        check (Callable, optional): Raises :class:`~gnpool.store.errors.Damaged` if the study cannot resume from such
            tensors, since a correct checksum does not tell who wrote them. (default: all tensors are accepted)
    """
    try:
        metadata, tensors = _content(path)
        if metadata.get(DIGEST) != _digest(tensors):
            raise Damaged("its content does not match its checksum")
        if metadata.get("fingerprint") == fingerprint:
            check(tensors)
    except FileNotFoundError:
        return None
    except Damaged as damaged:
        aside = free_name(path.with_name(f"{path.name}.damaged"))
        path.replace(aside)
        warnings.warn(
            f"fit_many: the checkpoint {path} is damaged ({damaged}); it was renamed to {aside.name}, "
            "and the unit starts from the beginning",
            stacklevel=2,
        )
        return None
    if metadata.get("fingerprint") != fingerprint:
        raise ValueError(
            f"fit_many: the checkpoint {path} belongs to another study (other settings, seeds, model, data or epochs); "
            "remove it or choose another 'checkpoint' folder"
        )
    return tensors


def _content(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    """The metadata of a checkpoint, and its tensors; only an ordinary file is opened."""
    check_ordinary(path)
    with reading_tensors(), safe_open(path, framework="pt") as file:
        return file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, not a dict


def check_like(tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """Raise :class:`~gnpool.store.errors.Damaged` unless names, types and shapes are those of ``expected``."""
    if tensors.keys() != expected.keys():
        odd = sorted(tensors.keys() ^ expected.keys())
        raise Damaged(f"{odd[0]!r} is in it and should not be, or the reverse")
    for name, wanted in expected.items():
        found = tensors[name]
        if found.shape != wanted.shape or found.dtype != wanted.dtype:
            raise Damaged(
                f"{name!r} is {found.dtype} of shape {tuple(found.shape)}, and should be {wanted.dtype} of shape "
                f"{tuple(wanted.shape)}"
            )


def fingerprint_of(description: object) -> str:
    """A short hash of anything JSON can hold."""
    return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()[:16]


def _digest(tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name]
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.contiguous().flatten().view(torch.uint8).numpy().tobytes() if value.numel() else b"")
    return digest.hexdigest()
