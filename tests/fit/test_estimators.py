"""Small fits from end to end."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gnpool.fit import GNPClassifier, GNPRegressor
from gnpool.fit.answer import _sentences, show_error
from gnpool.fit.result import table_rows
from gnpool.models import load_model


def sets(count: int, low: int, high: int, seed: int = 0) -> list[Data]:
    generator = torch.Generator().manual_seed(seed)
    found = []
    for _ in range(count):
        n = int(torch.randint(low, high, (), generator=generator))
        x = torch.rand(n, 1, generator=generator)
        found.append(Data(x=x, y=x.sum().view(1)))
    return found


def test_noise_is_called_nothing() -> None:
    data, noise = sets(80, 4, 14, seed=5), torch.Generator().manual_seed(7)
    for one in data:
        one.y = torch.randn(1, generator=noise)
    found = GNPRegressor(epochs=4, seeds=1).fit(data)
    assert not found.answer.learned
    assert found.study.finding.verdict == "nothing"
    assert found.result["answer"]["text"].startswith("Nothing was learned")
    assert "Pool by" not in str(found.answer)


@pytest.mark.parametrize(("count", "learned"), [(120, False), (400, True)])
def test_without_a_law_the_nearest_formula_is_told(count: int, learned: bool) -> None:
    data = sets(count, 4, 14, seed=6)
    for one in data:
        one.y = one.x.median().view(1)
    found = GNPRegressor(epochs=4, seeds=1).fit(data)
    assert found.study.finding.verdict == "approximate"
    assert found.answer.law is None
    assert found.answer.learned is learned
    assert found.answer.entry.label != "law"
    assert str(found.study.finding.law) in str(found.answer)


@pytest.fixture(scope="module")
def regressor() -> Any:
    return GNPRegressor(epochs=12, seeds=1).fit(sets(120, 3, 12))


def test_a_good_error_that_may_be_luck_is_told(regressor: Any) -> None:
    study, entry = regressor.study, regressor.answer.entry
    _, constant, saved, *_ = _sentences(study, entry, learned=False)
    assert show_error(study, study.baseline, "larger") in constant
    assert show_error(study, entry, "larger") in saved
    assert str(len(study.prepared.y["validation"])) in saved


def test_regression_finds_the_sum(regressor: Any) -> None:
    assert regressor.answer.law == "y = sum_i(x0_i)"
    assert regressor.answer.poolings is None
    assert regressor.answer.learned
    assert regressor.study.finding.trusted_size >= 16 * 9
    larger = sets(20, 60, 100, seed=1)
    assert regressor.score(larger) > 0.99
    expected = np.array([float(graph.y) for graph in larger])
    assert np.abs(regressor.predict(larger) / expected - 1).mean() < 0.01


def test_numbers_of_a_result(regressor: Any) -> None:
    result = regressor.result
    labels = [model["label"] for model in result["models"]]
    assert labels[0] == "GNP"
    assert {"sum", "mean", "max", "min"} <= set(labels)
    assert [model["label"] for model in result["models"] if model["chosen"]] == [regressor.answer.entry.label]
    split = result["split"]
    assert sum(split[part]["graphs"] for part in ("train", "validation", "inside", "larger")) == 120
    assert split["larger"]["smallest"] > split["train"]["largest"]
    chosen = next(model for model in result["models"] if model["chosen"])
    raw = result["graphs"]["larger"]
    table = regressor.study.table
    targets = np.array([table.y.values[table.names.tolist().index(int(name))] for name in raw["names"]])
    assert sum(raw["errors"][chosen["label"]]) / targets.sum() == pytest.approx(chosen["larger"]["error"], rel=1e-4)
    assert sum(result["by_size"]["graphs"]) == split["inside"]["graphs"] + split["larger"]["graphs"]


def test_a_saved_estimator_predicts_the_same(regressor: Any, tmp_path: Path) -> None:
    folder = regressor.save(tmp_path / "model")
    graphs = sets(5, 10, 20, seed=2)
    again = GNPRegressor.load(folder)
    np.testing.assert_array_equal(again.predict(graphs), regressor.predict(graphs))
    assert type(load_model(folder)).__name__ == "LawNet"
    with pytest.raises(ValueError, match="was fitted to a regression"):
        GNPClassifier.load(folder)
    with pytest.raises(ValueError, match="call 'fit' first"):
        _ = again.result


@pytest.mark.slow
def test_the_same_seed_gives_the_same_numbers(regressor: Any) -> None:
    again = GNPRegressor(epochs=12, seeds=1).fit(sets(120, 3, 12))
    ours, theirs = again.result, regressor.result
    ours["meta"].pop("seconds")
    assert ours == {**theirs, "meta": {k: v for k, v in theirs["meta"].items() if k != "seconds"}}


def test_classification_with_words() -> None:
    graphs = sets(80, 3, 12)
    words = ["much" if float(graph.y) > 3 else "little" for graph in graphs]
    found = GNPClassifier(epochs=40, seeds=1, split="random").fit(graphs, words)
    assert found.classes_.tolist() == ["little", "much"]
    assert found.score(graphs, words) > 0.8
    chances = found.predict_proba(graphs[:4])
    assert chances.shape == (4, 2)
    np.testing.assert_allclose(chances.sum(1), 1.0)
    assert found.study.problem.task == "classification"


def test_nodes() -> None:
    generator = torch.Generator().manual_seed(0)
    graphs = []
    for n in range(4, 24):
        edges = torch.randint(0, n, (2, 2 * n), generator=generator)
        edges = torch.cat([edges, edges.flip(0)], dim=1).unique(dim=1)
        x = torch.rand(n, 1, generator=generator)
        y = torch.zeros(n).scatter_reduce(0, edges[1], x[edges[0], 0], "amax", include_self=False)
        graphs.append(Data(x=x, edge_index=edges, y=y))
    found = GNPRegressor(level="node", epochs=2, seeds=1).fit(graphs)
    assert len(found.predict(graphs[:2])) == 9
    assert found.result["problem"]["level"] == "node"
    assert all(len(m["poolings"]) == 1 for m in found.result["models"] if m["poolings"])


def test_wrong_use() -> None:
    with pytest.raises(ValueError, match=r"call 'fit' .* before 'predict'"):
        GNPRegressor().predict(sets(2, 3, 5))
    with pytest.raises(ValueError, match="call 'fit' before 'save'"):
        GNPRegressor().save("nowhere")
    with pytest.raises(ValueError, match="'y' must have 12 values, one for each graph, got 3"):
        GNPRegressor().fit(sets(12, 3, 5), [1, 2, 3])
    for name, value in (("epochs", 0), ("seeds", -1)):
        with pytest.raises(ValueError, match=f"'{name}' must be at least 1, got {value}"):
            GNPRegressor(**{name: value}).fit(sets(12, 3, 5))
    assert repr(GNPClassifier()) == "GNPClassifier(not fitted)"


def test_a_column_too_many_is_told() -> None:
    found = GNPRegressor(epochs=1, seeds=1).fit(sets(30, 3, 12))
    wide = [Data(x=torch.cat([graph.x, graph.x], dim=1)) for graph in sets(2, 3, 5)]
    with pytest.warns(
        UserWarning, match="GNPRegressor: columns that the model was not trained with are not used: 'x1'"
    ):
        assert len(found.predict(wide)) == 2


def test_errors_relative_to_nothing_are_undefined() -> None:
    graphs = sets(60, 3, 12)
    for graph in graphs:
        graph.y = graph.y * (graph.num_nodes < 9)  # the larger ones, all of the test, have nothing
    regressor = GNPRegressor(epochs=1, seeds=1).fit(graphs)
    result = json.loads(json.dumps(regressor.result, allow_nan=False))
    assert result["split"]["larger"]["smallest"] >= 9
    assert all(model["larger"]["error"] is None and model["inside"]["error"] > 0 for model in result["models"])
    assert "undefined" in str(regressor.answer)
    assert table_rows(result)[0][-1] == "undefined"
    assert math.isnan(regressor.score([graph for graph in graphs if graph.num_nodes >= 9]))


def test_a_law_of_classes_predicts_and_is_saved(tmp_path: Path) -> None:
    data = sets(160, 4, 14, seed=8)
    words = ["high" if float(one.x.mean()) > 0.5 else "low" for one in data]
    found = GNPClassifier(epochs=2, seeds=1).fit(data, y=words)
    assert "mean_i(x0_i) <= 0.5" in found.answer.law
    large = sets(60, 40, 80, seed=9)
    truth = ["high" if float(one.x.mean()) > 0.5 else "low" for one in large]
    assert (found.predict(large) == np.array(truth)).mean() >= 0.95
    again = GNPClassifier.load(found.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.predict_proba(large), found.predict_proba(large))
    np.testing.assert_allclose(again.predict_proba(large).sum(axis=1), 1.0, rtol=1e-6)


def test_a_law_of_another_target_is_refused(regressor: Any, tmp_path: Path) -> None:
    file = regressor.save(tmp_path / "model") / "model.json"
    file.write_text(file.read_text().replace('"level": "set"', '"level": "node"'))
    with pytest.raises(ValueError, match="its law is for targets of a node"):
        GNPRegressor.load(tmp_path / "model")
