"""Engines run units of work: in the calling thread, in processes, or on the machines of a Ray cluster."""

from gnpool.engine.base import ENGINES, Caller, Engine, StoppedError, choose_device
from gnpool.engine.cluster import LostError, RayEngine, UnitError
from gnpool.engine.opened import open_engine
from gnpool.engine.processes import ProcessEngine
from gnpool.engine.schedule import side_by_side, threads, work_off

__all__ = [
    "ENGINES",
    "Caller",
    "Engine",
    "LostError",
    "ProcessEngine",
    "RayEngine",
    "StoppedError",
    "UnitError",
    "choose_device",
    "open_engine",
    "side_by_side",
    "threads",
    "work_off",
]
