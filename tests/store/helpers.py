"""What the tests of the store share: keys, results, the files of a store, and processes that die."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from gnpool.store import Store

STEPS = ("open", "write", "fsync", "close", "replace", "mkdir")  # what a put asks of the system


def unit_key(unit: int = 0, table: str = "invsize") -> dict[str, Any]:
    return {"table": table, "cell": "GNP/er", "unit": unit}


def results(unit: int) -> dict[str, Any]:
    """Arguments of a put, the same on every call."""
    generator = torch.Generator().manual_seed(unit)
    return {
        "scores": [{"seed": seed, "mape": unit + 0.1 * seed} for seed in range(3)] + [None, float("nan")],
        "tensors": {"weight": torch.randn(5, 3, generator=generator), "p": torch.linspace(1, 2 + unit, 7)},
        "meta": {"device": "cpu"},
    }


def put(store: Store, unit: int, table: str = "invsize") -> bool:
    return store.put(unit_key(unit, table), **results(unit))


def holds(store: Store, unit: int, table: str = "invsize") -> bool:
    """Whether the store has exactly the results of the unit."""
    record, wanted = store.get(unit_key(unit, table)), results(unit)
    if record is None or record.tensors is None:
        return False
    return (
        repr(record.scores) == repr(wanted["scores"])
        and record.meta == wanted["meta"]
        and record.tensors.keys() == wanted["tensors"].keys()
        and all(torch.equal(record.tensors[name], value) for name, value in wanted["tensors"].items())
    )


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, with its content."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def at_step(
    monkeypatch: pytest.MonkeyPatch,
    step: int,
    act: Callable[[str, tuple[Any, ...]], None],
    names: tuple[str, ...] = STEPS,
) -> list[str]:
    """Call ``act`` in place of the ``step``-th call to the system from now on; returns the growing list of calls."""
    calls: list[str] = []

    def watched(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            calls.append(name)
            if len(calls) == step + 1:
                act(name, arguments)
            return original(*arguments, **options)

        return call

    for name in names:
        monkeypatch.setattr(os, name, watched(name, getattr(os, name)))
    return calls


def fail(code: int) -> Callable[[str, tuple[Any, ...]], None]:
    def act(name: str, arguments: tuple[Any, ...]) -> None:
        if name == "close":  # it closes even where it fails
            os.closerange(arguments[0], arguments[0] + 1)
        raise OSError(code, os.strerror(code))

    return act


def forked(work: Callable[[], object]) -> int:
    """Run ``work`` in a child process and return its number; the child ends with status 0, or 1 on an exception."""
    child = os.fork()
    if child:
        return child
    try:
        work()
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
        os._exit(1)
    os._exit(0)


def status(child: int) -> int:
    """Wait for a child: 0 if it went well, -9 if it was killed."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def die(name: str, arguments: tuple[Any, ...]) -> None:
    """Kill this process (SIGKILL), in the middle of a write if there is one."""
    if name == "write":
        descriptor, data = arguments
        os.pwrite(descriptor, data[: len(data) // 2], 0)
    os.kill(os.getpid(), signal.SIGKILL)
