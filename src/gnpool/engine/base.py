"""What a unit of work is, and the engine that runs it in the calling thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch

ENGINES = ("local", "ray")
T = TypeVar("T")


class StoppedError(Exception):
    """Raised inside a unit when it was asked to stop.

    Example:
        >>> from gnpool.engine import Caller, StoppedError
        >>> caller = Caller(stopped=lambda: True)
        >>> try:
        ...     caller.check()
        ... except StoppedError:
        ...     print("save the state and leave")
        save the state and leave
    """


def _never() -> bool:
    return False


def _nobody(message: Any) -> None:
    pass


@dataclass(frozen=True)
class Caller:
    """What ties a unit to whoever asked for it.

    Args:
        stopped (callable): Whether to stop.
        tell (callable): Takes reports about how far the unit is.
        checkpoint (Path, optional): Folder in which the unit may keep its state.

    Example:
        >>> from gnpool.engine import Caller, Engine
        >>> def unit(caller, number):
        ...     caller.tell(f"working on {number}")
        ...     return number**2
        >>> Engine().call(unit, 7, caller=Caller(tell=print))
        working on 7
        49
    """

    stopped: Callable[[], bool] = _never
    tell: Callable[[Any], None] = _nobody
    checkpoint: Path | None = None

    def check(self) -> None:
        """Leave, if that was asked for."""
        if self.stopped():
            raise StoppedError


Unit = Callable[..., Any]  # unit(caller, *arguments)
ALONE = Caller()


class Engine:
    """Runs units in the thread that asks for them.

    A unit is a function of the package, called with a :class:`Caller` and arguments that can travel to another process.
    Whatever decides about its result is in its arguments, so that it is the same wherever it runs.

    Args:
        device (torch.device or str, optional): Where units compute. (default: ``"cpu"``)

    Example:
        >>> from gnpool.engine import Engine
        >>> def square(caller, number):
        ...     return number**2
        >>> list(Engine().each(square, [(3,), (5,)]))
        [(0, 9), (1, 25)]
    """

    remote = False

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self.device = torch.device(device)
        self.stop = threading.Event()  # set: units that were sent elsewhere are to end

    @property
    def here(self) -> torch.device:
        """Where the process that asks may compute what is no unit."""
        return self.device

    def jobs(self, default: int) -> int:
        """Units side by side, where the user does not say and ``default`` would be right for this machine."""
        return default

    def call(self, unit: Unit, *arguments: Any, caller: Caller = ALONE) -> Any:
        """Run a unit and wait for what it returns."""
        return unit(caller, *arguments)

    def each(
        self, unit: Unit, arguments: Sequence[tuple[Any, ...]], caller: Caller = ALONE
    ) -> Iterator[tuple[int, Any]]:
        """A unit for each of several arguments: their numbers and what came out, as units end."""
        for number, given in enumerate(arguments):
            caller.check()
            yield number, self.call(unit, *given, caller=caller)

    def share(self, value: T) -> T:
        """What to pass to units in place of a large ``value`` that many of them get."""
        return value


def choose_device(name: str) -> torch.device:
    """``"auto"`` is a GPU where there is one.

    Example:
        >>> from gnpool.engine import choose_device
        >>> choose_device("cpu")
        device(type='cpu')
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError("'device' is cuda, but torch finds no GPU here; use --device cpu")
    return device
