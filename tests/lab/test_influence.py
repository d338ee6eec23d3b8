import os
from pathlib import Path

import pytest
import torch

from gnpool.influence.collection import read_graph
from gnpool.lab import Runner, Scope
from gnpool.lab.influence.amount import AMOUNTS, TARGETS, InfluenceAmount, amount_of
from gnpool.lab.influence.jobs import Choice, Lesson, influence_jobs, lessons
from gnpool.lab.influence.tables import IM_MONSTOR, difference
from gnpool.lab.table import Machine
from gnpool.store import Record, Store

DATA = Path(os.environ.get("GNPOOL_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")
needs_data = pytest.mark.skipif(
    not (DATA / "monstor" / "graphs.zip").is_file(), reason="GNPOOL_DATA has no monstor/graphs.zip"
)


@pytest.fixture(autouse=True)
def _data(monkeypatch):
    monkeypatch.setenv("GNPOOL_DATA", str(DATA))
    read_graph.cache_clear()


def test_targets_learn_from_the_two_others():
    training = Lesson("Extended", "GNP", 0, AMOUNTS["paper"])
    graphs = {graph for graph, _ in training.sources}
    assert (graphs, len(training.sources)) == ({"Celebrity", "WannaCry"}, 6)
    assert training.stacked == {"BT": 3, "JI": 2, "LP": 5}
    assert Lesson("Celebrity", "GNP", 0, AMOUNTS["paper"]).stacked == {"BT": 5, "JI": 2, "LP": 7}


def test_work_goes_run_by_run():
    order = [(t.run, t.target) for t in lessons(AMOUNTS["paper"])]
    assert order == [(run, target) for run in range(3) for target in TARGETS for _ in range(3)]


def test_keys_depend_on_what_results_depend_on():
    paper, more, fewer = AMOUNTS["paper"], InfluenceAmount("paper", sets=101), amount_of(Scope("paper", seeds=1))
    training, other, same = (Lesson("Extended", "GNP", 0, amount) for amount in (paper, more, fewer))
    assert training.key != other.key
    assert training.key == same.key
    assert Choice("Extended", "BT", "degree", 0, paper).key == Choice("Extended", "BT", "degree", 0, more).key
    assert training.choices[0].key != other.choices[0].key


def test_reductions_are_told():
    assert InfluenceAmount("paper").notes == ""
    assert "100 instead of 2,000 seed sets" in AMOUNTS["paper"].notes
    assert "1 instead of 3 runs" in amount_of(Scope("paper", seeds=1)).notes
    with pytest.raises(ValueError, match="'seeds' must be at least 1, got 0"):
        amount_of(Scope("paper", seeds=0))


def test_every_published_cell_is_in_the_table():
    from gnpool.lab.paper import paper_cells

    assert set(paper_cells("im_monstor")) <= {(cell.row, cell.column) for cell in IM_MONSTOR.cells}


def test_graphs_that_are_not_there(monkeypatch, tmp_path):
    monkeypatch.setenv("GNPOOL_DATA", str(tmp_path))
    with pytest.raises(OSError, match="set GNPOOL_DATA to the folder above it"):
        read_graph("Extended", "test", "BT")


def test_differences_are_of_the_same_runs():
    def records(values):
        return [Record({"run": run}, {"influence": value}, {}, None) for run, value in values.items()]

    found = difference(records({0: 10.0, 1: 12.0, 2: 5.0}), records({1: 13.0, 0: 12.0}))
    assert found == {"difference": 1.5, "standard_error": pytest.approx(0.5), "runs": 2}
    assert difference([], records({0: 1.0}))["difference"] is None


@needs_data
def test_graph_of_the_study():
    graph = read_graph("Extended", "test", "BT")
    assert (graph.nodes, graph.edges) == (5413, 27146)
    assert read_graph("Extended", "test", "BT", 100).nodes == 100
    with pytest.raises(OSError, match=r"there is no graphs/Extended_test_XX\.txt in it"):
        read_graph("Extended", "test", "XX")


@needs_data
def test_smoke(tmp_path):
    store, amount, events = Store(tmp_path), AMOUNTS["smoke"], []
    Runner(store, torch.device("cpu"), on_event=events.append).run(influence_jobs(amount, store))
    table = IM_MONSTOR.results(Scope("smoke"), store)
    done = {(cell["row"], cell["column"]): cell for cell in table["cells"] if cell["ours"]}
    rows = ("max", "sum", "GNP", "simulated", "degree", "random")
    assert set(done) == {(row, f"Celebrity/{p}") for row in rows for p in ("BT", "JI", "LP")}
    for cell in done.values():
        assert cell["ours"]["mean"] >= 3
        assert done["simulated", cell["column"]]["ours"]["mean"] >= 0.9 * cell["ours"]["mean"]
    assert done["GNP", "Celebrity/BT"]["paper"] == {"mean": 155.3, "std": 0.8}
    assert events[-1].overall == 1.0
    assert IM_MONSTOR.estimate(Scope("smoke"), store, Machine("cpu")).minutes_left == 0

    more = IM_MONSTOR.results(Scope("smoke", seeds=3), store)["cells"]
    told = {cell["row"]: cell["part"] for cell in more if cell["ours"]}
    assert told == {**dict.fromkeys(rows, "1 of 3 runs"), "degree": None}  # which is the same in every run
    assert {cell["part"] for cell in done.values()} == {None}

    record = store.get(Choice("Celebrity", "BT", "GNP", 0, amount).key)
    assert record is not None
    assert [mark["seeds"] for mark in record.scores["curve"]] == [1, 2, 3]
    assert record.scores["curve"][-1]["influence"] == record.scores["influence"]

    before = len(events)
    Runner(store, torch.device("cpu"), on_event=events.append).run(influence_jobs(amount, store))
    assert len(events) == before
