import errno
import json

import pytest
from typer.testing import CliRunner

from gnpool.cli import app

CHAIN = "ann bob 1\nbob cid 0.5\ncid ann 0\nann ann 1\ncid dan 1\n"


@pytest.fixture
def graph(tmp_path):
    path = tmp_path / "graph.txt"
    path.write_text(CHAIN)
    (tmp_path / "seeds.txt").write_text("# the first\nann\n\n")
    return path


def run(*arguments):
    return CliRunner().invoke(app, ["influence", *map(str, arguments)])


def test_simulate(graph, tmp_path):
    found = run("simulate", graph, "--seeds", tmp_path / "seeds.txt", "--runs", 20_000, "--device", "cpu", "--json")
    assert found.exit_code == 0, found.output
    result = json.loads(found.stdout)
    assert {k: result[k] for k in ("nodes", "edges", "self_loops", "seeds", "runs")} == {
        "nodes": 4,
        "edges": 4,
        "self_loops": 1,
        "seeds": 1,
        "runs": 20_000,
    }
    assert abs(result["influence"] - 3.0) < 4 * result["standard_error"]
    assert result["standard_error"] == pytest.approx(1 / 20_000**0.5, rel=0.02)


def test_simulate_for_people_and_the_probabilities(graph, tmp_path):
    out = tmp_path / "probability.csv"
    options = ("--seeds", tmp_path / "seeds.txt", "--out", out, "--device", "cpu", "--runs", 1000)
    found = run("simulate", graph, *options)
    assert "4 nodes, 4 edges (1 from a node to itself left out); 1 seeds, 1,000 cascades" in found.stdout
    assert "influence " in found.stdout
    lines = out.read_text().splitlines()
    assert lines[:3] == ["node,probability", "ann,1.0", "bob,1.0"]
    assert lines[3].startswith("cid,0.")
    assert run("simulate", graph, *options).stdout.splitlines()[1] == found.stdout.splitlines()[1]


@pytest.mark.parametrize("method", ["celf-mc", "degree", "random"])
def test_maximize(graph, tmp_path, method):
    out = tmp_path / "chosen.txt"
    found = run("maximize", graph, "-k", 2, "--method", method, "--out", out, "--json", "--device", "cpu")
    assert found.exit_code == 0, found.output
    result = json.loads(found.stdout)
    assert out.read_text().split() == result["seeds"]
    assert len(set(result["seeds"])) == 2
    if method == "celf-mc":
        assert result["seeds"] == ["ann", "cid"]
        assert result["influence"] == 4.0
    again = run("simulate", graph, "--seeds", out, "--json", "--device", "cpu")
    assert json.loads(again.stdout)["seeds"] == 2


def test_train_and_choose_with_the_model(tmp_path):
    ring = tmp_path / "ring.csv"
    edges = [(i, (i + d) % 40) for i in range(40) for d in (1, 3, 7)]
    ring.write_text("".join(f"n{a},n{b},0.4\n" for a, b in edges))
    model = tmp_path / "model.safetensors"
    options = ("--sets", 20, "--simulations", 200, "--epochs", 1, "--device", "cpu", "--cache", tmp_path / "cache")
    found = run("train", ring, "--out", model, *options, "--json")
    assert found.exit_code == 0, found.output
    result = json.loads(found.stdout)
    assert result["epoch"] == 1
    assert 1 <= result["stacked"] <= 10
    chosen = run("maximize", ring, "-k", 3, "--model", model, "--device", "cpu")
    assert chosen.exit_code == 0, chosen.output
    assert "3 seeds by model" in chosen.stdout
    assert list((tmp_path / "cache").glob("*/uniform-00000.npz"))


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("a b 2\n", ("maximize", "GRAPH", "-k", 1), "graph.txt, line 1: the probability must lie in [0, 1], got 2"),
        ("a b 1\na b 1\n", ("maximize", "GRAPH", "-k", 1), "line 2: the edge a b is already in line 1"),
        ("", ("maximize", "GRAPH", "-k", 1), "the graph has no nodes"),
        ("a b 1\n", ("maximize", "GRAPH", "-k", 3), "-k must lie in [1, 2], the number of nodes, got 3"),
        ("a b 1\n", ("simulate", "GRAPH", "--seeds", "SEEDS"), "seeds.txt, line 2: there is no node 'x'"),
        ("a b 1\n", ("simulate", "GRAPH", "--seeds", "GONE"), "does not exist"),
        ("a b 1\n", ("maximize", "GRAPH", "-k", 0), "-k"),
        ("a b 1\n", ("maximize", "GRAPH", "--model", "SEEDS"), "this is not a model"),
        ("a b 1\n", ("maximize", "GRAPH", "--model", "SEEDS", "--method", "degree"), "not both"),
        ("a b 1\n", ("train", "GRAPH", "--out", "NOWHERE"), "--out: there is no folder"),
        ("a b 1\n", ("maximize", "GRAPH", "-k", 1, "--out", "NOWHERE"), "--out: there is no folder"),
        ("a b 1\n", ("simulate", "GRAPH", "--seeds", "SEEDS", "--out", "NOWHERE"), "--out: there is no folder"),
    ],
)
def test_mistakes(tmp_path, content, arguments, message):
    (tmp_path / "graph.txt").write_text(content)
    (tmp_path / "seeds.txt").write_text("a\nx\n")
    names = {"GRAPH": "graph.txt", "SEEDS": "seeds.txt", "GONE": "gone.txt", "NOWHERE": "no/where.safetensors"}
    found = run(*(tmp_path / names[a] if a in names else a for a in arguments))
    assert found.exit_code == 2
    assert message in " ".join(found.output.split())


@pytest.mark.parametrize("command", ["simulate", "maximize"])
def test_a_full_disk_loses_neither_result_nor_file(graph, tmp_path, monkeypatch, command):
    def full(descriptor, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    out = tmp_path / "out.txt"
    out.write_text("old")
    monkeypatch.setattr("gnpool.store.files.os.write", full)
    options = ("--seeds", tmp_path / "seeds.txt") if command == "simulate" else ("-k", 2)
    found = run(command, graph, *options, "--out", out, "--device", "cpu")
    assert found.exit_code == 1
    assert found.stderr == f"Error: {out}: No space left on device\n"
    assert "influence " in found.stdout
    assert ("seeds: ann, cid" in found.stdout) == (command == "maximize")
    assert out.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["graph.txt", "out.txt", "seeds.txt"]


def test_progress_where_nobody_watches(graph, tmp_path, monkeypatch):
    monkeypatch.setattr("gnpool.cli.inputs.SECONDS", -1.0)
    found = run("simulate", graph, "--seeds", tmp_path / "seeds.txt", "--runs", 100, "--device", "cpu")
    assert found.stderr.splitlines()[-1] == "100 %  cascades: 100 of 100"


def test_repeated_edges_can_be_combined(tmp_path):
    (tmp_path / "graph.txt").write_text("a b 1\na b 1\n")
    found = run("maximize", tmp_path / "graph.txt", "-k", 1, "--duplicates", "combine", "--device", "cpu")
    assert found.exit_code == 0
    assert "1 edges (1 repeated ones combined)" in found.stdout
    assert "influence 2.00" in found.stdout


@pytest.mark.parametrize("command", ["simulate", "maximize", "train"])
def test_help_has_an_example(command):
    found = run(command, "--help")
    assert found.exit_code == 0
    assert f"Example: gnpool influence {command}" in " ".join(found.stdout.split())
