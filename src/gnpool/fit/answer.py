"""Which law or pooling: chosen by validation alone, how far it can be trusted, and what the test says about it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnpool.data.table import Floats
from gnpool.display.models import CRYSTAL, GNP
from gnpool.fit.networks import slots
from gnpool.fit.study import LAW, Entry, Study

MARGIN = 0.2  # a simpler pooling may have a validation loss larger by this part
EXACT = 1e-6  # or by this part of the loss of the best constant: what is below is as good as nothing
SMALL = 1e-3  # a difference in error of a thousandth helps nobody
RESAMPLES = 1000
SURE = 0.95
LUCK = 3.0  # standard errors: the best of many that learned nothing may beat the constant by two
FAR, FAR_NODES = 2.0, 10  # ratio of sizes, below which a test says little about graphs so many times as large
PLACES = {"aggr": "over the neighbours", "readout": "over the nodes", "pool": "over the elements"}


@dataclass(frozen=True)
class Answer:
    """What to tell the user.

    Args:
        entry (Entry): The chosen competitor; its network is what is saved.
        poolings (tuple[str, ...], optional): Its poolings; None: GNP stays as it learned to be, or a law was chosen.
        law (str, optional): The formula, where a law was chosen.
        verdict (str): ``"helps"``, ``"not needed"`` or ``"hurts"``: GNP against the best fixed pooling, on the test.
            ``"not compared"``: a certain law was found, and networks got a first look only.
        learned (bool): Whether anything was learned: a law, or a model that beats the best constant on the validation
            data by more than chance.
        sentences (tuple[str, ...]): The answer in words.
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
    """Choose among the competitors, and say it."""
    law_found = study.finding is not None and study.finding.found
    entries = [e for e in study.entries if e.finished and (e.label != LAW or law_found)]
    losses = np.stack([study.per_graph(entry.validation, "validation") for entry in entries])
    floor = EXACT * float(study.baseline["validation"].mean())
    chosen = entries[_choose(losses.mean(1), entries, _noise(losses), floor)]
    learned = law_found or _beats(chosen, study)
    family = min(
        (e for e in entries if e.label in (GNP, CRYSTAL)), key=lambda e: (e.loss, e.label != CRYSTAL), default=None
    )
    fixed = [entry for entry in entries if entry.label not in (GNP, CRYSTAL, LAW)]
    best = min(fixed, key=lambda entry: entry.loss) if fixed else None
    verdict = "not compared" if best is None or family is None else _verdict(family, best, study)
    sentences = _sentences(study, chosen, learned)
    if family is None:
        sentences.append("Networks got a first look only: the law leaves nothing for them to learn.")
    elif learned and best is not None:
        sentences.append(_help(study, family, best, verdict))
    law = str(study.finding.law) if chosen.label == LAW and study.finding is not None else None
    poolings = None if chosen.label == LAW else chosen.poolings
    return Answer(chosen, poolings, law, verdict, learned, tuple(filter(None, sentences)))


def _beats(entry: Entry, study: Study) -> bool:
    """Whether a model beats the best constant on the validation data by more than the luck of the best of many."""
    gain = study.per_graph(study.baseline["validation"] - entry.validation, "validation")
    spread = float(gain.std(ddof=1)) / math.sqrt(len(gain)) if len(gain) > 1 else math.inf
    return bool(gain.mean() > 0 and gain.mean() >= LUCK * spread)


def _sentences(study: Study, chosen: Entry, learned: bool) -> list[str]:
    """What was chosen, how well it does, and how far that says anything."""
    plain = "the mean" if study.problem.task == "regression" else "the most frequent class"
    constant = percent(study.problem.summary(study.baseline["larger"], study.targets["larger"])["error"])
    where = "the larger graphs" if study.split.by == "size" else "test graphs"
    if not learned:
        nothing = f"Nothing was learned: no model beats {plain} on the validation graphs by more than chance allows."
        return [nothing, f"On {where} {plain} errs by {constant}."]
    found = [_named(study, chosen), _errors(study, chosen)]
    if chosen.errors["larger"].mean() >= study.baseline["larger"].mean():
        found.append(f"The latter is no better than {plain} of the training graphs ({constant}).")
    return [*found, *_reach(study, chosen), *_nearest(study, chosen)]


def _complexity(entry: Entry) -> int:
    if entry.label == LAW:
        return -1
    if entry.poolings is None:
        return 3
    if any("learned" in name for name in entry.poolings):
        return 2
    return 1 if entry.label == CRYSTAL else 0


def _noise(losses: Floats) -> Floats:
    """Standard error of the difference in mean loss to the best competitor, for each."""
    best = int(losses.mean(1).argmin())
    spread = (losses - losses[best]).std(axis=1, ddof=1) if losses.shape[1] > 1 else np.zeros(len(losses))
    result: Floats = spread / math.sqrt(losses.shape[1])
    return result


def _choose(means: Floats, entries: list[Entry], noise: Floats, floor: float) -> int:
    """The simplest whose loss is as good as the lowest, up to noise; of equally simple ones the lowest."""
    lowest = float(means.min())
    good = means <= lowest + np.maximum(np.minimum(noise, MARGIN * lowest), floor)
    return min(np.flatnonzero(good).tolist(), key=lambda k: (_complexity(entries[k]), means[k]))


def _verdict(family: Entry, best: Entry, study: Study) -> str:
    """GNP against the best fixed pooling on the larger graphs, by a paired bootstrap."""
    difference = study.per_graph(family.errors["larger"] - best.errors["larger"], "larger")
    scale = float(np.abs(study.targets["larger"]).mean()) if study.problem.task == "regression" else 1.0
    if abs(float(difference.mean())) < SMALL * scale:
        return "not needed"
    generator = np.random.default_rng(study.options.seed)
    graphs = len(difference)
    means = np.array([difference[generator.integers(0, graphs, graphs)].mean() for _ in range(RESAMPLES)])
    if (means < 0).mean() >= SURE:
        return "helps"
    return "hurts" if (means > 0).mean() >= SURE else "not needed"


def _named(study: Study, entry: Entry) -> str:
    if entry.label == LAW:
        assert study.finding is not None
        return f"{study.finding.law}. {study.finding.trust()}"
    if entry.poolings is None:
        return "No named pooling fits as well as the one that GNP learned."
    names = [name if "learned" not in name else "pooling that GNP learned" for name in entry.poolings]
    places = [f"the {name} {PLACES[place]}" for place, name in zip(slots(study.problem), names, strict=True)]
    return f"Pool by {', then '.join(places)}."


def _reach(study: Study, chosen: Entry) -> list[str]:
    """How far the test reaches beyond the training sizes."""
    if study.split.by != "size":
        return []
    trained, tested = (int(study.table.sizes[getattr(study.split, part)].max()) for part in ("train", "larger"))
    ratio = tested / trained
    words = f"The largest test graph has {ratio:.2g} times the nodes of the largest training graph"
    if ratio < FAR and chosen.label != LAW:
        return [f"{words}: this says little about graphs of {FAR_NODES} times the size."]
    return [f"{words}."]


def _nearest(study: Study, chosen: Entry) -> list[str]:
    """The formula that comes nearest, where another model was chosen."""
    finding = study.finding
    if chosen.label == LAW or finding is None:
        return []
    if finding.law is None:
        return ["No formula of poolings is related to the targets."]
    entry = next(entry for entry in study.entries if entry.label == LAW)
    kind = "A law that fits" if finding.found else "No law was found; the nearest formula"
    return [f"{kind}, {finding.law}, errs by {show_error(study, entry, 'larger')} there."]


def _errors(study: Study, entry: Entry) -> str:
    shown = {part: show_error(study, entry, part) for part in ("inside", "larger")}
    sizes = {part: size_range(study, part) for part in ("train", "larger")}
    if study.split.by == "random":
        return f"Error on test graphs: {shown['larger']}."
    inside = f"Error on test graphs of {sizes['train']} nodes, as in training: {shown['inside']}"
    return f"{inside}; of {sizes['larger']}: {shown['larger']}."


def _help(study: Study, family: Entry, best: Entry, verdict: str) -> str:
    """GNP against the best fixed pooling; the words follow the verdict."""
    where = "the larger graphs" if study.split.by == "size" else "test graphs"
    ours, theirs = show_error(study, family, "larger"), show_error(study, best, "larger")
    name = "GNP, crystallised," if family.label == CRYSTAL else "Learned GNP"
    if family.poolings is not None and family.poolings == best.poolings:
        return f"Among networks the fixed pooling {best.label} is enough: it errs by {theirs} on {where}."
    words = {"helps": "is better than", "hurts": "is worse than", "not needed": "is not better than"}[verdict]
    return f"{name} {words} the best fixed pooling: {ours} against {theirs} of {best.label} on {where}."


def show_error(study: Study, entry: Entry, part: str) -> str:
    """The error of a competitor on a part of the graphs, in percent."""
    return percent(summary_of(study, entry, part)["error"])


def summary_of(study: Study, entry: Entry, part: str) -> dict[str, float | None]:
    """The errors of a competitor on a part of the graphs."""
    return study.problem.summary(entry.errors[part], study.targets[part])


def size_range(study: Study, part: str) -> str:
    """The sizes of the graphs of a part."""
    sizes = study.table.sizes[getattr(study.split, part)]
    return f"{int(sizes.min())} to {int(sizes.max())}"


def percent(error: Any) -> str:
    """A part of 1 as percent; None is one that is not defined."""
    if error is None:
        return "undefined"
    value = 100 * float(error)
    return f"{value:.2g} %" if value < 0.1 else f"{value:,.1f} %"
