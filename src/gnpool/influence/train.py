"""Training of MONSTOR: its loss, schedule and selection, on a CPU or as CUDA graphs."""

from __future__ import annotations

import functools
import hashlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnpool.influence.graph import CascadeGraph
from gnpool.influence.labels import Labels
from gnpool.models.networks.monstor import MONSTOR, advance, start
from gnpool.nn import param_groups
from gnpool.store.errors import Damaged
from gnpool.training.checkpoint import check_like, fingerprint_of, read_checkpoint, write_checkpoint
from gnpool.training.cuda_graph import own_stream, record
from gnpool.training.stack import seeded

PUBLISHED_EPOCHS = 100
BATCH = 20
TOTAL = 0.3  # weight of the error of the influence beside that of the nodes
LR_P, LR_Q = 3e-2, 3e-3  # RMSprop, for the exponents of GNP; everything else is Adam's
MOST_STACKED = 10  # where the number of stacked models is searched
STARTS = 100  # initialisations to try before giving up
SAVE_SECONDS = 5.0  # a state is small
EVALUATED = 64  # seed sets of one validation batch
NUMBERS = ("value", "stacked", "epoch", "error", "relative")  # of the best epoch of a group
STATE = {torch.optim.Adam: ("step", "exp_avg", "exp_avg_sq"), torch.optim.RMSprop: ("step", "square_avg")}


@dataclass(frozen=True, eq=False)
class Part:
    """Data of one graph: the sets that are trained on, and those that select.

    Args:
        name (str): For people.
        group (str): One model is selected for each group of parts.
        graph (CascadeGraph): The graph.
        labels (Labels): Its cascades.
        training, validation (tuple): Numbers of seed sets.
    """

    name: str
    group: str
    graph: CascadeGraph
    labels: Labels
    training: tuple[int, ...]
    validation: tuple[int, ...]

    @classmethod
    def split(cls, name: str, group: str, graph: CascadeGraph, labels: Labels, share: float = 0.8) -> Part:
        """The first 80 % of the sets of each kind for training, the others for selection."""
        training: list[int] = []
        validation: list[int] = []
        for kind in dict.fromkeys(labels.kinds):
            sets = [i for i, name in enumerate(labels.kinds) if name == kind]
            cut = min(len(sets) - 1, max(1, round(share * len(sets)))) if len(sets) > 1 else 1
            training += sets[:cut]
            validation += sets[cut:] or sets
        return cls(name, group, graph, labels, tuple(training), tuple(validation))


@dataclass(frozen=True, eq=False)
class TrainedMonstor:
    """The model of one group, at its best epoch.

    Args:
        model (MONSTOR): The base model, on the CPU.
        stacked (int): How often it is applied.
        epoch (int): The epoch that was best.
        error (float): Root of the mean squared error of the influence on the validation sets.
        relative (float): The same as a share of the root of the mean squared influence.
        curve (list): That share for each epoch.
        start (int): How many initialisations were dead, and drawn again.
    """

    model: MONSTOR
    stacked: int
    epoch: int
    error: float
    relative: float
    curve: list[float] = field(default_factory=list)
    start: int = 0


def rate(epoch: float) -> float:
    """Adam's learning rate at an epoch: it rises to 1e-3 in ten epochs and then falls like 1 / epoch."""
    return 1e-4 * epoch if epoch <= 10 else 1e-2 / epoch


def step_loss(prediction: Tensor, target: Tensor) -> Tensor:
    r"""The loss of B states, (N, B) each, as one number.

    .. math::
        \sum_b \Big( \tfrac{1}{N} \sum_v |\pi_{vb} - \hat\pi_{vb}| +
        0.3 \, \frac{|\sum_v \pi_{vb} - \sum_v \hat\pi_{vb}|}{\sum_v \pi_{vb}} \Big)
    """
    total = target.sum(0)
    nodes = (prediction - target).abs().mean(0)
    return (nodes + TOTAL * (prediction.sum(0) - total).abs() / total).sum()


def fit_monstor(
    parts: Sequence[Part],
    aggr: str = "gnp",
    *,
    seed: int = 0,
    epochs: int = PUBLISHED_EPOCHS,
    batch_size: int = BATCH,
    stacked: Mapping[str, int] | None = None,
    aggr_options: Mapping[str, Any] | None = None,
    device: torch.device | str = "cpu",
    checkpoint: str | Path | None = None,
    progress: Callable[[int, int, float], None] | None = None,
    check: Callable[[], None] | None = None,
) -> dict[str, TrainedMonstor]:
    r"""Trains one MONSTOR on all parts together, and keeps its best epoch for each group.

    A batch is 20 states of one graph; incomplete batches are left out, and those of all parts are shuffled together.
    Adam with :func:`rate`; where the epochs are fewer than 100 the schedule is compressed. p and q of GNP have
    RMSprop with rates of their own. An initialisation whose output is 0 on all of a graph has no gradient there, since
    the last layer ends in a ReLU, and is drawn again. The epoch with the smallest squared error of the influence, over
    the validation sets of a group, is that group's.

    Args:
        parts (Sequence[Part]): Graphs with their cascades.
        aggr (str, optional): The aggregation of :class:`gnpool.models.MONSTOR`. (default: ``"gnp"``)
        seed (int, optional): Of the initialisation and the order of batches. (default: ``0``)
        epochs (int, optional): (default: ``100``)
        batch_size (int, optional): (default: ``20``)
        stacked (Mapping, optional): How often the model of each group is applied. (default: by validation, 1 to 10)
        aggr_options (Mapping, optional): Options of GNP.
        device (torch.device or str, optional): Where to train. (default: ``"cpu"``)
        checkpoint (str or Path, optional): A folder that lets an interrupted training go on.
        progress (callable, optional): Called after each epoch with its number, the number of epochs and the relative
            validation error, worst group.
        check (callable, optional): Called now and then; may raise to stop.

    Returns:
        dict: :class:`TrainedMonstor` by group.
    """
    if not parts:
        raise ValueError("'parts' must not be empty")
    if epochs < 1 or batch_size < 1:
        raise ValueError(f"'epochs' and 'batch_size' must be at least 1, got {epochs} and {batch_size}")
    place = torch.device(device)
    with own_stream(place):
        run = _Run(parts, aggr, seed, epochs, batch_size, stacked, aggr_options, place)
        file, fingerprint = None, ""
        if checkpoint is not None:
            fingerprint = fingerprint_of(run.described())
            file = Path(checkpoint) / f"monstor-{fingerprint}.safetensors"
            found = read_checkpoint(file, fingerprint, run.check)
            if found is not None:
                run.restore(found)
        saved = time.monotonic()
        while run.epoch < epochs:
            run.train_epoch(check)
            worst = run.validate(check)
            if progress is not None:
                progress(run.epoch, epochs, worst)
            if file is not None and time.monotonic() - saved > SAVE_SECONDS and run.epoch < epochs:
                write_checkpoint(file, run.state(), fingerprint)
                saved = time.monotonic()
        return run.result()


class _Program:
    """One part on the device: a training step, and its validation."""

    def __init__(self, part: Part, batch_size: int, stacked: int, device: torch.device) -> None:
        labels = part.labels
        self.group, self.runs = part.group, labels.runs
        self.table = labels.table.to(device)
        self.history = labels.history(part.training).to(device)
        chosen = torch.tensor(part.validation)
        self.starts, self.ends = labels.first[chosen].to(device), labels.last[chosen].to(device)
        self.edge_index, self.edge_weight = part.graph.edge_index(device), part.graph.edge_weight(device)
        self.index = torch.zeros(batch_size, dtype=torch.long, device=device)
        self.errors = torch.zeros(stacked, dtype=torch.float64, device=device)
        self.norm = torch.zeros((), dtype=torch.float64, device=device)

    def rows(self, numbers: Tensor) -> Tensor:
        """Rows of the table as probabilities, nodes first: (...,) -> (N, ...)."""
        found = self.table.index_select(0, numbers.flatten()).float() / self.runs
        return found.t().reshape(-1, *numbers.shape)

    def loss(self, model: MONSTOR) -> Tensor:
        known = self.rows(self.history.index_select(0, self.index))  # (N, B, 5)
        x = torch.cat([known[..., 1:4] - known[..., 0:3], known[..., 3:4]], dim=-1)
        return step_loss(model(x, self.edge_index, self.edge_weight), known[..., 4])

    @torch.no_grad()
    def validate(self, model: MONSTOR) -> None:
        """Sum over the validation sets of the squared error after 1, 2, ... models; and of the squared influence."""
        errors, norm = self.errors.zero_(), self.norm.zero_()
        for first in range(0, self.starts.numel(), EVALUATED):
            influence = self.rows(self.ends[first : first + EVALUATED]).double().sum(0)
            norm += influence.square().sum()
            x = start(self.rows(self.starts[first : first + EVALUATED]))
            for k in range(errors.numel()):
                x = advance(x, model(x, self.edge_index, self.edge_weight))
                errors[k] += (x[..., 3].double().sum(0) - influence).square().sum()


class _Run:
    """A training: its state, and what it does in an epoch."""

    def __init__(
        self,
        parts: Sequence[Part],
        aggr: str,
        seed: int,
        epochs: int,
        batch_size: int,
        stacked: Mapping[str, int] | None,
        aggr_options: Mapping[str, Any] | None,
        device: torch.device,
    ) -> None:
        self.parts, self.seed, self.epochs, self.batch_size, self.device = parts, seed, epochs, batch_size, device
        self.groups = list(dict.fromkeys(part.group for part in parts))
        self.aggr, self.aggr_options, self.stacked = (
            aggr,
            dict(aggr_options or {}),
            None if stacked is None else dict(stacked),
        )
        if stacked is not None and (missing := [group for group in self.groups if group not in stacked]):
            raise ValueError(f"'stacked' has no number for the group {missing[0]!r}")
        self.make = lambda: MONSTOR(aggr, aggr_options=aggr_options)
        depths = dict.fromkeys(self.groups, MOST_STACKED) if stacked is None else stacked
        self.programs = [_Program(part, batch_size, depths[part.group], device) for part in parts]
        if all(len(program.history) < batch_size for program in self.programs):
            most = max(len(program.history) for program in self.programs)
            raise ValueError(
                f"no graph has a whole batch of {batch_size} steps to learn from, but {most}; use more sets"
            )
        self.model, self.start = self._living_model()
        self.adam, self.others = self._optimizers()
        self.steps, self.validations = self._steps()
        self.epoch = 0
        self.best: dict[str, dict[str, Any]] = {}
        self.curve: dict[str, list[float]] = {group: [] for group in self.groups}

    def _living_model(self) -> tuple[MONSTOR, int]:
        """The first initialisation, counted from the seed, that has a gradient on every part, or on most of them."""
        best: tuple[int, int] = (0, 0)
        for attempt in range(STARTS):
            model = self._start(attempt)
            alive = sum(self._is_alive(model, program) for program in self.programs)
            best = max(best, (alive, -attempt))
            if alive == sum(len(program.history) > 0 for program in self.programs):
                break
        if best[0] == 0:
            raise ValueError(f"none of {STARTS} initialisations has a gradient: the cascades hardly spread")
        return self._start(-best[1]), -best[1]

    def _start(self, attempt: int) -> MONSTOR:
        model = seeded(self.make, self.seed + 100_003 * attempt).to(self.device)
        assert isinstance(model, MONSTOR)
        return model

    def _is_alive(self, model: MONSTOR, program: _Program) -> bool:
        if not len(program.history):
            return False
        program.index.copy_(torch.arange(self.batch_size, device=self.device) % len(program.history))
        (gradient,) = torch.autograd.grad(program.loss(model), model.get_parameter("layers.0.fc_neigh.weight"))
        return bool(gradient.any())

    def _optimizers(self) -> tuple[torch.optim.Optimizer, torch.optim.Optimizer | None]:
        graphs = self.device.type == "cuda"
        groups = {group["name"]: group["params"] for group in param_groups(self.model, 0.0)}
        first = torch.tensor(rate(1), device=self.device) if graphs else rate(1)
        adam = torch.optim.Adam(groups.pop("rest"), lr=first, capturable=graphs)
        rates = {"p": LR_P, "q": LR_Q}
        scalars = [{"params": parameters, "lr": rates[name]} for name, parameters in groups.items()]
        return adam, torch.optim.RMSprop(scalars, lr=LR_P, capturable=graphs) if scalars else None

    def _steps(self) -> tuple[Sequence[Callable[[], None]], Sequence[Callable[[], None]]]:
        """A training step and a validation of each part; on a GPU one CUDA graph each."""
        calls = [functools.partial(self._step, program) for program in self.programs]
        validations = [functools.partial(program.validate, self.model) for program in self.programs]
        if self.device.type != "cuda":
            return calls, validations
        initial = {name: value.clone() for name, value in self.model.state_dict().items()}
        recorded = [record(call, self.device) for call in calls]
        self.model.load_state_dict(initial)  # what warming up has changed
        for optimizer in filter(None, (self.adam, self.others)):
            for state in optimizer.state.values():
                for value in state.values():
                    value.zero_()
        return recorded, [record(call, self.device, warm_up=1) for call in validations]

    def _step(self, program: _Program) -> None:
        for optimizer in filter(None, (self.adam, self.others)):
            optimizer.zero_grad(set_to_none=True)
        program.loss(self.model).backward()
        self.adam.step()
        if self.others is not None:
            self.others.step()

    def train_epoch(self, check: Callable[[], None] | None) -> None:
        """All batches once."""
        self.epoch += 1
        value = rate(self.epoch * PUBLISHED_EPOCHS / self.epochs)
        for group in self.adam.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(value)
            else:
                group["lr"] = value
        for number, batch in self._batches():
            if check is not None:
                check()
            self.programs[number].index.copy_(batch, non_blocking=True)
            self.steps[number]()

    def _batches(self) -> Iterator[tuple[int, Tensor]]:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        found: list[tuple[int, Tensor]] = []
        for number, program in enumerate(self.programs):
            order = torch.randperm(len(program.history), generator=generator)
            whole = order[: len(order) // self.batch_size * self.batch_size].to(self.device)
            found += [(number, batch) for batch in whole.view(-1, self.batch_size)]
        for place in torch.randperm(len(found), generator=generator).tolist():
            yield found[place]

    def validate(self, check: Callable[[], None] | None) -> float:
        """Look whether this epoch is the best of any group; the relative error of the worst group."""
        errors: dict[str, Tensor] = {}
        norms: dict[str, Tensor] = {}
        counts: dict[str, int] = {}
        for program, validate in zip(self.programs, self.validations, strict=True):
            if check is not None:
                check()
            validate()
            group = program.group
            errors[group] = errors.get(group, 0.0) + program.errors
            norms[group] = norms.get(group, 0.0) + program.norm
            counts[group] = counts.get(group, 0) + program.starts.numel()
        worst = 0.0
        for group in self.groups:
            values = errors[group].cpu()
            k = int(values.nan_to_num(nan=math.inf).argmin()) if self.stacked is None else values.numel() - 1
            value, relative = float(values[k]), math.sqrt(float(values[k]) / max(float(norms[group]), 1e-30))
            self.curve[group].append(relative)
            worst = max(worst, relative)
            if group not in self.best or value < self.best[group]["value"]:
                self.best[group] = {
                    "value": value,
                    "stacked": k + 1,
                    "epoch": self.epoch,
                    "error": math.sqrt(value / counts[group]),
                    "relative": relative,
                    "weights": {name: t.detach().cpu().clone() for name, t in self.model.state_dict().items()},
                }
        return worst

    def result(self) -> dict[str, TrainedMonstor]:
        found = {}
        for group, best in self.best.items():
            model = seeded(self.make, 0)
            model.load_state_dict(best["weights"])
            found[group] = TrainedMonstor(
                model.eval(),
                best["stacked"],
                best["epoch"],
                best["error"],
                best["relative"],
                self.curve[group],
                self.start,
            )
        return found

    def described(self) -> dict[str, Any]:
        """What a checkpoint must belong to."""
        numbers = {
            "aggr": self.aggr,
            "options": self.aggr_options,
            "seed": self.seed,
            "epochs": self.epochs,
            "batch_size": self.batch_size,
            "stacked": self.stacked,
            "device": self.device.type,
        }
        return {**numbers, "parts": [_described(part) for part in self.parts]}

    def state(self) -> dict[str, Tensor]:
        """Every value that training changes."""
        found = {f"model/{name}": value for name, value in self.model.state_dict().items()}
        for (place, number, name), value in self._optimizer_state():
            found[f"optimizer/{place}/{number}/{name}"] = value
        for place, group in enumerate(self.groups):
            best = self.best[group]
            found[f"best/{place}"] = torch.tensor([best[name] for name in NUMBERS], dtype=torch.float64)
            found[f"curve/{place}"] = torch.tensor(self.curve[group], dtype=torch.float64)
            found |= {f"weights/{place}/{name}": value for name, value in best["weights"].items()}
        return found | {"epoch": torch.tensor(self.epoch), "start": torch.tensor(self.start)}

    def _optimizer_state(self) -> Iterator[tuple[tuple[int, int, str], Tensor]]:
        for place, optimizer in enumerate(filter(None, (self.adam, self.others))):
            for number, parameter in enumerate(_parameters(optimizer)):
                for name, value in optimizer.state[parameter].items():
                    yield (place, number, name), value

    def check(self, tensors: dict[str, Tensor]) -> None:
        """Raise :class:`~gnpool.store.errors.Damaged` if the training cannot go on from such tensors."""
        expected = {f"model/{name}": value for name, value in self.model.state_dict().items()}
        for place, optimizer in enumerate(filter(None, (self.adam, self.others))):
            for number, parameter in enumerate(_parameters(optimizer)):
                for name in STATE[type(optimizer)]:
                    like = torch.tensor(0.0) if name == "step" else parameter
                    expected[f"optimizer/{place}/{number}/{name}"] = like
        epoch, start = (tensors.get(name, torch.tensor(-1)) for name in ("epoch", "start"))
        expected |= {"epoch": torch.tensor(0), "start": torch.tensor(0)}
        if epoch.numel() != 1 or not 0 < epoch.item() <= self.epochs:
            raise Damaged("its epoch is none of this training")
        for place in range(len(self.groups)):
            expected[f"best/{place}"] = torch.zeros(len(NUMBERS), dtype=torch.float64)
            expected[f"curve/{place}"] = torch.zeros(int(epoch), dtype=torch.float64)
            expected |= {f"weights/{place}/{name}": value for name, value in self.model.state_dict().items()}
        check_like(tensors, expected)
        if not 0 <= int(start) < STARTS:
            raise Damaged("its start is none of this training")
        for place in range(len(self.groups)):
            stacked, best = tensors[f"best/{place}"][1:3].tolist()
            if stacked not in range(1, max(MOST_STACKED, *(self.stacked or {"": 1}).values()) + 1):
                raise Damaged("it applies a model a number of times that cannot be")
            if best not in range(1, int(epoch) + 1):
                raise Damaged("its best epoch is none of this training")

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Go on from what :meth:`state` gave."""
        self.model.load_state_dict(_under("model/", tensors))
        for place, optimizer in enumerate(filter(None, (self.adam, self.others))):
            for number, parameter in enumerate(_parameters(optimizer)):
                found, state = _under(f"optimizer/{place}/{number}/", tensors), optimizer.state[parameter]
                for name, value in found.items():
                    if name in state:  # a CUDA graph knows no other tensors
                        state[name].copy_(value)
                    else:
                        state[name] = value.clone() if name == "step" else value.to(self.device)
        self.epoch, self.start = int(tensors["epoch"]), int(tensors["start"])
        for place, group in enumerate(self.groups):
            value, stacked, epoch, error, relative = tensors[f"best/{place}"].tolist()
            numbers = {"value": value, "stacked": int(stacked), "epoch": int(epoch), "error": error}
            self.best[group] = {**numbers, "relative": relative, "weights": _under(f"weights/{place}/", tensors)}
            self.curve[group] = tensors[f"curve/{place}"].tolist()


def _parameters(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Those whose names begin so, without the beginning."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _described(part: Part) -> list[Any]:
    """A part as JSON can hold it: its numbers as a checksum."""
    digest = hashlib.sha256()
    for values in (part.graph.source, part.graph.target, part.graph.probability, part.labels.table.cpu().numpy()):
        digest.update(np.ascontiguousarray(values).data)
    return [part.name, part.group, part.graph.nodes, digest.hexdigest(), part.training, part.validation]
