"""Writes the result of a fit: the numbers, a picture and the model, in a folder that is written atomically."""

from __future__ import annotations

import io
import json
import math
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gnpool.data import DataError, GraphTable
from gnpool.data.table import Floats
from gnpool.display.measures import METRICS, Metric, shown
from gnpool.display.models import GNP, is_gnp
from gnpool.display.palette import COLORS
from gnpool.fit.answer import Answer, class_shares
from gnpool.fit.edges import with_edge_sums
from gnpool.fit.law import formulas
from gnpool.fit.study import LAW, Entry, Study
from gnpool.insight import Finding
from gnpool.models.folder import check_free, write_folder
from gnpool.models.saved import model_files
from gnpool.store.regular import read_regular
from gnpool.training.machine import describe_machine

SCHEMA = 1
BINS = 8  # bins of the curve of errors against size
DIGITS = 6  # significant digits of raw errors in fit.json
LARGEST_FIT = 2**30  # bytes of the largest fit.json that is read
ROOM = 2**20  # bytes that must be free on the disk of the result
OURS = {"model", "learned", "fit.json", "fit.png", "report.html"}
LOW, HIGH = 1e-4, 1e12  # percent; values beyond are drawn at the border


def model_extra(study: Study, classes: Sequence[Any] | None = None) -> dict[str, Any]:
    """The data that prediction needs beside the network; ``classes`` have the type in which the user gave them."""
    sizes = study.sizes("train")
    return {
        "made_by": "gnpool fit",
        "problem": study.problem.to_dict(),
        "classes": _classes(study) if classes is None else list(classes),
        "preprocessing": study.preprocessing.to_dict(),
        "trained_on": {f"{study.split.unit}s": len(sizes), "smallest": int(sizes.min()), "largest": int(sizes.max())},
    }


def _classes(study: Study) -> list[Any]:
    column = study.table.y
    assert column is not None
    named = study.problem.task == "regression" or column.categories is not None
    return list(study.problem.classes) if named else np.unique(column.plain()).tolist()


def result_dict(study: Study, found: Answer) -> dict[str, Any]:
    """All numbers in a form that JSON can hold, for ``fit.json``."""
    table, split, options = study.table, study.split, study.options
    trained, tested = (int(study.sizes(part).max()) for part in ("train", "larger"))
    return {
        "schema": SCHEMA,
        "answer": {
            "text": str(found),
            "model": found.entry.label,
            "poolings": None if found.poolings is None else list(found.poolings),
            "law": found.law,
            "gnp": found.verdict,
            "learned": found.learned,
            "tested_up_to": tested / max(1, trained),  # relative to the largest size in training
        },
        "problem": study.problem.to_dict(),
        "metric": options.metric,
        "data": {
            "graphs": len(table.sizes),
            "nodes": int(table.sizes.sum()),
            "edges": None if table.edge_index is None else int(table.edge_index.shape[1]),
            "columns": study.preprocessing.describe(),
            "fingerprint": table.fingerprint(),
        },
        "preprocessing": study.preprocessing.to_dict(),
        "split": {
            "by": split.by,
            "of": f"{split.unit}s",
            **{
                name: {
                    "graphs": len(study.sizes(name)),
                    "smallest": int(study.sizes(name).min()),
                    "largest": int(study.sizes(name).max()),
                }
                for name in split.parts()
            },
        },
        "class_shares": class_shares(study) if study.problem.task == "classification" else None,
        "network": {"chosen": study.frame.describe(), "tried": study.frames},
        "models": [_model(entry, entry is found.entry) for entry in study.entries],
        "constant": {"validation_loss": study.baseline.loss, **study.baseline.measures},
        "crystal": None
        if study.crystal is None
        else {
            "choice": study.crystal.choice.describe(),
            "reason": study.crystal.reason,
            "verdict": study.crystal.verdict,
            "certificate": str(study.crystal.certificate or ""),
            "table": str(study.crystal),
            "reading": str(study.crystal.reading),
        },
        "law": _laws(study),
        "by_size": by_size(study),
        "graphs": {
            part: {
                "names": [str(name) for name in _names(study, part)],
                "sizes": study.sizes(part).tolist(),
                "errors": {entry.label: _rounded(_per_graph(study, entry, part)) for entry in study.entries},
            }
            for part in ("inside", "larger")
        },
        "notes": list(study.prepared.notes),
        "meta": {
            "epochs": study.prepared.epochs,
            "seed": options.seed,
            "seconds": round(study.seconds, 1),
            **describe_machine(torch.device(options.device)),
        },
    }


def _names(study: Study, part: str) -> list[Any]:
    """The user's names of the graphs, or of the nodes, of a part."""
    names: Any = study.table.names
    if study.split.unit == "node":
        names = study.table.node_names
        names = np.arange(int(study.table.sizes.sum())) if names is None else names
    found: list[Any] = names[getattr(study.split, part)].tolist()
    return found


def _model(entry: Entry, chosen: bool) -> dict[str, Any]:
    return {
        "label": entry.label,
        "chosen": chosen,
        "finished": entry.finished,
        "poolings": None if entry.poolings is None else list(entry.poolings),
        "validation_loss": entry.loss,
        **entry.measures,
        "runs": entry.runs,
        "curves": entry.curves,
    }


def _laws(study: Study) -> dict[str, Any] | None:
    """What the search found: for the first target, and with several targets for all of them under ``targets``."""
    found = [_law(finding) for finding in study.findings]
    for one, formula in zip(found, formulas(study.findings, study.problem) if found else [], strict=True):
        one["formula"] = formula
    if len(found) > 1:
        return {**found[0], "targets": dict(zip(study.problem.columns, found, strict=True))}
    return found[0] if found else None


def _law(finding: Finding) -> dict[str, Any]:
    return {
        "verdict": finding.verdict,
        "formula": None if finding.law is None else str(finding.law),
        "latex": None if finding.law is None else finding.law.latex(),
        "left": finding.noise,
        "constant_leaves": finding.spread,
        "trusted_size": finding.trusted_size if finding.law is not None else None,
        "tolerance": finding.tolerance if finding.law is not None else None,
        "alternatives": [str(law) for law in finding.alternatives],
        "tried": finding.tried,
    }


def _per_graph(study: Study, entry: Entry, part: str) -> Floats:
    return study.per_graph(entry.errors[part], part)


def _rounded(values: Floats) -> list[float | None]:
    return [_short(value) for value in values.tolist()]


def _short(value: float) -> float | None:
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None


def by_size(study: Study) -> dict[str, Any]:
    """Errors of all test graphs against their size: mean size, graphs and the error of each competitor in each bin."""
    parts = ("inside", "larger")
    sizes = np.concatenate([study.sizes(part) for part in parts])
    edges = np.unique(np.quantile(sizes, np.linspace(0, 1, BINS + 1)))
    place = np.clip(np.searchsorted(edges, sizes, side="right") - 1, 0, max(0, len(edges) - 2))
    kept = np.unique(place)
    # errors are relative to the targets
    weight = np.concatenate([study.per_graph(study.problem.sizes(study.prepared.y[part]), part) for part in parts])
    found: dict[str, Any] = {
        "sizes": [float(sizes[place == k].mean()) for k in kept],
        "graphs": [int((place == k).sum()) for k in kept],
        "trained_up_to": int(study.sizes("train").max()),
        "errors": {},
    }
    for entry in study.entries:
        errors = np.concatenate([_per_graph(study, entry, part) for part in parts])
        means = [(float(errors[place == k].mean()), float(weight[place == k].mean())) for k in kept]
        found["errors"][entry.label] = [_short(e / w) if w > 0 else None for e, w in means]
    return found


def draw(result: dict[str, Any]) -> bytes | None:
    """The errors against size as a PNG; None without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    curve, of_classes = result["by_size"], result["problem"]["task"] == "classification"
    models = sorted(result["models"], key=_color_order)
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    if result["split"]["by"] == "size":
        axes.axvspan(0, curve["trained_up_to"], color="0.93", linewidth=0, label="sizes in training")
    for model, color in zip(models, COLORS, strict=False):
        low = 0.0 if of_classes else LOW
        errors = [float("nan") if e is None else min(max(100 * e, low), HIGH) for e in curve["errors"][model["label"]]]
        style = {"linewidth": 2.5} if model["chosen"] else {"linewidth": 1.2, "linestyle": "--"}
        axes.plot(curve["sizes"], errors, color=color, marker="o", markersize=4, label=model["label"], **style)
    if not of_classes:  # their errors are often 0
        axes.set_yscale("log")
    axes.set_xlim(0, 1.05 * max(*curve["sizes"], 1))
    axes.set_xlabel("nodes" if result["split"].get("of", "graphs") == "graphs" else "neighbours")
    axes.set_ylabel("error in %")
    axes.legend(fontsize=8)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=110)
    return file.getvalue()


def _color_order(model: dict[str, Any]) -> tuple[Any, ...]:
    """GNP and GNP* have the first colours, as on the page; the chosen one has a colour in any case."""
    label = model["label"]
    return label != GNP, not is_gnp(label), not model["chosen"], not model["finished"], model["validation_loss"]


def is_result(folder: Path) -> bool:
    """Whether a folder holds the result of a fit, and nothing else."""
    return {path.name for path in folder.iterdir()} <= OURS


def check_out(folder: Path) -> None:
    """Raise an error, before hours of work, if no result could be written there. It tries, and cleans up."""
    check_free(folder, is_result)
    place = Path(os.path.abspath(folder)).parent  # noqa: PTH100 -- resolve() would follow a link
    while not place.exists():
        place = place.parent
    try:
        with tempfile.NamedTemporaryFile(dir=place, prefix=f".{folder.name}.") as file:
            file.write(bytes(ROOM))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise DataError(f"the result cannot be written there ({error.strerror})", file=str(place)) from error


def check_same_data(folder: Path, table: GraphTable) -> None:
    """Raise an error if the folder holds a fit of other data."""
    try:
        old = json.loads(read_regular(folder / "fit.json", LARGEST_FIT))["data"].get("fingerprint")
    except FileNotFoundError:
        return
    except (AttributeError, KeyError, OSError, RecursionError, TypeError, ValueError):
        old = None
    if old != with_edge_sums(table).fingerprint():  # what was fitted to
        raise DataError(
            "a fit of other data is there; choose another --out, or replace it with --force", file=str(folder)
        )


def write_result(folder: Path, study: Study, found: Answer) -> dict[str, Any]:
    """Write the folder, and return the content of ``fit.json``."""
    result = result_dict(study, found)
    extra = model_extra(study)
    files: dict[str, bytes] = {}
    for folder_name, entry in (("model", found.entry), ("learned", study.entries[0])):  # the choice, and GNP to read
        made = model_files(entry.model, entry.spec, extra)
        files |= {f"{folder_name}/{name}": data for name, data in made.items()}
    files["fit.json"] = (json.dumps(result, indent=1, allow_nan=False) + "\n").encode()
    picture = draw(result)
    if picture is not None:
        files["fit.png"] = picture
    write_folder(folder, files, replaces=is_result)
    return result


def table_rows(result: dict[str, Any]) -> list[list[str]]:
    """The competitors as rows of text, the best on validation first, with a mark at the chosen one."""
    metric = METRICS[result.get("metric", "error")]
    rows = []
    for model in sorted(result["models"], key=lambda m: (not m["finished"], m["validation_loss"])):
        poolings = "learned" if model["poolings"] is None else "/".join(model["poolings"])
        name = (
            "; ".join(model["poolings"])
            if model["label"] == LAW
            else model["label"]
            if model["label"] == poolings
            else f"{model['label']} ({poolings})"
        )
        chosen = " <-" if result["answer"].get("learned", True) else " (saved)"
        mark = chosen if model["chosen"] else "" if model["finished"] else " (first look)"
        rows.append([f"{name}{mark}", *_row(model, metric)])
    return [*rows, ["best constant", *_row(result["constant"], metric)]]


def _row(model: dict[str, Any], metric: Metric) -> list[str]:
    return [f"{model['validation_loss']:.3g}", *(shown(model[part], metric) for part in ("inside", "larger"))]
