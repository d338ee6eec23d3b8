"""From data to a named answer: split, train GNP beside the fixed poolings, crystallise, measure."""

from __future__ import annotations

import copy
import functools
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from gnpool.data import DataError, GraphTable
from gnpool.data.table import Floats
from gnpool.display.models import CRYSTAL, GNP
from gnpool.engine import Engine, side_by_side
from gnpool.fit.batches import FlatBatches
from gnpool.fit.curves import training_curves
from gnpool.fit.law import find_in, law_network
from gnpool.fit.networks import Frame, build, fixed_poolings, frames, network_spec, slots, usual_sizes
from gnpool.fit.preprocess import Preprocessing, unused_edges
from gnpool.fit.problem import Problem, recognise
from gnpool.fit.split import make_split
from gnpool.fit.study import LAW, Entry, Options, Study
from gnpool.insight import Crystal, Finding, crystallize
from gnpool.training import Fit, Setting, evaluate_items, fit_many
from gnpool.training.checkpoint import fingerprint_of
from gnpool.training.portfolio import default_starts, falling

STEPS = 1500  # of training, where the user does not say how many epochs
EPOCHS = (8, 200)  # bounds of their number
FIRST_LOOK = 0.2  # of that, to choose the network and the fixed poolings that are worth all of it
SCOUT_GRAPHS = 2000  # training graphs of a first look, at most
FINALISTS = 6  # fixed poolings that are trained to the end
MANY_NODES = 200_000  # in training: from here on fewer poolings, settings and seeds are tried
SETTINGS = tuple(Setting.grid(lr=[1e-2, 2e-3], clip=10.0, optimizer="adam"))
SEEDS = 3
MARGIN = 0.2  # a simpler frame may have a validation loss larger by this part
LARGE_BATCH = 8192  # nodes; below, the time goes into Python, where a second thread would only wait
EVALUATION_NODES = 200_000  # in a batch of an evaluation, about
OnProgress = Callable[[str, float], None]  # what is being done, and how much of everything is done
R = TypeVar("R")


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
    interrupted goes on from what is found there.
    """
    began = time.monotonic()
    if table.y is None:
        raise DataError("the data has no targets to learn from")
    if table.level == "node" and table.edge_index is None:
        raise DataError("to predict targets of nodes, the data needs edges")
    split = make_split(table.sizes, options.split, options.seed)
    tables = {name: table.select(part) for name, part in split.parts().items()}
    problem = recognise(table, tables["train"], options.task)
    preprocessing = Preprocessing.learn(tables["train"])
    notes = [*table.notes, *unused_edges(table), *([split.note] if split.note else [])]
    features = {name: preprocessing.apply(part) for name, part in tables.items()}
    notes += [f"{name}: {note}" for name, (_, found) in features.items() for note in found]
    few = int(tables["train"].sizes.sum()) > MANY_NODES
    if few:
        notes.append("much data: fewer combinations of poolings, settings and seeds are tried")

    on_progress("looking for a law", 0.0)
    finding = find_in(table.select(np.concatenate([split.train, split.validation])), problem, preprocessing)
    size = batch_size_for(len(tables["train"].sizes))
    data = {
        name: FlatBatches(
            part,
            features[name][0],
            problem.targets(part),
            size if name == "train" else evaluation_size(part),
            0 if name == "train" else None,
            loops=problem.level == "node",
        )
        for name, part in tables.items()
    }
    epochs = options.epochs or min(max(math.ceil(STEPS / len(data["train"])), EPOCHS[0]), EPOCHS[1])
    engine = engine or Engine(options.device)
    sizes = usual_sizes(problem, tables["train"])
    worker = _Worker(problem, preprocessing.width, sizes, data, options, epochs, few, on_progress, engine, checkpoint)
    frame, tried = worker.choose_frame()
    entries = worker.compare(frame)
    crystal = worker.crystallise(entries)
    if finding is not None and finding.law is not None:
        entries.append(worker.law_entry(finding, preprocessing))
    on_progress("done", 1.0)
    targets = {name: problem.true_values(part) for name, part in tables.items()}
    return Study(
        table=table,
        split=split,
        problem=problem,
        preprocessing=preprocessing,
        frame=frame,
        frames=tried,
        entries=entries,
        crystal=crystal,
        finding=finding,
        baseline=_baseline(problem, targets),
        targets=targets,
        notes=notes,
        options=options,
        epochs=epochs,
        seconds=time.monotonic() - began,
    )


class _Worker:
    """Trains, and counts what is done."""

    def __init__(
        self,
        problem: Problem,
        width: int,
        sizes: dict[str, float],
        data: dict[str, FlatBatches],
        options: Options,
        epochs: int,
        few: bool,
        on_progress: OnProgress,
        engine: Engine,
        checkpoint: Path | None,
    ) -> None:
        self.problem, self.width, self.sizes, self.data, self.options = problem, width, sizes, data, options
        self.epochs, self.on_progress = epochs, on_progress
        self.engine, self.checkpoint = engine, checkpoint
        self.settings = SETTINGS[:1] if few else SETTINGS
        self.seeds = range(options.seed, options.seed + (options.seeds or (1 if few else SEEDS)))
        self.frames = frames(problem)
        sums = fixed_poolings(problem, few=True)
        self.scouts: list[tuple[str, ...] | None] = [None, *(sums[:1] if few else sums)]
        self.fixed = fixed_poolings(problem, few)
        self.sample = copy.copy(data["train"])  # the first ones: their order is random
        self.sample.count = min(self.sample.count, SCOUT_GRAPHS)
        self.short = max(1, round(FIRST_LOOK * epochs))
        looks = len(self.frames) * len(self.scouts) * (len(self.frames) > 1) + len(self.fixed)
        full = epochs * (1 + min(FINALISTS, len(self.fixed)))
        self.crystal_work = 0.3 * full  # by experience
        self.total = looks * self.short + 1.3 * full
        self.done: dict[int, float] = {}  # epochs, by training
        self.lock = threading.Lock()

    def look(self, frame: Frame, poolings: tuple[str, ...] | None, text: str) -> tuple[Fit, dict[str, Any]]:
        """A short training of one network."""
        spec = network_spec(self.problem, frame, self.width, poolings, self.sizes)
        return self._fit(spec, self.sample, self.settings[:1], self.seeds[:1], self.short, text), spec

    def train(self, frame: Frame, poolings: tuple[str, ...] | None, text: str) -> tuple[Fit, dict[str, Any]]:
        """All settings and seeds of one network, and all starts of GNP, trained to the end."""
        spec = network_spec(self.problem, frame, self.width, poolings, self.sizes)
        settings, seeds = self.settings, self.seeds
        if poolings is None:  # a portfolio: other starts say more than other weights
            starts = default_starts(build(spec))
            settings = tuple(replace(one, start=start) for start in starts for one in settings)
            seeds = seeds if self.options.seeds else seeds[:1]
        return self._fit(spec, self.data["train"], settings, seeds, self.epochs, text), spec

    def _fit(
        self,
        spec: dict[str, Any],
        train: FlatBatches,
        settings: Sequence[Setting],
        seeds: Sequence[int],
        epochs: int,
        text: str,
    ) -> Fit:
        runs = len(settings) * len(seeds)
        on_cpu = torch.device(self.options.device).type == "cpu"
        nodes = train.batch_size * float(train.nodes.double().mean())
        units = 2 if on_cpu and runs > 1 and nodes > LARGE_BATCH else 1
        with self.lock:
            mine = len(self.done)
            self.done[mine] = 0.0
        seen: dict[int, int] = {}

        def progress(event: Any) -> None:
            with self.lock:
                seen[event.unit] = event.epoch
                self.done[mine] = sum(seen.values()) / units
                self.on_progress(text, min(1.0, sum(self.done.values()) / self.total))

        plan = {"spec": spec, "settings": [s.to_dict() for s in settings], "seeds": list(seeds), "graphs": train.count}
        name = fingerprint_of({**plan, "epochs": epochs, "problem": repr(self.problem)})
        found = fit_many(
            functools.partial(build, spec),
            train,
            self.problem.loss,
            settings,
            seeds=seeds,
            epochs=epochs,
            validation=self.data["validation"],
            schedule=functools.partial(falling, epochs),
            device=self.engine.device,
            unit=math.ceil(runs / units),
            vectorize=False if on_cpu and runs == 1 else None,
            checkpoint=None if self.checkpoint is None else self.checkpoint / name,
            progress=progress,
            engine=self.engine,
        )
        self.done[mine] = epochs
        return found

    def _all(self, trainings: Sequence[Callable[[], R]]) -> list[R]:
        """Trainings, one after another here, side by side on a cluster."""
        jobs, found = self.engine.jobs(1), dict[int, R]()
        if jobs == 1:
            return [train() for train in trainings]

        def train(number: int) -> bool:
            found[number] = trainings[number]()
            return True

        for error in side_by_side(train, range(len(trainings)), jobs, self.engine.stop).values():
            raise error
        return [found[number] for number in range(len(trainings))]

    def choose_frame(self) -> tuple[Frame, list[dict[str, Any]]]:
        """The simplest frame that is as good as the best, with GNP and some fixed poolings in it."""
        if len(self.frames) == 1:
            return self.frames[0], []
        tried, losses = [], []
        scouts = {(frame, poolings): _label(poolings) for frame in self.frames for poolings in self.scouts}
        looks = self._all(
            [functools.partial(self.look, *scout, f"choosing the network: {label}") for scout, label in scouts.items()]
        )
        loss_of = {scout: _loss_of(fit) for scout, (fit, _) in zip(scouts, looks, strict=True)}
        for frame in self.frames:
            found = {_label(poolings): loss_of[frame, poolings] for poolings in self.scouts}
            losses.append(min(found.values()))
            shown = {label: _finite(loss) for label, loss in found.items()}
            tried.append({"frame": frame.describe(), "options": dict(frame.options), "validation_loss": shown})
        lowest = min(losses)
        if not math.isfinite(lowest):
            raise DataError("every training diverged; are the features or targets of sensible size?")
        best = next(k for k, loss in enumerate(losses) if loss <= lowest * (1 + MARGIN))
        return self.frames[best], tried

    def compare(self, frame: Frame) -> list[Entry]:
        """GNP and the fixed poolings in one frame: all get a first look, the best are trained to the end."""
        first = [functools.partial(self.look, frame, one, f"first look: {_label(one)}") for one in self.fixed]
        looks = dict(zip(self.fixed, self._all(first), strict=True))
        order = sorted(looks, key=lambda poolings: _loss_of(looks[poolings][0]))
        finalists = set(order[:FINALISTS])
        entries = []
        every: list[tuple[str, ...] | None] = [None, *self.fixed]
        chosen = [poolings for poolings in every if poolings is None or poolings in finalists]
        whole = [functools.partial(self.train, frame, one, f"training: {_label(one)}") for one in chosen]
        trained = dict(zip(chosen, self._all(whole), strict=True))
        for poolings in every:
            finished, label = poolings in trained, _label(poolings)
            fit, spec = trained[poolings] if finished else looks[poolings or ()]
            if math.isfinite(_loss_of(fit)):
                entry = self._entry(label, poolings, fit.model(fit.best()), spec, self._runs(fit))
                entry.finished, entry.curves = finished, training_curves(fit) if finished else None
                entries.append(entry)
        if not entries or entries[0].label != GNP:
            raise DataError("the training of GNP diverged; are the features or targets of sensible size?")
        return entries

    def _entry(
        self,
        label: str,
        poolings: tuple[str, ...] | None,
        model: torch.nn.Module,
        spec: dict[str, Any],
        runs: list[dict[str, Any]],
    ) -> Entry:
        device = self.engine.here
        validation = evaluate_items(model, self.data["validation"], self.problem.loss, device=device).numpy()
        errors = {
            part: evaluate_items(model, self.data[part], self.problem.error, device=device).numpy()
            for part in ("inside", "larger")
        }
        return Entry(label, poolings, model.cpu(), spec, validation, errors, runs)

    def _runs(self, fit: Fit) -> list[dict[str, Any]]:
        errors = {p: fit.evaluate(self.data[p], {"error": self.problem.error})["error"] for p in ("inside", "larger")}
        return [
            {
                "setting": run.setting.to_dict(),
                "seed": run.seed,
                "failed": run.failed,
                "epoch": run.best["loss"].epoch if "loss" in run.best else None,
                "validation_loss": run.best["loss"].value if "loss" in run.best else None,
                **{part: _finite(float(errors[part][run.number])) for part in errors},
            }
            for run in fit.runs
        ]

    def crystallise(self, entries: list[Entry]) -> Crystal:
        """Replace what GNP learned by exact poolings, and add the outcome to the entries."""
        began = sum(self.done.values())

        def progress(number: int, total: int, text: str) -> None:
            self.on_progress(
                f"crystallising: {text}", min(1.0, (began + self.crystal_work * number / total) / self.total)
            )

        crystal = crystallize(
            entries[0].model,
            self.data["train"],
            self.data["validation"],
            self.problem.loss,
            epochs=min(self.epochs, 60),
            device=self.engine.here,
            checkpoint=None if self.checkpoint is None else self.checkpoint / "crystal",
            progress=progress,
        )
        chosen = crystal.choice
        if not chosen.learned:
            names = pooling_names(chosen.poolings, slots(self.problem))
            runs = [{"validation_loss": chosen.loss, "failed": None}]
            entries.insert(1, self._entry(CRYSTAL, names, crystal.model, entries[0].spec, runs))
        return crystal

    def law_entry(self, finding: Finding, preprocessing: Preprocessing) -> Entry:
        """The law as a competitor."""
        assert finding.law is not None
        network, spec = law_network(finding.law, finding.noise, self.problem, preprocessing)
        return self._entry(LAW, (str(finding.law),), network.eval(), spec, [])


def pooling_names(poolings: dict[str, dict[str, str]], places: tuple[str, ...]) -> tuple[str, ...]:
    """The poolings of a crystal in the order of the slots; several of one slot are joined, equal ones once."""
    found = []
    for place in places:
        layers = [names for layer, names in poolings.items() if layer.rpartition(".")[2] == place]
        words = [" and ".join(sorted(set(names.values()))) or "learned" for names in layers]
        found.append(words[0] if len(set(words)) == 1 else ", then ".join(words))
    return tuple(found)


def batch_size_for(graphs: int) -> int:
    """Between 16 and 512 graphs, about a fiftieth of all."""
    return int(min(512, max(16, 2 ** round(math.log2(max(1, graphs / 50))))))


def evaluation_size(table: GraphTable) -> int:
    """Graphs in a batch of an evaluation."""
    return max(1, min(len(table.sizes), int(EVALUATION_NODES / max(1.0, float(table.sizes.mean())))))


def _label(poolings: tuple[str, ...] | None) -> str:
    return GNP if poolings is None else "/".join(poolings)


def _loss_of(fit: Fit) -> float:
    best = fit.best().best.get("loss")
    return math.inf if best is None else best.value


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
