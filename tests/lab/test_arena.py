"""The tables of the arena: choices, scores, paired comparisons, and a small run."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from gnpool.lab import Scope, reproduce
from gnpool.lab.arena import TABLES, bouts, results
from gnpool.lab.arena.contenders import Contender, pair
from gnpool.lab.arena.motif import OURS, PAPER
from gnpool.lab.arena.multitask import of_each_graph
from gnpool.lab.arena.tables import CONTESTS, here
from gnpool.lab.arena.tu import Weighted
from gnpool.store import Store
from gnpool.tasks import CrossEntropy, mcc
from gnpool.tasks.arena import multitask_errors, pointer_accuracy
from gnpool.training import Batches

NCI1 = CONTESTS["tu_size/NCI1"]


def test_every_contender_of_a_preset_has_as_many_runs() -> None:
    for contest in CONTESTS.values():
        for amount in contest.amounts.values():
            counts = [amount.copies(one) * len(amount.settings(one)) for one in amount.contenders]
            assert set(counts) == {amount.runs_each}
            names = [one.name for one in amount.contenders]
            assert len(set(names)) == len(names)
            assert contest.erm in names or contest.benchmark == "tu_size"


def test_columns_that_are_published_are_in_the_published_table() -> None:
    for name, table in TABLES.items():
        for contest in table.contests:
            assert set(contest.published) <= {column.name for column in contest.columns}
            assert contest.benchmark == name


def test_the_score_of_a_confusion_is_mcc() -> None:
    torch.manual_seed(0)
    scores, batch = torch.randn(40, 2), SimpleNamespace(y=torch.randint(0, 2, (40,)))
    means = NCI1.features(scores, batch).double().mean(0)
    assert NCI1.score(means).item() == pytest.approx(mcc(scores.double(), Data(y=batch.y))[0].item())
    assert NCI1.score(torch.tensor([0.6, 0.0, 0.4, 0.0])).item() == 0.0  # always the same class
    assert math.isnan(NCI1.score(torch.full((4,), math.nan)).item())


def test_the_weighted_loss_is_that_of_the_tasks() -> None:
    torch.manual_seed(0)
    scores, y = torch.randn(6, 2), torch.tensor([0, 1, 1, 0, 0, 1])
    for batch in (Data(y=y), Data(y=y, weight=torch.tensor([1.0, 1, 1, 1, 0, 0]))):
        torch.testing.assert_close(
            Weighted(1 / 0.75, 1 / 0.25)(scores, batch), CrossEntropy((0.75, 0.25))(scores, batch)
        )


def test_errors_of_each_graph_have_the_mean_of_the_benchmark() -> None:
    graphs = CONTESTS["pna_multitask"].drawn("val", 20, 0)[::5]  # of as many nodes each
    (batch,) = Batches(graphs, 4, seed=None)
    torch.manual_seed(0)
    prediction = torch.randn(batch.x.size(0) + 4, 3, dtype=torch.float64)
    nodes, of_graphs = prediction.split([batch.x.size(0), 4])
    torch.testing.assert_close(of_each_graph(prediction, batch).mean(0), multitask_errors(nodes, of_graphs, batch))


def test_node_accuracy_is_that_of_each_graph() -> None:
    contest = CONTESTS["salsa_bfs"]
    graphs = contest.drawn("val", 3, 0)
    (batch,) = Batches(graphs, 3, seed=None, sorted_edges=True)
    torch.manual_seed(0)
    prediction = torch.randn(batch.y.numel())
    found = contest.features(prediction, batch)
    assert found.shape == (3, 1)
    right = pointer_accuracy(prediction, batch)
    assert found.mean().item() == pytest.approx(float(right[batch.y > 0].sum()) / 48)  # 16 nodes each
    best = torch.where(batch.y > 0, 1.0, 0.0)
    assert contest.features(best, batch).tolist() == [[1.0]] * 3


def test_the_lowest_error_of_each_choice_counts() -> None:
    def run(seed: int, number: int, value: float | None) -> Any:
        best = {} if value is None else {"inside": SimpleNamespace(value=value, epoch=0)}
        return SimpleNamespace(seed=seed, number=number, best=best)

    runs = [run(0, 0, 0.4), run(1, 1, 0.3), run(2, 2, 0.2), run(3, 3, None), run(4, 4, None), run(5, 5, None)]
    chosen = bouts.choices(SimpleNamespace(runs=runs), "inside", copies=2)  # type: ignore[arg-type]
    assert [None if one is None else one.number for one in chosen] == [1, 2, None]


def test_a_rule_sees_its_own_validation_graphs() -> None:
    contest = CONTESTS["good_motif_size"]
    arena = contest.arena(contest.amounts["smoke"], 0)
    (batch,) = contest.validation(bouts.marked(arena, contest))
    scores = torch.nn.functional.one_hot(batch.y, 3).float()
    scores[20:] = -scores[20:]  # all wrong among the second 20
    found = {rule: error(scores, batch).mean().item() for rule, error in bouts.criteria(arena, contest).items()}
    assert found == {"shifted": 0.0, "inside": 1.0}


def test_rates_fall() -> None:
    assert [bouts.falling(16, epoch) for epoch in (0, 11, 12, 13, 14, 15)] == [1.0, 1.0, 0.1, 0.1, 0.01, 0.01]


def test_half_of_the_lessons_are_disturbed() -> None:
    graphs = CONTESTS["good_motif_basis"].drawn("train", 40, 0)
    found = OURS.lessons(graphs)
    assert all(one is other for one, other in zip(found[::2], graphs[::2], strict=True))
    nodes, edges = (
        [sum(int(getattr(one, what)) for one in part) for part in (found[1::2], graphs[1::2])]
        for what in ("num_nodes", "num_edges")
    )
    assert 0.7 * nodes[1] < nodes[0] < nodes[1]
    assert edges[0] != edges[1]
    assert [int(one.y) for one in found] == [int(one.y) for one in graphs]
    assert pair("sum", "mean").lessons(graphs) is graphs


def test_paired_differences_use_the_same_graphs() -> None:
    contest = CONTESTS["good_motif_size"]
    torch.manual_seed(0)
    hard = (torch.rand(1, 200, 1) < 0.5).float()
    one = hard.expand(3, 200, 1).clone()
    other = one.clone()
    other[:, :20] = 1.0  # at least as good on every graph
    assert torch.equal(results._resampled(contest, one), results._resampled(contest, one.clone()))
    gap = results._resampled(contest, other) - results._resampled(contest, one)
    assert gap.min() >= 0.0
    alone = results._resampled(contest, one)
    assert alone.std().item() == pytest.approx(100 * math.sqrt(hard.mean() * (1 - hard.mean()) / 200), rel=0.1)
    dead = one.clone()
    dead[0] = math.nan  # a seed without a model is left out
    left = results._resampled(contest, dead)
    torch.testing.assert_close(left[~left.isnan()], alone[~left.isnan()])
    assert left.isnan().double().mean() < 0.1  # 1 in 27: none of the other two was drawn


def test_an_inner_contest_chooses() -> None:
    contest = CONTESTS["tu_size/NCI1 inner"]
    amount = contest.amounts["smoke"]

    def record(right: float) -> Any:
        means = torch.tensor([right, 0.5 - right, 0.5 - right, right])
        return SimpleNamespace(tensors={"inside/test": means.expand(2, 10, 4)})

    names = [one.name for one in amount.contenders]
    judges = {names[0]: record(0.3), names[1]: record(0.4)}
    assert results.chosen_by(contest, judges, amount) == names[1]
    assert results.chosen_by(contest, {names[0]: record(0.3)}, amount) is None  # one has not run


def test_a_small_run(tmp_path: Path) -> None:
    (table,) = reproduce(["good_motif_size"], tmp_path, preset="smoke", jobs=1, device="cpu")["tables"]
    ours = {(cell["row"], cell["column"]): cell for cell in table["cells"] if cell["ours"] is not None}
    assert len(ours) == 9
    for cell in ours.values():
        assert all((run / 5).is_integer() and 0 <= run <= 100 for run in cell["ours"]["runs"])  # of 20 graphs
        assert cell["interval"][0] <= cell["ours"]["mean"] <= cell["interval"][1]
    assert ours["sum/mean", "covariate"]["paper"] == {"mean": 53.46, "std": 4.08}
    published = [cell for cell in table["cells"] if cell["row"] == "GSAT (published)"]
    assert [cell["paper"]["mean"] for cell in published] == [60.76]
    assert {(one["first"], one["second"]) for one in table["pairs"]} == {
        ("sum/mean", "GNP"),
        ("sum/mean", "GNP, rewired graphs"),
    }
    record = next(iter(Store(tmp_path).records("arena", tensors=True)))
    assert record.tensors is not None
    assert record.tensors["shifted/test"].shape == (2, 20, 1)
    found = TABLES["good_motif_size"].results(Scope("smoke"), Store(tmp_path))
    assert found["cells"] == table["cells"]


def test_another_number_of_seeds_is_another_amount() -> None:
    (bout, *_) = TABLES["good_motif_size"]._bouts(Scope("smoke"))
    (fewer, *_) = TABLES["good_motif_size"]._bouts(Scope("smoke", seeds=1))
    assert bout.key != fewer.key
    other = replace(bout, contender=replace(bout.contender, disturbed=(("nodes", 0.1),)))
    assert bout.key != other.key


def test_sets_that_are_not_here_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gnpool.lab.arena.tables.at_hand", lambda name: name == "DD")
    assert [contest.id for contest in TABLES["tu_size"].contests if here(contest)] == ["tu_size/DD"]
    assert TABLES["tu_size"].at_hand()


def test_who_is_fixed() -> None:
    assert [one.name for one in PAPER if one.fixed] == ["sum/mean", "sum/max", "sum/max, rewired graphs", "sum/sum"]
    assert Contender("x", "max", "gnpg").gnp
    assert not Contender("x", "pna", "mean").fixed
