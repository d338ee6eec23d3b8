"""Chooses the kernels. There is one record per backend, and an environment variable to force one.

A backend is a module with four functions, ``build_csr``, ``transpose``, ``pool_fwd`` and ``pool_bwd``, whose signatures
and meaning are those of :mod:`gnpool.ops.reference`. It is imported when it is first used, never by ``import gnpool``.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import warnings
from dataclasses import dataclass
from types import ModuleType

VARIABLE = "GNPOOL_BACKEND"
_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # Triton's own switch: its kernels then run on the CPU


@dataclass(frozen=True)
class Backend:
    """A set of kernels: its module, the devices that it serves, and the package that it needs."""

    name: str
    module: str
    devices: tuple[str, ...]  # empty: every device
    requires: str | None = None  # the distribution that must be importable

    def problem(self, device: str) -> str | None:
        """Why this backend cannot serve ``device``, and what to do; None if it can."""
        if self.devices and device not in self.devices:
            return f"they serve {' and '.join(self.devices)} tensors, not {device}"
        if self.requires is None:
            return None
        if importlib.util.find_spec(self.requires) is None:
            return f"{self.requires} is not installed (pip install {self.requires})"
        try:
            importlib.import_module(self.module)
        except Exception as error:  # a broken install of an optional package must not break the operator
            return f"{self.requires} does not load here ({type(error).__name__}: {error})"
        return None


BACKENDS = {
    backend.name: backend
    for backend in (
        Backend("numba", "gnpool.ops.cpu.backend", ("cpu",), requires="numba"),
        Backend("triton", "gnpool.ops.cuda.backend", ("cuda", "cpu") if _INTERPRETED else ("cuda",), requires="triton"),
        Backend("reference", "gnpool.ops.reference", ()),
    )
}
"""In order of preference; the last serves everything."""


def kernels(device: str) -> ModuleType:
    """The kernels for tensors on ``device``, as ``GNPOOL_BACKEND`` (default ``auto``) says."""
    return _kernels(device, os.environ.get(VARIABLE, "auto"))


@functools.cache
def _kernels(device: str, choice: str) -> ModuleType:
    if choice != "auto" and choice not in BACKENDS:
        raise ValueError(f"{VARIABLE} must be 'auto' or one of {sorted(BACKENDS)}, got '{choice}'")
    if choice == "auto":
        candidates = [backend for backend in BACKENDS.values() if not backend.devices or device in backend.devices]
    else:
        candidates = [BACKENDS[choice], BACKENDS["reference"]]
    for backend in candidates:
        problem = backend.problem(device)
        if problem is None:
            break
        warnings.warn(
            f"gnpool: the '{backend.name}' kernels cannot be used: {problem}. The slower reference takes over; "
            f"set {VARIABLE}=reference to choose it without this warning.",
            RuntimeWarning,
            stacklevel=3,
        )
    return importlib.import_module(backend.module)
