"""A small study that has everything a page can show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from gnpool.store import Store

EVIL = "<script>alert(1)</script>"
SIZES = (50, 100, 1000)


def cell(row: str, column: str, mean: float | None, paper: float | None = None, **fields: Any) -> dict[str, Any]:
    """A cell of results.json with three runs around a mean; no mean: not run."""
    ours = None
    if mean is not None:
        ours = {"mean": mean, "std": 0.1 * mean, "runs": [0.9 * mean, mean, 1.1 * mean], "failed": 0, "median": mean}
    published = None if paper is None else {"mean": paper, "std": 0.1}
    return {"row": row, "column": column, "ours": ours, "paper": published, "metric": "MAPE", "verdict": "", **fields}


def tables() -> list[dict[str, Any]]:
    """Tables of results.json: one beside the paper's, one by size."""
    meta = {
        "preset": "quick",
        "notes": "less of everything",
        "search": "all",
        "seed": 0,
        "seeds": [0, 1, 2],
        "seconds": 60.0,
        "device": "cpu: x",
        "python": "3.12.0",
        "versions": {"torch": "2.13.0", "triton": None},
    }
    compared = [
        cell("GNP", "harmonic", 1.31, 1.1, gnp=True, verdict="matched"),
        cell("GNP", "invsize", 0.5, 1.2, gnp=True, verdict="better"),
        cell("sum,max", "harmonic", 80.0, 90.0, gnp=False, verdict="both fail"),
        cell("sum,max", "invsize", 3.0, 90.0, gnp=False, verdict="different outcome"),
        cell(f"a {EVIL}", "harmonic", 2.0, 1.0, gnp=False, verdict="worse"),
        cell(f"a {EVIL}", "invsize", None, 1.0, gnp=False, verdict="not run"),
    ]
    sizes = [
        cell(f"{task}/{model}", str(size), error * size / 50, gnp=model == "GNP")
        for task in ("invsize", f"b {EVIL}")
        for model, error in (("GNP", 1.0), ("sum,max", 40.0))
        for size in SIZES
    ]
    sizes[-1]["ours"] = None
    sizes[0]["ours"]["mean"] = 0.0  # has no logarithm
    first = {"table": "demo", "title": f"Errors {EVIL}", "metric": "MAPE", "rows_are": "model", "columns_are": "task"}
    second = {"table": "fig_size", "title": "Error against the number of nodes", "metric": "MAPE"}
    return [{**first, "cells": compared, "meta": meta}, {**second, "cells": sizes, "meta": meta}]


def make_study(folder: Path) -> Path:
    """A folder with results.json and a store of three trainings and a score."""
    store = Store(folder)
    meta = {"device": "cpu: x", "python": "3.12.0", "versions": {"torch": "2.13.0"}, "preset": "quick", "seconds": 30.0}
    epochs = torch.arange(1.0, 102.0, dtype=torch.float64)[:, None]
    for model, data in (("gnp", "standard"), ("sum,max", "standard"), (f"gnp {EVIL}", "tree")):
        tensors = {"curve/metric": 50.0 / epochs[1:] * torch.tensor([1.0, 1.2, 0.8]), "weights/a": torch.eye(2)}
        if model != "sum,max":
            end = torch.tensor([1.0, 1.1, 0.9], dtype=torch.float64)
            tensors |= {
                "curve/readout.p_pos": 1.0 + 0.69 / epochs * end,
                "curve/readout.q_pos": 1.0 - 1.0 / epochs * end,
                "curve/readout.p_neg": 1.69 * epochs**0.5 * end,
                "curve/readout.q_neg": 0.01 * epochs * end,
            }
        runs = [{"seed": seed, "failed": "diverged" if seed == 2 else None} for seed in range(3)]
        chosen = {"loss": {"setting": {"lr": 0.001, "lr_p": 0.03, "optimizer": "rmsprop"}}}
        key = {"table": "training", "task": "harmonic", "data": data, "model": model, "preset": "quick-0"}
        store.put(key, scores={"runs": runs, "chosen": chosen}, tensors=tensors, meta=meta)
    crystals = [
        {"seed": seed, "text": text} for seed, text in enumerate(["sum, then max", f"b {EVIL}", "sum, then max"])
    ]
    key = {"table": "training", "task": "harmonic", "data": "standard", "model": "gnp*", "preset": "quick-0"}
    store.put(key, scores={"crystals": crystals}, meta=meta)
    key = {"table": "score", "task": "harmonic", "exam": "er"}
    store.put(key, scores={"loss": [{"mean": 1.0}]}, meta={"seconds": 1.5, "device": "cpu: x"})
    (folder / "results.json").write_text(json.dumps({"schema": 1, "tables": tables()}))
    return folder
