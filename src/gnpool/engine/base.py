"""The interface of units of work, and the engine that runs them in the calling thread."""

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
    """Connects a unit with its caller.

    Args:
        stopped (callable): Says whether to stop.
        tell (callable): Takes progress reports of the unit.
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
        """Raise :class:`StoppedError` if the caller wants the unit to stop."""
        if self.stopped():
            raise StoppedError


Unit = Callable[..., Any]  # unit(caller, *arguments)
ALONE = Caller()


class Engine:
    """Runs units in the thread that asks for them.

    A unit is a function of the package. It is called with a :class:`Caller` and arguments that can be sent to another
    process. Its result depends only on its arguments, so that it is the same wherever the unit runs.

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
        self.stop = threading.Event()  # when it is set, units in other places end

    @property
    def here(self) -> torch.device:
        """The device for work of the calling process outside of units."""
        return self.device

    def jobs(self, default: int) -> int:
        """The default number of units side by side, given the number that suits this machine."""
        return default

    def call(self, unit: Unit, *arguments: Any, caller: Caller = ALONE) -> Any:
        """Run a unit, wait for it, and return its result."""
        return unit(caller, *arguments)

    def each(
        self, unit: Unit, arguments: Sequence[tuple[Any, ...]], caller: Caller = ALONE
    ) -> Iterator[tuple[int, Any]]:
        """Run a unit for each of several arguments. Yields their numbers and results as units end."""
        for number, given in enumerate(arguments):
            caller.check()
            yield number, self.call(unit, *given, caller=caller)

    def share(self, value: T) -> T:
        """A stand-in for a large ``value``, to be passed to many units instead of the value."""
        return value


def choose_device(name: str) -> torch.device:
    """The device of that name; ``"auto"`` is a GPU if there is one, otherwise the CPU.

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
