"""Limits the time of a study that keeps what it has finished."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from gnpool.lab import Event


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Stop the block after some seconds as Ctrl-C does; 0 means no limit. At the end, print the time it took."""
    began = time.monotonic()
    signal.signal(signal.SIGALRM, _stop)
    signal.alarm(seconds)
    try:
        yield
    except KeyboardInterrupt:
        print("out of time", flush=True)
    finally:
        signal.alarm(0)
        print(f"{time.monotonic() - began:.0f} s", flush=True)


def show(event: Event) -> None:
    """Print every job that is finished."""
    if event.finished:
        print(f"[{event.done} of {event.total}] {event.label}", flush=True)


def _stop(*_: object) -> NoReturn:
    raise KeyboardInterrupt
