"""An engine by name, as a user chooses it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gnpool.engine.base import ENGINES, Engine, choose_device
from gnpool.engine.cluster import ray_cluster


def check_engine(name: str, address: str | None) -> None:
    """Complain about an engine that there is not, or an address that nobody asks for."""
    if name not in ENGINES:
        raise ValueError(f"'engine' must be one of {', '.join(ENGINES)}, got {name!r}")
    if address is not None and name != "ray":
        raise ValueError("'address' is that of a Ray cluster; use it with --engine ray")


@contextmanager
def open_engine(
    name: str = "local", address: str | None = None, *, device: str = "auto", jobs: int | None = None
) -> Iterator[Engine]:
    """The engine ``"local"`` or ``"ray"``, for the time of the block.

    Args:
        name (str, optional): ``"local"``: this process; ``"ray"``: a Ray cluster. (default: ``"local"``)
        address (str, optional): Of a running Ray cluster. (default: ``$RAY_ADDRESS``, else this machine's cores)
        device (str, optional): ``"auto"``, ``"cpu"`` or ``"cuda"``. (default: ``"auto"``)
        jobs (int, optional): Cores to offer, if the cluster is of this machine. (default: all)

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
