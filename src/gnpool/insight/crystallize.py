r"""``crystallize``: from "about the sum" to the sum, where validation agrees."""

from __future__ import annotations

import copy
import functools
import hashlib
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import Data

from gnpool.display.poolings import BY_NAME
from gnpool.insight.crystal import CrystalAggregation
from gnpool.insight.probe import branches_of, gnp_layers
from gnpool.insight.proposals import STACK, Poolings, combinations, one_throughout
from gnpool.insight.reading import Reading, read
from gnpool.training import Batches, Setting, evaluate_mean, fit_many, seeded
from gnpool.training.checkpoint import fingerprint_of
from gnpool.training.program import Forward, Loss, by_name

LEARNED = "learned GNP"
FRESH = "from fresh weights"
MARGIN = 0.2  # a simpler model may have a validation loss larger by this part
LEARNED_MARGIN = 0.02  # but no more than this above the learned GNP, refitted or as given
EXACT = 1e-3  # or by this part of the loss of the model as given: what is below is as good as nothing
SHOWN = 12  # trials that are printed; all of them are in ``tried``
READ_GRAPHS = 200  # validation graphs that the reading looks at
SCREEN_GRAPHS, SCREEN_EPOCHS = 256, 8  # how short the first look at a combination is
FRESH_LOOK, FRESH_EPOCHS, FRESH_RATE = 1 / 4, 2, 3  # fresh weights, times a refit's: epochs of looks, epochs, rates
SETTINGS = (  # the first one alone for first looks
    Setting(lr=1e-2, lr_p=3e-2, optimizer="adam"),
    Setting(lr=3e-3, lr_p=3e-2, optimizer="adam"),
    Setting(lr=1e-3, lr_p=1e-2, optimizer="adam"),
)


@dataclass(frozen=True)
class Trial:
    """One combination that was tried: for each layer the poolings of its branches, or nothing for the learned GNP.

    Args:
        poolings (dict): By layer, the name of the pooling of each branch that is kept; empty: GNP stays.
        biases (bool): Whether the linear layers of the model have kept their biases.
        stage (str): ``"given"``: the model as it was given; ``"screened"``: refitted for a short time, and mostly on a
            part of the data; ``"refitted"``: for as long as asked.
        loss (float): Lowest validation loss.
        setting (Setting, optional): The setting that reached it; None for the model as it was given.
        failed (str, optional): Why it could not be refitted.
        fresh (bool): Whether it began with fresh weights in place of the learned ones.
    """

    poolings: Poolings
    biases: bool
    stage: str
    loss: float = math.inf
    setting: Setting | None = None
    failed: str | None = None
    fresh: bool = False
    state: dict[str, Tensor] = field(default_factory=dict, repr=False, compare=False)

    @property
    def learned(self) -> bool:
        """Whether every layer keeps its learned pooling."""
        return not any(self.poolings.values())

    @property
    def complexity(self) -> tuple[int, ...]:
        """Fewer learned layers, fewer branches, no biases, one pooling throughout, simpler names come first."""
        learned = sum(not names for names in self.poolings.values())
        branches = sum(len(names) or 2 for names in self.poolings.values())
        ranks = sum(BY_NAME[name].rank for names in self.poolings.values() for name in names.values())
        kinds = {tuple(names.values()) for names in self.poolings.values()} if len(self.poolings) >= STACK else {()}
        return (learned, branches, self.biases, len(kinds), ranks)

    def describe(self) -> str:
        """In words, layer by layer."""
        parts = []
        for layer, names in self.poolings.items():
            pooling = " and ".join(names.values()) if names else LEARNED
            parts.append(f"{layer or 'model'}: {pooling}")
        parts += [] if self.biases else ["no biases"]
        return ", ".join([*parts, FRESH] if self.fresh else parts)


@dataclass(frozen=True)
class Crystal:
    """The outcome: the chosen model, everything that was tried, what was chosen and why, and the reading before."""

    model: torch.nn.Module
    tried: tuple[Trial, ...]
    choice: Trial
    reason: str
    reading: Reading

    def __str__(self) -> str:
        lines = [f"{'validation loss':>15}   poolings"]
        order = {"given": 0, "refitted": 1, "screened": 2}
        shown = sorted(self.tried, key=lambda trial: (order[trial.stage], trial.loss))
        for trial in shown[:SHOWN]:
            mark = "*" if trial is self.choice else " "
            notes = {"given": " (as given)", "screened": " (first look)", "refitted": ""}[trial.stage]
            notes += f" [{trial.failed}]" if trial.failed else ""
            lines.append(f"{trial.loss:>15.4g} {mark} {trial.describe()}{notes}")
        if len(shown) > SHOWN:
            lines.append(f"{'':>15}   and {len(shown) - SHOWN} more, worse at first look")
        return "\n".join([*lines, f"chosen: {self.choice.describe()}: {self.reason}"])


def crystallize(
    model: torch.nn.Module,
    train: Batches | Sequence[Data],
    validation: Batches | Sequence[Data],
    loss: Loss,
    *,
    forward: Forward | None = None,
    settings: Sequence[Setting] = SETTINGS,
    epochs: int = 20,
    graphs: int | None = 1000,
    batch_size: int = 16,
    trials: int = 24,
    finalists: int = 5,
    device: str | torch.device = "cpu",
    checkpoint: str | Path | None = None,
    progress: Callable[[int, int, str], None] | None = None,
    check: Callable[[], None] | None = None,
) -> Crystal:
    r"""Replaces learned poolings by exact ones, refits the rest, and lets validation decide.

    The reading of the model (:func:`read`, on validation data) proposes named poolings for each GNP layer. Combinations
    of them are tried, with the biases of all linear layers kept and dropped: exponents fixed, a branch that is not
    named dropped, everything else refitted from the learned weights under several settings at once, with rates that
    fall to zero. All get a first look, short and with the first setting; the best of them, and the model with its
    learned GNP, are refitted for longer. Learned weights can hide the simplest answer: a stack of three layers or more
    may have learned to say min as the negative of max. So for such a model each pooling that its last layer has become
    is tried in all layers from fresh weights too, and the best of these is refitted with the others. Of those whose
    validation loss is within a fifth of the lowest and a fiftieth of the learned GNP's, or above them by less than a
    thousandth of the loss of the model as given, the simplest is chosen; if that is the learned GNP, the model stays as
    it was given. Test data is never seen.

    Args:
        model (torch.nn.Module): A trained model with GNP layers; it is not changed.
        train (Batches or Sequence[Data]): The data it was trained with.
        validation (Batches or Sequence[Data]): The data it was selected with.
        loss (callable): ``loss(prediction, batch)``, as in :func:`fit_many`.
        forward (callable, optional): How to call the model, as in :func:`fit_many`.
        settings (Sequence[Setting], optional): What to refit with; the first one alone for first looks.
        epochs (int, optional): How long to refit. (default: ``20``)
        graphs (int, optional): Training graphs to refit with at most, the first ones; ``None``: all.
            (default: ``1000``)
        batch_size (int, optional): For data given as graphs. (default: ``16``)
        trials (int, optional): Combinations to try at most, nearest first, each with and without biases.
            (default: ``24``)
        finalists (int, optional): Combinations to refit for longer at most. (default: ``5``)
        device (str or torch.device, optional): Where to refit.
        checkpoint (str or Path, optional): A folder. Every refit saves its state there about twice a minute, when it
            is interrupted and when it ends, and goes on from what it finds: the result is the same as without
            interruption. States of another model are left alone.
        progress (callable, optional): Called with the number of the trial, how many there are at most, and its
            description.
        check (callable, optional): Called before every trial and every step of a refit, from any thread; what it
            raises ends the search as Ctrl-C does.

    Returns:
        Crystal: The chosen model (in evaluation mode, on the CPU), what was tried and why it was chosen.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool import GNPAggregation, crystallize
        >>> class Net(torch.nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.pool = GNPAggregation(1, size=1.0)
        ...         torch.nn.init.ones_(self.pool.mix.weight)
        ...         self.pool.p, self.pool.growth = 1.02, 0.97  # as if trained: near the sum, (1, 1)
        ...
        ...     def forward(self, x, ptr):
        ...         return self.pool(x, ptr=ptr)
        >>> _ = torch.manual_seed(0)
        >>> sets = [Data(x=torch.rand(n, 1)) for n in range(3, 9) for _ in range(8)]
        >>> for one in sets:
        ...     one.y = one.x.sum().view(1, 1)
        >>> crystal = crystallize(Net(), sets[::2], sets[1::2], lambda p, batch: (p - batch.y).square(), epochs=5)
        >>> crystal.choice.describe()
        'pool: sum'
        >>> print(f"{crystal.model(torch.ones(1000, 1), torch.tensor([0, 1000])).item():.0f}")
        1000
    """
    train = train if isinstance(train, Batches) else Batches(train, batch_size)
    validation = validation if isinstance(validation, Batches) else Batches(validation, batch_size, seed=None)
    model = copy.deepcopy(model).cpu().eval()
    call = by_name(model) if forward is None else forward
    reading = read(model, validation.cut(torch.arange(min(READ_GRAPHS, validation.count), device="cpu")), forward=call)
    keep: Poolings = {path: {} for path in reading.layers}
    given = Trial(keep, True, "given", evaluate_mean(model, validation, loss, forward=call))
    wanted = [
        Trial(poolings, biases, "screened")
        for poolings in itertools.islice(filter(functools.partial(_keeps_width, model), combinations(reading)), trials)
        for biases in ((True, False) if _has_biases(model) else (True,))
    ]
    keeping = filter(functools.partial(_keeps_width, model), one_throughout(reading))
    wanted += [Trial(poolings, True, "screened", fresh=True) for poolings in keeping]
    total = len(wanted) + min(finalists, len(wanted)) + any(trial.fresh for trial in wanted) + 1
    cpu = torch.device(device).type == "cpu"
    origin = _weights(model)

    def refit(number: int, trial: Trial, stage: str) -> Trial:
        first, fresh = stage == "screened", trial.fresh
        length = min(SCREEN_EPOCHS, epochs) if first else epochs
        rates = settings
        if fresh:
            length = max(1, round(epochs * (FRESH_LOOK if first else FRESH_EPOCHS)))
            rates = [replace(setting, lr=FRESH_RATE * setting.lr) for setting in settings]
        if check is not None:
            check()
        if progress is not None:
            progress(number, total, trial.describe())
        part = _first(validation, SCREEN_GRAPHS) if first else validation
        make = functools.partial(_renewed if fresh else replaced, model, trial.poolings, trial.biases)
        candidate = seeded(make, 0).eval()
        if not any(parameter.requires_grad for parameter in candidate.parameters()):  # nothing to refit
            score = evaluate_mean(candidate, part, loss, forward=call)
            return replace(trial, stage=stage, loss=score, state=candidate.state_dict())
        name = f"{stage}-{fingerprint_of([origin, trial.poolings, trial.biases, fresh])}"
        fit = fit_many(
            make,
            _first(train, SCREEN_GRAPHS if first and not fresh else graphs),
            loss,
            rates[:1] if first else rates,
            seeds=[int(origin[:8], 16) if fresh else 0],  # models that learned from other weights begin with others
            epochs=length,
            validation=part,
            forward=call,
            schedule=functools.partial(_falling, length),
            device=device,
            cuda_graph=False if first else None,  # recording takes longer than a first look
            vectorize=False if cpu else None,  # vmap over few runs costs more than it saves
            checkpoint=None if checkpoint is None else Path(checkpoint) / name,
            check=check,
        )
        best = fit.best()
        trial = replace(trial, stage=stage, setting=best.setting, failed=best.failed)
        if "loss" not in best.best:
            return trial
        return replace(trial, loss=best.best["loss"].value, state=fit.state_dict(best))

    # Where no loss is below 0, one that is as good as 0 cannot lose to a model that is less simple: those need no look.
    def perfect(trial: Trial) -> bool:
        return 0 <= trial.loss <= EXACT * given.loss

    screened: list[Trial] = []
    for number, trial in enumerate(wanted):
        simplest = min((other.complexity for other in screened if perfect(other)), default=trial.complexity)
        if trial.complexity <= simplest:
            screened.append(refit(number, trial, "screened"))
    ranked = sorted(screened, key=lambda trial: trial.loss)
    best = [trial for trial in ranked if not trial.fresh][:finalists] + [trial for trial in ranked if trial.fresh][:1]
    tried = [given]
    for trial in [*sorted(best, key=lambda trial: trial.complexity), given]:  # the learned GNP is the least simple
        tried.append(refit(len(wanted) + len(tried) - 1, trial, "refitted"))
        if perfect(tried[-1]):
            break
    choice, reason = _choose(tried)
    if choice.learned:
        choice, reason = given, f"no named pooling is as good ({reason}); the model stays as it was given"
    chosen = seeded(functools.partial(replaced, model, choice.poolings, choice.biases), 0)
    if choice.stage != "given":
        chosen.load_state_dict(choice.state)
    rest = [trial for trial in screened if not any(_same(trial, other) for other in tried)]
    return Crystal(chosen.eval(), (*tried, *rest), choice, reason, reading)


def _weights(model: torch.nn.Module) -> str:
    """A checksum: refits of equal networks that were trained differently begin elsewhere."""
    digest = hashlib.sha256()
    for value in (*model.parameters(), *model.buffers()):
        digest.update(value.detach().double().numpy().tobytes())
    return digest.hexdigest()


def _keeps_width(model: torch.nn.Module, poolings: Poolings) -> bool:
    """Whether the layers give as many channels as before: without a mixing layer no branch can be dropped."""
    layers = gnp_layers(model)
    return all(
        not names or layers[path].mix is not None or len(names) == len(branches_of(layers[path]))
        for path, names in poolings.items()
    )


def replaced(model: torch.nn.Module, poolings: Poolings, biases: bool = True) -> torch.nn.Module:
    """A copy of the model with exact poolings in the named layers, and perhaps without biases."""
    model = copy.deepcopy(model)
    layers = gnp_layers(model)
    for path, names in poolings.items():
        if not names:
            continue
        crystal = CrystalAggregation.from_gnp(layers[path], names)
        if path == "":
            model = crystal
        else:
            parent, _, attribute = path.rpartition(".")
            setattr(model.get_submodule(parent), attribute, crystal)
    if not biases:
        for module in _with_bias(model):
            module.register_parameter("bias", None)
    return model


def _renewed(model: torch.nn.Module, poolings: Poolings, biases: bool = True) -> torch.nn.Module:
    """The same with fresh weights, wherever a module knows how to make them; frozen ones stay."""
    model = replaced(model, poolings, biases)
    frozen = [(weight, weight.detach().clone()) for weight in model.parameters() if not weight.requires_grad]
    for module in model.modules():
        if callable(reset := getattr(module, "reset_parameters", None)):
            reset()
    with torch.no_grad():
        for weight, value in frozen:
            weight.copy_(value)
    return model


def _with_bias(model: torch.nn.Module) -> list[torch.nn.Module]:
    """The linear layers that have a bias, torch's and PyG's."""
    return [m for m in model.modules() if type(m).__name__ == "Linear" and isinstance(m.bias, Tensor)]


def _has_biases(model: torch.nn.Module) -> bool:
    return bool(_with_bias(model))


def _choose(tried: Sequence[Trial]) -> tuple[Trial, str]:
    """The simplest of those that are as good as the best, and why."""
    lowest, given = min(trial.loss for trial in tried), tried[0].loss
    learned = min(trial.loss for trial in tried if trial.learned)
    most = min(
        loss + max(margin * abs(loss), EXACT * abs(given))
        for loss, margin in ((lowest, MARGIN), (learned, LEARNED_MARGIN))
    )
    good = [trial for trial in tried if trial.loss <= most]
    choice = min(good, key=lambda trial: (trial.complexity, trial.loss))
    if choice.loss == lowest:
        return choice, f"lowest validation loss, {lowest:.3g}; as given {given:.3g}"
    return choice, f"the simplest of {len(good)} that are as good, {choice.loss:.3g}; lowest {lowest:.3g}"


def _same(a: Trial, b: Trial) -> bool:
    return (a.poolings, a.biases, a.fresh) == (b.poolings, b.biases, b.fresh)


def _first(batches: Batches, count: int | None) -> Batches:
    """The batches of the first graphs alone."""
    if count is None or count >= batches.count:
        return batches
    part = copy.copy(batches)
    part.count = count
    return part


def _falling(epochs: int, epoch: int) -> float:
    """Rates fall along a cosine, to a thousandth."""
    return 0.001 + 0.999 * 0.5 * (1 + math.cos(math.pi * epoch / max(1, epochs - 1)))
