"""Locks between processes, which are freed when their owner dies.

They use ``flock`` if the file system has it, since the kernel frees the lock of a process that dies. Otherwise every
contender creates a file whose name identifies it, looks for files of other living contenders, and steps back if there
is one. Of two contenders the later one sees the earlier one, so they never both have the lock. Names are never used
twice, so anybody may remove the file of a dead owner.
"""

from __future__ import annotations

import errno
import itertools
import os
import random
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from gnpool.store.files import remove

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

UNSUPPORTED = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL}
TRIES = 5  # of a contender that does not wait; two that meet both step back, and try again after random pauses
PAUSE = 0.01  # seconds at most between tries
PATIENCE = 60.0  # seconds that a contender waits; such locks are held only during a write

_count = itertools.count()


class NoFlock(Exception):  # noqa: N818 - a finding, never an error users see
    """This file system or this Python has no flock."""


@contextmanager
def lock(path: Path, *, wait: bool) -> Iterator[bool]:
    """Hold the lock ``path`` inside the block; without ``wait`` the value is False if another process holds it."""
    owner = os.getpid()
    try:
        release = _flock(path, wait)
    except NoFlock:
        release = _announce(path, wait)
    try:
        yield release is not None
    finally:
        if release is not None and os.getpid() == owner:  # a child forked inside the block does not own the lock
            release()


def _flock(path: Path, wait: bool) -> Callable[[], None] | None:
    """How to release the lock, or None if another has it."""
    if fcntl is None:
        raise NoFlock
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            if _is_at(descriptor, path):
                return partial(_unlock, path, descriptor)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError as error:
            os.close(descriptor)
            if error.errno not in UNSUPPORTED:
                raise
            remove(path)
            raise NoFlock from error
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the previous owner removed the file meanwhile


def _unlock(path: Path, descriptor: int) -> None:
    remove(path)  # first, so that whoever opens the path from now on makes a new lock
    with suppress(OSError):  # nothing was written to it
        os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _announce(path: Path, wait: bool) -> Callable[[], None] | None:
    """How to release the lock, or None if another has it."""
    began, tries = time.monotonic(), 0
    while True:
        mine = path.with_name(f"{path.name}@{'@'.join(_identity())}@{next(_count)}")
        os.close(os.open(mine, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        try:
            others = _others(path, mine)
        except BaseException:
            remove(mine)
            raise
        if not others:
            return partial(remove, mine)
        remove(mine)
        tries += 1
        if not wait and tries == TRIES:
            return None
        if time.monotonic() - began > PATIENCE:
            raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), str(others[0]))
        time.sleep(random.uniform(0, PAUSE))  # noqa: S311 - not a secret


def _others(path: Path, mine: Path) -> list[Path]:
    """The files of the other living contenders for ``path``; files of dead contenders are removed."""
    found = []
    for entry in list(os.scandir(path.parent)):
        name, _, owner = entry.name.partition("@")
        if name != path.name or not owner or entry.name == mine.name:
            continue
        if _alive(owner):
            found.append(Path(entry.path))
        else:
            remove(Path(entry.path))
    return found


def _identity() -> tuple[str, str, str, str]:
    """Host, boot, process and start of the process, which together are unique."""
    return _host(), _boot(), str(os.getpid()), _started(os.getpid()) or "0"


def _alive(owner: str) -> bool:
    """Whether the process of an identity lives. A process on another host cannot be seen and counts as alive."""
    host, boot, process, started, _ = owner.split("@")
    if host != _host():
        return True
    if boot != _boot():
        return False
    if started != "0":
        return _started(int(process)) == started
    if os.name == "nt":  # on Windows os.kill with 0 ends the process
        return True
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "_", socket.gethostname())


def _boot() -> str:
    """A word that changes at every boot of the machine, if the system has one."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return "0"


def _started(process: int) -> str | None:
    """When a living process started, in units of the system; None if it is gone or the system does not tell."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # skip the name, which may contain anything
    return None if fields[0] in "ZX" else fields[19]
