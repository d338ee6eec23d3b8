"""Everything that ``gnpool theory`` shows, computed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from gnpool.tasks import get_task
from gnpool.theory.checks import Check, run_checks
from gnpool.theory.graphs import NeighborSums, join, neighbor_sums
from gnpool.theory.kernel import HEADS, Directions, feature_map, random_directions, scalar_directions
from gnpool.theory.readouts import NormReadout, PlainReadout, Readout
from gnpool.theory.regression import kernel_regression, mean_relative_error
from gnpool.theory.targets import TARGETS, PlaneMap, plane_map
from gnpool.theory.widths import CASES, WidthRow, compare_widths

GNP = NormReadout(-1.0)
READOUTS: tuple[Readout, ...] = (GNP, *(PlainReadout(name) for name in ("sum", "mean", "max", "min")))
LARGER = {
    "ER 50-99": {},
    "ER 100-199": {"sizes": (100, 200)},
    "ER 200-299": {"sizes": (200, 300)},
}
STRUCTURED = {
    "BA": {"structure": "ba"},
    "4-regular": {"structure": "regular4"},
    "expander": {"structure": "expander"},
    "tree": {"structure": "tree"},
    "ladder": {"structure": "ladder"},
}
TEST_SETS: dict[str, dict[str, Any]] = {**LARGER, **STRUCTURED}
TEST_GRAPHS = 54  # six of each edge probability
FEATURES = (3, 5.0)  # three features of U(0, 5)
FEATURE_GRAPHS = 27
FEATURE_SAMPLES = 2048
WIDTHS = (16, 64, 256, 1024)
LINEAR, MLP, VECTOR = "linear head", "MLP head", "linear head, 3 random features"
LEARNED = 0.01  # percent: below, the target counts as learned exactly
FAILED = 20.0  # percent: above, it counts as not learned


@dataclass(frozen=True)
class RegressionRow:
    """The error of kernel regression with one readout, in percent: on the training graphs and on each test set."""

    setting: str
    readout: str
    train: float
    test: dict[str, float]


@dataclass(frozen=True)
class TheoryStudy:
    """The results of :func:`run_study`."""

    regression: list[RegressionRow]
    widths: list[WidthRow]
    named: dict[str, dict[str, float]]  # pooling -> target -> worst error, in percent
    maps: list[PlaneMap]
    checks: list[Check]
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether every check holds."""
        return all(check.holds for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Everything as numbers, strings, lists and dictionaries that JSON has; infinite exponents as strings."""
        return {
            "schema": 1,
            "regression": [asdict(row) for row in self.regression],
            "widths": [asdict(row) for row in self.widths],
            "poolings": self.named,
            "maps": [
                {
                    "target": found.target.name,
                    "a": _number(found.target.a),
                    "b": found.target.b,
                    "p": [_number(p) for p in found.p],
                    "q": found.q,
                    "error": found.error.tolist(),
                }
                for found in self.maps
            ],
            "checks": [{**asdict(check), "holds": check.holds} for check in self.checks],
            "seconds": round(self.seconds, 1),
        }


def run_study(
    graphs: int = 180,
    widths: Sequence[int] = WIDTHS,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> TheoryStudy:
    r"""Run every experiment and check of the theory on the CPU.

    Args:
        graphs (int, optional): Number of training graphs of the kernel regressions. (default: ``180``)
        widths (sequence of int, optional): Widths of the networks that are trained. (default: 16, 64, 256, 1024)
        seed (int, optional): Another number, other graphs, directions and networks. (default: ``0``)
        progress (callable, optional): Called with a few words as each of the :func:`study_steps` begins.
    """
    if graphs < 1:
        raise ValueError(f"'graphs' must be a positive number, got {graphs}")
    if not widths or min(widths) < 1:
        raise ValueError(f"'widths' must be positive numbers, one at least, got {list(widths)}")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the work is many small steps, which a busy second core slows down a hundredfold
    try:
        return _run_study(graphs, widths, seed, progress if progress is not None else lambda _: None)
    finally:
        torch.set_num_threads(threads)


def _run_study(graphs: int, widths: Sequence[int], seed: int, tell: Callable[[str], None]) -> TheoryStudy:
    started = time.perf_counter()
    tell("kernels, gradients and special cases")
    checks = run_checks(seed)
    tell("kernel regression")
    train, tests = harmonic_graphs(graphs, TEST_GRAPHS, seed)
    regression = [
        *regress(LINEAR, "linear", READOUTS, train, tests, scalar_directions()),
        *regress(f"{LINEAR}, no ReLU", "linear", [PlainReadout("max", relu=False)], train, tests, scalar_directions()),
        *regress(MLP, "mlp", READOUTS, train, tests, scalar_directions()),
    ]
    tell("kernel regression with random features")
    vector_train, vector_tests = harmonic_graphs(min(graphs, 90), FEATURE_GRAPHS, seed, FEATURES)
    directions = random_directions(FEATURE_SAMPLES, FEATURES[0], seed)
    regression += regress(VECTOR, "linear", READOUTS, vector_train, vector_tests, directions)
    width_rows = []
    for case in CASES:
        tell(f"training {case.name}")
        width_rows += compare_widths(case, widths, seed)
    tell("the (p, q) plane")
    maps = [plane_map(train, tests, target) for target in TARGETS]
    named: dict[str, dict[str, float]] = {target.name: {} for target in TARGETS}
    for target in TARGETS:
        for pooling in TARGETS:
            error = plane_map(train, tests, target, [pooling.a], [pooling.b]).error.item()
            named[pooling.name][target.name] = error
    checks += claims(regression)
    return TheoryStudy(regression, width_rows, named, maps, checks, time.perf_counter() - started)


def study_steps() -> int:
    """How many steps :func:`run_study` tells of."""
    return 4 + len(CASES)


def harmonic_graphs(
    train: int, test: int, seed: int = 0, features: tuple[int, float] | None = None
) -> tuple[NeighborSums, dict[str, NeighborSums]]:
    """ER graphs of 20 to 29 nodes to train on, and larger ones and other structures to test on."""
    task = get_task("harmonic")
    known = neighbor_sums(task.dataset("train", seed=seed, count=train, features=features))
    tests = {
        name: neighbor_sums(task.dataset("test", seed=seed, count=test, features=features, **options))
        for name, options in TEST_SETS.items()
    }
    return known, tests


def regress(
    setting: str,
    head: str,
    readouts: Sequence[Readout],
    train: NeighborSums,
    tests: Mapping[str, NeighborSums],
    directions: Directions,
) -> list[RegressionRow]:
    """Kernel regression with each of several readouts."""
    everything = join([train, *tests.values()])
    sizes = [len(train), *(len(graphs) for graphs in tests.values())]
    rows = []
    for readout in readouts:
        kernel = HEADS[head](feature_map(everything, readout, directions))
        prediction = kernel_regression(kernel, everything.y, len(train))
        parts = zip(prediction.split(sizes), everything.y.split(sizes), strict=True)
        known, *found = (mean_relative_error(part, y) for part, y in parts)
        rows.append(RegressionRow(setting, readout.name, known, dict(zip(tests, found, strict=True))))
    return rows


def claims(rows: Sequence[RegressionRow]) -> list[Check]:
    """What the table of kernel regression must show."""
    worst = {(row.setting, row.readout): max(row.test.values()) for row in rows}
    others = [
        row.test[name] for row in rows if row.setting in (LINEAR, MLP) and row.readout != GNP.name for name in LARGER
    ]
    return [
        Check("Theorem 1: worst error of GNP, linear head, in percent", worst[LINEAR, GNP.name], LEARNED),
        Check("Theorem 2: least error of the others on larger ER graphs", min(others), FAILED, above=True),
        Check("MLP head: worst error of GNP on other structures", worst[MLP, GNP.name], FAILED, above=True),
    ]


def _number(value: float) -> float | str:
    return str(value) if math.isinf(value) else value
