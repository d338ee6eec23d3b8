"""How long a unit took, over all the parts of its work where it was stopped and went on."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable
from pathlib import Path

from gnpool.store.files import write

FILE = "seconds"
SAVE_SECONDS = 5.0  # what a killed process may lose


class Stopwatch:
    """Starts when it is made, from where the one before it in the same folder ended.

    Args:
        folder (Path, optional): The checkpoint of the unit. (default: ``None``, what is stopped starts anew)
    """

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else folder / FILE
        self._began = self._saved = time.monotonic()
        self._before, self._lock = self._read(), threading.Lock()

    @property
    def seconds(self) -> float:
        """So far, earlier parts included."""
        return self._before + time.monotonic() - self._began

    def around(self, check: Callable[[], None]) -> Callable[[], None]:
        """``check``, which is called before every step and may raise to stop, with the time kept."""

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
