"""Estimators with fit, predict and score, for notebooks. They run the code of ``gnpool fit``."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gnpool.data import Column, DataError, GraphTable, read_graphs
from gnpool.data.table import check_complete
from gnpool.fit.answer import Answer, answer
from gnpool.fit.measures import of_numbers
from gnpool.fit.parameters import Parameters
from gnpool.fit.pipeline import run_study
from gnpool.fit.predict import Predictor, load_predictor
from gnpool.fit.result import model_extra, result_dict
from gnpool.fit.study import Options, Study
from gnpool.fit.trainer import OnProgress
from gnpool.fit.words import counted
from gnpool.models.saved import save_model

OPTIONS = tuple(field.name for field in fields(Options) if field.name != "task")
Graphs = str | Path | Sequence[Any] | GraphTable


class _Estimator(Parameters):
    predictor: Predictor | None = None
    study: Study | None = None
    answer: Answer | None = None

    def __init__(
        self,
        *,
        level: str = "graph",
        split: str = "size",
        epochs: int | None = None,
        seeds: int | None = None,
        seed: int = 0,
        device: str = "cpu",
        metric: str = "error",
        train_up_to: int | None = None,
        test_from: int | None = None,
        dropout: float = 0.0,
        weight_decay: float = 0.0,
    ) -> None:
        self.level = level
        self.split = split
        self.epochs = epochs
        self.seeds = seeds
        self.seed = seed
        self.device = device
        self.metric = metric
        self.train_up_to = train_up_to
        self.test_from = test_from
        self.dropout = dropout
        self.weight_decay = weight_decay

    def fit(self, graphs: Graphs, y: Any = None, *, on_progress: OnProgress = lambda text, done: None) -> Any:
        """Look for a law, train GNP beside the fixed poolings, and choose by validation.

        Args:
            graphs (list[Data] or str or Path): Graphs or sets, or their path; see :func:`gnpool.data.read_graphs`.
            y (sequence, optional): Targets that replace those of the graphs. With ``level="node"`` they are those of
                all nodes, or a sequence for each graph. Several targets of a regression are columns, (items, targets).
            on_progress (callable, optional): Called with the current step in words and the share of the work done.
        """
        options = Options(self._task, **{name: getattr(self, name) for name in OPTIONS if hasattr(self, name)})
        table, targets = self._labelled(graphs, y)
        self.study = run_study(self._with_targets(table, targets, given=y is not None), options, on_progress)
        self.answer = answer(self.study)
        self.predictor = self._predictor(self.answer.entry.model, self.study)
        return self

    def predict(self, graphs: Graphs) -> NDArray[Any]:
        """The number or class of each graph (or node)."""
        return self._fitted().labels(self._outputs(graphs))

    @property
    def result(self) -> dict[str, Any]:
        """All numbers of the fit, as in ``fit.json``."""
        if self.study is None or self.answer is None:
            raise ValueError(
                f"{type(self).__name__}: there are no numbers, since it was loaded or not fitted; call 'fit' first"
            )
        return result_dict(self.study, self.answer)

    def save(self, folder: str | Path) -> Path:
        """Write the chosen model to a folder, as ``gnpool fit`` writes ``DIR/model``."""
        if self.study is None or self.answer is None:
            raise ValueError(f"{type(self).__name__}: call 'fit' before 'save'")
        entry = self.answer.entry
        return save_model(folder, entry.model, entry.spec, model_extra(self.study, self._fitted().classes))

    @classmethod
    def load(cls, folder: str | Path) -> Any:
        """What :meth:`save` or ``gnpool fit`` wrote."""
        predictor = load_predictor(folder)
        if predictor.problem.task != cls._task:
            raise ValueError(f"{cls.__name__}: the model in '{folder}' was fitted to a {predictor.problem.task}")
        estimator = cls(level=predictor.problem.level)
        estimator.predictor = predictor
        return estimator

    def _learn(self, targets: NDArray[Any]) -> Column:
        """The targets as a column of a table."""
        raise NotImplementedError

    def _with_targets(self, table: GraphTable, targets: NDArray[Any], given: bool) -> GraphTable:
        """The table with these targets, under their names."""
        columns = [self._learn(one) for one in (targets.T if targets.ndim == 2 else [targets])]
        names = [column.name for column in table.targets]
        if given or not names:
            names = ["y"] if len(columns) == 1 else [f"y{k}" for k in range(len(columns))]
        named = [replace(column, name=name) for column, name in zip(columns, names, strict=True)]
        return replace(table, y=named[0], more=tuple(named[1:]))

    def _predictor(self, model: torch.nn.Module, study: Study) -> Predictor:
        return Predictor(model, study.problem, study.preprocessing)

    def __sklearn_is_fitted__(self) -> bool:
        return self.predictor is not None

    def _read(self, graphs: Graphs, labelled: bool) -> GraphTable:
        return graphs if isinstance(graphs, GraphTable) else read_graphs(graphs, self.level, labelled=labelled)

    def _labelled(self, graphs: Graphs, y: Any) -> tuple[GraphTable, NDArray[Any]]:
        """The graphs, and their targets as they were given."""
        table = self._read(graphs, labelled=y is None)
        return table, _own_targets(table) if y is None else _given_targets(y, table)

    def _outputs(self, graphs: Graphs) -> NDArray[Any]:
        """The outputs of the network. Notes for the user become warnings."""
        found, notes = self._fitted().outputs(self._read(graphs, labelled=False), self.device)
        for note in notes:
            warnings.warn(f"{type(self).__name__}: {note}", stacklevel=3)
        return found

    def _fitted(self) -> Predictor:
        if self.predictor is None:
            raise ValueError(f"{type(self).__name__}: call 'fit' (or 'load') before 'predict'")
        return self.predictor

    def __repr__(self) -> str:
        state = "not fitted" if self.predictor is None else str(self.answer or "loaded")
        return f"{type(self).__name__}({state})"


class GNPRegressor(_Estimator):
    r"""Predicts one or several numbers for each graph, set or node, and finds the law or the pooling behind them.

    It looks for a law, trains GNP and the fixed poolings on the smaller graphs, crystallizes GNP, and keeps what
    validation chooses. After :meth:`fit`, ``answer`` says in words what was chosen and how it performs on the larger
    graphs; ``result`` has all numbers. It is an estimator for scikit-learn 1.6 or newer, which need not be installed:
    ``clone``, ``cross_val_score``, ``GridSearchCV`` and ``Pipeline`` take it with a list of graphs as data.

    Args:
        level (str, optional): Whether targets belong to ``"graph"`` or ``"node"``. (default: ``"graph"``)
        split (str, optional): ``"size"`` tests on the largest graphs, ``"random"`` on any. (default: ``"size"``)
        epochs (int, optional): Of each training. (default: chosen from the number of graphs)
        seeds (int, optional): Networks of each kind. (default: 3, or 1 for much data)
        seed (int, optional): Of the split, and the first of the networks. (default: ``0``)
        device (str, optional): Where to train. (default: ``"cpu"``)
        metric (str, optional): What the answer reports first, such as ``"mae"``. (default: ``"error"``)
        train_up_to (int, optional): Train on graphs of at most so many nodes. (default: chosen from the data)
        test_from (int, optional): Test on graphs of at least so many nodes. (default: all larger ones)
        dropout (float, optional): Dropout of the deeper networks. (default: ``0.0``)
        weight_decay (float, optional): L2 penalty of all weights. (default: ``0.0``)

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool import GNPRegressor
        >>> _ = torch.manual_seed(0)
        >>> sets = [Data(x=torch.rand(n, 1)) for n in range(3, 13) for _ in range(10)]
        >>> model = GNPRegressor(epochs=20, seeds=1).fit(sets, y=[float(one.x.sum()) for one in sets])
        >>> model.answer.law
        'y = sum_i(x0_i)'
        >>> round(float(model.predict([Data(x=torch.ones(1000, 1))])[0]), -1)  # a thousand ones
        1000.0
    """

    _task = "regression"

    def score(self, graphs: Graphs, y: Any = None) -> float:
        """R^2 of the predictions, the mean over several targets; NaN if all targets are the same."""
        table, given = self._labelled(graphs, y)
        targets = [self._learn(one).values for one in (given.T if given.ndim == 2 else [given])]
        predicted = self.predict(table).reshape(len(given), -1)
        if predicted.shape[1] != len(targets):
            raise ValueError(
                f"GNPRegressor: it was fitted to {counted(predicted.shape[1], 'target')}, but got {len(targets)}"
            )
        found = [
            of_numbers(mine, np.asarray(one, dtype=np.float64))["r2"]
            for mine, one in zip(predicted.T, targets, strict=True)
        ]
        return float("nan") if None in found else float(np.mean(found))

    def _learn(self, targets: NDArray[Any]) -> Column:
        try:
            column = Column("y", targets.astype(np.float64))
        except (TypeError, ValueError) as error:
            raise DataError(f"the target must be numbers ({error})", column="y") from error
        check_complete(column, None)
        return column


class GNPClassifier(_Estimator):
    r"""Predicts a class for each graph, set or node, and finds the law or the pooling behind it.

    It works as :class:`GNPRegressor` does. Classes may be words or numbers, and predictions have the same type.
    ``classes_`` lists them, and :meth:`predict_proba` gives a probability for each.

    Args:
        level (str, optional): Whether targets belong to ``"graph"`` or ``"node"``. (default: ``"graph"``)
        split (str, optional): ``"size"`` tests on the largest graphs, ``"random"`` on any. (default: ``"size"``)
        epochs (int, optional): Of each training. (default: chosen from the number of graphs)
        seeds (int, optional): Networks of each kind. (default: 3, or 1 for much data)
        seed (int, optional): Of the split, and the first of the networks. (default: ``0``)
        device (str, optional): Where to train. (default: ``"cpu"``)
        metric (str, optional): What the answer reports first, such as ``"balanced-accuracy"``. (default: ``"error"``)
        train_up_to (int, optional): Train on graphs of at most so many nodes. (default: chosen from the data)
        test_from (int, optional): Test on graphs of at least so many nodes. (default: all larger ones)
        dropout (float, optional): Dropout of the deeper networks. (default: ``0.0``)
        weight_decay (float, optional): L2 penalty of all weights. (default: ``0.0``)
        class_weights (str, optional): ``"balanced"`` makes all classes count alike in training. (default: no weights)

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool import GNPClassifier
        >>> _ = torch.manual_seed(0)
        >>> sets = [Data(x=torch.rand(n, 1)) for n in range(3, 13) for _ in range(5)]
        >>> model = GNPClassifier(epochs=3, seeds=1)
        >>> model = model.fit(sets, y=["few" if len(one.x) < 6 else "many" for one in sets])
        >>> model.classes_.tolist(), model.predict_proba(sets).shape
        (['few', 'many'], (50, 2))
    """

    _task = "classification"

    classes_: NDArray[Any]

    def __init__(
        self,
        *,
        level: str = "graph",
        split: str = "size",
        epochs: int | None = None,
        seeds: int | None = None,
        seed: int = 0,
        device: str = "cpu",
        metric: str = "error",
        train_up_to: int | None = None,
        test_from: int | None = None,
        dropout: float = 0.0,
        weight_decay: float = 0.0,
        class_weights: str | None = None,
    ) -> None:
        super().__init__(
            level=level,
            split=split,
            epochs=epochs,
            seeds=seeds,
            seed=seed,
            device=device,
            metric=metric,
            train_up_to=train_up_to,
            test_from=test_from,
            dropout=dropout,
            weight_decay=weight_decay,
        )
        self.class_weights = class_weights

    def predict_proba(self, graphs: Graphs) -> NDArray[Any]:
        """A probability for each class, (items, classes), in the order of ``classes_``."""
        return self._outputs(graphs)

    def score(self, graphs: Graphs, y: Any = None) -> float:
        """Share of right predictions."""
        table, targets = self._labelled(graphs, y)
        found = self.predict(table)
        if _are_numbers(found) != _are_numbers(targets):
            kinds = ["numbers" if _are_numbers(values) else "words" for values in (found, targets)]
            raise ValueError(f"{type(self).__name__}: the classes are {kinds[0]}, but 'y' holds {kinds[1]}")
        return float((found == targets).mean())

    @classmethod
    def load(cls, folder: str | Path) -> Any:
        """What :meth:`save` or ``gnpool fit`` wrote."""
        estimator = super().load(folder)
        estimator.classes_ = np.array(estimator.predictor.classes)
        return estimator

    def _learn(self, targets: NDArray[Any]) -> Column:
        if targets.ndim == 2:
            raise DataError(
                f"a classification has a single target, got {targets.shape[1]}; several targets must be numbers"
            )
        missing = next((k for k, label in enumerate(targets.tolist()) if label is None or label != label), None)
        if missing is not None:
            raise DataError(f"the target is missing (item {missing}, from 0)", column="y")
        try:
            self.classes_, codes = np.unique(targets, return_inverse=True)
        except TypeError:
            raise DataError("the classes must be numbers or words, not both", column="y") from None
        return Column("y", codes.astype(np.int64), tuple(str(label) for label in self.classes_.tolist()))

    def _predictor(self, model: torch.nn.Module, study: Study) -> Predictor:
        return Predictor(model, study.problem, study.preprocessing, tuple(self.classes_.tolist()))


def _given_targets(y: Any, table: GraphTable) -> NDArray[Any]:
    """The targets that the user gave, as one array."""
    if isinstance(y, torch.Tensor):
        y = y.detach().cpu()
    elif table.level == "node" and len(y) and np.ndim(next(iter(y))) == 1:  # a sequence for each graph
        y = np.concatenate([np.asarray(part) for part in y])
    values = np.asarray(y)
    if values.ndim != 2 or values.shape[1] == 1:
        values = values.reshape(-1)
    items = len(table.sizes) if table.level == "graph" else int(table.sizes.sum())
    if len(values) != items:
        raise ValueError(f"'y' must have {items} values, one for each {table.level}, got {len(values)}")
    return values


def _own_targets(table: GraphTable) -> NDArray[Any]:
    """The targets of the graphs: words, whole numbers or numbers; several targets are columns."""
    if table.y is None:
        raise DataError("the data has no targets to learn from")
    for column in table.targets:
        check_complete(column, None)
    return np.stack([column.plain() for column in table.targets], axis=1) if table.more else table.y.plain()


def _are_numbers(values: NDArray[Any]) -> bool:
    return np.asarray(values.tolist()).dtype.kind in "biuf"
