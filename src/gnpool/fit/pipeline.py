"""From data to a named answer: split, look for a law, train GNP beside the fixed poolings, crystallise, measure."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gnpool.data import DataError, GraphTable
from gnpool.data.table import Floats
from gnpool.display.models import CRYSTAL, GNP
from gnpool.engine import Engine
from gnpool.fit.curves import training_curves
from gnpool.fit.law import find_in, law_network
from gnpool.fit.networks import Frame, fixed_poolings, frames, slots
from gnpool.fit.prepared import Prepared, prepare
from gnpool.fit.problem import Problem
from gnpool.fit.study import LAW, Entry, Options, Study
from gnpool.fit.trainer import Meter, OnProgress, Poolings, Trained, Trainer, Training, label_of, on_all_cores, short_of
from gnpool.insight import Crystal, Finding, crystallize
from gnpool.training import evaluate_items

FINALISTS = 6  # fixed poolings that are trained to the end
MARGIN = 0.2  # a simpler frame, or a law, may have a validation loss larger by this part
EXACT = 1e-6  # or by this part of that of the best constant
CRYSTAL_WORK = 0.3  # of the whole trainings, by experience
CRYSTAL_EPOCHS = 60  # at most


def run_study(
    table: GraphTable,
    options: Options,
    on_progress: OnProgress = lambda text, done: None,
    *,
    engine: Engine | None = None,
    checkpoint: Path | None = None,
) -> Study:
    """Fit everything to a table of graphs with targets.

    ``engine`` trains the networks, side by side if it is a cluster; with ``checkpoint``, a folder, a study that was
    interrupted goes on from what is found there. Without a cluster, long trainings use all cores.

    If the search finds a certain law, the networks get a first look only: the law has nothing to gain from more.
    """
    began = time.monotonic()
    prepared = prepare(table, options)
    problem, split, tables = prepared.problem, prepared.split, prepared.tables
    on_progress("looking for a law", 0.0)
    given = table.select(np.concatenate([split.train, split.validation]))
    finding = find_in(given, problem, prepared.preprocessing)
    targets = {name: problem.true_values(part) for name, part in tables.items()}
    baseline = _baseline(problem, targets)
    law = None if finding is None or finding.law is None else _law_entry(prepared, finding)
    meter = Meter(on_progress)
    crystal, tried = None, list[dict[str, Any]]()
    if finding is not None and finding.verdict == "law" and law is not None:
        meter.total = _first_looks(prepared)
        trainer = Trainer(prepared, engine or Engine(options.device), checkpoint, meter)
        frame = frames(problem)[0]
        entries = _entries(trainer, compare(trainer, frame, whole=False))
        enough = law.loss <= (1 + MARGIN) * min(e.loss for e in entries) + EXACT * float(baseline["validation"].mean())
    else:
        enough = False
    if not enough:
        meter = Meter(on_progress)
        meter.total = _work(prepared)
        with on_all_cores(engine or Engine(options.device), prepared, meter.total) as where:
            trainer = Trainer(prepared, where, checkpoint, meter)
            frame, tried = choose_frame(trainer)
            entries = _entries(trainer, compare(trainer, frame, whole=True))
        crystal = crystallise(trainer, entries)
    if law is not None:
        entries.append(law)
    on_progress("done", 1.0)
    return Study(
        table=table,
        split=split,
        problem=problem,
        preprocessing=prepared.preprocessing,
        frame=frame,
        frames=tried,
        entries=entries,
        crystal=crystal,
        finding=finding,
        baseline=baseline,
        targets=targets,
        notes=list(prepared.notes),
        options=options,
        epochs=prepared.epochs,
        seconds=time.monotonic() - began,
    )


def _scouts(prepared: Prepared) -> list[Poolings]:
    """The poolings that a network is tried with before one is chosen."""
    sums = fixed_poolings(prepared.problem, few=True)
    return [None, *(sums[:1] if prepared.few else sums)]


def _first_looks(prepared: Prepared) -> float:
    """Epochs of the first looks of all poolings."""
    return short_of(prepared.epochs) * (1 + len(fixed_poolings(prepared.problem, prepared.few)))


def _work(prepared: Prepared) -> float:
    """Epochs of everything, by experience where it is no training."""
    choices = len(frames(prepared.problem))
    choosing = choices * len(_scouts(prepared)) * short_of(prepared.epochs) if choices > 1 else 0
    fixed = len(fixed_poolings(prepared.problem, prepared.few))
    whole = prepared.epochs * (1 + min(FINALISTS, fixed))
    return choosing + _first_looks(prepared) + (1 + CRYSTAL_WORK) * whole


def choose_frame(trainer: Trainer) -> tuple[Frame, list[dict[str, Any]]]:
    """The simplest frame that is as good as the best, with GNP and some fixed poolings in it."""
    prepared = trainer.prepared
    choices, scouts = frames(prepared.problem), _scouts(prepared)
    if len(choices) == 1:
        return choices[0], []
    looks = [
        Training(frame, poolings, short=True, text=f"choosing the network: {label_of(poolings)}")
        for frame in choices
        for poolings in scouts
    ]
    losses = {(one.frame, one.poolings): found.loss for one, found in zip(looks, trainer.all(looks), strict=True)}
    lowest = {frame: min(losses[frame, poolings] for poolings in scouts) for frame in choices}
    tried = [
        {
            "frame": frame.describe(),
            "options": dict(frame.options),
            "validation_loss": {label_of(poolings): _finite(losses[frame, poolings]) for poolings in scouts},
        }
        for frame in choices
    ]
    best = min(lowest.values())
    if not math.isfinite(best):
        raise DataError("every training diverged; are the features or targets of sensible size?")
    return next(frame for frame in choices if lowest[frame] <= best * (1 + MARGIN)), tried


def compare(trainer: Trainer, frame: Frame, whole: bool) -> dict[Poolings, tuple[Trained, bool]]:
    """GNP and the fixed poolings in one frame, each with whether it was trained to the end.

    All fixed poolings get a first look. ``whole``: GNP and the best of them are trained to the end.
    """
    fixed = fixed_poolings(trainer.prepared.problem, trainer.prepared.few)
    every: list[Poolings] = [*fixed] if whole else [None, *fixed]
    looks = [Training(frame, one, short=True, text=f"first look: {label_of(one)}") for one in every]
    found = {one: (trained, False) for one, trained in zip(every, trainer.all(looks), strict=True)}
    if whole:
        finalists = sorted(fixed, key=lambda one: found[one][0].loss)[:FINALISTS]
        chosen: list[Poolings] = [None, *(one for one in fixed if one in finalists)]
        trainings = [Training(frame, one, short=False, text=f"training: {label_of(one)}") for one in chosen]
        found |= {one: (trained, True) for one, trained in zip(chosen, trainer.all(trainings), strict=True)}
    return {one: found[one] for one in (None, *fixed)}


def _entries(trainer: Trainer, found: dict[Poolings, tuple[Trained, bool]]) -> list[Entry]:
    """The competitors that did not diverge, GNP first."""
    entries = []
    for poolings, (trained, finished) in found.items():
        if math.isfinite(trained.loss):
            fit = trained.fit
            runs = _runs(trainer.prepared, trained)
            model = fit.model(fit.best())
            entry = _entry(trainer.prepared, trainer.engine, label_of(poolings), poolings, model, trained.spec, runs)
            entry.finished = finished
            entry.curves = training_curves(fit) if finished or poolings is None else None
            entries.append(entry)
    if not entries or entries[0].label != GNP:
        raise DataError("the training of GNP diverged; are the features or targets of sensible size?")
    return entries


def _entry(
    prepared: Prepared,
    engine: Engine | None,
    label: str,
    poolings: Poolings,
    model: torch.nn.Module,
    spec: dict[str, Any],
    runs: list[dict[str, Any]],
) -> Entry:
    device = torch.device(prepared.options.device) if engine is None else engine.here
    problem, data = prepared.problem, prepared.data
    validation = evaluate_items(model, data["validation"], problem.loss, device=device).numpy()
    errors = {
        part: evaluate_items(model, data[part], problem.error, device=device).numpy() for part in ("inside", "larger")
    }
    return Entry(label, poolings, model.cpu(), spec, validation, errors, runs)


def _runs(prepared: Prepared, trained: Trained) -> list[dict[str, Any]]:
    metric = {"error": prepared.problem.error}
    errors = {part: trained.fit.evaluate(prepared.data[part], metric)["error"] for part in ("inside", "larger")}
    return [
        {
            "setting": run.setting.to_dict(),
            "seed": run.seed,
            "failed": run.failed,
            "epoch": run.best["loss"].epoch if "loss" in run.best else None,
            "validation_loss": run.best["loss"].value if "loss" in run.best else None,
            **{part: _finite(float(errors[part][run.number])) for part in errors},
        }
        for run in trained.fit.runs
    ]


def crystallise(trainer: Trainer, entries: list[Entry]) -> Crystal:
    """Replace what GNP learned by exact poolings, and add the outcome to the entries."""
    prepared, meter = trainer.prepared, trainer.meter
    began = sum(meter.done)
    work = max(0.0, meter.total - began)

    def progress(number: int, total: int, text: str) -> None:
        meter.on_progress(f"crystallising: {text}", min(1.0, (began + work * number / total) / meter.total))

    crystal = crystallize(
        entries[0].model,
        prepared.data["train"],
        prepared.data["validation"],
        prepared.problem.loss,
        epochs=min(prepared.epochs, CRYSTAL_EPOCHS),
        device=trainer.engine.here,
        checkpoint=None if trainer.checkpoint is None else trainer.checkpoint / "crystal",
        progress=progress,
    )
    chosen = crystal.choice
    if not chosen.learned:
        names = pooling_names(chosen.poolings, slots(prepared.problem))
        runs = [{"validation_loss": chosen.loss, "failed": None}]
        entries.insert(1, _entry(prepared, trainer.engine, CRYSTAL, names, crystal.model, entries[0].spec, runs))
    return crystal


def _law_entry(prepared: Prepared, finding: Finding) -> Entry:
    """The law as a competitor."""
    assert finding.law is not None
    network, spec = law_network(finding.law, finding.noise, prepared.problem, prepared.preprocessing)
    return _entry(prepared, None, LAW, (str(finding.law),), network.eval(), spec, [])


def pooling_names(poolings: dict[str, dict[str, str]], places: tuple[str, ...]) -> tuple[str, ...]:
    """The poolings of a crystal in the order of the slots; several of one slot are joined, equal ones once."""
    found = []
    for place in places:
        layers = [names for layer, names in poolings.items() if layer.rpartition(".")[2] == place]
        words = [" and ".join(sorted(set(names.values()))) or "learned" for names in layers]
        found.append(words[0] if len(set(words)) == 1 else ", then ".join(words))
    return tuple(found)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _baseline(problem: Problem, targets: dict[str, Floats]) -> dict[str, Floats]:
    """The best constant: the mean of the training targets, or the most frequent class."""
    if problem.task == "regression":
        mean = targets["train"].mean()
        found = {name: np.abs(values - mean) for name, values in targets.items()}
        return {**found, "validation": np.square(found["validation"] / problem.scale)}
    counts = np.bincount(targets["train"].astype(np.int64), minlength=len(problem.classes))
    shares = np.maximum(counts, 0.5) / counts.sum()
    found = {name: (values != counts.argmax()).astype(np.float64) for name, values in targets.items()}
    return {**found, "validation": -np.log(shares)[targets["validation"].astype(np.int64)]}
