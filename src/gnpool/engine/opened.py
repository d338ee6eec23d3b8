"""Opens an engine by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gnpool.engine.base import ENGINES, Engine, choose_device
from gnpool.engine.cluster import ray_cluster


def check_engine(name: str, address: str | None) -> None:
    """Raise an error for an unknown engine, or for an address without Ray."""
    if name not in ENGINES:
        raise ValueError(f"'engine' must be one of {', '.join(ENGINES)}, got {name!r}")
    if address is not None and name != "ray":
        raise ValueError("'address' is the address of a Ray cluster; add --engine ray")


@contextmanager
def open_engine(
    name: str = "local", address: str | None = None, *, device: str = "auto", jobs: int | None = None
) -> Iterator[Engine]:
    """Open the engine ``"local"`` or ``"ray"`` for the block.

    Args:
        name (str, optional): ``"local"`` (this process) or ``"ray"`` (a Ray cluster). (default: ``"local"``)
        address (str, optional): Address of a running Ray cluster. (default: ``$RAY_ADDRESS``, or a cluster is started
            on this machine)
        device (str, optional): ``"auto"``, ``"cpu"`` or ``"cuda"``. (default: ``"auto"``)
        jobs (int, optional): Number of cores, if the cluster is started on this machine. (default: all)

    Example:
        >>> from gnpool.engine import open_engine
        >>> with open_engine("local", device="cpu") as engine:
        ...     engine.call(lambda caller, a, b: a + b, 2, 3)
        5
    """
    check_engine(name, address)
    if name == "local":
        yield Engine(choose_device(device))
        return
    with ray_cluster(address, jobs, device) as engine:
        yield engine
