"""Measures how long a unit took, over all parts of its work if it was interrupted and resumed."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable
from pathlib import Path

from gnpool.store.files import write

FILE = "seconds"
SAVE_SECONDS = 5.0  # most time that a killed process loses


class Stopwatch:
    """A stopwatch that starts when it is made, at the time that the one before it in the same folder reached.

    Args:
        folder (Path, optional): The checkpoint of the unit. (default: ``None``, the time starts at 0)
    """

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else folder / FILE
        self._began = self._saved = time.monotonic()
        self._before, self._lock = self._read(), threading.Lock()

    @property
    def seconds(self) -> float:
        """Seconds so far, including earlier parts."""
        return self._before + time.monotonic() - self._began

    def around(self, check: Callable[[], None]) -> Callable[[], None]:
        """Wrap ``check``, which is called before every step and may raise to stop, to save the time."""

        def checked() -> None:
            try:
                check()
            except BaseException:
                self._save()
                raise
            if time.monotonic() - self._saved >= SAVE_SECONDS:
                self._save()

        return checked

    def _save(self) -> None:
        with self._lock, contextlib.suppress(OSError):  # a full disk stops the training itself, with a message
            self._saved = time.monotonic()
            if self._path is not None:
                write(self._path, f"{self.seconds:.3f}\n".encode())

    def _read(self) -> float:
        if self._path is None:
            return 0.0
        try:
            found = float(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return 0.0
        return found if math.isfinite(found) and found > 0 else 0.0
