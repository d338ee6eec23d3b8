"""What a fit leaves: the numbers, a picture and the model, in one folder that is there wholly or not at all."""

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

from gnpool.data import DataError
from gnpool.data.table import Floats, Ints
from gnpool.display.models import is_gnp
from gnpool.display.palette import COLORS
from gnpool.fit.answer import Answer, percent, summary_of
from gnpool.fit.study import LAW, Entry, Study
from gnpool.insight import Finding
from gnpool.models.folder import check_free, write_folder
from gnpool.models.saved import model_files
from gnpool.training.machine import describe_machine

SCHEMA = 1
BINS = 8  # of the curve against size
DIGITS = 6  # of raw errors in fit.json
ROOM = 2**20  # bytes that must be free where the result goes
OURS = {"model", "learned", "fit.json", "fit.png", "report.html"}
LOW, HIGH = 1e-4, 1e12  # percent: what is beyond is drawn at the border


def model_extra(study: Study, classes: Sequence[Any] | None = None) -> dict[str, Any]:
    """What prediction needs besides the network; ``classes`` in the type that the user gave them."""
    sizes = study.table.sizes[study.split.train]
    return {
        "made_by": "gnpool fit",
        "problem": study.problem.to_dict(),
        "classes": _classes(study) if classes is None else list(classes),
        "preprocessing": study.preprocessing.to_dict(),
        "trained_on": {"graphs": len(sizes), "smallest": int(sizes.min()), "largest": int(sizes.max())},
    }


def _classes(study: Study) -> list[Any]:
    column = study.table.y
    assert column is not None
    named = study.problem.task == "regression" or column.categories is not None
    return list(study.problem.classes) if named else np.unique(column.plain()).tolist()


def result_dict(study: Study, found: Answer) -> dict[str, Any]:
    """Everything as JSON can hold it: ``fit.json``."""
    parts = study.split.parts()
    return {
        "schema": SCHEMA,
        "answer": {
            "text": str(found),
            "model": found.entry.label,
            "poolings": None if found.poolings is None else list(found.poolings),
            "law": found.law,
            "gnp": found.verdict,
            "learned": found.learned,
        },
        "problem": study.problem.to_dict(),
        "data": {
            "graphs": len(study.table.sizes),
            "nodes": int(study.table.sizes.sum()),
            "edges": None if study.table.edge_index is None else int(study.table.edge_index.shape[1]),
            "columns": study.preprocessing.describe(),
        },
        "preprocessing": study.preprocessing.to_dict(),
        "split": {
            "by": study.split.by,
            **{
                name: {
                    "graphs": len(part),
                    "smallest": int(study.table.sizes[part].min()),
                    "largest": int(study.table.sizes[part].max()),
                }
                for name, part in parts.items()
            },
        },
        "network": {"chosen": study.frame.describe(), "tried": study.frames},
        "models": [_model(study, entry, entry is found.entry) for entry in study.entries],
        "constant": {
            "validation_loss": float(study.baseline["validation"].mean()),
            **{part: _constant(study, part) for part in ("inside", "larger")},
        },
        "crystal": None
        if study.crystal is None
        else {
            "choice": study.crystal.choice.describe(),
            "reason": study.crystal.reason,
            "table": str(study.crystal),
            "reading": str(study.crystal.reading),
        },
        "law": None if study.finding is None else _law(study.finding),
        "by_size": by_size(study),
        "graphs": {
            part: {
                "names": [str(name) for name in study.table.names[parts[part]].tolist()],
                "sizes": study.table.sizes[parts[part]].tolist(),
                "errors": {entry.label: _rounded(_per_graph(study, entry, part)) for entry in study.entries},
            }
            for part in ("inside", "larger")
        },
        "notes": study.notes,
        "meta": {
            "epochs": study.epochs,
            "seed": study.options.seed,
            "seconds": round(study.seconds, 1),
            **describe_machine(torch.device(study.options.device)),
        },
    }


def _model(study: Study, entry: Entry, chosen: bool) -> dict[str, Any]:
    return {
        "label": entry.label,
        "chosen": chosen,
        "finished": entry.finished,
        "poolings": None if entry.poolings is None else list(entry.poolings),
        "validation_loss": entry.loss,
        **{part: summary_of(study, entry, part) for part in ("inside", "larger")},
        "runs": entry.runs,
        "curves": entry.curves,
    }


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


def _constant(study: Study, part: str) -> dict[str, float | None]:
    return study.problem.summary(study.baseline[part], study.targets[part])


def _per_graph(study: Study, entry: Entry, part: str) -> Floats:
    return study.per_graph(entry.errors[part], part)


def _rounded(values: Floats) -> list[float | None]:
    return [_short(value) for value in values.tolist()]


def _short(value: float) -> float | None:
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None


def by_size(study: Study) -> dict[str, Any]:
    """Errors of all test graphs against their size: mean size, graphs and the error of each competitor in each bin."""
    parts = ("inside", "larger")
    graphs: Ints = np.concatenate([getattr(study.split, part) for part in parts])
    sizes = study.table.sizes[graphs]
    edges = np.unique(np.quantile(sizes, np.linspace(0, 1, BINS + 1)))
    place = np.clip(np.searchsorted(edges, sizes, side="right") - 1, 0, max(0, len(edges) - 2))
    kept = np.unique(place)
    if study.problem.task == "classification":
        weight = np.ones(len(graphs))
    else:  # errors are relative to the targets
        weight = np.concatenate([study.per_graph(np.abs(study.targets[part]), part) for part in parts])
    found: dict[str, Any] = {
        "sizes": [float(sizes[place == k].mean()) for k in kept],
        "graphs": [int((place == k).sum()) for k in kept],
        "trained_up_to": int(study.table.sizes[study.split.train].max()),
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
    curve = result["by_size"]
    models = sorted(result["models"], key=lambda m: (not m["chosen"], not is_gnp(m["label"]), m["validation_loss"]))
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    if result["split"]["by"] == "size":
        axes.axvspan(0, curve["trained_up_to"], color="0.93", linewidth=0, label="sizes in training")
    for model, color in zip(models, COLORS, strict=False):
        errors = [float("nan") if e is None else min(max(100 * e, LOW), HIGH) for e in curve["errors"][model["label"]]]
        style = {"linewidth": 2.5} if model["chosen"] else {"linewidth": 1.2, "linestyle": "--"}
        axes.plot(curve["sizes"], errors, color=color, marker="o", markersize=4, label=model["label"], **style)
    axes.set_yscale("log")
    axes.set_xlim(0, 1.05 * max(curve["sizes"]))
    axes.set_xlabel("nodes")
    axes.set_ylabel("error in %")
    axes.legend(fontsize=8)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=110)
    return file.getvalue()


def is_result(folder: Path) -> bool:
    """Whether a folder holds what a fit leaves, and nothing else."""
    return {path.name for path in folder.iterdir()} <= OURS


def check_out(folder: Path) -> None:
    """Complain before hours of work if the result could not be written there; it tries, and takes all away again."""
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
        raise DataError(f"nothing can be written there ({error.strerror})", file=str(place)) from error


def write_result(folder: Path, study: Study, found: Answer) -> dict[str, Any]:
    """Write the folder; gives what ``fit.json`` holds."""
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
    """The competitors as rows of text: the chosen one marked, the best on validation first."""
    rows = []
    for model in sorted(result["models"], key=lambda m: (not m["finished"], m["validation_loss"])):
        poolings = "learned" if model["poolings"] is None else "/".join(model["poolings"])
        name = (
            poolings
            if model["label"] == LAW
            else model["label"]
            if model["label"] == poolings
            else f"{model['label']} ({poolings})"
        )
        mark = " <-" if model["chosen"] else "" if model["finished"] else " (first look)"
        rows.append(
            [
                f"{name}{mark}",
                f"{model['validation_loss']:.3g}",
                *(percent(model[p]["error"]) for p in ("inside", "larger")),
            ]
        )
    constant = result["constant"]
    rows.append(
        [
            "best constant",
            f"{constant['validation_loss']:.3g}",
            *(percent(constant[p]["error"]) for p in ("inside", "larger")),
        ]
    )
    return rows
