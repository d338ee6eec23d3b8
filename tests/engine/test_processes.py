"""Units in processes of this machine."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from gnpool.engine import Caller, ProcessEngine, StoppedError, UnitError


def scaled(caller: Caller, values: torch.Tensor, factor: float) -> tuple[int, torch.Tensor]:
    os.write(1, b"what a unit prints is no message\n")
    caller.tell(factor)
    return os.getpid(), values * factor


def fails(caller: Caller, what: str) -> None:
    if what == "ends":
        os._exit(3)
    raise ValueError(what)


def waits(caller: Caller, begun: str) -> None:
    Path(begun).touch()
    time.sleep(600)


def test_units_run_elsewhere() -> None:
    values, told = torch.arange(4.0), list[float]()
    with ProcessEngine(1) as engine:
        shared = engine.share(values)
        assert engine.share(values) == shared
        first, found = engine.call(scaled, shared, 2.0, caller=Caller(tell=told.append))
        second, again = engine.call(scaled, shared, -1.0)
        assert first == second != os.getpid()
        torch.testing.assert_close(found, values * 2)
        torch.testing.assert_close(again, -values)
        assert told == [2.0]
        with pytest.raises(UnitError, match="ValueError: no such thing") as caught:
            engine.call(fails, "no such thing")
        assert "in fails" in caught.value.__notes__[0]
        assert engine.call(scaled, shared, 1.0)[0] == first
        with pytest.raises(UnitError, match="ended by itself, with status 3"):
            engine.call(fails, "ends")
        third, found = engine.call(scaled, shared, 3.0)
        assert third != first
        torch.testing.assert_close(found, values * 3)


def test_a_unit_is_ended_on_request(tmp_path: Path) -> None:
    stop, caught = threading.Event(), list[Any]()

    def ask(engine: ProcessEngine) -> None:
        try:
            engine.call(waits, str(tmp_path / "begun"), caller=Caller(stopped=stop.is_set))
        except StoppedError as error:
            caught.append(error)

    with ProcessEngine(1) as engine:
        thread = threading.Thread(target=ask, args=(engine,))
        thread.start()
        while not (tmp_path / "begun").exists():
            time.sleep(0.01)
        stop.set()
        thread.join()
        assert len(caught) == 1
        assert engine._workers == []
