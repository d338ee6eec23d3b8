"""Estimators for notebooks: fit, predict, score, over the code of ``gnpool fit``."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from gnpool.data import Column, GraphTable, read_graphs
from gnpool.data.table import check_complete
from gnpool.fit.answer import Answer, answer
from gnpool.fit.pipeline import run_study
from gnpool.fit.predict import Predictor, load_predictor
from gnpool.fit.result import model_extra, result_dict
from gnpool.fit.study import Options, Study
from gnpool.fit.trainer import OnProgress
from gnpool.models.saved import save_model

Graphs = str | Path | Sequence[Any] | GraphTable


class _Estimator:
    _task: ClassVar[str]

    def __init__(
        self,
        *,
        level: str = "graph",
        split: str = "size",
        epochs: int | None = None,
        seeds: int | None = None,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        self.options = Options(self._task, split, epochs, seeds, seed, device)
        self.level = level
        self.predictor: Predictor | None = None
        self.study: Study | None = None
        self.answer: Answer | None = None

    def fit(self, graphs: Graphs, y: Any = None, on_progress: OnProgress = lambda text, done: None) -> Any:
        """Train GNP beside the fixed poolings, and choose.

        Args:
            graphs (list[Data] or str or Path): Graphs or sets, or where they are; see :func:`gnpool.data.read_graphs`.
            y (sequence, optional): Targets, in place of those that the graphs have.
            on_progress (callable, optional): Called with what is being done and how much of all is done.
        """
        table = self._read(graphs, labelled=y is None)
        if y is not None:
            table = replace(table, y=_target(y, table))
        self.study = run_study(table, self.options, on_progress)
        self.answer = answer(self.study)
        self.predictor = Predictor(self.answer.entry.model, self.study.problem, self.study.preprocessing)
        return self

    def predict(self, graphs: Graphs) -> NDArray[Any]:
        """The number or class of each graph (or node)."""
        return self._fitted().labels(self._outputs(graphs))

    @property
    def result(self) -> dict[str, Any]:
        """All numbers of the fit, as in ``fit.json``."""
        if self.study is None or self.answer is None:
            raise ValueError(f"{type(self).__name__}: it was loaded, or not fitted yet; numbers come from 'fit'")
        return result_dict(self.study, self.answer)

    def save(self, folder: str | Path) -> Path:
        """Write the chosen model, as ``gnpool fit`` does to ``DIR/model``."""
        if self.study is None or self.answer is None:
            raise ValueError(f"{type(self).__name__}: call 'fit' before 'save'")
        entry = self.answer.entry
        return save_model(folder, entry.model, entry.spec, model_extra(self.study))

    @classmethod
    def load(cls, folder: str | Path) -> Any:
        """What :meth:`save` or ``gnpool fit`` wrote."""
        predictor = load_predictor(folder)
        if predictor.problem.task != cls._task:
            raise ValueError(f"{cls.__name__}: the model in '{folder}' is one of {predictor.problem.task}")
        estimator = cls(level=predictor.problem.level)
        estimator.predictor = predictor
        return estimator

    def _read(self, graphs: Graphs, labelled: bool) -> GraphTable:
        return graphs if isinstance(graphs, GraphTable) else read_graphs(graphs, self.level, labelled=labelled)

    def _outputs(self, graphs: Graphs) -> NDArray[Any]:
        """What the network gives; warns of what a user should know."""
        found, notes = self._fitted().outputs(self._read(graphs, labelled=False), self.options.device)
        for note in notes:
            warnings.warn(f"{type(self).__name__}: {note}", stacklevel=3)
        return found

    def _fitted(self) -> Predictor:
        if self.predictor is None:
            raise ValueError(f"{type(self).__name__}: call 'fit' (or 'load') before 'predict'")
        return self.predictor

    def _truth(self, graphs: Graphs, y: Any) -> tuple[GraphTable, GraphTable]:
        table = self._read(graphs, labelled=y is None)
        return table, table if y is None else replace(table, y=_target(y, table))

    def __repr__(self) -> str:
        state = "not fitted" if self.predictor is None else str(self.answer or "loaded")
        return f"{type(self).__name__}({state})"


class GNPRegressor(_Estimator):
    r"""Predicts a number for each graph, set or node, and finds the pooling that does it.

    Trains GNP and the fixed poolings on the smaller graphs, crystallises, and keeps what validation chooses. After
    :meth:`fit`, ``answer`` says in words which pooling it is and how it does on the larger graphs; ``result`` has all
    numbers.

    Args:
        level (str, optional): Whether targets belong to ``"graph"`` or ``"node"``. (default: ``"graph"``)
        split (str, optional): ``"size"`` tests on the largest graphs, ``"random"`` on any. (default: ``"size"``)
        epochs (int, optional): Of each training. (default: chosen from the number of graphs)
        seeds (int, optional): Networks of each kind. (default: 3, or 1 for much data)
        seed (int, optional): Of the split, and the first of the networks. (default: ``0``)
        device (str, optional): Where to train. (default: ``"cpu"``)

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
        """R^2 of the predictions; NaN if all targets are the same."""
        table, truth = self._truth(graphs, y)
        targets = self._fitted().problem.true_values(truth)
        errors = np.abs(np.asarray(self.predict(table), dtype=np.float64) - targets)
        r2 = self._fitted().problem.summary(errors, targets)["r2"]
        return float("nan") if r2 is None else r2


class GNPClassifier(_Estimator):
    r"""Predicts a class for each graph, set or node, and finds the pooling that does it.

    All that :class:`GNPRegressor` says holds here. Classes may be words or numbers; ``classes`` lists them, and
    :meth:`predict_proba` gives a probability for each.

    Args:
        level (str, optional): Whether targets belong to ``"graph"`` or ``"node"``. (default: ``"graph"``)
        split (str, optional): ``"size"`` tests on the largest graphs, ``"random"`` on any. (default: ``"size"``)
        epochs (int, optional): Of each training. (default: chosen from the number of graphs)
        seeds (int, optional): Networks of each kind. (default: 3, or 1 for much data)
        seed (int, optional): Of the split, and the first of the networks. (default: ``0``)
        device (str, optional): Where to train. (default: ``"cpu"``)

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool import GNPClassifier
        >>> _ = torch.manual_seed(0)
        >>> sets = [Data(x=torch.rand(n, 1)) for n in range(3, 13) for _ in range(5)]
        >>> model = GNPClassifier(epochs=3, seeds=1)
        >>> model = model.fit(sets, y=["few" if len(one.x) < 6 else "many" for one in sets])
        >>> model.classes, model.predict_proba(sets).shape
        (('few', 'many'), (50, 2))
    """

    _task = "classification"

    def score(self, graphs: Graphs, y: Any = None) -> float:
        """Share of right predictions."""
        table, truth = self._truth(graphs, y)
        classes = np.array(self._fitted().problem.classes, dtype=object)
        targets = classes[self._fitted().problem.targets(truth).numpy()]
        return float((self.predict(table) == targets).mean())

    def predict_proba(self, graphs: Graphs) -> NDArray[Any]:
        """A probability for each class, (items, classes), in the order of ``classes``."""
        return self._outputs(graphs)

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes by name."""
        return self._fitted().problem.classes


def _target(y: Any, table: GraphTable) -> Column:
    values = np.asarray(y.detach().cpu() if isinstance(y, torch.Tensor) else y).reshape(-1)
    items = len(table.sizes) if table.level == "graph" else int(table.sizes.sum())
    if len(values) != items:
        raise ValueError(f"'y' must have {items} values, one for each {table.level}, got {len(values)}")
    if values.dtype.kind in "OUS":
        words, codes = np.unique(values.astype(str), return_inverse=True)
        column = Column("y", codes.astype(np.int64), tuple(words.tolist()))
    else:
        column = Column("y", values.astype(np.float64))
    check_complete(column, None)
    return column
