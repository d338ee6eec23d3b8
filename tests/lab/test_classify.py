"""Tables of graph classification and of real graphs train, store and show the right things."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
from pathlib import Path
from typing import Any

import pytest
import torch

from gnpool.influence.collection import read_graph
from gnpool.lab import PRESETS, Runner, Scope, all_tables, find_table, reproduce
from gnpool.lab.classification import TABLES
from gnpool.lab.classification import jobs as runner_module
from gnpool.lab.classification.jobs import some, stack_jobs
from gnpool.lab.classification.methods import AMOUNTS, Amount, Trial, amount_of
from gnpool.lab.classification.results import paired, part, summary, t_quantile
from gnpool.lab.paper import paper_cells
from gnpool.lab.real.graphs import COUNTS, REAL, RealExam, by_size
from gnpool.lab.real.tables import StatisticsTable, with_best
from gnpool.lab.recipes import Exam
from gnpool.lab.recipes.models import graph_gnp
from gnpool.lab.table import Machine
from gnpool.models.stacked.folds import FOLDS, SEEDS, Fold
from gnpool.report import pair_lines
from gnpool.store import Store
from gnpool.tasks import get_task
from gnpool.tasks.real_graphs import real_dataset, real_graphs
from tests.models.test_crossval import dataset
from tests.real_data import use_real_data

TINY = Amount("smoke", seeds=2, folds=2, graphs=40, epochs=2)
CPU = torch.device("cpu")


@pytest.fixture
def small_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace every data set by a small made-up one."""
    graphs = dataset(40)  # here, since torch's random numbers are those of all threads
    monkeypatch.setattr(runner_module, "tudataset", lambda name: graphs)


def run(folder: Path, amount: Amount = TINY, **options: Any) -> Store:
    store = Store(folder)
    jobs = stack_jobs(TABLES["graphcl_a"].wanted(amount), amount, store, "cpu")
    Runner(store, CPU, **options).run(jobs)
    return store


def scores(store: Store) -> dict[str, Any]:
    return {json.dumps(record.key, sort_keys=True): record.scores for record in store.records("classification")}


@pytest.mark.parametrize("name", ["graphcl_a", "graphcl_b", "real_stat", "real_extrapolate", "real_baselines"])
def test_every_published_cell_has_a_place(name: str) -> None:
    table = find_table(name)
    places = {(cell.row, cell.column) for cell in table.cells}
    if name == "real_baselines":
        assert len(places) == 3 * 19 * 3
        assert {c["row"] for c in with_best([], paper_cells(name))} == {row for row, _ in paper_cells(name)}
    else:
        assert set(paper_cells(name)) <= places
    assert set(table.data()) == set(REAL)


def test_methods_are_those_of_the_papers() -> None:
    whole = AMOUNTS["paper"]
    sag = Trial("SAGPool", "with GNP", "PROTEINS").method(whole)
    assert (sag.batch_size, sag.setting.lr, sag.setting.weight_decay, sag.patience) == (128, 5e-4, 1e-4, 50)
    assert sag.setting.lr_p == pytest.approx(20 * 5e-4)
    assert (sag.gnp_clip, sag.select, sag.setting.optimizer) == (1000.0, "loss", "adam")
    original = Trial("SAGPool", "original", "PROTEINS").method(whole)
    assert (original.gnp_clip, original.setting.lr_p) == (None, None)
    asap = Trial("ASAPool", "with GNP, RMSprop", "D&D").method(whole)
    assert (asap.batch_size, asap.options["hidden"], asap.options["attention_dropout"]) == (64, 16, 0.3)
    assert (asap.setting.lr, asap.setting.lr_p, asap.setting.lr_q, asap.halve) == (1e-2, 3e-2, 3e-3, 50)
    assert (asap.epochs, asap.select, asap.setting.optimizer, asap.patience) == (100, "accuracy", "rmsprop", None)


def test_amounts() -> None:
    assert len(AMOUNTS["paper"].runs) == 200
    assert AMOUNTS["paper"].notes == ""
    three = amount_of(Scope("paper", seeds=3))
    assert [r.seed for r in three.runs[::FOLDS]] == list(SEEDS[:3])
    assert three.notes == "paper: 3 of 20 seeds"
    assert amount_of(Scope("smoke", folds=2)).runs == [Fold(SEEDS[0], 0), Fold(SEEDS[0], 1)]
    for options in ({"seeds": 21}, {"seeds": 0}, {"folds": 11}):
        with pytest.raises(ValueError, match=f"'{next(iter(options))}' must lie in 1 to"):
            amount_of(Scope("paper", **options))
    assert amount_of(Scope("paper", datasets=("NCI1",))).datasets == ("NCI1",)
    with pytest.raises(ValueError, match="'datasets' must be among D&D, PROTEINS, NCI1, got 'MUTAG'"):
        amount_of(Scope("paper", datasets=("MUTAG",)))
    study = Trial("SAGPool", "original", "NCI1")
    keys = [study.key(amount, Fold(8971, 0)) for amount in (AMOUNTS["paper"], three)]
    assert keys[0] == keys[1]  # a part of a study is found by the whole


def test_runs_are_stored_one_by_one_and_found_again(small_sets: None, tmp_path: Path) -> None:
    store = run(tmp_path, jobs=1)
    assert len(scores(store)) == 6 * 4
    keys = [record.key for record in store.records("classification")]
    assert set(keys[0]) == {"table", "dataset", "model", "preset", "seed", "fold"}
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("units/**/*.json")}
    run(tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("units/**/*.json")} == before
    assert not list(tmp_path.glob("checkpoints/*"))


def test_a_part_is_completed_by_what_is_missing(
    small_sets: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part_of_it = Amount("smoke", seeds=1, folds=1, graphs=40, epochs=2)
    first = scores(run(tmp_path / "a", part_of_it))
    trained: list[Fold] = []
    original = runner_module.train_stack

    def counting(bank: Any, method: Any, runs: list[Fold], **options: Any) -> Any:
        trained.extend(runs)
        return original(bank, method, runs, **options)

    monkeypatch.setattr(runner_module, "train_stack", counting)
    all_of_it = scores(run(tmp_path / "a", jobs=2))
    assert len(trained) == 6 * 3
    assert first.items() <= all_of_it.items()
    alone = scores(run(tmp_path / "b", jobs=1))
    assert alone.keys() == all_of_it.keys()
    for key, score in alone.items():
        assert all_of_it[key]["correct"] == score["correct"]
        assert all_of_it[key]["val_loss"] == pytest.approx(score["val_loss"], rel=1e-3)


def test_an_error_stops_all_and_keeps_what_is_finished(
    small_sets: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = runner_module.train_stack
    calls: list[int] = []

    def failing(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise OSError("the disk is full")
        return original(*arguments, **options)

    monkeypatch.setattr(runner_module, "train_stack", failing)
    with pytest.raises(OSError, match="the disk is full"):
        run(tmp_path, jobs=1)
    assert len(scores(Store(tmp_path))) == 2  # D&D, one run at a time
    monkeypatch.setattr(runner_module, "train_stack", original)
    assert len(scores(run(tmp_path))) == 24


def test_some_data_sets_alone(small_sets: None, tmp_path: Path) -> None:
    store = run(tmp_path, dataclasses.replace(TINY, datasets=("PROTEINS",), seeds=1, folds=1))
    assert {record.key["dataset"] for record in store.records("classification")} == {"PROTEINS"}


def test_events_end_with_everything_done(small_sets: None, tmp_path: Path) -> None:
    events: list[Any] = []
    run(tmp_path, on_event=events.append, jobs=2)
    finished = [event for event in events if event.finished]
    assert finished[-1].done == finished[-1].total == len(finished)
    assert finished[-1].overall == pytest.approx(1.0)


def test_results_of_a_part_say_so(small_sets: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gnpool.lab.table.at_hand", lambda name: True)
    (table,) = reproduce(["graphcl_a"], tmp_path, preset="smoke", folds=2, jobs=1)["tables"]
    assert json.loads((tmp_path / "results.json").read_text())["tables"] == [table]
    assert table["meta"]["notes"] == "smoke: 1 of 20 seeds, 2 of 10 folds, 60 graphs, at most 2 epochs"
    assert (table["meta"]["seeds"], table["meta"]["folds"]) == ([8971], 2)
    records = Store(tmp_path).records("classification")
    raw = {(r.key["model"], r.key["dataset"], r.key["fold"]): r.scores["accuracy"] for r in records}
    for cell in table["cells"]:
        values = [raw[cell["row"], cell["column"], fold] for fold in (0, 1)]
        assert cell["ours"]["mean"] == pytest.approx(statistics.fmean(values))
        assert cell["ours"]["std"] is None  # of one seed
        assert cell["part"] is None  # the notes say it of all
        assert cell["paper"] == paper_cells("graphcl_a")[cell["row"], cell["column"]]
        assert cell["gnp"] == ("GNP" in cell["row"])
        assert cell["setting"]["optimizer"] == "adam"
    for pair in table["pairs"]:
        one, two = ([raw[pair[row], pair["column"], fold] for fold in (0, 1)] for row in ("first", "second"))
        assert pair["difference"] == pytest.approx(statistics.fmean(b - a for a, b in zip(one, two, strict=True)))
        assert pair["pairs"] == 2


def test_seeds_and_folds_are_for_cross_validations(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'seeds' and 'folds' are for tables that are cross-validated"):
        reproduce(["ablation_b"], tmp_path, preset="smoke", seeds=1)
    with pytest.raises(ValueError, match="there is no table 'graphcl_c'"):
        reproduce(["graphcl_c"], tmp_path)


def test_mean_of_seed_means_and_their_deviation() -> None:
    accuracies = {Fold(1, 0): 0.5, Fold(1, 1): 0.7, Fold(2, 0): 0.8, Fold(2, 1): None, Fold(3, 0): None}
    found = summary(accuracies)
    assert found["runs"] == [pytest.approx(0.6), 0.8, None]
    assert found["mean"] == pytest.approx(0.7)
    assert found["std"] == pytest.approx(0.1)  # divided by the number of seeds, not by one less
    assert found["failed"] == 2
    assert part(accuracies, amount_of(Scope("paper"))) == "3 of 20 seeds, 2 of 10 folds, 5 runs"
    whole = amount_of(Scope("paper", seeds=1, folds=1))
    assert part(dict.fromkeys(whole.runs, 0.5), whole) is None


@pytest.mark.parametrize(
    ("freedom", "expected"), [(1, 12.706), (2, 4.303), (3, 3.182), (9, 2.262), (29, 2.045), (199, 1.972)]
)
def test_quantiles_of_students_distribution(freedom: int, expected: float) -> None:
    assert t_quantile(freedom) == pytest.approx(expected, rel=4e-3)


def test_paired_difference_and_interval() -> None:
    first = {Fold(1, fold): 0.6 + 0.01 * fold for fold in range(10)}
    second = {run: value + (0.02 if run.fold % 2 else 0.04) for run, value in first.items()}
    found = paired(first, {**second, Fold(9, 9): 0.1})
    assert found["pairs"] == 10
    assert found["difference"] == pytest.approx(0.03)
    half = 2.262 * statistics.stdev([0.02, 0.04] * 5) * math.sqrt(1 / 10 + 1 / 8)
    assert found["interval"] == pytest.approx([0.03 - half, 0.03 + half], rel=1e-3)
    text = pair_lines([{"first": "a", "second": "b", "column": "NCI1", **found}])
    assert text == ["NCI1: b minus a: +3.0 points, 95% interval +1.9 to +4.1 (10 paired runs)"]
    assert paired(first, {}) == {"difference": None, "interval": None, "pairs": 0}
    assert pair_lines([{"first": "a", "second": "b", "column": "c", **paired(first, {})}]) == []
    assert paired({Fold(1, 0): 0.5}, {Fold(1, 0): 0.25})["interval"] is None


def test_estimates_of_all_tables(small_sets: None, tmp_path: Path) -> None:
    found = {name: one.estimate(Scope("paper"), None, Machine("cuda")) for name, one in all_tables().items()}
    assert list(found) == list(all_tables())
    assert found["graphcl_a"].runs == 1200
    assert found["graphcl_a"].minutes == found["graphcl_a"].minutes_left > 0
    store = run(tmp_path, AMOUNTS["smoke"])
    done = TABLES["graphcl_a"].estimate(Scope("smoke"), store, Machine("cpu"))
    assert (done.done, done.cells_done, done.minutes_left) == (6, 6, 0.0)


def test_some_graphs_are_taken_evenly() -> None:
    assert some(list(range(10)), 4) == [0, 3, 6, 9]  # type: ignore[arg-type, comparison-overlap]
    assert some(list(range(3)), 4) == [0, 1, 2]  # type: ignore[arg-type, comparison-overlap]


# Real graphs


def cell(row: str, column: str, mean: float | None) -> dict[str, Any]:
    ours = None if mean is None else {"mean": mean, "std": 0.1}
    return {"row": row, "column": column, "ours": ours, "paper": None, "setting": {}}


def test_the_best_baselines_by_test_error() -> None:
    errors = {
        "invsize/sum,max": 120.0,
        "invsize/SortPooling": 99.0,
        "harmonic/sum,max": 70.0,
        "harmonic/max,max": None,
        "maxdegree/sum,max": 0.1,
        "maxdegree/Set2Set": 0.0,
        "maxdegree/sum,mean": 9.0,
        "maxdegree/sum,sum": 11.0,
    }
    cells = [{**cell(row, "D&D", mean), "form": "gin", "forms": {}} for row, mean in errors.items()]
    found = {(c["row"], c["column"]): c for c in with_best(cells, paper_cells("real_baselines"))}
    assert found["invsize (best combination)", "D&D"]["combination"] == "SortPooling"
    assert found["maxdegree (ideal combination)", "D&D"]["ours"]["mean"] == 0.1
    assert found["maxdegree (ideal combination)", "D&D"]["form"] == "gin"
    assert "forms" not in found["maxdegree (ideal combination)", "D&D"]  # whose verdicts are of another row
    assert found["maxdegree (2nd best combination)", "D&D"]["combination"] == "sum,mean"  # among the fixed ones
    assert found["invsize (best combination)", "NCI1"]["ours"] is None
    assert found["harmonic (best combination)", "D&D"]["ours"] is None  # one is still to be run
    assert found["invsize (best combination)", "D&D"]["paper"]["mean"] == 100.0
    assert len(found) == 4 * 3 + len(cells)


def test_results_of_baselines_name_the_papers_choice(tmp_path: Path) -> None:
    table = find_table("real_baselines")
    found = table.results(Scope("smoke"), Store(tmp_path))
    first = found["cells"][0]
    assert (first["row"], first["paper_combination"], first["verdict"]) == (
        "invsize (best combination)",
        "SortPooling",
        "not run",
    )


def test_exams_on_generated_graphs_keep_their_names() -> None:
    recipe = graph_gnp("harmonic")
    key = recipe.key(PRESETS["paper"], "all")
    assert Exam().key(key, PRESETS["paper"], recipe.spec)["exam"] == "er, 2500"
    assert RealExam(real="NCI1").key(key, PRESETS["paper"], recipe.spec)["exam"] == "NCI1, 3711"
    assert RealExam(real="NCI1").key(key, PRESETS["smoke"], recipe.spec)["exam"] == "NCI1, 9"


def test_lists_of_graphs_of_similar_size() -> None:
    graphs = sorted(dataset(30), key=lambda g: g.num_nodes)
    parts = list(by_size(graphs, 7, 400))
    assert [g for part_ in parts for g in part_] == graphs
    assert max(map(len, parts)) <= 7
    assert all(len(p) == 1 or len(p) * p[-1].num_nodes ** 2 <= 400 for p in parts)


@pytest.mark.parametrize("name", REAL)
def test_graphs_with_lonely_nodes_are_left_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use_real_data(monkeypatch)
    graphs = real_graphs(name)
    assert len(graphs) == COUNTS[name] == {"D&D": 1178, "PROTEINS": 1108, "NCI1": 3711}[name]
    task = get_task("harmonic")
    few = real_dataset(task, name, 5)
    assert [g.num_nodes for g in few] == sorted(g.num_nodes for g in few)
    degree = torch.bincount(few[2].edge_index[1]).double()
    assert few[2].y.item() == pytest.approx(1 / (1 / degree).sum().item())
    assert few[2].x.unique().tolist() == [1.0]


def test_real_graphs_have_labels_of_graph_tasks() -> None:
    with pytest.raises(ValueError, match="'bfs' is none"):
        real_dataset(get_task("bfs"), "NCI1")


def test_statistics_are_the_published_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_real_data(monkeypatch)
    table = find_table("real_stat")
    assert isinstance(table, StatisticsTable)
    (found,) = reproduce(["real_stat"], tmp_path, preset="smoke")["tables"]
    assert [c["verdict"] for c in found["cells"]] == ["matched"] * 9
    values = {(c["row"], c["column"]): c["ours"]["mean"] for c in found["cells"]}
    assert values["D&D", "average_nodes"] == pytest.approx(334925 / 1178)
    assert values["NCI1", "average_edges"] == pytest.approx(265506 / 2 / 4110)


def test_models_of_random_graphs_on_real_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_real_data(monkeypatch)
    (found,) = reproduce(["real_extrapolate"], tmp_path, preset="smoke", jobs=1)["tables"]
    assert all(len(c["ours"]["runs"]) == 2 for c in found["cells"])
    assert {c["row"].removesuffix("/GNP*") for c in found["cells"]} == {"invsize", "harmonic", "maxdegree"}


def test_an_offline_machine_says_so_before_it_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gnpool.lab.table.at_hand", lambda name: False)

    def offline(name: str) -> None:
        raise OSError(f"the data set {name!r} is not at hand")

    monkeypatch.setattr("gnpool.lab.table.tudataset", offline)
    monkeypatch.setenv("GNPOOL_DATA", str(tmp_path))
    read_graph.cache_clear()
    for name in ("graphcl_a", "real_extrapolate", "real_stat"):
        with pytest.raises(OSError, match="'D&D' is not at hand"):
            reproduce([name], tmp_path, preset="smoke")
    with pytest.raises(OSError, match="graphs of the influence study are not at hand"):
        reproduce(["im_monstor"], tmp_path, preset="smoke")
    assert not list(tmp_path.glob("units/**/*.json"))


@pytest.mark.parametrize("name", ["graphcl_a", "real_extrapolate", "im_monstor"])
def test_what_is_not_done_asks_for_no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("gnpool.lab.table.at_hand", lambda name: False)
    monkeypatch.setattr("gnpool.lab.table.tudataset", lambda name: pytest.fail(f"asks for {name}"))
    monkeypatch.setenv("GNPOOL_DATA", str(tmp_path))
    (found,) = reproduce([name], tmp_path, preset="smoke", train=False)["tables"]
    assert all(cell["ours"] is None for cell in found["cells"])
