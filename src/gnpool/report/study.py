"""What a page is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

EXPONENTS = ("p", "p_pos", "p_neg")  # of one branch, or of two
POINTS = 60  # of a curve, at most: more than a chart of this width can show
Curves = Mapping[str, NDArray[np.float64]]  # name -> (epochs, seeds)


@dataclass(frozen=True)
class Training:
    """One training of a store: what was trained, how it went.

    Args:
        task (str): What the model learns.
        data (str): What is special about its data, or nothing.
        model (str): The model.
        runs (int): Settings times seeds.
        failed (int): Runs that came to no end.
        seconds (float): Time of the work.
        device (str): Where.
        setting (Mapping): The setting that validation chose.
        curves (Mapping): Values over epochs of the chosen setting, (epochs, seeds).
        epochs (tuple[int, ...], optional): The epochs, from 1, of curves of losses and errors; None: all of them.
    """

    task: str
    data: str
    model: str
    runs: int = 0
    failed: int = 0
    seconds: float = 0.0
    device: str = ""
    setting: Mapping[str, Any] = field(default_factory=dict)
    curves: Curves = field(default_factory=dict)
    epochs: tuple[int, ...] | None = None

    @property
    def gnp(self) -> bool:
        """Whether exponents were learned."""
        return bool(self.layers)

    @property
    def layers(self) -> list[str]:
        """Names of the layers whose exponents were kept."""
        split = [name.rpartition(".") for name in self.curves]
        return sorted({layer for layer, _, exponent in split if exponent in EXPONENTS})


@dataclass(frozen=True)
class StoredStudy:
    """A folder, read.

    Args:
        name (str): The folder.
        tables (list): Tables of results.json.
        fit (dict, optional): What ``gnpool fit`` found.
        trainings (list): Trainings of the store.
        crystals (Mapping): For models whose poolings were made exact, what they became and for how many seeds.
        units (Mapping): Number of stored units by table.
        seconds (float): Time of all stored work.
        machines (list): Devices and versions that the units tell, each once.
        damaged (list): Files that could not be read.
    """

    name: str
    tables: list[dict[str, Any]] = field(default_factory=list)
    fit: dict[str, Any] | None = None
    trainings: list[Training] = field(default_factory=list)
    crystals: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    units: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    machines: list[dict[str, str]] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)


def thin(length: int, points: int = POINTS) -> NDArray[np.int64]:
    """Places of at most ``points`` items, evenly spread, the first and the last among them.

    Example:
        >>> from gnpool.report.study import thin
        >>> thin(7, 4).tolist(), thin(3, 4).tolist()
        ([0, 2, 4, 6], [0, 1, 2])
    """
    return np.unique(np.linspace(0, length - 1, min(length, points)).round().astype(np.int64))
