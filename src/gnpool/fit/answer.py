"""The answer: the law or pooling that validation chose, its test errors, and how far it can be trusted."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gnpool.data.table import Floats
from gnpool.display.measures import METRICS, Metric, percent, shown
from gnpool.display.models import CRYSTAL, GNP
from gnpool.fit.law import formulas
from gnpool.fit.measures import shares
from gnpool.fit.networks import slots
from gnpool.fit.study import LAW, Entry, Study
from gnpool.fit.words import between
from gnpool.training import Batch

MARGIN = 0.2  # a simpler pooling is chosen if its validation loss is larger by at most this share
EXACT = 1e-6  # or by at most this share of the loss of the best constant, which counts as 0
SMALL = 1e-3  # smaller differences in error do not count
RESAMPLES = 1000
SURE = 0.95
LUCK = 3.0  # standard errors; of many models that learned nothing, the best may beat the constant by two
MORE_LUCK = 5.0  # if no formula of poolings is related to the targets, so that luck is the likelier reason
FEWEST = 4  # with fewer validation graphs than this, nothing can be concluded
FAR, FAR_NODES = 2.0, 10  # if test graphs are less than FAR times as large as training graphs, FAR_NODES is too far
SHIFT = 0.1  # a warning follows if the share of a class differs by this much on the larger graphs
PLACES = {"aggr": "over the neighbours", "readout": "over the nodes", "pool": "over the elements"}


@dataclass(frozen=True)
class Answer:
    """The answer of a fit, in values and in words.

    Args:
        entry (Entry): The chosen competitor, whose network is saved.
        poolings (tuple[str, ...], optional): Its poolings; None if it keeps the learned GNP, if a law was chosen, or if
            nothing was learned.
        law (str, optional): The formula, if a law was chosen.
        verdict (str): ``"helps"``, ``"not needed"`` or ``"hurts"`` compares GNP with the best fixed pooling on the test
            data. ``"not compared"`` means that a certain law was found, so that networks got a first look only.
        learned (bool): Whether anything was learned: a law, or a model that beats the best constant on the validation
            data by more than chance.
        sentences (tuple[str, ...]): The answer in words.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool.data import from_list
        >>> from gnpool.fit import Options, answer, run_study
        >>> _ = torch.manual_seed(0)
        >>> sets = [Data(x=(x := torch.rand(n, 1)), y=float(x.sum())) for n in range(3, 13) for _ in range(6)]
        >>> found = answer(run_study(from_list(sets), Options(epochs=1, seeds=1)))
        >>> found.law, found.learned, found.verdict
        ('y = sum_i(x0_i)', True, 'not compared')
    """

    entry: Entry
    poolings: tuple[str, ...] | None
    law: str | None
    verdict: str
    learned: bool
    sentences: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join(self.sentences)


def answer(study: Study) -> Answer:
    """Choose one of the competitors of a study by validation, and describe the choice.

    Example:
        >>> from torch_geometric.data import Data
        >>> import torch
        >>> from gnpool.data import from_list
        >>> from gnpool.fit import Options, answer, run_study
        >>> sets = [Data(x=torch.ones(n, 1), y=float(n)) for n in range(2, 12) for _ in range(5)]
        >>> found = answer(run_study(from_list(sets), Options(epochs=1, seeds=1)))
        >>> print(found.sentences[0])
        y = n. Formulas that explain the data about as well agree with it within 1 % up to 144 nodes, the largest size
        that was tried.
    """
    law_found = bool(study.findings) and all(finding.found for finding in study.findings)
    entries = [e for e in study.entries if e.finished and (e.label != LAW or law_found)]
    losses = np.stack([study.per_graph(entry.validation, "validation") for entry in entries])
    floor = EXACT * study.baseline.loss
    chosen = entries[_choose(losses.mean(1), entries, _noise(losses), floor)]
    learned = law_found or _beats(chosen, study)
    family = min(
        (e for e in entries if e.label in (GNP, CRYSTAL)), key=lambda e: (e.loss, e.label != CRYSTAL), default=None
    )
    fixed = [entry for entry in entries if entry.label not in (GNP, CRYSTAL, LAW)]
    best = min(fixed, key=lambda entry: entry.loss) if fixed else None
    verdict = "not compared" if best is None or family is None or not learned else _verdict(family, best, study)
    if verdict != "not compared" and family is not None and best is not None and family.poolings == best.poolings:
        verdict = "not needed"  # GNP found the same fixed pooling
    sentences = _sentences(study, chosen, learned)
    if family is None:
        sentences.append("Networks got a first look only: the law leaves nothing for them to learn.")
    elif learned and best is not None:
        sentences.append(_help(study, family, best, verdict))
    law = "; ".join(filter(None, _formulas(study))) if chosen.label == LAW else None
    poolings = None if chosen.label == LAW or not learned else chosen.poolings
    return Answer(chosen, poolings, law, verdict, learned, tuple(filter(None, sentences)))


def _beats(entry: Entry, study: Study) -> bool:
    """Whether a model beats every constant on the validation data by more than the best of many would by luck.

    It is compared with the best constant for the validation data, since a model that only matches their mean has
    learned nothing.
    """
    y = study.prepared.y["validation"]
    constant = study.problem.loss(study.problem.constant(y).expand(len(y), -1), Batch(y=y)).numpy()
    gain = study.per_graph(constant - entry.validation, "validation")
    if len(gain) < FEWEST:
        return False
    spread = float(gain.std(ddof=1)) / math.sqrt(len(gain))
    unrelated = bool(study.findings) and all(finding.verdict == "nothing" for finding in study.findings)
    luck = student(MORE_LUCK if unrelated else LUCK, len(gain) - 1)
    return bool(gain.mean() > 0 and gain.mean() >= luck * spread)


def student(sigmas: float, freedom: int) -> float:
    """Convert standard errors of the normal distribution to equally likely ones of Student's t distribution.

    Example:
        >>> from gnpool.fit.answer import student
        >>> round(student(3.0, 21), 1), round(student(3.0, 10_000), 1)
        (3.4, 3.0)
    """
    first = (sigmas**3 + sigmas) / 4
    second = (5 * sigmas**5 + 16 * sigmas**3 + 3 * sigmas) / 96
    return sigmas + first / freedom + second / freedom**2


def _sentences(study: Study, chosen: Entry, learned: bool) -> list[str]:
    """Sentences about the choice, its errors, and what they say about larger graphs."""
    plain = "the mean" if study.problem.task == "regression" else "the most frequent class"
    constant = show_error(study, study.baseline, "larger")
    where = _where(study)
    if not learned:
        nothing = (
            f"Nothing was learned: no model beats {plain} on the validation {_items(study)} by more than chance allows."
        )
        gets = f"On {where} {plain} gets {_metric(study).words} {constant}."
        saved = "Do not use the saved model: it predicts no better than that."
        if _is_better(chosen, study):
            count = len(study.prepared.y["validation"])
            saved = (
                f"The saved model gets {show_error(study, chosen, 'larger')}, but {count} validation "
                f"{_items(study)} cannot rule out that it was lucky. Do not rely on it without more data."
            )
        related = any(finding.law is not None for finding in study.findings)
        return [nothing, gets, saved, *_shift(study), *(_nearest(study, chosen) if related else [])]
    found = [_named(study, chosen), _errors(study, chosen)]
    if not _is_better(chosen, study):
        found.append(f"The latter is no better than {plain} of the training {_items(study)} ({constant}).")
    return [*found, *_shift(study), *_reach(study, chosen), *_nearest(study, chosen)]


def _is_better(chosen: Entry, study: Study) -> bool:
    """Whether a model beats the constant on the larger graphs, in the measure that is reported."""
    metric = _metric(study)
    ours, theirs = (entry.measures["larger"].get(metric.key) for entry in (chosen, study.baseline))
    if ours is None or theirs is None:
        return bool(chosen.errors["larger"].mean() < study.baseline.errors["larger"].mean())
    return bool(metric.better * (ours - theirs) > 0)


def _items(study: Study) -> str:
    """The name of the items that are split."""
    return f"{study.split.unit}s"


def _where(study: Study) -> str:
    """The test on which competitors are compared."""
    if study.split.by == "random":
        return f"test {_items(study)}"
    return "the larger graphs" if study.split.unit == "graph" else "the nodes with more neighbours"


def _metric(study: Study) -> Metric:
    return METRICS[study.options.metric]


def _shift(study: Study) -> list[str]:
    """A warning if the shares of the classes differ between training and larger graphs."""
    if study.problem.task != "classification" or study.split.by == "random":
        return []
    parts = class_shares(study)
    train, larger = parts["train"], parts["larger"]
    name = max(larger, key=lambda one: larger[one])
    if abs(larger[name] - train[name]) < SHIFT:
        return []
    shares = f"{percent(train[name])} of the training {_items(study)} and {percent(larger[name])} of {_where(study)}"
    return [f"The class {name!r} is {shares}; always naming it would be wrong on {percent(1 - larger[name])} of them."]


def class_shares(study: Study) -> dict[str, dict[str, float]]:
    """The share of each class in each part."""
    return {part: shares(y, study.problem.classes) for part, y in study.prepared.y.items()}


def _complexity(entry: Entry) -> int:
    if entry.label == LAW:
        return -1
    if entry.poolings is None:
        return 3
    if any("learned" in name for name in entry.poolings):
        return 2
    return 1 if entry.label == CRYSTAL else 0


def _noise(losses: Floats) -> Floats:
    """For each competitor, the standard error of the difference between its mean loss and the lowest."""
    best = int(losses.mean(1).argmin())
    spread = (losses - losses[best]).std(axis=1, ddof=1) if losses.shape[1] > 1 else np.zeros(len(losses))
    result: Floats = spread / math.sqrt(losses.shape[1])
    return result


def _choose(means: Floats, entries: list[Entry], noise: Floats, floor: float) -> int:
    """The simplest competitor whose loss equals the lowest up to noise; of equally simple ones, the best."""
    lowest = float(means.min())
    good = means <= lowest + np.maximum(np.minimum(noise, MARGIN * lowest), floor)
    return min(np.flatnonzero(good).tolist(), key=lambda k: (_complexity(entries[k]), means[k]))


def _verdict(family: Entry, best: Entry, study: Study) -> str:
    """Compare GNP with the best fixed pooling on the larger graphs by a paired bootstrap."""
    difference = study.per_graph(family.errors["larger"] - best.errors["larger"], "larger")
    scale = float(study.problem.sizes(study.prepared.y["larger"]).mean())
    if abs(float(difference.mean())) < SMALL * scale:
        return "not needed"
    generator = np.random.default_rng(study.options.seed)
    graphs = len(difference)
    means = np.array([difference[generator.integers(0, graphs, graphs)].mean() for _ in range(RESAMPLES)])
    if (means < 0).mean() >= SURE:
        return "helps"
    return "hurts" if (means > 0).mean() >= SURE else "not needed"


def _formulas(study: Study) -> list[str | None]:
    return formulas(study.findings, study.problem)


def _named(study: Study, entry: Entry) -> str:
    if entry.label == LAW:
        laws = zip(_formulas(study), study.findings, strict=True)
        return " ".join(f"{formula}. {finding.trust()}" for formula, finding in laws)
    if entry.poolings is None:
        return "No named pooling fits as well as the one that GNP learned."
    names = [name if "learned" not in name else "pooling that GNP learned" for name in entry.poolings]
    places = [f"the {name} {PLACES[place]}" for place, name in zip(slots(study.problem), names, strict=True)]
    return f"Pool by {', then '.join(places)}."


def _reach(study: Study, chosen: Entry) -> list[str]:
    """Sentences about how far the test reaches beyond the training sizes."""
    if study.split.by != "size":
        return []
    trained, tested = (int(study.sizes(part).max()) for part in ("train", "larger"))
    ratio = tested / max(1, trained)
    things, kind = study.split.measure, study.split.unit
    words = f"The largest test {kind} has {ratio:.2g} times the {things} of the largest training {kind}"
    if ratio < FAR and chosen.label != LAW:
        return [f"{words}: this says little about {kind}s of {FAR_NODES} times the size."]
    return [f"{words}."]


def _nearest(study: Study, chosen: Entry) -> list[str]:
    """Sentences about the nearest formula, if another model was chosen."""
    if chosen.label == LAW or not study.findings:
        return []
    if all(finding.law is None for finding in study.findings):
        return ["No formula of poolings is related to the targets."]
    found = []
    for formula, finding in zip(_formulas(study), study.findings, strict=True):
        if formula is None:
            found.append("For another target no formula of poolings is related to it.")
            continue
        head = "No law fits as well" if finding.found else "No law was found"
        kind = f"{head}; the nearest formula"
        entry = next((entry for entry in study.entries if entry.label == LAW), None)
        if entry is None or len(study.findings) > 1:
            found.append(f"{kind} is {formula}.")
        else:
            found.append(f"{kind}, {formula}, has {_metric(study).words} {show_error(study, entry, 'larger')} there.")
    return found


def _errors(study: Study, entry: Entry) -> str:
    word = _metric(study).words
    word = word if word[1].isupper() else word.capitalize()
    shown = {part: show_error(study, entry, part) for part in ("inside", "larger")}
    items, thing = _items(study), study.split.measure.removesuffix("s")
    if study.split.by == "random":
        return f"{word} on test {items}: {shown['larger']}."
    like = ", as in training" if study.split.by == "size" else ""
    inside, larger = (between(*size_range(study, part), thing) for part in ("inside", "larger"))
    return f"{word} on test {items} of {inside}{like}: {shown['inside']}; of {larger}: {shown['larger']}."


def _help(study: Study, family: Entry, best: Entry, verdict: str) -> str:
    """A sentence that compares GNP with the best fixed pooling, by the verdict."""
    where, word, error = _where(study), "error", METRICS["error"]  # the verdict compares this measure
    ours, theirs = (shown(entry.measures["larger"], error) for entry in (family, best))
    name = "GNP, crystallized," if family.label == CRYSTAL else "Learned GNP"
    if family.poolings is not None and family.poolings == best.poolings:
        return f"Among networks the fixed pooling {best.label} is enough: {word} {theirs} on {where}."
    words = {"helps": "is better than", "hurts": "is worse than", "not needed": "is not better than"}[verdict]
    return f"{name} {words} the best fixed pooling: {word} {ours} against {theirs} of {best.label} on {where}."


def show_error(study: Study, entry: Entry, part: str) -> str:
    """The main measure of a competitor on a part of the graphs, as text."""
    return shown(entry.measures[part], _metric(study))


def size_range(study: Study, part: str) -> tuple[int, int]:
    """The sizes of the graphs, or the neighbours of the nodes, of a part: the smallest and the largest."""
    return int(study.sizes(part).min()), int(study.sizes(part).max())
