"""Runs PyTorch Geometric's tests with every sum and mean computed by GNP, and lists the tests that then fail.

    python -m tools.pyg_tests PATH               # a checkout of PyG, of about the installed version
    python -m tools.pyg_tests PATH --only nn/aggr nn/conv/test_sage_conv.py

GNP pools absolute values, so ``sum`` and ``mean`` of signed rows are the pooling of the positive parts minus that of
the negative ones. This is exact, so that PyG's tests of values hold, too. Each test runs without and with GNP; a test
that fails only with GNP is printed with the last line of its error. PyG's tests are read from the checkout and are not
part of gnpool.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

ROOT = Path(__file__).resolve().parents[1]
TESTS = ("nn/aggr", "nn/conv", "nn/models", "nn/test_to_hetero_transformer.py", "nn/test_sequential.py", "explain")
PLUGIN = "tools.pyg_tests"  # this file is the plugin of pytest that puts GNP in
SWAP = "GNPOOL_SWAP"  # set in the runs with GNP


def swap() -> None:
    """Put GNP in the place of PyG's sum and mean, wherever they are found by class or by name."""
    import torch_geometric.nn
    from torch_geometric.nn import aggr
    from torch_geometric.nn.aggr import Aggregation

    from gnpool import GNPAggregation

    def forward(
        self: Any,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
    ) -> Tensor:
        wide = x if x.is_floating_point() else x.float()
        column = wide.unsqueeze(-1) if wide.dim() == 1 or dim in (-1, x.dim() - 1) else wide
        dim = x.dim() + dim if dim < 0 else dim
        parts = [
            GNPAggregation.forward(_layer(self, column), part.relu(), index, ptr, dim_size, dim)
            for part in (column, -column)
        ]
        found = parts[0] - parts[1]
        found = found.squeeze(-1) if column is not wide else found
        return found if found.dtype == x.dtype else found.to(x.dtype)

    def _layer(self: Any, x: Tensor) -> GNPAggregation:
        layer: GNPAggregation = self.gnp
        layer.channels = x.size(-1)
        return layer

    for name, start in (("SumAggregation", "sum"), ("MeanAggregation", "mean")):

        def init(self: Any, start: str = start) -> None:
            Aggregation.__init__(self)
            self.gnp = GNPAggregation(1, mix=False, start=start)

        def shown(self: Any) -> str:
            return f"{type(self).__name__}()"

        members = {"__init__": init, "forward": forward, "__repr__": shown}
        made = type(name, (Aggregation,), members)
        for module in (aggr, aggr.basic, torch_geometric.nn):
            setattr(module, name, made)


if os.environ.get(SWAP):
    swap()


def outcomes(checkout: Path, only: list[str], swapped: bool) -> dict[str, str]:
    """By test: an empty text if it passed, or the last line of its error; skipped tests are left out."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
        environment.update({SWAP: "1"} if swapped else {})
        command = [sys.executable, "-m", "pytest", "-q", "-p", PLUGIN, "-p", "no:cacheprovider", "--rootdir", "."]
        command += ["-c", os.devnull, "--import-mode", "importlib", "--junit-xml", str(report), *only]
        subprocess.run(command, cwd=checkout / "test", env=environment, stdout=subprocess.DEVNULL, check=False)
        found = {}
        for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 -- written by pytest just now
            if case.find("skipped") is None:
                problem = next((part for part in case if part.tag in ("failure", "error")), None)
                words = "" if problem is None else (problem.get("message") or "no message").splitlines()[0]
                found[f"{case.get('classname')}::{case.get('name')}"] = words
        return found


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--only", nargs="+", default=list(TESTS), help="files and folders below PyG's test/")
    given = parser.parse_args()
    if not (given.checkout / "test" / "nn").is_dir():
        sys.exit(f"pyg_tests: {given.checkout} is no checkout of PyG: there is no test/nn in it")
    plain, with_gnp = (outcomes(given.checkout, given.only, swapped) for swapped in (False, True))
    passed = [test for test, words in plain.items() if not words]
    broken = {test: with_gnp.get(test, "it did not run") for test in passed if with_gnp.get(test, "it did not run")}
    import torch_geometric

    print(f"PyTorch Geometric {torch_geometric.__version__}, torch {torch.__version__}")
    print(f"{len(passed):,} tests pass as they are, {len(passed) - len(broken):,} of them with GNP")
    for test, words in sorted(broken.items()):
        print(f"{test}\n    {words[:200]}")


if __name__ == "__main__":
    main()
