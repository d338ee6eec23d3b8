"""Data as people have it: several targets, edges with features, one large graph, rare classes."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gnpool.data import Column, DataError, GraphTable, from_list, from_networkx, read_graphs
from gnpool.display.measures import METRICS, shown
from gnpool.fit import GNPClassifier, GNPRegressor, Options, Study, answer, load_predictor, pipeline, predict, run_study
from gnpool.fit.edges import with_edge_sums
from gnpool.fit.measures import of_classes, of_several
from gnpool.fit.networks import deeper, frames
from gnpool.fit.problem import Problem
from gnpool.fit.result import check_same_data, model_extra, result_dict, table_rows, write_result
from gnpool.fit.split import make_split, split_table

QUICK = {"epochs": 2, "seeds": 1}
ORDERS = ("single", "double", "triple")


@pytest.fixture(autouse=True)
def _one_finalist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "FINALISTS", 1)


def molecules(count: int, seed: int = 0) -> list[Any]:
    """Random trees as graphs of networkx, with an order of each bond and the number of double bonds as target."""
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        n = int(generator.integers(4, 20))
        graph = nx.random_labeled_tree(n, seed=int(generator.integers(2**31)))
        for atom in graph:
            graph.nodes[atom]["mass"] = float(generator.uniform(1, 20))
        for a, b in graph.edges:
            graph.edges[a, b]["order"] = str(generator.choice(ORDERS))
        graph.graph["y"] = sum(order == "double" for _, _, order in graph.edges.data("order")) + 0.5
        found.append(graph)
    return found


def one_graph(nodes: int = 400, seed: int = 0) -> Data:
    """A graph with masks, where the target of a node is the largest feature around it."""
    generator = torch.Generator().manual_seed(seed)
    edges = torch.randint(0, nodes, (2, 3 * nodes), generator=generator)
    edges = edges[:, edges[0] != edges[1]]
    edges = torch.cat([edges, edges.flip(0)], dim=1).unique(dim=1)
    x = torch.rand(nodes, 1, generator=generator)
    y = torch.zeros(nodes).scatter_reduce(0, edges[1], x[edges[0], 0], "amax", include_self=False)
    part = torch.randint(0, 4, (nodes,), generator=generator)
    masks = {f"{name}_mask": part == number for number, name in enumerate(("train", "val", "test"))}
    return Data(x=x, edge_index=edges, y=y, **masks)


def sets(count: int, seed: int = 0) -> list[Data]:
    generator = torch.Generator().manual_seed(seed)
    found = []
    for _ in range(count):
        x = torch.rand(int(torch.randint(3, 12, (), generator=generator)), 1, generator=generator)
        found.append(Data(x=x, y=torch.stack([x.sum(), x.max(), 2 * x.mean()]).view(1, 3)))
    return found


@pytest.fixture(scope="module")
def three() -> Study:
    return run_study(from_list(sets(120)), Options(**QUICK))


def test_three_targets_have_three_laws(three: Study, tmp_path: Path) -> None:
    found = answer(three)
    assert found.law == "y0 = sum_i(x0_i); y1 = max_i(x0_i); y2 = 2 * mean_i(x0_i)"
    write_result(tmp_path / "out", three, found)
    result = json.loads((tmp_path / "out" / "fit.json").read_text())
    assert list(result["law"]["targets"]) == ["y0", "y1", "y2"]
    assert result["answer"]["gnp"] == "not compared"
    law = next(model for model in result["models"] if model["label"] == "law")
    assert set(law["larger"]["targets"]) == {"y0", "y1", "y2"}
    assert law["larger"]["error"] < 1e-6
    larger = from_list([Data(x=torch.tensor([[0.25], [0.5], [1.0], [0.25]]).repeat(25, 1))], labelled=False)
    outputs, _ = load_predictor(tmp_path / "out").outputs(larger)
    np.testing.assert_allclose(outputs, [[50.0, 1.0, 1.0]], rtol=1e-6)


def test_several_targets_train_a_network() -> None:
    table = from_list(sets(60))
    assert [column.name for column in table.targets] == ["y0", "y1", "y2"]
    noise = Column("y1", np.random.default_rng(0).normal(size=60))
    study = run_study(replace(table, more=(noise,)), Options(**QUICK))
    assert answer(study).law is None
    network = next(entry for entry in study.entries if entry.label == "sum")
    assert network.model.out.out_features == 2
    assert set(network.measures["larger"]["targets"]) == {"y0", "y1"}
    assert network.errors["larger"].shape == (len(study.split.larger),)
    with pytest.raises(DataError, match="a single target, got 3"):
        run_study(table, Options(task="classification"))


def test_measures_of_several_targets() -> None:
    truth = np.array([[1.0, 10.0], [3.0, 30.0]])
    found = of_several(truth + [[0.0, 10.0], [0.0, 10.0]], truth, ("a", "b"))
    assert found["targets"]["a"] == {"error": 0.0, "absolute": 0.0, "r2": 1.0}
    assert found["targets"]["b"] == {"error": 0.5, "absolute": 10.0, "r2": pytest.approx(0.0)}
    assert (found["error"], found["absolute"], found["r2"]) == (0.25, None, 0.5)


def test_measures_of_classes() -> None:
    scores = torch.tensor([[0.0, 1.0], [0.0, 2.0], [0.0, -1.0], [0.0, 0.5]], dtype=torch.float64)
    found = of_classes(scores, torch.tensor([1, 1, 0, 0]))
    assert found["error"] == pytest.approx(0.25)
    assert found["accuracy"] == found["balanced_accuracy"] == pytest.approx(0.75)
    assert found["mcc"] == pytest.approx(1 / math.sqrt(3))
    assert found["roc_auc"] == pytest.approx(1.0)
    assert shown(found, METRICS["mcc"]) == "0.577"
    assert shown(found, METRICS["balanced-accuracy"]) == "75.0 %"
    assert of_classes(scores, torch.ones(4, dtype=torch.long))["roc_auc"] is None
    three = of_classes(torch.eye(3, dtype=torch.float64), torch.arange(3))
    assert three["roc_auc"] == pytest.approx(1.0)


def test_a_metric_of_another_task() -> None:
    with pytest.raises(ValueError, match="'metric' 'mcc' is for a classification"):
        run_study(from_list([Data(x=one.x, y=one.x.sum()) for one in sets(20)]), Options(metric="mcc"))


def test_a_rare_class() -> None:
    graphs = sets(200, seed=3)
    for one in graphs:
        one.y = (one.x.max() > 0.97).long()
    study = run_study(
        from_list(graphs), Options(task="classification", metric="mcc", class_weights="balanced", **QUICK)
    )
    problem = study.problem
    counts = torch.bincount(study.prepared.y["train"])
    torch.testing.assert_close(torch.tensor(problem.weights), counts.sum() / (2.0 * counts))
    assert study.baseline.loss == pytest.approx(math.log(2), rel=0.2)  # with equal weights the constant knows nothing
    assert study.baseline.measures["larger"]["mcc"] == 0.0
    result = result_dict(study, answer(study))
    shares = result["class_shares"]["train"]
    assert shares["1"] == pytest.approx(float(counts[1] / counts.sum()))
    assert "max_i(x0_i)" in result["answer"]["law"]
    assert "MCC on test graphs of " in result["answer"]["text"]
    with pytest.raises(ValueError, match="'class_weights' is for a classification"):
        run_study(from_list(sets(20)), Options(class_weights="balanced"))


def test_classes_that_shift_with_size_are_told() -> None:
    graphs = sets(100, seed=4)
    for one in graphs:
        one.y = torch.tensor(int(one.x.size(0) > 7))
    text = str(answer(run_study(from_list(graphs), Options(task="classification", **QUICK))))
    assert "The class '1' is " in text
    assert "of the larger graphs; always naming it would be wrong on 0 % of them." in text


def test_sums_of_features_of_edges() -> None:
    edges = np.array([[1, 0, 2, 1], [0, 1, 1, 2]])
    columns = (Column("order", np.array([1.0, 1.0, 2.0, np.nan])), Column("kind", np.array([0, 0, 1, -1]), ("a", "b")))
    table = GraphTable(np.arange(1), np.array([3]), edges, (), None, edge_attr=columns)
    found = {column.name: column.values.tolist() for column in with_edge_sums(table).features}
    assert found == {"edges.order": [1.0, 3.0, 0.0], "edges.kind=a": [1.0, 1.0, 0.0], "edges.kind=b": [0.0, 1.0, 0.0]}


@pytest.fixture(scope="module")
def bonds() -> Study:
    return run_study(from_networkx(molecules(60)), Options(**QUICK))


def test_a_law_of_features_of_edges(bonds: Study) -> None:
    assert str(answer(bonds).law) == "y = 1/2 * sum_v(edges.order=double_v) + 1/2"
    assert bonds.preprocessing.edge_width == 3


def test_networks_take_features_of_edges(tmp_path: Path) -> None:
    graphs = molecules(60, seed=2)
    for graph in graphs:  # the heaviest atom at a double bond
        ends = [v for a, b, order in graph.edges.data("order") if order == "double" for v in (a, b)]
        graph.graph["y"] = max((graph.nodes[v]["mass"] ** 2 for v in ends), default=0.0)
    study = run_study(from_networkx(graphs), Options(dropout=0.1, **QUICK))
    found = answer(study)
    entry = study.entries[0]
    assert type(entry.model).__name__ == "DeepNet"
    assert entry.spec["arguments"]["edge_channels"] == 3
    assert entry.spec["arguments"]["dropout"] == 0.1
    assert "features of edges" in study.frame.describe()
    found = replace(found, entry=entry)
    write_result(tmp_path / "out", study, found)
    predictor, table = load_predictor(tmp_path / "out"), from_networkx(graphs[:5], labelled=False)
    before, _ = predictor.outputs(table)
    swapped = replace(table, edge_attr=tuple(replace(c, values=(c.values + 1) % 3) for c in table.edge_attr))
    assert np.abs(predictor.outputs(swapped)[0] - before).max() > 1e-3
    with pytest.raises(
        DataError, match=r"the column 'edges.order=double', which the model was trained with, is missing"
    ):
        predictor.outputs(replace(table, edge_attr=()))


def test_depths_from_one_to_five() -> None:
    found = deeper(Problem("classification", "graph", edges=True, classes=("a", "b")), dropout=0.5)
    options = [dict(frame.options) for frame in found]
    assert [one["layers"] for one in options] == [1, 2, 3, 4, 5]
    assert [one["norm"] for one in options] == [None, *["batch"] * 4]
    assert all(one["dropout"] == 0.5 for one in options)
    assert found[2].describe() == "GIN, 3 layers of messages, batch norm"
    assert deeper(Problem("regression", "graph", edges=False)) == []
    assert [frame.network for frame in frames(Problem("regression", "node", edges=True), edge_width=2)] == ["DeepNet"]


def test_a_gap_between_training_and_test() -> None:
    sizes = np.repeat(np.arange(1, 41), 5)
    split = make_split(sizes, train_up_to=10, test_from=31)
    assert sizes[split.larger].min() == 31
    assert len(split.larger) == 50
    smaller = np.concatenate([split.train, split.validation, split.inside])
    assert sizes[smaller].max() == 10
    assert len(smaller) == 50
    assert split.note == "100 graphs of sizes between the two are left out"
    assert sizes[make_split(sizes, train_up_to=10).larger].min() == 11
    assert sizes[make_split(sizes, test_from=31).train].max() == 30
    for given, message in (
        ({"train_up_to": 10, "test_from": 10}, "'test_from' must be above 'train_up_to', got 10 and 10"),
        ({"test_from": 41}, r"no graph is as large as 41 \(test_from\); the largest has 40"),
        ({"train_up_to": 10, "by": "random"}, "need a split by size"),
    ):
        with pytest.raises(ValueError, match=message):
            make_split(sizes, **given)


def test_nodes_of_one_graph_by_their_masks() -> None:
    data = one_graph()
    table = read_graphs(data, "node")
    split = split_table(table)
    assert (split.unit, split.by) == ("node", "given")
    np.testing.assert_array_equal(split.train, np.flatnonzero(data.train_mask.numpy()))
    test = np.concatenate([split.inside, split.larger])
    np.testing.assert_array_equal(np.sort(test), np.flatnonzero(data.test_mask.numpy()))
    degrees = torch.bincount(data.edge_index[1], minlength=400).numpy()
    np.testing.assert_array_equal(split.sizes, degrees)
    assert degrees[split.larger].min() > degrees[split.inside].max()
    assert "nodes of no part are left out" in str(split.note)
    study = run_study(table, Options(**QUICK))
    entry = next(entry for entry in study.entries if entry.label == "max")
    with torch.no_grad():
        batch = next(iter(study.prepared.data["train"]))
        every = entry.model(batch.x, batch.edge_index).flatten().double() * study.problem.scale
    expected = (every[split.larger] - data.y[split.larger]).abs().numpy()
    np.testing.assert_allclose(entry.errors["larger"], expected, rtol=1e-4, atol=1e-6)
    found = answer(study)
    assert found.law == "y = max_u(x0_u)"
    assert "neighbours, the largest size that was tried" in str(found)
    assert study.findings[0].largest == degrees.max()
    assert study.findings[0].trusted_size == 16 * degrees.max()


def test_noise_at_the_nodes_of_one_graph() -> None:
    data = one_graph()
    data.y = torch.rand(400, generator=torch.Generator().manual_seed(1))
    study = run_study(read_graphs(data, "node"), Options(**QUICK))
    found = answer(study)
    assert (found.learned, found.law, found.poolings, found.verdict) == (False, None, None, "not compared")
    assert study.findings[0].verdict == "nothing"
    result = result_dict(study, found)
    assert not result["answer"]["learned"]
    assert result["answer"]["poolings"] is None
    assert [row[0] for row in table_rows(result) if "(saved)" in row[0]]
    assert not [row[0] for row in table_rows(result) if "<-" in row[0]]


def test_nodes_of_one_graph_by_their_degrees() -> None:
    data = one_graph()
    for name in ("train_mask", "val_mask", "test_mask"):
        del data[name]
    split = split_table(read_graphs(data, "node"))
    assert (split.unit, split.by, split.measure) == ("node", "size", "neighbours")
    others = np.concatenate([split.train, split.validation, split.inside])
    assert split.sizes[split.larger].min() > split.sizes[others].max()
    assert sorted([*others, *split.larger]) == list(range(400))


def test_masks_that_cannot_be() -> None:
    data = one_graph()
    data.val_mask = data.train_mask
    with pytest.raises(DataError, match="a node is in 'val_mask' and in another mask"):
        read_graphs(data, "node")
    data.val_mask = torch.zeros(3, dtype=torch.bool)
    with pytest.raises(
        DataError, match=r"'val_mask' of graph 0 .* must be a bool for each node, got torch.bool of sha"
    ):
        read_graphs(data, "node")


def test_a_column_of_parts(tmp_path: Path) -> None:
    (tmp_path / "graphs.csv").write_text("graph;a;b;use\n1;0.5;1;train\n2;1.5;2;val\n3;2.5;3;test\n4;3;3;\n")
    (tmp_path / "nodes.csv").write_text("graph;use\n1;7\n2;8\n3;9\n4;9\n")
    table = read_graphs(tmp_path, y=["a", "b"], part="use")
    assert table.part is not None
    assert table.part.tolist() == [0, 1, 2, -1]
    assert [column.name for column in table.targets] == ["a", "b"]
    assert [column.name for column in table.features] == ["use"]  # of the nodes: another column
    assert table.select(np.array([2, 0])).part.tolist() == [2, 0]
    assert table.select(np.array([2, 0])).more[0].values.tolist() == [3.0, 1.0]
    (tmp_path / "graphs.csv").write_text("graph;a;use\n1;0.5;learn\n")
    with pytest.raises(DataError, match="a part must be train, validation or test, got 'learn'"):
        read_graphs(tmp_path, y="a", part="use")
    with pytest.raises(DataError, match="the column 'which' with the parts is missing"):
        read_graphs(tmp_path, y="a", part="which")


def test_frames() -> None:
    pandas = pytest.importorskip("pandas")
    frames = {
        "graphs": pandas.DataFrame({"graph": ["g", "h"], "y": [1.5, 2.5]}),
        "nodes": pandas.DataFrame(
            {"graph": ["g", "g", "h"], "node": [1, 2, 1], "kind": ["a", None, "b"], "n": [1, 2, 3]}
        ),
        "edges": pandas.DataFrame({"graph": ["g"], "source": [1], "target": [2], "w": [0.5]}),
    }
    table = read_graphs(frames)
    assert table.names.tolist() == ["g", "h"]
    assert table.sizes.tolist() == [2, 1]
    assert table.edge_index.tolist() == [[1, 0], [0, 1]]
    assert [(c.name, c.values.tolist(), c.categories) for c in table.features] == [
        ("kind", [0, -1, 1], ("a", "b")),
        ("n", [1.0, 2.0, 3.0], None),
    ]
    assert table.edge_attr[0].values.tolist() == [0.5, 0.5]
    with pytest.raises(DataError, match="frame 'graphs', line 1: the column 'z' with the target is missing"):
        read_graphs(frames, y="z")
    with pytest.raises(DataError, match="frames must be called 'graphs', 'nodes', 'edges', got 'node'"):
        read_graphs({"node": frames["nodes"]})


def test_a_fit_of_other_data_stays(three: Study, tmp_path: Path) -> None:
    table, out = from_list(sets(120)), tmp_path / "out"
    check_same_data(out, table)
    write_result(out, three, answer(three))
    check_same_data(out, table)
    with pytest.raises(DataError, match="a fit of other data is there; choose another --out, or replace it with --fo"):
        check_same_data(out, from_list(sets(120, seed=1)))
    assert model_extra(three)["trained_on"]["graphs"] == len(three.split.train)


def test_prediction_in_parts_is_the_same(three: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_result(tmp_path / "out", three, answer(three))
    predictor, table = load_predictor(tmp_path / "out"), from_list(sets(50, seed=3), labelled=False)
    whole, _ = predictor.outputs(table)
    rows = [row for part in predict.prediction_rows(predictor, table, whole) for row in part]
    monkeypatch.setattr(predict, "PART_NODES", 40)
    monkeypatch.setattr(predict, "ROWS", 7)
    seen: list[float] = []
    outputs, _ = predictor.outputs(table, "cpu", lambda text, done: seen.append(done))
    np.testing.assert_allclose(outputs, whole, rtol=1e-12)
    assert len(seen) > 3
    assert seen == sorted(seen)
    parts = predict._parts(table)
    assert [first for first, _ in parts[1:]] == [stop for _, stop in parts[:-1]]
    assert max(table.sizes[first:stop].sum() for first, stop in parts) <= 40
    again = list(predict.prediction_rows(predictor, table, outputs))
    assert [len(part) for part in again] == [7] * 7 + [1]
    assert [row[:2] for part in again for row in part] == [row[:2] for row in rows]
    assert predict.prediction_head(predictor.problem)[:3] == ["graph", "nodes", "prediction of y0"]


def test_a_graph_larger_than_a_part_is_whole() -> None:
    table = from_list([Data(x=torch.ones(n, 1)) for n in (1, 5, 1, 1)], labelled=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predict, "PART_NODES", 3)
        assert predict._parts(table) == [(0, 1), (1, 2), (2, 4)]


def test_notes_of_parts_are_those_of_the_whole() -> None:
    notes = ["3 nodes have a category of 'a' that was not seen in training", "columns are not used"]
    assert predict._joined([*notes, *notes]) == ["6 " + notes[0][2:], notes[1]]


def test_estimators_take_several_targets_and_options() -> None:
    data = sets(120)
    y = np.array([[float(one.x.sum()), float(one.x.max())] for one in data])
    model = GNPRegressor(epochs=1, seeds=1, metric="r2", train_up_to=6, test_from=8).fit(data, y)
    assert model.answer.law == "y0 = sum_i(x0_i); y1 = max_i(x0_i)"
    assert model.predict(data).shape == (120, 2)
    assert model.score(data, y) > 0.999
    assert "R2 on test graphs" in str(model.answer)
    assert int(model.study.sizes("train").max()) == 6
    assert int(model.study.sizes("larger").min()) == 8
    with pytest.raises(ValueError, match="it was fitted to 2 targets, but got 1"):
        model.score(data, y[:, 0])
    with pytest.raises(DataError, match="a single target, got 2"):
        GNPClassifier(epochs=1).fit(data, y)
    with pytest.raises(ValueError, match="'metric' 'mcc' is for a classification"):
        GNPRegressor(metric="mcc").fit(data, y)
