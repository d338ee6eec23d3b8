"""Runs PyTorch Geometric's tests with every sum and mean computed by GNP, and lists the tests that then fail.

    python -m tools.pyg_tests PATH               # a checkout of PyG, of about the installed version
    python -m tools.pyg_tests PATH --only nn/aggr nn/conv/test_sage_conv.py

GNP pools absolute values, so the sum or mean of signed rows is computed as the pooling of their positive parts minus
that of their negative parts. This is exact, so PyG's tests of values must hold. Tests that fail
with GNP run once more without it; those that pass then are printed with the first line of their error. PyG's tests are
read from the checkout and are not part of gnpool.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

ROOT = Path(__file__).resolve().parents[1]
TESTS = ("nn/aggr", "nn/conv", "nn/models", "nn/test_to_hetero_transformer.py", "nn/test_sequential.py", "explain")
CALLS = "gnp_calls"  # the property of a test in the report
NODE = "node"  # and its name
PLUGIN = "tools.pyg_tests"  # this file is the plugin of pytest that puts GNP in
SWAP = "GNPOOL_SWAP"  # set in the runs with GNP
calls = 0  # number of calls of GNP so far


def swap() -> None:
    """Let PyG's sum and mean compute by GNP, wherever they are used."""
    from torch_geometric.nn.aggr import Aggregation, MeanAggregation, SumAggregation
    from torch_geometric.nn.aggr.fused import FusedAggregation

    from gnpool import GNPAggregation

    def forward(
        self: Any,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
    ) -> Tensor:
        global calls
        calls += 1
        dim = x.dim() + dim if dim < 0 else dim
        rows = x if x.is_floating_point() else x.double()
        rows = rows.unsqueeze(-1) if dim == x.dim() - 1 else rows  # GNP wants channels behind the pooled dimension
        self.gnp.channels = rows.size(-1)
        above, below = (self.gnp(part.relu(), index, ptr, dim_size, dim) for part in (rows, -rows))
        pooled = above - below
        return (pooled.squeeze(-1) if rows.dim() > x.dim() else pooled).to(x.dtype)

    for aggregation, start in ((SumAggregation, "sum"), (MeanAggregation, "mean")):

        def init(self: Any, start: str = start) -> None:
            Aggregation.__init__(self)
            self.gnp = GNPAggregation(1, mix=False, start=start, eps=0.0)

        aggregation.__init__, aggregation.forward = init, forward
        FusedAggregation.FUSABLE_AGGRS.discard(aggregation)  # the fused form does not call the replaced one


if os.environ.get(SWAP):
    swap()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Record how often a test called GNP."""
    before = calls
    try:
        return (yield)
    finally:
        item.user_properties.append((CALLS, calls - before))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Record the name by which pytest runs the test again."""
    item.user_properties.append((NODE, item.nodeid))


class Outcome(NamedTuple):
    """The outcome of a test: the first line of its error, or an empty text, and the number of calls of GNP."""

    error: str
    calls: int


def outcomes(checkout: Path, only: list[str], swapped: bool) -> dict[str, Outcome]:
    """The outcomes by name of the test, without skipped tests."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
        environment.update({SWAP: "1"} if swapped else {})
        command = [sys.executable, "-m", "pytest", "-q", "-p", PLUGIN, "-p", "no:cacheprovider", "--rootdir", "."]
        command += ["-c", os.devnull, "--import-mode", "importlib", "--junit-xml", str(report), *only]
        subprocess.run(command, cwd=checkout / "test", env=environment, stdout=subprocess.DEVNULL, check=False)
        found = {}
        for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 -- written by pytest just now
            noted = {part.get("name"): part.get("value", "") for part in case.iter("property")}
            problem = next((part for part in case if part.tag in ("failure", "error")), None)
            error = "" if problem is None else (problem.get("message") or "no message").splitlines()[0]
            if case.find("skipped") is None:
                found[noted.get(NODE, str(case.get("classname")))] = Outcome(error, int(noted.get(CALLS, "0")))
        return found


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--only", nargs="+", default=list(TESTS), help="files and folders below PyG's test/")
    given = parser.parse_args()
    if not (given.checkout / "test" / "nn").is_dir():
        sys.exit(f"pyg_tests: {given.checkout} is no checkout of PyG: there is no test/nn in it")
    with_gnp = outcomes(given.checkout, given.only, swapped=True)
    failed = [test for test, outcome in with_gnp.items() if outcome.error]
    plain = outcomes(given.checkout, failed, swapped=False) if failed else {}
    ours = [test for test in failed if test in plain and not plain[test].error]
    used = sum(outcome.calls > 0 for outcome in with_gnp.values())
    print(f"PyTorch Geometric {version('torch_geometric')}, torch {torch.__version__}")
    print(f"{len(with_gnp):,} tests ran, and {used:,} of them call GNP; {len(failed):,} fail, {len(ours):,} by GNP:")
    for test in ours:
        print(f"{test}\n    {with_gnp[test].error[:200]}")
    print("Fail without GNP, too:", *(set(failed) - set(ours) or ["none"]), sep="\n    ")


if __name__ == "__main__":
    main()
