"""Tests the laws and tables of the studies, and a plain loop that must not become worse."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gnpool.data import read_graphs
from gnpool.fit import Options
from gnpool.fit.prepared import prepare
from gnpool.tasks.graphs import Graph
from studies import crystals, found, laws, learned, loop, motif, real_sets, tables
from studies.files import write_runs

PATH = Graph.from_pairs(3, np.array([0, 1]), np.array([1, 2]))  # 0 - 1 - 2
X = np.array([1.0, 2.0, 4.0])
VALUES = {  # on the path with features 1, 2, 4, or on the set of them
    "max of sums": 5.0,
    "maxdegree": 2.0,
    "harmonic": 1 / 2.5,
    "invsize": 1 / 3,
    "mean of mins": 5 / 3,
    "rms degree": math.sqrt(2.0),
    "sum of maxima": 8.0,
    "edges": 2.0,
    "mean degree": 4 / 3,
    "set mean": 7 / 3,
    "set max": 4.0,
    "set L2": math.sqrt(21.0),
    "set range": 3.0,
    "set sum/sqrt(n)": 7 / math.sqrt(3.0),
    "set geometric": 2.0,
    "sum of sums": 9.0,
    "min of maxima": 2.0,
    "max of means": 2.5,
    "rms of sums": math.sqrt(33 / 3),
    "L2 degree": math.sqrt(6.0),
    "set sum": 7.0,
    "set min": 1.0,
    "set rms": math.sqrt(7.0),
    "set harmonic mean": 3 / 1.75,
    "set midrange": 2.5,
}


@pytest.mark.parametrize("name", VALUES)
def test_laws(name):
    law = {**laws.LAWS, **laws.HELD}[name]
    x = np.ones(3) if law.ones else X
    assert law.label(x, PATH if law.level == "graph" else None) == pytest.approx(VALUES[name], rel=1e-12)


def test_no_law_is_missing_and_none_is_in_both_lists():
    assert set(VALUES) == {*laws.LAWS, *laws.HELD}
    assert not set(laws.LAWS) & set(laws.HELD)
    assert len(laws.LAWS) == 15


def test_data_follows_from_its_names_and_seed():
    law = laws.LAWS["max of sums"]
    first, again, other = (laws.draw_sizes(law, "train", 3, (20, 30), seed) for seed in (0, 0, 1))
    assert all(
        torch.equal(a.x, b.x) and torch.equal(a.edge_index, b.edge_index) for a, b in zip(first, again, strict=True)
    )
    assert not torch.equal(first[0].x[:5], other[0].x[:5])
    assert all(20 <= graph.num_nodes < 30 for graph in first)


@pytest.mark.parametrize("path", tables.PAGES, ids=lambda path: path.name)
def test_the_pages_are_in_step_with_the_raw_outcomes(path):
    page = path.read_text(encoding="utf-8")
    assert tables.filled(page, tables.PAGES[path]()) == page


@pytest.mark.parametrize(
    ("right", "runs", "low", "high"), [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (97, 100, 0.9155, 0.9897)]
)
def test_the_interval_of_wilson(right, runs, low, high):
    assert tables.wilson(right, runs) == pytest.approx((low, high), abs=2e-4)


def test_a_run_is_right_and_trusted_by_its_errors():
    run = {"law": "max of sums", "noise": 0.0, "errors": {"2": 0.0, "4": 0.02, "8": 0.3, "16": 0.0009},
           "factor": 4.0, "tolerance": 0.02}  # fmt: skip
    assert found.right(run)
    assert not found.right({**run, "errors": {"16": 0.0011}})
    assert found.right({**run, "noise": 0.05, "errors": {"16": 0.0066}})
    assert not found.right({**run, "noise": 0.05, "errors": {"16": 0.0068}})
    assert found.trusted(run)
    assert not found.trusted({**run, "factor": 8.0})


def test_outcomes_of_another_finder_are_run_again(tmp_path):
    runs = [{"law": "set max", "noise": 0.0, "seed": seed, "finder": version}
            for seed, version in ((0, found.VERSION), (1, found.VERSION - 1), (2, found.VERSION))]  # fmt: skip
    path = tmp_path / "found.json"
    write_runs(path, runs)
    assert list(found.stored(path)) == [("set max", 0.0, 0), ("set max", 0.0, 2)]
    assert found.stored(tmp_path / "none.json") == {}


def test_the_plan_begins_with_some_seeds_of_all_laws_and_goes_on_with_those_that_have_many():
    jobs = list(found.plan())
    assert len(set(jobs)) == len(jobs)
    first = [job for job in jobs if job[2] < found.FIRST]
    assert jobs[: len(first)] == first
    assert {name for name, _, _ in first} == set(found.ALL)
    counts = {name: len({seed for other, _, seed in jobs if other == name}) for name in found.ALL}
    assert counts == {name: found.MANY if name in found.OFTEN else found.FEW for name in found.ALL}
    often = [job for job in jobs[len(first) :] if job[0] in found.OFTEN]
    assert jobs[len(first) : len(first) + len(often)] == often


def test_trust_is_compared_with_fixed_multiples_of_the_size():
    runs = [{"law": "set median", "noise": 0.0, "tolerance": 0.1, "factor": factor, "errors": errors}
            for factor, errors in (
                (1.0, {"2": 0.2, "4": 0.2, "8": 0.2, "16": 0.2}),
                (16.0, {"2": 0.0, "4": 0.0, "8": 0.0, "16": 0.0}),
            )]  # fmt: skip
    words = tables.coverage(runs)
    assert "100.0 %" in words
    assert "4.0 times" in words  # the geometric mean of 1 and 16
    assert "50.0 % (2 times)" in words


def test_crystals_are_counted_by_their_errors_or_by_what_stayed():
    run = {"seed": 0, "learned": 1.0, "steps": 1000, "verdict": "law"}
    runs = [
        {**run, "case": "median", "text": "pool: mean", "error": 30.0, "verdict": "approximate"},
        {**run, "case": "between the names", "text": "pool: mean", "error": 0.5},
        {**run, "case": "range", "text": "pool: max", "error": 0.09},
        {**run, "case": "edges", "text": "aggr: max, readout: sum", "error": 0.11},
        {**run, "case": "mean of mins, 5 % noise", "text": "aggr: min, readout: mean", "error": 0.9},
    ]
    assert [crystals.right(one) for one in runs] == [True, False, True, False, True]
    counts = tables.crystals_counts(runs)
    assert "2 of 3 laws" in counts
    assert "Of 2 targets without a law it called 1" in counts  # "between the names"
    rows = tables.crystals_table(runs).splitlines()[2:]
    assert [row.split(" | ")[0] for row in rows] == [
        f"| {crystals.CASES[name].text}"
        for name in ("range", "edges", "mean of mins, 5 % noise", "median", "between the names")
    ]


def test_laws_of_the_finder_are_in_one_group_each():
    names = [name for group in found.GROUPS.values() for name in group]
    assert len(names) == len(set(names))
    assert set(found.OFTEN) <= set(names)


def test_both_sides_have_as_many_runs():
    law = laws.LAWS["harmonic"]
    sides = {
        side: learned.settings(side, learned.network(law, name), law.level) for side, name in learned.SIDES.items()
    }
    assert {side: len(set(grid)) for side, grid in sides.items()} == {"growth": 12, "published": 12}


def test_the_run_of_lowest_validation_loss_is_chosen_for_each_seed():
    runs = [{"seed": seed, "loss": loss} for seed, loss in ((0, 2.0), (1, None), (0, 1.0), (1, 3.0))]
    assert learned.chosen({"runs": runs}) == [runs[2], runs[3]]


def test_paired_interval():
    assert tables.paired_interval([2.0, 3.0, 4.0], [1.0, 2.0, 3.0]) == (1.0, 1.0)
    low, high = tables.paired_interval([1.0, 0.0, 2.0, -1.0], [0.0, 0.0, 0.0, 0.0])
    assert low < 0 < high


def test_motif_network_is_blind_to_the_order_of_nodes():
    torch.manual_seed(0)
    model = motif.MotifNet("gnp", "gnp").eval()
    edges = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 0, 3, 1], [1, 0, 2, 1, 3, 2, 0, 3, 1, 3]])
    order = torch.tensor([2, 0, 3, 1])
    batch = torch.zeros(4, dtype=torch.long)
    x = torch.ones(4, 1)
    assert torch.allclose(model(x, edges, batch, 1), model(x, order[edges], batch, 1), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_a_plain_loop_learns_the_largest_sum_over_neighbours(seed):
    """0.34 and 0.40 % at 120 to 159 nodes; the published coordinates have 21 and 23 %.

    The defaults were tuned on these two seeds, and fresh ones have up to 1.9 %: a guard against decay, not a claim.
    """
    assert loop.train("max of sums", "gnp", "gnp", seed)["error"] <= 1.0


def test_the_plain_gin_meets_the_graphs_of_a_fit():
    generator = torch.Generator().manual_seed(0)
    graphs = []
    for n in [3, 4, 5, 6, 7, 8, 9, 10] * 6:
        path = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
        x = torch.rand(n, 1, generator=generator)
        graphs.append(Data(x=x, edge_index=torch.cat([path, path.flip(0)], 1), y=int(x.mean() > 0.5)))
    prepared = prepare(read_graphs(graphs), Options())
    part = real_sets.graphs_of(prepared, "larger")
    for graph, number in zip(part, prepared.split.larger.tolist(), strict=True):
        assert torch.equal(graph.edge_index.unique(dim=1), graphs[number].edge_index.unique(dim=1))
        assert torch.equal(graph.x.argsort(dim=0), graphs[number].x.argsort(dim=0))
        assert int(graph.y) == graphs[number].y
    done = real_sets.train_gin(prepared, seed=0, epochs=2)
    assert done["validation_loss"] < math.inf
    for name, wrong in done["wrong"].items():
        assert len(wrong) == len(getattr(prepared.split, name))
        assert set(wrong) <= {0, 1}
    guess = real_sets.constant(prepared)
    larger = guess["shares"]["larger"]
    assert sum(guess["wrong"]["larger"]) / len(guess["wrong"]["larger"]) == pytest.approx(1 - larger[guess["label"]])
    again = real_sets.train_gin(prepared, seed=0, epochs=2)
    assert again == done


def test_a_study_of_real_sets_goes_on_where_it_stopped():
    kept = [{"set": "A", "seed": 0, "model": "GIN"}, {"set": "A", "seed": 1, "model": "fit"}]
    assert real_sets.missing(kept, "A", 0, None) == {"fit"}
    assert real_sets.missing(kept, "A", 1, None) == {"gin"}
    assert real_sets.missing(kept, "B", 0, "gin") == {"gin"}
    assert real_sets.missing(kept, "A", 0, "gin") == set()
