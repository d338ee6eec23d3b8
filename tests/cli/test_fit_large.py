"""Much data: 100,000 graphs of 30 nodes are read and trained for an epoch within the memory of a common machine.

A tenth of them unless GNPOOL_TEST_GRAPHS says how many, with a bound that leaves 100,000 graphs 8 of 24 GiB.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GRAPHS, NODES = int(os.environ.get("GNPOOL_TEST_GRAPHS", "10000")), 30
MOST_BYTES = 2 * 2**30 + 64 * 2**10 * GRAPHS


@pytest.mark.slow
def test_much_data_fits_into_memory(tmp_path: Path) -> None:
    make = [str(ROOT / "examples" / "own_data.py"), "many", "--graphs", str(GRAPHS), "--low", str(NODES)]
    subprocess.run([sys.executable, *make, "--high", str(NODES)], cwd=tmp_path, check=True)
    command = [sys.executable, "-m", "gnpool", "fit", "many", "--epochs", "1", "--out", "fit"]
    log = tmp_path / "log"
    with log.open("w") as errors:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, log.read_text()
    assert used.ru_maxrss * 1024 < MOST_BYTES
    result = json.loads((tmp_path / "fit" / "fit.json").read_text())
    assert (result["data"]["graphs"], result["data"]["nodes"]) == (GRAPHS, GRAPHS * NODES)
    errors_of = {model["label"]: model["larger"]["error"] for model in result["models"]}
    assert [model["larger"]["error"] < 1e-6 for model in result["models"] if model["chosen"]] == [True]  # the law
    assert errors_of["GNP"] < 0.8 * result["constant"]["larger"]["error"]  # it has begun to learn in that epoch
