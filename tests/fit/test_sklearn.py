"""The estimators in scikit-learn, and what they promise without it."""

from __future__ import annotations

import copy
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gnpool.fit import GNPClassifier, GNPRegressor
from tests.fit.test_estimators import sets

QUICK = {"epochs": 1, "seeds": 1}


@pytest.fixture(scope="module")
def graphs() -> list[Data]:
    return sets(60, 3, 13, seed=3)


@pytest.fixture(scope="module")
def high(graphs: list[Data]) -> np.ndarray:
    return np.array([float(one.x.mean()) > 0.5 for one in graphs])


def test_parameters_are_kept_and_set() -> None:
    model = GNPRegressor(level="node", epochs=3)
    assert model.get_params() == {
        "level": "node",
        "split": "size",
        "epochs": 3,
        "seeds": None,
        "seed": 0,
        "device": "cpu",
        "metric": "error",
        "train_up_to": None,
        "test_from": None,
        "dropout": 0.0,
        "weight_decay": 0.0,
    }
    assert GNPClassifier(class_weights="balanced").get_params()["class_weights"] == "balanced"
    assert vars(model) == model.get_params()
    assert model.set_params(epochs=5, seed=2) is model
    assert (model.epochs, model.seed, model.level) == (5, 2, "node")
    with pytest.raises(ValueError, match=r"GNPRegressor: .*'depht'.* level, split, epochs"):
        model.set_params(depht=2)


@pytest.mark.parametrize(
    "labels",
    [
        np.array([10, 2], dtype=np.int32),
        np.array([False, True]),
        np.array(["no", "yes"], dtype=object),
    ],
    ids=["integers", "truth", "words"],
)
def test_labels_come_back_in_the_type_they_were_given(
    graphs: list[Data], high: np.ndarray, labels: np.ndarray, tmp_path: Path
) -> None:
    y = labels[high.astype(int)]
    model = GNPClassifier(**QUICK).fit(graphs, y)
    found = model.predict(graphs)
    assert (found == y).mean() > 0.9
    assert {type(one) for one in found.tolist()} == {type(one) for one in y.tolist()}
    assert model.classes_.tolist() == sorted(labels.tolist())
    assert model.score(graphs, y) == (found == y).mean()
    np.testing.assert_array_equal(model.classes_[model.predict_proba(graphs).argmax(1)], found)
    again = GNPClassifier.load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.predict(graphs), found)
    assert again.classes_.tolist() == model.classes_.tolist()


def test_labels_of_the_graphs_themselves(graphs: list[Data], high: np.ndarray) -> None:
    labelled = [Data(x=one.x, y=torch.tensor([4 if is_high else 9])) for one, is_high in zip(graphs, high, strict=True)]
    model = GNPClassifier(**QUICK).fit(labelled)
    assert model.classes_.tolist() == [4, 9]
    assert model.predict(labelled).dtype.kind == "i"
    assert model.score(labelled) > 0.9
    with pytest.raises(ValueError, match="the classes are numbers, but 'y' holds words"):
        model.score(labelled, ["4"] * len(labelled))


@pytest.mark.parametrize(
    ("y", "text"),
    [
        ([None] + ["a"] * 59, r"the target is missing \(item 0, from 0\)"),
        ([0.0, float("nan")] + [1.0] * 58, r"the target is missing \(item 1, from 0\)"),
        (np.array([1, "a"] * 30, dtype=object), "the classes must be numbers or words, not both"),
    ],
)
def test_labels_that_are_none(graphs: list[Data], y: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        GNPClassifier(**QUICK).fit(graphs, y)


def test_words_are_no_numbers(graphs: list[Data]) -> None:
    with pytest.raises(ValueError, match="the target must be numbers"):
        GNPRegressor(**QUICK).fit(graphs, ["a"] * 60)


def test_a_fitted_estimator_is_copied_and_pickled(graphs: list[Data], high: np.ndarray) -> None:
    model = GNPClassifier(**QUICK).fit(graphs, high)
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):  # noqa: S301 -- our own
        np.testing.assert_array_equal(again.predict_proba(graphs), model.predict_proba(graphs))


class TestScikitLearn:
    @pytest.fixture(autouse=True)
    def sklearn(self) -> Any:
        return pytest.importorskip("sklearn")

    @pytest.mark.parametrize("model", [GNPRegressor(seed=4), GNPClassifier(level="node")], ids=["numbers", "classes"])
    def test_a_clone_has_the_parameters_and_no_fit(self, model: Any) -> None:
        from sklearn.base import clone, is_classifier, is_regressor

        model = copy.copy(model)
        model.predictor = "fitted"
        again = clone(model)
        assert type(again) is type(model)
        assert again.get_params() == model.get_params()
        assert again.predictor is None
        assert is_classifier(model) == isinstance(model, GNPClassifier) != is_regressor(model)

    def test_its_own_checks_pass(self) -> None:
        from sklearn.utils.estimator_checks import check_estimator

        for model in (GNPRegressor(), GNPClassifier()):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it has no checks of estimators of lists
                found = check_estimator(model, on_fail=None)
            assert {one["status"] for one in found} == {"passed"}

    def test_is_fitted(self, graphs: list[Data], high: np.ndarray) -> None:
        from sklearn.exceptions import NotFittedError
        from sklearn.utils.validation import check_is_fitted

        model = GNPClassifier(**QUICK)
        with pytest.raises(NotFittedError):
            check_is_fitted(model)
        assert not hasattr(model, "classes_")
        check_is_fitted(model.fit(graphs, high))

    def test_cross_validation_and_its_scores(self, graphs: list[Data], high: np.ndarray) -> None:
        from sklearn.metrics import accuracy_score, roc_auc_score
        from sklearn.model_selection import StratifiedKFold, cross_val_predict, cross_validate

        y, model = high.astype(int), GNPClassifier(**QUICK)
        found = cross_validate(model, graphs, y, cv=2, scoring=["accuracy", "roc_auc"], return_estimator=True)
        folds = list(StratifiedKFold(2).split(graphs, y))
        for fold, (_, test) in enumerate(folds):
            one = found["estimator"][fold]
            held = [graphs[k] for k in test]
            assert (
                found["test_accuracy"][fold] == accuracy_score(y[test], one.predict(held)) == one.score(held, y[test])
            )
            chances = one.predict_proba(held)[:, 1]
            assert found["test_roc_auc"][fold] == pytest.approx(roc_auc_score(y[test], chances))
        predicted = cross_val_predict(model, graphs, y, cv=2)
        assert predicted.dtype.kind == "i"
        assert (predicted == y).mean() == pytest.approx(found["test_accuracy"].mean())

    def test_regression_with_targets_in_the_graphs(self, graphs: list[Data]) -> None:
        from sklearn.metrics import r2_score
        from sklearn.model_selection import cross_val_score

        train, test = np.arange(40), np.arange(40, 60)
        (score,) = cross_val_score(GNPRegressor(**QUICK), graphs, cv=[(train, test)])
        model = GNPRegressor(**QUICK).fit(graphs[:40])
        y = [float(one.y) for one in graphs[40:]]
        assert score == model.score(graphs[40:]) == pytest.approx(r2_score(y, model.predict(graphs[40:])))

    def test_a_search_in_a_pipeline(self, graphs: list[Data], high: np.ndarray) -> None:
        from sklearn.model_selection import GridSearchCV
        from sklearn.pipeline import Pipeline
        from sklearn.preprocessing import FunctionTransformer

        steps = Pipeline([("last", FunctionTransformer(smallest_first)), ("gnp", GNPClassifier(**QUICK))])
        search = GridSearchCV(steps, {"gnp__split": ["size", "random"]}, cv=2).fit(graphs, high)
        assert search.best_params_["gnp__split"] in ("size", "random")
        assert search.best_estimator_["gnp"].split == search.best_params_["gnp__split"]
        assert (search.predict(graphs) == high).mean() > 0.9
        assert search.classes_.tolist() == [False, True]


def smallest_first(graphs: list[Data]) -> list[Data]:
    """The elements of each set, the smallest first: no pooling sees the difference."""
    return [Data(x=one.x.sort(dim=0).values, y=one.y) for one in graphs]


def test_targets_of_nodes_as_a_list_for_each_graph() -> None:
    generator = torch.Generator().manual_seed(0)
    graphs, y = [], []
    for n in range(4, 16):
        ends = torch.arange(n - 1)
        edges = torch.stack([ends, ends + 1])
        x = torch.rand(n, 1, generator=generator)
        graphs.append(Data(x=x, edge_index=torch.cat([edges, edges.flip(0)], 1)))
        y.append((x[:, 0] * 2).numpy())
    model = GNPRegressor(level="node", **QUICK).fit(graphs, y)
    assert len(model.predict(graphs[:2])) == 9
    assert model.score(graphs, y) == pytest.approx(model.score(graphs, np.concatenate(y)))
    with pytest.raises(ValueError, match="'y' must have 114 values, one for each node, got 12"):
        model.score(graphs, range(12))
