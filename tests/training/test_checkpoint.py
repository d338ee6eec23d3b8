"""Anything else in place of a checkpoint is set aside with a warning, and nothing hangs."""

from __future__ import annotations

import json
import os
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from gnpool.store.errors import Damaged
from gnpool.training.checkpoint import DIGEST, _digest, check_like, read_checkpoint, write_checkpoint
from tests.training.test_fit import assert_same, fit

TENSORS = {"a": torch.arange(3.0), "b": torch.zeros(0, 2)}


@pytest.fixture(autouse=True)
def _nothing_hangs() -> Iterator[None]:
    def hanging(*_: object) -> None:
        raise TimeoutError("it hangs")

    before = signal.signal(signal.SIGALRM, hanging)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def unix_socket(path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{folder}/s")
        Path(folder, "s").rename(path)


def full_folder(path: Path) -> None:
    path.mkdir()
    (path / "mine").write_text("mine")


def header(text: str, data: bytes = b"") -> bytes:
    return len(text.encode()).to_bytes(8, "little") + text.encode() + data


def one(**fields: object) -> str:
    return json.dumps({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4], **fields}})


HARM: dict[str, tuple[Callable[[Path], object], str]] = {
    "FIFO": (os.mkfifo, "is a pipe"),
    "socket": (unix_socket, "is a socket"),
    "folder": (full_folder, "is a folder"),
    "loop of links": (lambda path: path.symlink_to(path.name), "is a link that leads back to itself"),
    "link to a device": (lambda path: path.symlink_to("/dev/zero"), "is a device"),
    "no header": (lambda path: path.write_bytes(b""), "is not a safetensors file"),
    "lying header": (lambda path: path.write_bytes(header(one(shape=[2**40]), b"\0" * 4)), "is not a safetensors file"),
    "unknown type": (lambda path: path.write_bytes(header(one(dtype="F31"), b"\0" * 4)), "is not a safetensors file"),
    "deep nesting": (lambda path: path.write_bytes(header('{"a":' + "[" * 10**5)), "is not a safetensors file"),
    "no metadata": (lambda path: path.write_bytes(save(TENSORS)), "its content does not match its checksum"),
}


@pytest.mark.parametrize(("harm", "reason"), HARM.values(), ids=HARM)
def test_it_is_set_aside(tmp_path: Path, harm: Callable[[Path], object], reason: str) -> None:
    path = tmp_path / "unit.safetensors"
    for aside in ("unit.safetensors.damaged", "unit.safetensors.2.damaged"):
        harm(path)
        with pytest.warns(UserWarning, match=f"is damaged .*{reason}.*{aside}"):
            assert read_checkpoint(path, "study") is None
        assert os.path.lexists(tmp_path / aside)
        assert not os.path.lexists(path)
    write_checkpoint(path, TENSORS, "study")
    found = read_checkpoint(path, "study")
    assert found is not None
    assert {name: value.tolist() for name, value in found.items()} == {"a": [0.0, 1.0, 2.0], "b": []}


def test_there_is_none(tmp_path: Path) -> None:
    assert read_checkpoint(tmp_path / "none", "study") is None
    (tmp_path / "dangling").symlink_to(tmp_path / "none")
    assert read_checkpoint(tmp_path / "dangling", "study") is None
    assert list(tmp_path.glob("*.damaged")) == []


OTHERS: dict[str, tuple[dict[str, torch.Tensor], str]] = {
    "one missing": ({"a": torch.zeros(3)}, "'b' is in it and should not be, or the reverse"),
    "one more": ({**TENSORS, "c": torch.zeros(1)}, "'c' is in it and should not be"),
    "another shape": (
        {**TENSORS, "a": torch.zeros(1)},
        r"'a' is torch.float32 of shape \(1,\), and should be .*\(3,\)",
    ),
    "another type": ({**TENSORS, "a": torch.zeros(3).long()}, "'a' is torch.int64 of shape"),
}


@pytest.mark.parametrize(("tensors", "message"), OTHERS.values(), ids=OTHERS)
def test_tensors_of_another_form(tensors: dict[str, torch.Tensor], message: str) -> None:
    check_like(TENSORS, TENSORS)
    with pytest.raises(Damaged, match=message):
        check_like(tensors, TENSORS)


def changed(path: Path, **values: torch.Tensor | None) -> None:
    """The checkpoint with other tensors, and a checksum that fits."""
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, not a dict
    for name, value in values.items():
        if value is None:
            del tensors[name.replace("__", "/")]
        else:
            tensors[name.replace("__", "/")] = value
    path.write_bytes(save(tensors, {**metadata, DIGEST: _digest(tensors)}))


@pytest.mark.parametrize(
    "values",
    [
        {"unit__flat": None},
        {"unit__flat": torch.zeros(1)},
        {"unit__epoch": torch.tensor(-5)},
        {"unit__epoch": torch.tensor(10**9)},
        {"unit__step": torch.tensor(-1)},
        {"unit__other": torch.zeros(1)},
    ],
    ids=str,
)
def test_a_fit_does_not_go_on_from_what_is_none_of_its_states(
    tmp_path: Path, values: dict[str, torch.Tensor | None]
) -> None:
    expected = fit(checkpoint=tmp_path)
    changed(tmp_path / "unit0000.safetensors", **values)
    with pytest.warns(UserWarning, match="is damaged"):
        assert_same(fit(checkpoint=tmp_path), expected)
