"""Raw scores, curves and weights on disk: ordinary files, atomic, checked, resumable."""

from gnpool.store.damage import Damage
from gnpool.store.errors import StoreError, StoreWarning
from gnpool.store.packing import Packing
from gnpool.store.store import Record, Store

__all__ = ["Damage", "Packing", "Record", "Store", "StoreError", "StoreWarning"]
