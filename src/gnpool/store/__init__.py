"""Stores raw scores, curves and weights as ordinary files that are written atomically and checked when read."""

from gnpool.store.damage import Damage
from gnpool.store.errors import StoreError, StoreWarning
from gnpool.store.packing import Packing
from gnpool.store.store import Record, Store

__all__ = ["Damage", "Packing", "Record", "Store", "StoreError", "StoreWarning"]
