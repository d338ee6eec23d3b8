"""Random numbers that are the same on every machine and with every version of the libraries.

NumPy promises that a seeded PCG64 always yields the same bits, but makes no promise about its distributions. So only
uniform doubles are taken from it, and this module computes the few distributions that the tasks need from them.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Stream:
    r"""A stream of random numbers that its key determines.

    Args:
        *key (str or int): The purpose of the numbers. Streams with different keys are independent.

    Example:
        >>> from gnpool.tasks.streams import Stream
        >>> Stream("maxdegree", "train", 0).integers(20, 30, 5)
        array([21, 28, 20, 21, 29])
    """

    def __init__(self, *key: Hashable) -> None:
        digest = hashlib.sha256(json.dumps(key).encode()).digest()
        self._generator = np.random.Generator(np.random.PCG64(int.from_bytes(digest, "big")))

    def uniform(self, shape: int | tuple[int, ...], high: float = 1.0) -> Floats:
        """Doubles of U[0, high)."""
        return self._generator.random(shape) * high

    def integer(self, low: int, high: int) -> int:
        """One integer of low, ..., high - 1."""
        return low + int(self._generator.random() * (high - low))

    def integers(self, low: int, high: int, count: int) -> Ints:
        """Integers of low, ..., high - 1."""
        return low + (self._generator.random(count) * (high - low)).astype(np.int64)

    def permutation(self, count: int) -> Ints:
        """The numbers 0, ..., count - 1 in random order."""
        return np.argsort(self._generator.random(count), kind="stable")

    def exponential(self, shape: int | tuple[int, ...]) -> Floats:
        """Doubles of Exp(1)."""
        return -np.log1p(-self._generator.random(shape))

    def gamma(self, shape: int) -> float:
        """One double of Gamma(shape, 1), for a whole number: the sum of as many exponentials."""
        return float(self.exponential(shape).sum())

    def normal(self, count: int) -> Floats:
        """Doubles of N(0, 1), by the method of Box and Muller."""
        radius, angle = np.sqrt(2.0 * self.exponential(count)), 2.0 * math.pi * self._generator.random(count)
        return radius * np.cos(angle)
