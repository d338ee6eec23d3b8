"""On a cluster (a stand-in for Ray), simulations are cut into parts that do not depend on the workers."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from gnpool.cli import app
from gnpool.engine import opened as opened_module
from gnpool.influence import CascadeGraph, make_labels, simulate
from gnpool.influence import labels as labels_module
from gnpool.influence.cascades import PART, WORD
from tests.engine.standin import standing_in


@pytest.fixture(scope="module")
def graph() -> CascadeGraph:
    rng = np.random.default_rng(1)
    target, source = (~np.eye(60, dtype=bool) & (rng.random((60, 60)) < 0.08)).nonzero()
    return CascadeGraph(60, source, target, rng.uniform(0.05, 0.4, len(source)))


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize(("workers", "losses"), [(1, 0), (3, 2)])
@pytest.mark.parametrize("runs", [1, PART * WORD, 2 * PART * WORD + 100])
def test_cascades_are_the_same(graph: CascadeGraph, runs: int, workers: int, losses: int, paired: bool) -> None:
    sets = [[0, 5], [], [17]]
    options: dict[str, Any] = {"seed": 7, "record": True, "max_steps": 3, "paired": paired}
    told: list[tuple[int, int]] = []
    with standing_in(workers, losses) as (engine, ray):
        there = simulate(graph, sets, runs, engine=engine, progress=lambda *now: told.append(now), **options)
        assert len(ray.started) == -(-runs // (PART * WORD)) + losses
        plain = simulate(graph, sets, runs, seed=7, paired=paired, engine=engine)
    here = simulate(graph, sets, runs, **options)
    for found in (there, plain):
        assert torch.equal(found.influence, here.influence)
        assert torch.equal(found.standard_error.nan_to_num(-1), here.standard_error.nan_to_num(-1))
    assert there.steps is not None
    assert here.steps is not None
    assert all(torch.equal(a, b) for a, b in zip(there.steps, here.steps, strict=True))
    assert told[-1] == (3 * runs, 3 * runs)


def test_labels_are_the_same_and_kept_as_they_come(
    graph: CascadeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labels_module, "CHUNK", 4)
    here = make_labels(graph, sets=10, runs=80)
    told: list[tuple[int, int]] = []
    with standing_in(losses=1) as (engine, ray):
        make_labels(graph, sets=5, runs=80, folder=tmp_path, engine=engine)
        assert len(ray.started) == 4 + 1
        there = make_labels(
            graph, sets=10, runs=80, folder=tmp_path, engine=engine, progress=lambda *now: told.append(now)
        )
        assert len(ray.started) == 6 + 1  # what the folder had was not simulated again
    for name in ("table", "first", "pairs", "last"):
        assert torch.equal(getattr(there, name), getattr(here, name)), name
    assert there.kinds == here.kinds
    assert told[-1] == (20, 20)


def test_commands_give_the_same_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "graph.txt"
    rng = np.random.default_rng(2)
    ends = {(int(a), int(b)) for a, b in rng.integers(0, 60, (300, 2)) if a != b}
    file.write_text("".join(f"{a} {b} {rng.uniform(0.1, 0.5):.3f}\n" for a, b in sorted(ends)))
    (tmp_path / "seeds.txt").write_text("1\n7\n")
    small = ("--sets", "5", "--simulations", "60", "--epochs", "1")
    commands = [
        ("simulate", str(file), "--seeds", str(tmp_path / "seeds.txt"), "--runs", "9000"),
        ("maximize", str(file), "-k", "2", "--sample", "64", "--runs", "5000"),
        ("train", str(file), "--out", str(tmp_path / "model.safetensors"), *small),
    ]

    def answer(command: tuple[str, ...], *more: str) -> dict[str, Any]:
        done = CliRunner().invoke(app, ["influence", *command, "--device", "cpu", "--json", *more])
        assert done.exit_code == 0, done.output
        return {name: value for name, value in json.loads(done.stdout).items() if name != "seconds"}

    here = [answer(command) for command in commands]
    with standing_in() as (engine, ray):
        monkeypatch.setattr(opened_module, "ray_cluster", lambda *given: nullcontext(engine))
        there = [answer(command, "--engine", "ray", "--address", "somewhere") for command in commands]
        assert sorted(set(ray.started)) == ["chunk_unit", "spread_unit"]
    assert there == here
    wrong = CliRunner().invoke(app, ["influence", *commands[0], "--address", "somewhere"])
    assert wrong.exit_code == 2
    assert "--address" in wrong.stderr
    assert "--engine ray" in wrong.stderr
