"""From data to a named answer: split, look for a law, train GNP beside the fixed poolings, crystallise, measure."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnpool.data import DataError, GraphTable
from gnpool.data.table import Floats
from gnpool.display.models import CRYSTAL, GNP
from gnpool.engine import Engine
from gnpool.fit.curves import training_curves
from gnpool.fit.law import find_in, formulas, law_network, why_not
from gnpool.fit.networks import Frame, deeper, fixed_poolings, frames, slots
from gnpool.fit.outputs import outputs_of
from gnpool.fit.prepared import Prepared, prepare
from gnpool.fit.problem import Problem
from gnpool.fit.study import LAW, Entry, Options, Study
from gnpool.fit.trainer import Attempt, Meter, OnProgress, Poolings, Trained, Trainer, label_of, on_all_cores, short_of
from gnpool.insight import Crystal, Finding, crystallize
from gnpool.training import Batch

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
    on_progress("looking for a law", 0.0)
    findings = find_in(prepared)
    if (reason := why_not(prepared)) is not None:
        prepared = replace(prepared, notes=(*prepared.notes, reason))
    baseline = _baseline(prepared)
    law = _law_entry(prepared, findings)
    frame, tried, entries, crystal = None, list[dict[str, Any]](), list[Entry](), None
    if law is not None and all(finding.verdict == "law" for finding in findings):
        meter = Meter(on_progress, _first_looks(prepared))
        trainer = Trainer(prepared, engine or Engine(options.device), checkpoint, meter)
        frame = _frames(prepared)[0]
        entries = _entries(trainer, compare(trainer, frame, whole=False))
        if law.loss > (1 + MARGIN) * min(entry.loss for entry in entries) + EXACT * baseline.loss:
            frame = None  # a network comes nearer than the law
    if frame is None:
        meter = Meter(on_progress, _work(prepared))
        with on_all_cores(engine or Engine(options.device), prepared, meter.total) as where:
            trainer = Trainer(prepared, where, checkpoint, meter)
            frame, tried = choose_frame(trainer)
            entries = _entries(trainer, compare(trainer, frame, whole=True))
        crystal = crystallize_best(trainer, entries)
    if law is not None:
        entries.append(law)
    on_progress("done", 1.0)
    return Study(prepared, frame, tried, entries, crystal, findings, baseline, time.monotonic() - began)


def _scouts(prepared: Prepared) -> list[Poolings]:
    """The poolings that a network is tried with before one is chosen."""
    sums = fixed_poolings(prepared.problem, few=True)
    return [None, *(sums[:1] if prepared.few else sums)]


def _first_looks(prepared: Prepared) -> float:
    """Epochs of the first looks of all poolings."""
    return short_of(prepared.epochs) * (1 + len(fixed_poolings(prepared.problem, prepared.few)))


def _work(prepared: Prepared) -> float:
    """Epochs of everything, by experience where it is no training."""
    choices = len(_frames(prepared)) + len(_deeper(prepared)) // 2
    choosing = choices * len(_scouts(prepared)) * short_of(prepared.epochs) if choices > 1 else 0
    fixed = len(fixed_poolings(prepared.problem, prepared.few))
    whole = prepared.epochs * (1 + min(FINALISTS, fixed))
    return choosing + _first_looks(prepared) + (1 + CRYSTAL_WORK) * whole


def _wants(prepared: Prepared) -> tuple[Problem, int, float]:
    return prepared.problem, prepared.preprocessing.edge_width, prepared.options.dropout


def _frames(prepared: Prepared) -> list[Frame]:
    """The networks that are tried in any case."""
    return frames(*_wants(prepared))


def _deeper(prepared: Prepared) -> list[Frame]:
    """Networks beyond the first choice; none for much data."""
    known = _frames(prepared)
    return [] if prepared.few else [frame for frame in deeper(*_wants(prepared)) if frame not in known]


def choose_frame(trainer: Trainer) -> tuple[Frame, list[dict[str, Any]]]:
    """The simplest frame that is as good as the best, with GNP and some fixed poolings in it.

    Deeper networks are tried one after another, as long as one more layer helps.
    """
    prepared = trainer.prepared
    tried = _look(trainer, _frames(prepared), _scouts(prepared))
    lowest = math.inf
    for frame in _deeper(prepared):
        tried |= _look(trainer, [frame], [None, fixed_poolings(prepared.problem, few=True)[0]])
        if tried[frame].lowest >= lowest:
            break
        lowest = tried[frame].lowest
    best = min(tried, key=lambda frame: tried[frame].lowest)
    if not math.isfinite(tried[best].lowest):
        raise DataError("every training diverged; are the features or targets of sensible size?")
    good = [frame for frame, look in tried.items() if look.is_as_good_as(tried[best])]
    told = [
        {"frame": frame.describe(), "options": dict(frame.options), "validation_loss": look.losses}
        for frame, look in tried.items()
    ]
    return good[0], told


@dataclass(frozen=True)
class _Look:
    """What first looks at one frame gave: the loss with each poolings, and those of the best, item by item."""

    losses: dict[str, float | None]
    lowest: float
    items: Floats

    def is_as_good_as(self, best: _Look) -> bool:
        """Whether its loss is no larger than the lowest, up to noise and a fifth."""
        if not math.isfinite(self.lowest):
            return False
        apart = self.items - best.items
        noise = float(apart.std(ddof=1)) / math.sqrt(len(apart)) if len(apart) > 1 else 0.0
        return self.lowest <= best.lowest + min(noise, MARGIN * best.lowest)


def _look(trainer: Trainer, choices: Sequence[Frame], scouts: Sequence[Poolings]) -> dict[Frame, _Look]:
    """First looks at some frames with some poolings in them."""
    prepared = trainer.prepared
    looks = [
        Attempt(frame, poolings, short=True, text=f"choosing the network: {label_of(poolings)}")
        for frame in choices
        for poolings in scouts
    ]
    done = {(one.frame, one.poolings): found for one, found in zip(looks, trainer.all(looks), strict=True)}
    found = {}
    for frame in choices:
        trained = {label_of(poolings): done[frame, poolings] for poolings in scouts}
        best = min(trained.values(), key=lambda one: one.loss)
        items = np.full(len(prepared.y["validation"]), math.inf)
        if math.isfinite(best.loss):
            outputs = outputs_of(best.fit.model(best.fit.best()), prepared.data["validation"], trainer.engine.here)
            items = prepared.problem.loss(outputs, Batch(y=prepared.y["validation"])).numpy()
        losses = {label: _finite(one.loss) for label, one in trained.items()}
        found[frame] = _Look(losses, best.loss, items)
    return found


def compare(trainer: Trainer, frame: Frame, whole: bool) -> dict[Poolings, tuple[Trained, bool]]:
    """GNP and the fixed poolings in one frame, each with whether it was trained to the end.

    All fixed poolings get a first look. ``whole``: GNP and the best of them are trained to the end.
    """
    fixed = fixed_poolings(trainer.prepared.problem, trainer.prepared.few)
    every: list[Poolings] = [*fixed] if whole else [None, *fixed]
    looks = [Attempt(frame, one, short=True, text=f"first look: {label_of(one)}") for one in every]
    found = {one: (trained, False) for one, trained in zip(every, trainer.all(looks), strict=True)}
    if whole:
        finalists = sorted(fixed, key=lambda one: found[one][0].loss)[:FINALISTS]
        chosen: list[Poolings] = [None, *(one for one in fixed if one in finalists)]
        trainings = [Attempt(frame, one, short=False, text=f"training: {label_of(one)}") for one in chosen]
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
    found = {part: outputs_of(model, prepared.data[part], device) for part in ("validation", "inside", "larger")}
    return _scored(prepared, label, poolings, model, spec, runs, found)


def _scored(
    prepared: Prepared,
    label: str,
    poolings: Poolings,
    model: torch.nn.Module,
    spec: dict[str, Any],
    runs: list[dict[str, Any]],
    outputs: dict[str, Tensor],
) -> Entry:
    """A competitor that gives these outputs."""
    problem, tests = prepared.problem, ("inside", "larger")
    batches = {part: Batch(y=prepared.y[part]) for part in outputs}
    validation = problem.loss(outputs["validation"], batches["validation"]).numpy()
    errors = {part: problem.error(outputs[part], batches[part]).numpy() for part in tests}
    measures = {part: problem.measures(outputs[part], prepared.y[part]) for part in tests}
    return Entry(label, poolings, model, spec, validation, errors, runs, measures)


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


def crystallize_best(trainer: Trainer, entries: list[Entry]) -> Crystal:
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
        final_validation=False,  # the validation graphs compare it with the others
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


def _law_entry(prepared: Prepared, findings: Sequence[Finding]) -> Entry | None:
    """The law as a competitor, a formula for each target; None if one of them has none."""
    laws = [finding.law for finding in findings if finding.law is not None]
    if not laws or len(laws) < len(findings):
        return None
    network, spec = law_network(laws, max(finding.noise for finding in findings), prepared)
    names = tuple(filter(None, formulas(findings, prepared.problem)))
    return _entry(prepared, None, LAW, names, network.eval(), spec, [])


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


def _baseline(prepared: Prepared) -> Entry:
    """The best constant: the mean of the training targets, or the most frequent class."""
    y = prepared.y
    constant = prepared.problem.constant(y["train"])
    outputs = {part: constant.expand(len(y[part]), -1) for part in ("validation", "inside", "larger")}
    return _scored(prepared, "constant", None, torch.nn.Identity(), {}, [], outputs)
