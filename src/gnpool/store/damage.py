"""Damaged units, and the folder to which they are moved."""

from __future__ import annotations

import itertools
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gnpool.store.files import make_folders, sync_folder, write
from gnpool.store.keys import TENSORS


@dataclass(frozen=True)
class Damage:
    """A stored unit that can no longer be read.

    Args:
        path (pathlib.Path): Where its record was.
        reason (str): What is wrong with it.
        aside (pathlib.Path, optional): Where its record is now; None if it could not be moved.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from gnpool.store import Store
        >>> found = []
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = Store(folder, on_damage=found.append)
        ...     key = {"table": "t", "seed": 0}
        ...     _ = store.put(key, scores=[1.0])
        ...     for path in Path(folder).rglob("*.json"):
        ...         _ = path.write_text("{")
        ...     print(key in store, store.missing([key]), len(found))
        False [{'table': 't', 'seed': 0}] 1
    """

    path: Path
    reason: str
    aside: Path | None

    def __str__(self) -> str:
        moved = "it could not be moved" if self.aside is None else f"it was moved to '{self.aside}'"
        return f"'{self.path}' is damaged: {self.reason}; {moved}, and the unit counts as missing"


def set_aside(root: Path, path: Path, reason: str) -> Damage:
    """Move a record whose lock is held, and its tensors, into ``damaged/``, with the reason beside them."""
    folder = root / "damaged"
    try:
        make_folders(root, folder)
        aside = free_name(folder / path.name, TENSORS)
        path.rename(aside)  # the record first, since a unit without a record does not exist
        with suppress(FileNotFoundError):
            path.with_suffix(TENSORS).rename(aside.with_suffix(TENSORS))
        sync_folder(folder)
    except OSError:  # without permission the unit still counts as missing
        return Damage(path, reason, None)
    with suppress(OSError):  # if the disk is full, the caller learns the reason anyway
        when = time.strftime("%Y-%m-%d %H:%M:%S %z")
        write(aside.with_suffix(".reason.txt"), f"{when}\n{path}\n{reason}\n".encode())
    return Damage(path, reason, aside)


def free_name(path: Path, *others: str) -> Path:
    """``path`` or a numbered variant of it that does not exist, neither itself nor with any of these suffixes."""
    names = itertools.chain([path], (path.with_name(f"{path.stem}.{k}{path.suffix}") for k in itertools.count(2)))
    return next(
        name for name in names if not any(os.path.lexists(one) for one in (name, *map(name.with_suffix, others)))
    )
