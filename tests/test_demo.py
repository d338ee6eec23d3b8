from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import networkx as nx
import pytest
import torch

from examples import demo

DEMO = Path(demo.__file__)
TINY = ("--graphs", "12", "--epochs", "2")
NUMBER = r"\d+\.\d"


@pytest.fixture(scope="module")
def result() -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, DEMO, *TINY], capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_exits_with_0(result: subprocess.CompletedProcess[str]) -> None:
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("model", ["GNP / GNP", "sum / sum", "sum / mean", "sum / max", "sum / min"])
def test_prints_both_errors_of_each_model(result: subprocess.CompletedProcess[str], model: str) -> None:
    assert re.search(rf"^{model} +{NUMBER} +{NUMBER}$", result.stdout, re.MULTILINE), result.stdout


def test_verdict_follows_the_numbers(result: subprocess.CompletedProcess[str]) -> None:
    rows = re.findall(rf"^\w+ / \w+ +{NUMBER} +({NUMBER})$", result.stdout, re.MULTILINE)
    gnp, best_other = float(rows[0]), min(map(float, rows[1:]))
    assert gnp != best_other  # a tie in the printed digits would not say which verdict is right
    verdict = "is the best of the five" if gnp < best_other else "is NOT the best of the five"
    assert f"GNP / GNP {verdict}: {gnp} % against {best_other} %" in result.stdout


@pytest.mark.parametrize("layer", ["aggregation", "readout"])
@pytest.mark.parametrize(("branch", "sign"), [("positive", ""), ("negative", "-")])
def test_prints_what_each_branch_learned(
    result: subprocess.CompletedProcess[str], layer: str, branch: str, sign: str
) -> None:
    row = rf"^{layer} +{branch} +{sign}\d+\.\d\d +-?\d+\.\d\d +{NUMBER} %   \w+"
    assert re.search(row, result.stdout, re.MULTILINE), result.stdout


def test_progress_goes_to_stderr_one_line_a_model(result: subprocess.CompletedProcess[str]) -> None:
    assert len(re.findall(r"^\w+ / \w+: lowest validation loss .* of 2, \d+ s$", result.stderr, re.MULTILINE)) == 5
    assert "\r" not in result.stderr  # the updating line is for terminals only
    assert "validation" not in result.stdout


@pytest.mark.usefixtures("_threads")
def test_same_seed_same_output(result: subprocess.CompletedProcess[str], capsys: pytest.CaptureFixture[str]) -> None:
    demo.main(TINY)
    assert capsys.readouterr().out == result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--epochs", "0"), "argument --epochs: must be at least 1, got 0"),
        (("--graphs", "many"), "argument --graphs: invalid positive value: 'many'"),
        (("--nodes", "5"), "unrecognized arguments: --nodes 5"),
    ],
)
def test_bad_arguments_exit_with_2(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        demo.main(arguments)
    assert stop.value.code == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    ("p", "q", "reading"),
    [
        (1.05, -0.1, "near the sum (p = 1, q = 0)"),
        (1.1, 0.95, "near the mean (p = 1, q = 1)"),
        (20.0, 0.0, "near the max (p = inf, q = 0)"),
        (-50.0, 0.1, "near the min (p = -inf, q = 0)"),
        (-1.08, 0.1, "near the harmonic sum (p = -1, q = 0)"),
        (-1.5, 0.1, "between the names, nearest is the harmonic sum (p = -1, q = 0)"),
    ],
)
def test_reading_names_the_nearest_pooling(p: float, q: float, reading: str) -> None:
    assert demo.nearest_name(p, q) == reading


def test_graphs_are_connected_and_rightly_labelled() -> None:
    for graph in demo.make_batches(18, demo.SMALL, batch_size=1, seed=0):
        peer = nx.Graph(graph.edge_index.T.tolist())
        assert nx.is_connected(peer)
        assert demo.SMALL[0] <= peer.number_of_nodes() == graph.num_nodes <= demo.SMALL[1]
        assert graph.y.item() == pytest.approx(1 / sum(1 / degree for _, degree in peer.degree()), rel=1e-6)


def test_switching_a_branch_off_leaves_the_model_as_it_was() -> None:
    batches = demo.make_batches(4, demo.SMALL, batch_size=4, seed=0)
    model = demo.Network("GNP", "GNP")
    before = {key: value.clone() for key, value in model.state_dict().items()}
    demo.describe(model, batches)
    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key]), key


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_interrupt_exits_with_130_and_no_traceback() -> None:
    process = subprocess.Popen(
        [sys.executable, DEMO, "--graphs", "1000000"],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background job inherits it as ignored
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "drawing 1000000 training graphs\n"
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stderr.strip() == "stopped"
