"""Read a folder for a page: results, the answer of a fit, and the raw units of a store."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnpool.display.models import GNP
from gnpool.report.fitted import fit_machine, fit_tables, fit_trainings
from gnpool.report.shape import check_tables
from gnpool.report.study import StoredStudy, Training
from gnpool.store import Damage, Record, Store
from gnpool.store.regular import read_regular

RESULTS = "results.json"
FIT = "fit.json"


def read_study(folder: str | Path) -> StoredStudy:
    """Read what ``gnpool reproduce`` or ``gnpool fit`` left in a folder.

    Args:
        folder (str or Path): The folder.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"'{folder}' is not a folder")
    found, fit = _json(folder / RESULTS), _json(folder / FIT)
    damaged: list[str] = []
    records = _records(folder, damaged)
    if found is None and fit is None and not records:
        raise ValueError(f"'{folder}' holds neither {RESULTS} nor {FIT} nor units of a store; nothing can be shown")
    tables = _tables(found, folder) if found is not None else []
    if fit is not None:
        tables = [*fit_tables(fit), *tables]
    trainings = fit_trainings(fit) if fit is not None else []
    trainings += [training for record in records if (training := _training(record)) is not None]
    return StoredStudy(
        name=str(folder),
        tables=tables,
        fit=fit,
        trainings=sorted(trainings, key=lambda one: one.data != "") or _from_tables(tables),
        crystals=_crystals(records),
        units=dict(Counter(str(record.key["table"]) for record in records)),
        seconds=float(sum(record.meta.get("seconds") or 0.0 for record in records)),
        machines=_machines([*(record.meta for record in records), *([fit_machine(fit)] if fit is not None else [])])
        or _machines([table.get("meta", {}) for table in tables]),
        damaged=damaged,
    )


def _json(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(read_regular(path))
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:  # of JSON, and of UTF-8; of JSON that is nested without end
        raise ValueError(f"'{path}' is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"'{path}' must hold an object, got {type(found).__name__}")
    return found


def _tables(results: Mapping[str, Any], folder: Path) -> list[dict[str, Any]]:
    tables = results.get("tables")
    right = isinstance(tables, list) and all(
        isinstance(table, dict) and {"table", "title", "metric", "cells"} <= table.keys() for table in tables
    )
    if not right:
        raise ValueError(f"'{folder / RESULTS}' must hold a list 'tables', each with table, title, metric and cells")
    assert isinstance(tables, list)
    try:
        check_tables(tables)
    except ValueError as error:
        raise ValueError(f"'{folder / RESULTS}' is not what gnpool writes: {error}") from error
    return tables


def _records(folder: Path, damaged: list[str]) -> list[Record]:
    if not (folder / "units").is_dir():
        return []

    def note(damage: Damage) -> None:
        damaged.append(str(damage))

    return list(Store(folder, create=False, on_damage=note).records(tensors=True))


def _training(record: Record) -> Training | None:
    """A record that has curves."""
    curves = {
        name.removeprefix("curve/"): _two_dimensional(tensor.double().numpy())
        for name, tensor in (record.tensors or {}).items()
        if name.startswith("curve/") and tensor.dim() in (1, 2) and tensor.numel()
    }
    if not curves:
        return None
    key, scores = record.key, record.scores if isinstance(record.scores, dict) else {}
    rest = [str(value) for name, value in key.items() if name not in ("table", "task", "data", "model", "preset")]
    runs = scores.get("runs") or []
    return Training(
        task=str(key.get("task", key["table"])),
        data="" if key.get("data", "standard") == "standard" else str(key["data"]),
        model=str(key.get("model") or ", ".join(rest)),
        runs=len(runs),
        failed=sum(bool(run.get("failed")) for run in runs if isinstance(run, dict)),
        seconds=float(record.meta.get("seconds") or 0.0),
        device=str(record.meta.get("device") or ""),
        setting=_setting(scores.get("chosen")),
        curves=curves,
    )


def _setting(chosen: Any) -> Mapping[str, Any]:
    """The setting that the validation loss chose, if that is what the scores tell."""
    by_loss = chosen.get("loss") if isinstance(chosen, dict) else None
    setting = by_loss.get("setting") if isinstance(by_loss, dict) else None
    return setting if isinstance(setting, dict) else {}


def _crystals(records: Sequence[Record]) -> dict[str, dict[str, int]]:
    found = {}
    for record in records:
        if isinstance(record.scores, dict) and record.scores.get("crystals"):
            key = record.key
            parts = (key.get("task"), None if key.get("data") == "standard" else key.get("data"), key.get("model"))
            texts = Counter(str(one.get("text") or one.get("reason")) for one in record.scores["crystals"])
            found[" · ".join(str(part) for part in parts if part)] = dict(texts)
    return found


def _two_dimensional(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values[:, None] if values.ndim == 1 else values


def _from_tables(tables: Sequence[Mapping[str, Any]]) -> list[Training]:
    """Exponents that results.json itself holds, for a file that came without its store."""
    found: dict[str, dict[str, NDArray[np.float64]]] = {}
    for table in tables:
        for cell in table["cells"]:
            for name, curve in (cell.get("curves") or {}).items():
                found.setdefault(cell["row"], {})[f"{cell['column']}.{name}"] = np.array(curve, dtype=float)
    return [Training(task=task, data="", model=GNP, curves=curves) for task, curves in found.items()]


def _machines(metas: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    found = []
    for meta in metas:
        versions = meta.get("versions") or {}
        machine = {"device": meta.get("device"), "python": meta.get("python"), **versions}
        shown = {str(name): str(value) for name, value in machine.items() if value is not None}
        if shown and shown not in found:
            found.append(shown)
    return found
