"""Turns the result of ``gnpool fit`` into the parts of a page: answer, tables and facts. Missing parts are skipped."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnpool.display.measures import METRICS, shown
from gnpool.display.models import is_gnp
from gnpool.report.answer import PageAnswer
from gnpool.report.study import Training

PARTS = ("inside", "larger")
NAMES = {"train": "training", "validation": "validation", "inside": "test, same sizes", "larger": "test, larger"}
HIDDEN = (
    "answer",
    "by_size",
    "constant",
    "graphs",
    "models",
    "notes",
    "preprocessing",
    "schema",
)  # shown elsewhere or not
ELSEWHERE = tuple(("meta", name) for name in ("device", "python", "seconds", "versions"))  # facts of every study
Fit = Mapping[str, Any]  # the content of fit.json


def fit_answer(fit: Fit) -> PageAnswer:
    """The answer of a fit: its first sentence at the top, then the others, then the notes."""
    found = fit.get("answer")
    words = str((found.get("text") if isinstance(found, Mapping) else found) or "A fit, without an answer")
    first, *rest = re.split(r"(?<=\.)\s+(?=[A-Z])", words.strip())
    return PageAnswer("", "", first.rstrip("."), (*rest, *(str(note) for note in _list(fit.get("notes")))))


def fit_tables(fit: Fit) -> list[dict[str, Any]]:
    """The errors of a fit as tables of results.json: against size, inside the training sizes, and on larger graphs."""
    metric = "share of wrong answers (%)" if _get(fit, "problem", "task") == "classification" else "relative error (%)"
    models = _models(fit)
    found = []
    for name, title, cells in (
        ("by_size", "Error on test graphs against their size", _by_size(fit, models)),
        ("fit", "Errors on test graphs, those of training sizes and larger ones", _by_part(fit, models)),
    ):
        if cells:
            shown = [{**cell, "metric": metric, "paper": None, "verdict": ""} for cell in cells]
            found.append({"table": name, "title": title, "metric": metric, "unit": "%", "cells": shown})
            if name == "by_size":
                found[-1] |= _sizes(fit)
    return found


def _models(fit: Fit) -> list[Mapping[str, Any]]:
    """The competitors, the chosen one first, then those that were trained to the end, the best on validation first."""
    models = [model for model in _list(fit.get("models")) if isinstance(model, Mapping)]
    return sorted(
        models,
        key=lambda one: (not one.get("chosen"), not one.get("finished", True), one.get("validation_loss") or 0.0),
    )


def _sizes(fit: Fit) -> dict[str, Any]:
    """The unit of sizes, the largest in training, and how errors are drawn: shares of wrong answers are often 0."""
    found: dict[str, Any] = {"sizes_of": _thing(fit)}
    if _get(fit, "problem", "task") == "classification":
        found["scale"] = "linear"
    limit = _get(fit, "by_size", "trained_up_to")
    if _get(fit, "split", "by") == "size" and isinstance(limit, (int, float)) and math.isfinite(limit):
        found["trained_up_to"] = float(limit)
    return found


def _thing(fit: Fit) -> str:
    """The unit of sizes: nodes of graphs, or neighbours of nodes."""
    return "neighbours" if _get(fit, "split", "of") == "nodes" else "nodes"


def fit_boxes(fit: Fit) -> list[tuple[str, list[str], list[list[str]]]]:
    """Small tables beside the answer, each with a title and a head: the sizes of the parts, up to where to trust the
    law, the share of each class, and the measure that the user asked for.
    """
    found = []
    items = "nodes" if _thing(fit) == "neighbours" else "graphs"
    parts = {name: _get(fit, "split", name) for name in ("train", "validation", *PARTS)}
    rows = [
        [NAMES[name], f"{part['graphs']:,}", _range(part)]
        for name, part in parts.items()
        if isinstance(part, Mapping) and all(_is_whole(part.get(key)) for key in ("graphs", "smallest", "largest"))
    ]
    trusted = _get(fit, "law", "trusted_size")
    if rows and _is_whole(trusted) and _get(fit, "answer", "model") == "law":
        rows.append(["trusted", "", f"up to {trusted:,}"])
    if rows:
        found.append(("Sizes", ["part", items, _thing(fit)], rows))
    shares = fit.get("class_shares")
    if isinstance(shares, Mapping) and all(isinstance(part, Mapping) for part in shares.values()):
        classes = dict.fromkeys(str(name) for part in shares.values() for name in part)
        rows = [[name, *(_share(part.get(name)) for part in shares.values())] for name in classes]
        found.append(("Share of each class", ["class", *(NAMES.get(name, str(name)) for name in shares)], rows))
    return [*found, *_asked(fit)]


def _asked(fit: Fit) -> list[tuple[str, list[str], list[list[str]]]]:
    """The measure that the answer tells, where it is another than the error, of all that was trained to the end."""
    metric = METRICS.get(str(fit.get("metric")))
    if metric is None or metric.key == "error":
        return []
    learned = _get(fit, "answer", "learned") is not False
    models = [model for model in _models(fit) if model.get("finished", True)]
    rows = [(_name(model, learned), model) for model in models] + [("best constant", fit.get("constant"))]
    values = [(name, [_get(model, part, metric.key) for part in PARTS]) for name, model in rows]
    cells = [
        [name, *(shown({metric.key: one}, metric) for one in found)] for name, found in values if _are_plain(found)
    ]
    title = metric.words[0].upper() + metric.words[1:]
    return [(title, ["", *(NAMES[part] for part in PARTS)], cells)] if cells else []


def _are_plain(values: Sequence[Any]) -> bool:
    """Whether there is a number among them, and nothing else but what is not defined."""
    numbers = [value for value in values if value is not None]
    return bool(numbers) and all(isinstance(value, (int, float)) for value in numbers)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _range(part: Mapping[str, Any]) -> str:
    low, high = part["smallest"], part["largest"]
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _share(value: Any) -> str:
    return f"{100 * value:.1f} %" if isinstance(value, (int, float)) and math.isfinite(value) else ""


def fit_facts(fit: Fit) -> dict[str, str]:
    """Every plain value of a fit, by its path."""
    found = {}
    for group, value in fit.items():
        if group not in HIDDEN:
            fields = value if isinstance(value, Mapping) else {"": value}
            for name, item in fields.items():
                words = _words(item)
                if words and (group, name) not in ELSEWHERE:
                    found[f"{group}: {name}" if name and group != "meta" else str(name or group)] = words
    return found


def fit_pooling(fit: Fit) -> str | None:
    """The pooling that the answer names last, that of the readout."""
    poolings = _list(_get(fit, "answer", "poolings"))
    return str(poolings[-1]) if poolings else None


def fit_trainings(fit: Fit) -> list[Training]:
    """The trainings of a fit with stored curves: the loss of each competitor, and p and q of GNP."""
    words = [_get(fit, "problem", name) for name in ("task", "level")]
    task = f"{words[0]} of {words[1]}s" if all(words) else "training"
    device = str(fit_machine(fit).get("device") or "")
    found = []
    for model in _list(fit.get("models")):
        losses, exponents = (_curves(_get(model, "curves", name)) for name in ("losses", "exponents"))
        epochs, _ = losses.pop("epoch", None), exponents.pop("epoch", None)
        if not losses or epochs is None:
            continue
        runs = [run for run in _list(_get(model, "runs")) if isinstance(run, Mapping)]
        best = min(runs, key=_validation_loss, default={})
        found.append(
            Training(
                task=task,
                data="",
                model=str(_get(model, "label")),
                runs=len(runs),
                failed=sum(bool(run.get("failed")) for run in runs),
                device=device,
                setting=setting if isinstance(setting := best.get("setting"), Mapping) else {},
                curves={**losses, **exponents},
                epochs=tuple(int(epoch) for epoch in epochs[:, 0]),
            )
        )
    return found


def _curves(found: Any) -> dict[str, NDArray[np.float64]]:
    """Curves by name, (epochs, seeds); those that are no numbers, or not as long as the others, are left out."""
    curves = {}
    for name, rows in found.items() if isinstance(found, Mapping) else ():
        try:
            values = np.array(rows, dtype=np.float64)  # None becomes NaN
        except (TypeError, ValueError):
            continue
        if values.size and values.ndim in (1, 2):
            curves[str(name)] = np.atleast_2d(values).T
    length = len(curves.get("epoch", ()))
    return {name: values for name, values in curves.items() if len(values) == length}


def _validation_loss(run: Mapping[str, Any]) -> float:
    loss = run.get("validation_loss")
    return float(loss) if isinstance(loss, (int, float)) else math.inf


def fit_machine(fit: Fit) -> Mapping[str, Any]:
    """The machine of a fit, as far as it is known."""
    meta = fit.get("meta")
    return meta if isinstance(meta, Mapping) else {}


def _by_size(fit: Fit, models: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Errors against size; nothing where there is one size, which is in the table of the parts."""
    curve = fit.get("by_size")
    errors = _get(fit, "by_size", "errors")
    if not isinstance(curve, Mapping) or not isinstance(errors, Mapping) or len(_list(curve.get("sizes"))) < 2:
        return []
    return [
        {"row": f"/{label}", "column": str(round(size)), "ours": _percent(error), "gnp": is_gnp(label)}
        for label in [str(model.get("label")) for model in models]
        for size, error in zip(_list(curve.get("sizes")), _list(errors.get(label)), strict=False)
    ]


def _by_part(fit: Fit, models: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    columns = {part: f"{part}: {_words(_get(fit, 'split', part)) or 'graphs'}" for part in PARTS}
    if _thing(fit) == "neighbours":
        columns = {
            part: words.replace(" nodes", " neighbours").replace(" graphs", " nodes") for part, words in columns.items()
        }
    learned = _get(fit, "answer", "learned") is not False
    rows = [(_name(model, learned), is_gnp(str(model.get("label"))), model) for model in models]
    if isinstance(fit.get("constant"), Mapping):
        rows.append(("best constant", False, fit["constant"]))
    return [
        {"row": row, "column": columns[part], "ours": _percent(_get(model, part, "error")), "gnp": gnp}
        for row, gnp, model in rows
        for part in PARTS
        if _get(model, part, "error") is not None
    ]


def _name(model: Mapping[str, Any], learned: bool = True) -> str:
    """The label of a model, its poolings if the label does not name them, and its outcome."""
    label = str(model.get("label"))
    poolings = "/".join(map(str, _list(model.get("poolings"))))
    shown = label if not poolings or poolings == label else f"{label} ({poolings})"
    return (
        f"{shown}, {'chosen' if learned else 'saved'}"
        if model.get("chosen")
        else shown
        if model.get("finished", True)
        else f"{shown}, a first look"
    )


def _percent(error: Any) -> dict[str, Any] | None:
    """A share in the form of a cell."""
    if not isinstance(error, (int, float)) or not math.isfinite(error):
        return None
    return {"mean": 100 * error, "std": None, "runs": [100 * error], "failed": 0}


def _words(item: Any) -> str:
    """A plain value, a list of plain values, or a part of the graphs, in words; empty for anything else."""
    if isinstance(item, Mapping) and {"graphs", "smallest", "largest"} <= item.keys():
        graphs, low, high = (item[name] for name in ("graphs", "smallest", "largest"))
        sizes = f"{high:,}" if low == high else f"{low:,} to {high:,}"
        return f"{graphs:,} graph{'s' * (graphs != 1)} of {sizes} node{'s' * (high != 1)}"
    if isinstance(item, list):
        return ", ".join(_plain(item)) if len(list(_plain(item))) == len(item) else ""
    return next(_plain([item]), "")


def _plain(items: Sequence[Any]) -> Iterator[str]:
    for item in items:
        if isinstance(item, str) and item and "\n" not in item:
            yield item
        elif isinstance(item, (int, float)) and not isinstance(item, bool):
            yield f"{item:,.6g}" if isinstance(item, float) else f"{item:,}"


def _get(fields: Any, *path: str) -> Any:
    for name in path:
        fields = fields.get(name) if isinstance(fields, Mapping) else None
    return fields


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else []
