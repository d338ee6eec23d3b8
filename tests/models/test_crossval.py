"""Folds side by side train as each would alone, end separately, and continue where they stopped."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import erdos_renyi_graph, to_undirected

from gnpool.engine import StoppedError
from gnpool.models.stacked import crossval
from gnpool.models.stacked.crossval import FoldStack, Method, train_stack
from gnpool.models.stacked.folds import Fold, split
from gnpool.models.stacked.graph_bank import GraphBank
from gnpool.training import Setting

RUNS = [Fold(8971, 0), Fold(8971, 3), Fold(85688, 7)]
CPU = torch.device("cpu")


def dataset(count: int = 40) -> list[Data]:
    """Sparse and dense graphs, told apart by their class."""
    torch.manual_seed(0)
    graphs = []
    for k in range(count):
        n = 4 + k % 7
        edges = to_undirected(erdos_renyi_graph(n, 0.25 if k % 2 else 0.9), num_nodes=n)
        graphs.append(Data(x=torch.eye(3)[torch.arange(n) % 3], edge_index=edges, y=torch.tensor([k % 2])))
    return graphs


def method(net: str = "sag", pooling: str = "original", **options: Any) -> Method:
    gnp = {"lr_p": 1e-2, "lr_q": 2e-2} if pooling == "gnp" else {}
    network = {"pooling": pooling, "hidden": 8, "dropout": 0.3}
    if net == "asap":
        network["attention_dropout"] = 0.2
    defaults = {"batch_size": 8, "epochs": 3, "select": "loss", "gnp_clip": 1000.0 if pooling == "gnp" else None}
    setting = Setting(lr=1e-2, optimizer="adam", weight_decay=1e-4, **gnp)
    return Method(net, network, setting, **{**defaults, **options})


def described(scores: list[Any]) -> list[dict[str, Any]]:
    return [score.to_dict() for score in scores]


def close(a: dict[str, Any], b: dict[str, Any]) -> None:
    assert (a["epochs"], a["epoch"], a["correct"], a["tested"]) == (b["epochs"], b["epoch"], b["correct"], b["tested"])
    assert a["val_loss"] == pytest.approx(b["val_loss"], rel=1e-4)
    assert a["exponents"] == pytest.approx(b["exponents"], abs=2e-3)  # Adam enlarges the rounding of tiny gradients


@pytest.mark.parametrize("net", ["sag", "asap"])
@pytest.mark.parametrize("pooling", ["original", "gnp"])
def test_a_run_in_a_stack_is_the_run_alone(net: str, pooling: str) -> None:
    bank = GraphBank(dataset(), CPU)
    together = described(train_stack(bank, method(net, pooling), RUNS))
    for run, score in zip(RUNS, together, strict=True):
        (alone,) = described(train_stack(bank, method(net, pooling), [run]))
        close(score, alone)


def test_it_learns() -> None:
    bank = GraphBank(dataset(120), CPU)
    scores = train_stack(bank, method(epochs=25, batch_size=16), RUNS)
    assert all(score.correct / score.tested > 0.7 for score in scores)


def scripted(monkeypatch: pytest.MonkeyPatch, losses: list[list[float]]) -> FoldStack:
    """A stack whose validation losses, by epoch and run, are given."""
    stack = FoldStack(GraphBank(dataset(), CPU), method(epochs=len(losses), patience=2), RUNS)
    steps = iter(losses)

    def evaluate(flat: torch.Tensor, graphs: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
        values = torch.tensor(next(steps), dtype=torch.float64)[torch.from_numpy(stack.active)]
        return values, torch.zeros_like(values)

    monkeypatch.setattr(stack, "_evaluate", evaluate)
    monkeypatch.setattr(stack, "_step", lambda ids, there, number: stack.flat.add_(1.0))
    return stack


def test_patience_counts_for_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    start = [5.0, 5.0, 5.0]
    losses = [start, [6, 4, 6], [6, 6, 4], [6, 6, 6], [6, 3, 6], [6, 6, 6], [6, 2, 1], [6, 6, 6], [6, 6, 6], [1, 1, 1]]
    stack = scripted(monkeypatch, losses)
    while not stack.done:
        stack.train_epoch()
    # Stopped when the count of epochs without a gain exceeds 2; what came later does not count.
    assert [score.epochs for score in stack.scores] == [4, 10, 6]
    assert [score.epoch for score in stack.scores] == [0, 9, 2]
    assert [score.val_loss for score in stack.scores] == [5.0, 1.0, 4.0]


def test_a_stack_can_be_kept_from_becoming_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    bank, plan = GraphBank(dataset(), CPU), method(epochs=30, patience=0)
    sizes: dict[int, set[int]] = {}
    found: dict[int, list[dict[str, Any]]] = {}
    for least in (1, 2):
        monkeypatch.setattr(crossval, "LEAST", {"cpu": least})
        seen = sizes.setdefault(least, set())
        found[least] = described(train_stack(bank, plan, RUNS, progress=lambda _, active, seen=seen: seen.add(active)))
    assert len({score["epochs"] for score in found[1]}) > 1  # they end one by one
    assert (min(sizes[1] - {0}), min(sizes[2] - {0})) == (1, 2)
    for a, b in zip(found[1], found[2], strict=True):
        close(a, b)


def test_the_weights_of_the_best_epoch_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = scripted(monkeypatch, [[3.0, 1.0, 3.0], [2.0, 2.0, 3.0], [9.0, 3.0, 1.0]])
    before = stack.flat.clone()
    steps = math.ceil(32 / 8)
    while not stack.done:
        stack.train_epoch()
    torch.testing.assert_close(stack.best - before, torch.tensor([2.0, 1.0, 3.0])[:, None].expand_as(before) * steps)


def test_the_first_epoch_of_the_highest_accuracy_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = FoldStack(GraphBank(dataset(), CPU), method(epochs=4, select="accuracy"), RUNS[:1])
    rights = iter([1.0, 3.0, 3.0, 2.0])

    def evaluate(flat: torch.Tensor, graphs: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.zeros(1, dtype=torch.float64), torch.tensor([next(rights)], dtype=torch.float64)

    monkeypatch.setattr(stack, "_evaluate", evaluate)
    while not stack.done:
        stack.train_epoch()
    assert (stack.scores[0].epoch, stack.scores[0].val_accuracy) == (1, 0.75)


def test_rates_are_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = FoldStack(GraphBank(dataset(), CPU), method(epochs=5, halve=2), RUNS[:1])
    scales = []
    monkeypatch.setattr(stack, "_step", lambda *_: scales.append(float(stack.optimizer.scale)))
    while not stack.done:
        stack.train_epoch()
    assert scales[:: math.ceil(32 / 8)] == [1.0, 1.0, 0.5, 0.5, 0.25]


def test_original_and_variant_have_the_same_folds_and_batches() -> None:
    bank = GraphBank(dataset(), CPU)
    first, second = (FoldStack(bank, method(pooling=pooling), RUNS) for pooling in ("original", "gnp"))
    for a, b, run in zip(first.splits, second.splits, RUNS, strict=True):
        assert [part.tolist() for part in a] == [part.tolist() for part in b]
        assert a.test.tolist() == split(40, run).test.tolist()
    assert first.seeds.tolist() == second.seeds.tolist()


def test_gradients_of_gnp_alone_are_clipped(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[torch.Tensor] = []
    for clip in (None, 1e-3):
        stack = FoldStack(GraphBank(dataset(), CPU), method(pooling="gnp", gnp_clip=clip), RUNS[:2])
        monkeypatch.setattr(stack.optimizer, "step", lambda flat, gradient, norm, alive: seen.append(gradient.clone()))
        ids = np.stack([s.train[:8] for s in stack.splits])
        stack.module.train()
        stack._step(ids, torch.from_numpy(ids), 0)
    free, clipped = seen
    of_gnp = stack.of_gnp
    assert bool((free[:, of_gnp].norm(dim=1) > 1e-3).all())
    torch.testing.assert_close(clipped[:, of_gnp].norm(dim=1), torch.full((2,), 1e-3), rtol=2e-3, atol=0.0)
    torch.testing.assert_close(clipped[:, ~of_gnp], free[:, ~of_gnp])
    names = [name for name, p in stack.parameters.trained.items() for _ in range(p.numel())]
    assert {name.split(".")[-2] for name, mine in zip(names, of_gnp.tolist(), strict=True) if mine} == {"aggr", "mix"}


@pytest.mark.parametrize("pooling", ["original", "gnp"])
def test_an_interrupted_stack_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pooling: str) -> None:
    monkeypatch.setattr(crossval, "CHECKPOINT_SECONDS", 0.0)
    bank, plan = GraphBank(dataset(), CPU), method(pooling=pooling, epochs=6, patience=0)
    expected = described(train_stack(bank, plan, RUNS))

    def interrupt(epoch: int, active: int) -> None:
        if epoch == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_stack(bank, plan, RUNS, checkpoint=tmp_path, progress=interrupt)
    (path,) = tmp_path.iterdir()
    epochs: list[int] = []
    again = train_stack(bank, plan, RUNS, checkpoint=tmp_path, progress=lambda epoch, _: epochs.append(epoch))
    assert epochs[0] == 4  # the third was the last that was saved
    assert described(again) == expected
    assert path.exists()


HARMS = {
    "a run that is not there": lambda found: found["active"].fill_(99),
    "a run twice": lambda found: found["active"].fill_(0),
    "no runs": lambda found: found.update(active=torch.tensor(0)),
    "another shape": lambda found: found.update(flat=torch.zeros(2, 3)),
    "no scores": lambda found: found.pop("scores"),
    "other numbers": lambda found: found.update(epoch=torch.tensor(1.0)),
    "an epoch beyond the end": lambda found: found["epoch"].fill_(99),
    "half an epoch": lambda found: found["scores"][0, 0].fill_(0.5),
    "epochs that are no number": lambda found: found["scores"][0, 1].fill_(math.nan),
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_checkpoint_that_cannot_be_is_set_aside(tmp_path: Path, harm: str) -> None:
    bank, plan = GraphBank(dataset(), CPU), method(epochs=5)
    stack = FoldStack(bank, plan, RUNS)
    state = {name: value.clone() for name, value in crossval._state(stack).items()}
    crossval._check(stack, state)
    HARMS[harm](state)
    path = tmp_path / "stack.safetensors"
    crossval.write_checkpoint(path, state, "study")
    with pytest.warns(UserWarning, match=r"is damaged .*stack.safetensors.damaged"):
        crossval._restore(stack, path, "study")
    assert stack.epoch == 0


@pytest.mark.parametrize("epoch", [0, 3])
def test_a_stack_that_is_stopped_keeps_whole_epochs(tmp_path: Path, epoch: int) -> None:
    bank, plan = GraphBank(dataset(), CPU), method(pooling="gnp", epochs=5)
    expected = described(train_stack(bank, plan, RUNS))
    steps = iter(range(4 * epoch + 2))  # of four in an epoch

    def stop() -> None:
        if next(steps, None) is None:
            raise StoppedError

    with pytest.raises(StoppedError):
        train_stack(bank, plan, RUNS, checkpoint=tmp_path, check=stop)
    assert len(list(tmp_path.iterdir())) == min(epoch, 1)  # nothing is kept of nothing
    epochs: list[int] = []
    again = train_stack(bank, plan, RUNS, checkpoint=tmp_path, progress=lambda epoch, _: epochs.append(epoch))
    assert epochs[0] == epoch + 1
    assert described(again) == expected


def test_a_run_that_diverges_fails_alone() -> None:
    bank = GraphBank(dataset(), CPU)
    stack = FoldStack(bank, method(), RUNS)
    with torch.no_grad():
        stack.flat[1] = math.nan
    while not stack.done:
        stack.train_epoch()
    scores = described(stack.finish())
    assert [score["failed"] for score in scores] == [None, "diverged in epoch 0", None]
    assert scores[1]["accuracy"] is None
    (alone,) = described(train_stack(bank, method(), RUNS[:1]))
    close(scores[0], alone)


def test_batches_of_a_bank_are_the_graphs() -> None:
    graphs = dataset(9)
    stack = GraphBank(graphs, CPU).stack(np.array([[4, 0, -1], [8, 3, 5]]))
    assert stack.real.tolist() == [[True, True, False], [True, True, True]]
    assert stack.y[stack.real].tolist() == [0, 0, 0, 1, 1]
    row = 0
    for r, ids in enumerate([[4, 0], [8, 3, 5]]):
        at = r * stack.graphs.width
        for k in ids:
            n = graphs[k].num_nodes
            torch.testing.assert_close(stack.x.flatten(0, 1)[at : at + n], graphs[k].x)
            inside = (stack.edges.row >= at) & (stack.edges.row < at + n)
            pairs = {tuple(p) for p in torch.stack([stack.edges.col, stack.edges.row])[:, inside].T.sub(at).tolist()}
            assert pairs == {tuple(p) for p in graphs[k].edge_index.T.tolist()} | {(v, v) for v in range(n)}
            at, row = at + n, row + n
    assert stack.graphs.total == row
    with pytest.raises(ValueError, match="'graphs' is empty"):
        GraphBank([], CPU)
    with pytest.raises(ValueError, match="must have node features 'x'"):
        GraphBank([Data(edge_index=torch.empty(2, 0, dtype=torch.long), y=torch.tensor([0]), num_nodes=2)], CPU)


def test_everything_about_a_method_is_in_its_description() -> None:
    plain = method()
    assert plain.to_dict()["setting"]["lr"] == 1e-2
    assert plain.to_dict() != dataclasses.replace(plain, patience=7).to_dict()
