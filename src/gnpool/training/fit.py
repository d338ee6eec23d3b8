r"""``fit_many``: settings times seeds of one model, trained at once."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from gnpool.engine import Caller, Engine
from gnpool.store.errors import Damaged
from gnpool.training.batches import Batches
from gnpool.training.checkpoint import check_like, fingerprint_of, read_checkpoint, write_checkpoint
from gnpool.training.cuda_graph import own_stream
from gnpool.training.program import Forward, Loss
from gnpool.training.result import Fit
from gnpool.training.settings import Run, Setting, plan_runs, plan_units
from gnpool.training.unit import StudyPlan, Unit

UNIT_SIZE = {"cpu": 8, "cuda": 512}  # runs in a work unit, where the caller does not say; a constant on purpose
CHECKPOINT_SECONDS = 30.0


@dataclass(frozen=True)
class Progress:
    """Where a work unit stands, after each of its epochs."""

    unit: int
    units: int
    epoch: int  # epochs done
    epochs: int
    best: dict[str, float]  # by criterion, the lowest value among the runs of the unit
    failed: int  # runs of the unit that diverged
    seconds: float  # since the unit began, or went on


def fit_many(
    make_model: Callable[[], torch.nn.Module],
    batches: Batches | Sequence[Data] | Iterable[Any],
    loss: Loss,
    settings: Setting | Sequence[Setting],
    *,
    seeds: int | Iterable[int] = 1,
    epochs: int = 100,
    validation: Batches | Sequence[Data] | Iterable[Any] | None = None,
    criteria: Mapping[str, Loss] | None = None,
    batch_size: int = 64,
    forward: Forward | None = None,
    schedule: Callable[[int], float] | None = None,
    device: str | torch.device = "cpu",
    unit: int | None = None,
    workers: int | None = None,
    vectorize: bool | None = None,
    cuda_graph: bool | None = None,
    checkpoint: str | Path | None = None,
    progress: Callable[[Progress], None] | None = None,
    check: Callable[[], None] | None = None,
    engine: Engine | None = None,
) -> Fit:
    r"""Trains one model under many settings and seeds, all at once.

    Each run has its own initialisation, rates, clipping, optimiser and best epoch; only the batches and their order
    are shared. A run ends up where it would have alone: its gradient depends on its own parameters, and one that
    diverges is frozen and reported as failed without touching the others.

    Runs are grouped in *work units* of ``unit`` runs. A unit is one program: a ``torch.vmap`` over its runs, on one
    thread of the CPU or as one CUDA graph on a GPU. Rounding depends on which runs share a unit, so units follow
    from the arguments alone; how many of them run side by side does not matter for the result.

    Args:
        make_model (callable): Makes the module; called once per seed, after seeding torch with it.
        batches (Batches or Sequence[Data] or Iterable): The training data: PyG graphs, shuffled and batched here, or
            a :class:`Batches`, or any iterable of ready batches that can be walked once per epoch.
        loss (callable): ``loss(prediction, batch)``, one value per item, or their mean as a 0-d tensor. The mean over
            the items, weighted by ``batch.weight`` if there is one, is minimised.
        settings (Setting or Sequence[Setting]): The hyperparameters to try.
        seeds (int or Iterable[int], optional): Seeds to train every setting with; a number n means 0 to n - 1.
        epochs (int, optional): How often to walk through the training data.
        validation (same as batches, optional): Data that selects the best epoch of each run. Without it the last
            epoch counts.
        criteria (Mapping[str, callable], optional): Further losses, by name; for each the best epoch and the weights
            there are kept too. The training loss is the criterion ``"loss"``. All are computed in float64 from the
            predictions, for float32 cannot rank epochs that differ in the eighth digit.
        batch_size (int, optional): For data given as graphs.
        forward (callable, optional): ``forward(model, batch)``, how to call the model. By default it is called with
            the attributes of the batch that its ``forward`` names, or with the batch itself.
        schedule (callable, optional): Factor of all learning rates as a function of the epoch, from 0.
        device (str or torch.device, optional): Where to train.
        unit (int, optional): Runs in a work unit. (default: 8 on the CPU, 512 on a GPU)
        workers (int, optional): Units side by side on the CPU, one thread each. (default: the number of threads of
            torch; 1 if the model has dropout, whose random numbers come from one stream)
        vectorize (bool, optional): Whether to use ``torch.vmap``, or to loop over the runs of a unit. By default the
            loop is a fall-back, with a warning.
        cuda_graph (bool, optional): Whether to record the step as a CUDA graph, over batches padded to one shape.
            By default this is tried on a GPU with :class:`Batches`.
        checkpoint (str or Path, optional): A folder. Every unit saves its state there about twice a minute and when
            it is interrupted, and goes on from what it finds: the result is the same as without interruption.
        progress (callable, optional): Called with a :class:`Progress` after every epoch of a unit.
        check (callable, optional): Called before every step, from any thread, or with a cluster whenever a unit
            reports; what it raises ends the training as Ctrl-C does.
        engine (Engine, optional): Who trains the units: a :class:`~gnpool.engine.RayEngine` sends each to its cluster,
            with everything that is passed here, and calls ``progress`` twice a second at most. (default: this process)

    Returns:
        Fit: The runs, with their curves and the weights of their best epochs.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool import Setting, fit_many
        >>> points = [Data(x=torch.tensor([[k / 10.0]]), y=torch.tensor([[k / 5.0]])) for k in range(10)]
        >>> fit = fit_many(
        ...     lambda: torch.nn.Linear(1, 1),
        ...     points,
        ...     lambda prediction, batch: (prediction - batch.y).square(),
        ...     Setting.grid(lr=[1e-1, 1e-4], optimizer="adam"),
        ...     seeds=3,
        ...     epochs=300,
        ...     forward=lambda model, batch: model(batch.x),
        ... )
        >>> fit.best().setting
        Setting(lr=0.1, optimizer='adam')
        >>> print(f"{fit.model(fit.best()).weight.item():.2f}")
        2.00
    """
    settings = [settings] if isinstance(settings, Setting) else list(settings)
    seeds = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    if not settings or not seeds:
        raise ValueError(f"fit_many: 'settings' and 'seeds' must not be empty, got {len(settings)} and {len(seeds)}")
    if epochs < 1:
        raise ValueError(f"fit_many: 'epochs' must be at least 1, got {epochs}")
    device = torch.device(device)
    engine = engine or Engine(device)
    if device.type == "cuda" and not torch.cuda.is_available() and not engine.remote:
        raise ValueError("fit_many: 'device' is cuda, but torch finds no GPU here; use device='cpu'")
    if criteria is not None and "loss" in criteria:
        raise ValueError("fit_many: 'criteria' must not have the name 'loss', which is the training loss itself")
    size = UNIT_SIZE.get(device.type, UNIT_SIZE["cuda"]) if unit is None else unit
    for name, value in (("unit", size), ("workers", workers)):
        if value is not None and value < 1:
            raise ValueError(f"fit_many: '{name}' must be at least 1, got {value}")

    study = StudyPlan(
        make_model=make_model,
        batches=_as_batches(batches, batch_size, 0),
        validation=_as_batches(validation, batch_size, None),
        loss=loss,
        criteria={"loss": loss, **(criteria or {})},
        epochs=epochs,
        device=device,
        forward=forward,
        vectorize=vectorize,
        schedule=schedule,
        cuda_graph=cuda_graph,
    )
    here = dataclasses.replace(study, device=engine.here) if engine.remote else study
    units = [Unit(here, part) for part in plan_units(plan_runs(settings, seeds), size)]
    if workers is None:
        workers = engine.jobs(torch.get_num_threads() if device.type == "cpu" and not units[0].draws else 1)

    def train(number: int, tell: Callable[[Progress], None], stopped: Callable[[], bool], saver: _Saver | None) -> None:
        unit = units[number]

        def leave() -> bool:
            if check is not None:
                check()
            return stopped()

        if not engine.remote:
            _advance(unit, number, len(units), tell, leave, saver)
        elif int(unit.epoch) < epochs:
            data = (engine.share(study.batches), engine.share(study.validation))
            alone = dataclasses.replace(study, batches=None, validation=None)
            place = (unit.runs, number, len(units), unit.state())
            unit.load_state(engine.call(distant_unit, alone, *data, *place, caller=Caller(stopped, tell)))

    def report(where: Progress) -> None:
        if check is not None:
            check()
        if progress is not None:
            progress(where)

    _run_units(units, train, workers, None if checkpoint is None else Path(checkpoint), report)
    return Fit(units)


def distant_unit(
    caller: Caller,
    study: StudyPlan,
    batches: Any,
    validation: Any,
    runs: Sequence[Run],
    number: int,
    units: int,
    state: dict[str, Tensor],
) -> dict[str, Tensor]:
    """Train a unit in another process, on from ``state``; its state at the end."""
    unit = Unit(dataclasses.replace(study, batches=batches, validation=validation), runs)
    unit.load_state(state)
    _advance(unit, number, units, caller.tell, caller.stopped, None)
    return {name: value.cpu() for name, value in unit.state().items()}


def _advance(
    unit: Unit,
    number: int,
    units: int,
    tell: Callable[[Progress], None],
    stopped: Callable[[], bool],
    saver: _Saver | None,
) -> None:
    """Train a unit to its end, or until stopped."""
    began = time.monotonic()
    if unit.study.device.type == "cpu":
        torch.set_num_threads(1)  # of this thread: the same bits whatever the machine has
    with torch.random.fork_rng() if unit.draws else contextlib.nullcontext(), own_stream(unit.study.device):
        while int(unit.epoch) < unit.study.epochs and unit.train_epoch(stopped):
            if saver is not None:
                saver.save_sometimes()
            tell(_where(unit, number, units, began))


def _as_batches(data: Any, batch_size: int, seed: int | None) -> Any:
    if isinstance(data, (list, tuple)) and data and all(type(graph) is Data for graph in data):
        return Batches(data, batch_size, seed=seed)
    if hasattr(data, "__next__"):
        raise TypeError("fit_many: data must be something to walk through in every epoch, got an iterator; use a list")
    return data


def _run_units(
    units: list[Unit],
    train: Callable[[int, Callable[[Progress], None], Callable[[], bool], _Saver | None], None],
    workers: int,
    folder: Path | None,
    progress: Callable[[Progress], None],
) -> None:
    """Run all units, ``workers`` at a time; whatever ends it early, each unit stops between two steps and saves."""
    stop, lock = threading.Event(), threading.Lock()

    def tell(where: Progress) -> None:
        with lock:
            progress(where)

    def run(number: int) -> None:
        saver = None if folder is None else _Saver(units[number], folder / f"unit{number:04d}.safetensors")
        try:
            train(number, tell, stop.is_set, saver)
        finally:
            if saver is not None:
                saver.save()

    threads = torch.get_num_threads()
    pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="fit_many")
    futures = [pool.submit(run, number) for number in range(len(units))]
    try:
        for future in as_completed(futures):
            future.result()
    finally:
        stop.set()  # after an error or Ctrl-C: the others end between two steps
        pool.shutdown(wait=True, cancel_futures=True)
        torch.set_num_threads(threads)


class _Saver:
    """Keeps the checkpoint of one unit, and brings the unit to where it was."""

    def __init__(self, unit: Unit, path: Path) -> None:
        self.unit, self.path = unit, path
        self.fingerprint = fingerprint_of(unit.describe())
        saved = read_checkpoint(path, self.fingerprint, self._check)
        if saved is not None:
            unit.load_state(saved)
        self.written = time.monotonic()

    def _check(self, saved: dict[str, Tensor]) -> None:
        check_like(saved, self.unit.state())
        epoch, step = int(saved["unit/epoch"]), int(saved["unit/step"])
        if not 0 <= epoch <= self.unit.study.epochs or step < 0:
            raise Damaged(f"it stands at step {step} of epoch {epoch}, and {self.unit.study.epochs} epochs are wanted")

    def save_sometimes(self) -> None:
        if time.monotonic() - self.written > CHECKPOINT_SECONDS:
            self.save()

    def save(self) -> None:
        write_checkpoint(self.path, self.unit.state(), self.fingerprint)
        self.written = time.monotonic()


def _where(unit: Unit, number: int, units: int, began: float) -> Progress:
    lowest = [kept.value.min() for kept in unit.best.values()]
    *best, failed, epoch = torch.stack([*lowest, (~unit.alive).sum(), unit.epoch]).tolist()  # one answer of a GPU
    return Progress(
        unit=number,
        units=units,
        epoch=int(epoch),
        epochs=unit.study.epochs,
        best=dict(zip(unit.best, best, strict=True)),
        failed=int(failed),
        seconds=time.monotonic() - began,
    )
