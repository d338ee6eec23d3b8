r"""``crystallize`` replaces a pooling that is nearly the sum by the sum, if held-out graphs agree."""

from __future__ import annotations

import copy
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import Data

from gnpool.insight.crystallize.evidence import Evidence
from gnpool.insight.crystallize.judge import Judge
from gnpool.insight.crystallize.refit import Refits
from gnpool.insight.crystallize.replace import has_biases, has_own, is_trainable, keeps_width, replaced
from gnpool.insight.crystallize.split import everything, first, split_by_size
from gnpool.insight.crystallize.trial import Certificate, Crystal, Trial
from gnpool.insight.laws.finding import TOLERANCE
from gnpool.insight.laws.trust import FACTORS
from gnpool.insight.probe import branches_of, gnp_layers
from gnpool.insight.proposals import Poolings, combinations, is_part, neighbours
from gnpool.insight.reading import Reading, read
from gnpool.training import Batches, Setting, seeded
from gnpool.training.program import Forward, Loss, by_name

READ_GRAPHS = 200  # validation graphs that the reading looks at
SETTINGS = (  # looks use only the first one
    Setting(lr=1e-2, lr_p=3e-2, optimizer="adam"),
    Setting(lr=3e-3, lr_p=3e-2, optimizer="adam"),
    Setting(lr=1e-3, lr_p=1e-2, optimizer="adam"),
)
FIRST = (64, 128)  # steps of the two looks at every proposed combination
# rounds of looks at the neighbours of the best trials, steps of a look, and how many best trials
MOVES, MOVE_STEPS, PARENTS = 2, 64, 4
NEIGHBOURS = 2  # a round looks at no more neighbours than this factor times the proposed combinations
HALVING = ((12, 128), (6, 256))  # how many combinations survive each round, and the steps of its looks
FINALISTS = 3  # combinations that are refitted under all settings
SEEDS = 2  # fresh weights that each proposal starts from, beside the learned ones
APPEALS = 4  # how often, at most, trials simpler than the choice are refitted from its weights


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
    trials: int = 16,
    final_validation: bool = True,
    device: str | torch.device = "cpu",
    checkpoint: str | Path | None = None,
    progress: Callable[[int, int, str], None] | None = None,
    check: Callable[[], None] | None = None,
) -> Crystal:
    r"""Replaces learned poolings by exact ones, refits the rest, and lets held-out graphs decide.

    The laws of the targets (the search of :func:`find_law`) and the reading of the model (:func:`read`, on validation
    data) propose named poolings for each GNP layer. Combinations of them are tried by successive halving: with the
    biases of all linear layers and without, from the learned weights and from fresh ones. Many combinations get a short
    look, the better ones get longer looks, and the best ones are also tried with one pooling added or exchanged. The
    finalists, and the model with its learned GNP, are refitted under all settings. One trial *beats* another if under
    every setting its loss is lower by more than two standard errors of the difference, graph by graph, and by more than
    rounding. **The simplest trial that no other beats is chosen.** If that is the learned GNP, the model stays as it
    was given.

    If graphs differ in size, the search refits on the smaller half of the training graphs and judges on all larger
    training and validation graphs, since a pooling that fits one size by chance does not fit the next. The chosen form
    is then refitted on training and validation graphs together. Test data are never used.

    At last, the trials that the choice does not beat run on larger, grown graphs, which need no labels. The certificate
    of the crystal says up to which size they agree, whether the errors are noise, whether anything was learned, and the
    formula, if the network is a law of one or two terms.

    Args:
        model (torch.nn.Module): A trained model with GNP layers; it is not changed.
        train (Batches or Sequence[Data]): The data it was trained with.
        validation (Batches or Sequence[Data]): The data it was selected with.
        loss (callable): ``loss(prediction, batch)``, as in :func:`fit_many`.
        forward (callable, optional): How to call the model, as in :func:`fit_many`.
        settings (Sequence[Setting], optional): The settings of the finalists' refits; looks use only the first one.
        epochs (int, optional): The length of the finalists' refits. Looks are never longer. (default: ``20``)
        graphs (int, optional): Refit on this many training graphs at most, the first ones; ``None`` takes all.
            (default: ``1000``)
        batch_size (int, optional): Graphs in a batch, if the data are given as graphs. (default: ``16``)
        trials (int, optional): The budget: how many combinations to start with, nearest first. The looks at one of them
            take at most about 1,100 steps, and the finalists take about 50 times ``epochs`` passes over the data;
            ``Crystal.steps`` tells how many steps were taken. (default: ``16``)
        final_validation (bool, optional): Whether the chosen form is refitted on validation graphs as well; ``False``
            leaves them for a comparison with other models. (default: ``True``)
        device (str or torch.device, optional): Where to refit.
        checkpoint (str or Path, optional): A folder. Every refit saves its state there about twice a minute, when it
            is interrupted and when it ends, and resumes from what it finds. The result is the same as without
            interruption. States of another model are ignored.
        progress (callable, optional): Called with the number of the trial, how many there are at most, and its
            description.
        check (callable, optional): Called before every trial and every step of a refit, from any thread; an exception
            that it raises ends the search as Ctrl-C does.

    Returns:
        Crystal: The chosen model (in evaluation mode, on the CPU), all trials, why it was chosen, and its certificate.

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
        >>> squared = lambda prediction, batch: (prediction - batch.y).square()
        >>> crystal = crystallize(Net(), sets[::2], sets[1::2], squared, epochs=5, trials=4)
        >>> crystal.choice.describe()
        'pool: sum'
        >>> crystal.verdict, str(crystal.law), crystal.trusted_size
        ('law', 'y = sum_i(x_i)', 128)
        >>> print(f"{crystal.model(torch.ones(1000, 1), torch.tensor([0, 1000])).item():.0f}")
        1000
    """
    train = train if isinstance(train, Batches) else Batches(train, batch_size)
    validation = validation if isinstance(validation, Batches) else Batches(validation, batch_size, seed=None)
    train = first(train, graphs)
    train = train.select(torch.arange(train.count, device="cpu"))
    model = copy.deepcopy(model).cpu().eval()
    call = by_name(model) if forward is None else forward
    reading = read(model, validation.cut(torch.arange(min(READ_GRAPHS, validation.count), device="cpu")), forward=call)
    data = split_by_size(train, validation)
    judge = Judge(copy.deepcopy(model), data.judging, loss, call, device)
    passes = math.ceil(epochs * len(train) / len(data.refitted))  # as many steps as on all graphs
    refits = Refits(model, data.refitted, judge, loss, call, settings, passes, device, checkpoint, check)
    laws = _laws(Evidence.of(data.refitted, model, loss, call), model)
    search = _Search(refits, proposed(model, reading, trials, laws), laws[:1], progress)
    given = Trial({path: {} for path in reading.layers}, True, "given", judge.mean(judge.given).item())
    finalists = search.looks()
    refitted = search.finals([*finalists, replace(given, stage="refitted")])
    best, reason = judge.choose(refitted)
    choice, certificate = given, Certificate("nothing")
    chosen = copy.deepcopy(model)
    if not any(judge.learned_something(one) for one in (judge.given[None], *(one.losses for one in refitted))):
        reason = "no trial is better than the best constant; the model stays as it was given"
    else:
        finished = None if best.learned else _finished(refits, best, train, validation, final_validation)
        if finished is not None:
            choice, chosen = best, seeded(functools.partial(refits.made, replace(best, state=finished)), 0)
        elif best.learned:
            reason = f"no named pooling is as good ({reason}); the model stays as it was given"
        else:
            reason = f"on validation graphs, {best.describe()} is no better than the model as given"
        evidence = Evidence.of(everything(train, validation), model, loss, call)
        alike = [best, *(one for one in refitted if one is not best and one.state and not judge.beats(best, one))]
        certificate = _certified(evidence, refits, chosen, choice, alike)
    done = {(trial.combination, trial.fresh) for trial in refitted}
    rest = [trial for trial in search.seen.values() if (trial.combination, trial.fresh) not in done]
    tried = (given, *refitted, *sorted(rest, key=lambda trial: trial.loss))
    return Crystal(
        chosen.cpu().eval(), tried, choice, reason, reading, data.words, judge.constant, refits.steps, certificate
    )


def _laws(evidence: Evidence | None, model: torch.nn.Module) -> list[tuple[Poolings, bool]]:
    """The poolings that laws of the targets have in place of the layers, and whether nodes add their own value."""
    branches = {path: [part.name for part in branches_of(layer)] for path, layer in gnp_layers(model).items()}
    found = [] if evidence is None else evidence.proposals(branches, has_own(model))
    return [(poolings, own) for poolings, own in found if keeps_width(model, poolings)]


def _certified(
    evidence: Evidence | None, refits: Refits, chosen: torch.nn.Module, choice: Trial, alike: Sequence[Trial]
) -> Certificate:
    """What the choice is worth. ``alike`` has the trial behind it, then those that it does not beat."""
    named, exact = all(choice.poolings.values()), refits.judge.perfect(choice)
    why = "" if named else "exponents stay learned"
    if evidence is None:
        why = why or ("" if exact else "nothing says whether the errors are noise")
        return Certificate("approximate" if why else "law", why=why)
    law, largest = evidence.formula(chosen, choice.poolings, refits.call), evidence.largest
    said = evidence.answers(chosen, refits.call)
    noise = evidence.error(said)
    if not why and not exact and not evidence.is_noise(said if law is None else law.predict(evidence.sample)):
        why = "the errors are related to the graphs"
    if why:
        return Certificate("approximate", law, noise, largest, TOLERANCE, largest, why)
    tolerance = max(TOLERANCE, noise)
    best, *rivals = (refits.made(one) for one in alike)
    size = evidence.trust(best, rivals, refits.call, tolerance).size
    verdict = "law" if size >= FACTORS[-1] * largest else "undecided"
    return Certificate(verdict, law, noise, size, tolerance, largest)


def _finished(
    refits: Refits, choice: Trial, train: Batches, validation: Batches, final_validation: bool
) -> dict[str, Tensor] | None:
    """The weights of the chosen form, or None if the criterion prefers the model as given on the same graphs."""
    choice = refits.finish(choice, "train", train)
    plain = Judge(copy.deepcopy(refits.model), validation, refits.loss, refits.call, refits.device)
    given = Trial({path: {} for path in choice.poolings}, True, "given", losses=plain.given[None])
    named = replace(choice, losses=plain.losses(refits.made(choice))[None])
    if plain.choose([given, named])[0] is given:
        return None
    return refits.finish(choice, "all", everything(train, validation)).state if final_validation else choice.state


def proposed(
    model: torch.nn.Module, reading: Reading, trials: int, laws: Sequence[tuple[Poolings, bool]] = ()
) -> list[Trial]:
    """Trials of ``laws`` and of the nearest combinations, with biases and without, from learned and fresh weights."""
    known = [poolings for poolings, own in laws if own]
    wanted = ((one, True) for one in combinations(reading) if keeps_width(model, one) and one not in known)
    return [
        Trial(poolings, biases, "screened", fresh=fresh, own=own)
        for poolings, own in itertools.islice((*laws, *wanted), trials)
        for biases in ((True, False) if has_biases(model) else (True,))
        for fresh in range((SEEDS if is_trainable(replaced(model, poolings, biases)) else 0) + 1)
    ]


class _Search:
    """Short looks at all proposals, longer looks at the best ones and their neighbours, and refits of the finalists."""

    def __init__(
        self,
        refits: Refits,
        wanted: list[Trial],
        laws: Sequence[tuple[Poolings, bool]],
        progress: Callable[[int, int, str], None] | None,
    ) -> None:
        self.refits, self.judge, self.wanted, self.progress = refits, refits.judge, wanted, progress
        self.sure = [repr(poolings) for poolings, _ in laws]  # they stay until the end
        self.seen: dict[object, Trial] = {}  # the latest state of each trial, by combination and initial weights
        self.number = 0
        layers = gnp_layers(refits.model)
        self.branches = {path: [part.name for part in branches_of(layer)] for path, layer in layers.items()}
        combined = len({trial.combination for trial in wanted})
        later = sum(2 * count for count, _ in HALVING) + 2 * FINALISTS + 1 + 3 * APPEALS
        self.most = NEIGHBOURS * len({repr(trial.poolings) for trial in wanted})
        forms = 2 * (1 + has_own(refits.model))
        self.total = len(wanted) + combined + MOVES * (2 * PARENTS + self.most) + forms * (later + FINALISTS + 1)

    def looks(self) -> list[Trial]:
        """The finalists: the best combinations and simpler ones inside them, each with biases and without."""
        arms = self._look("first", FIRST[0], self.wanted)
        # so that no combination is lost because of its initial weights
        arms = self._look("second", FIRST[1], best_arms(arms))
        long = self._look("long", self.refits.whole, self._in_other_forms(self._nearest(arms, FINALISTS)))
        arms = latest([*arms, *long])
        for number in range(MOVES if not any(map(self.judge.perfect, arms)) else 0):
            parents = nearest(arms, PARENTS)
            moved = self._look(f"move{number}", MOVE_STEPS, [*parents, *self._children(parents)])
            arms = latest([*arms, *moved])
        for number, (count, steps) in enumerate(HALVING):
            arms = self._look(f"halving{number}", steps, self._with_simpler(self._nearest(arms, count), arms))
        return self._in_other_forms(self._with_simpler(self._nearest(arms, FINALISTS), arms))

    def _nearest(self, arms: Sequence[Trial], count: int) -> list[Trial]:
        """The arms of the nearest poolings, and those of the law of the targets."""
        found = nearest(arms, count)
        return [*found, *(arm for arm in arms if repr(arm.poolings) in self.sure and arm not in found)]

    def finals(self, trials: Sequence[Trial]) -> list[Trial]:
        """Refit under all settings, simplest first. Once a trial is exact, less simple ones are skipped.

        A less simple trial may be ahead only because it learns faster. So the trials that are one step simpler than
        the choice are also refitted from its weights, until this changes nothing.
        """
        found: list[Trial] = []
        before = 0
        for trial in sorted(trials, key=lambda trial: trial.complexity):
            if not self._needless(trial, found):
                found.append(self._refit(trial, 0))
        for number in range(APPEALS):
            choice, _ = self.judge.choose(found)
            if number and choice in found[:before]:
                break
            before = len(found)
            found += [
                self._refit(self.refits.child(simpler, choice), number + 1) for simpler in self._simplified(choice)
            ]
        return found

    def _simplified(self, choice: Trial) -> list[Trial]:
        """The trials that are one step simpler: with one pooling less, or without biases."""
        fewer = [one for one in neighbours(choice.poolings, self.branches) if is_part(one, choice.poolings)]
        found = [replace(choice, poolings=one, state={}) for one in fewer if keeps_width(self.refits.model, one)]
        if choice.biases and not choice.learned and has_biases(self.refits.model):
            found.append(replace(choice, biases=False, state={}))
        if choice.own and not choice.learned and has_own(self.refits.model):
            found.append(replace(choice, own=False, state={}))
        return found

    def _refit(self, trial: Trial, number: int) -> Trial:
        self._tell(trial)
        return self.refits.refit(trial, number)

    def _with_simpler(self, best: Sequence[Trial], arms: Sequence[Trial]) -> list[Trial]:
        """The best trials, each with the best trial that has fewer poolings, since more poolings often learn faster."""
        found = list(best)
        for trial in best:
            alike = [one for one in arms if (one.biases, one.own) == (trial.biases, trial.own)]
            inside = [one for one in alike if one.poolings != trial.poolings and is_part(one.poolings, trial.poolings)]
            simpler = min(inside, key=lambda one: one.loss, default=trial)
            if all(simpler.combination != one.combination for one in found):
                found.append(simpler)
        return found

    def _look(self, name: str, steps: int, arms: Sequence[Trial]) -> list[Trial]:
        found: list[Trial] = []
        for trial in sorted(arms, key=lambda trial: trial.complexity):
            if not self._needless(trial, found):
                self._tell(trial)
                found.append(self.refits.look(trial, name, steps))
                self.seen[trial.combination, trial.fresh] = found[-1]
        return found

    def _needless(self, trial: Trial, found: Sequence[Trial]) -> bool:
        """Whether a simpler trial is already exact, so that this one cannot be chosen."""
        exact = [one for one in (*found, *self.seen.values()) if self.judge.perfect(one)]
        return any(one.complexity < trial.complexity for one in exact)

    def _children(self, arms: Sequence[Trial]) -> list[Trial]:
        """The neighbours of the arms that were not tried yet, those of the best arm first."""
        found: list[Trial] = []
        known = {repr(trial.poolings) for trial in self.seen.values()}
        for parent in sorted(arms, key=lambda trial: trial.loss):
            for poolings in neighbours(parent.poolings, self.branches):
                if len(found) < self.most and repr(poolings) not in known and keeps_width(self.refits.model, poolings):
                    known.add(repr(poolings))
                    found.append(self.refits.child(replace(parent, poolings=poolings, state={}), parent))
        return found

    def _in_other_forms(self, arms: Sequence[Trial]) -> list[Trial]:
        """The arms, each also with the other choice of biases, and of the node's own value, unless that is there."""
        found = list(arms)
        for trial in arms:
            others = [replace(trial, biases=not trial.biases, state={})] if has_biases(self.refits.model) else []
            others += [replace(trial, own=not trial.own, state={})] if has_own(self.refits.model) else []
            for other in others:
                if all(other.combination != one.combination for one in found):
                    found.append(self.refits.child(other, trial))
        return found

    def _tell(self, trial: Trial) -> None:
        if self.progress is not None:
            self.progress(min(self.number, self.total), self.total, trial.describe(weights=True))
        self.number += 1


def best_arms(arms: Sequence[Trial]) -> list[Trial]:
    """For each combination of poolings, the arm with the lowest loss."""
    best: dict[str, Trial] = {}
    for trial in sorted(arms, key=lambda trial: trial.loss):
        best.setdefault(repr(trial.poolings), trial)
    return list(best.values())


def latest(arms: Sequence[Trial]) -> list[Trial]:
    """The last arm of each combination."""
    return list({trial.combination: trial for trial in arms}.values())


def nearest(arms: Sequence[Trial], count: int) -> list[Trial]:
    """The arms of the ``count`` poolings with the lowest losses."""
    names = list(dict.fromkeys(repr(trial.poolings) for trial in sorted(arms, key=lambda trial: trial.loss)))
    return [trial for trial in arms if repr(trial.poolings) in names[:count] and trial.loss < math.inf]
