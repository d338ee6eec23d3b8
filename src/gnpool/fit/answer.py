"""Which pooling: chosen by validation alone, with how sure that is, and what the test says about it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnpool.data.table import Floats
from gnpool.fit.networks import GNP, slots
from gnpool.fit.study import CRYSTAL, Entry, Study

MARGIN = 0.2  # a simpler pooling may have a validation loss larger by this part
EXACT = 1e-6  # or by this part of the loss of the best constant: what is below is as good as nothing
SMALL = 1e-3  # a difference in error of a thousandth helps nobody
RESAMPLES = 1000
SURE = 0.95
PLACES = {"aggr": "over the neighbours", "readout": "over the nodes", "pool": "over the elements"}


@dataclass(frozen=True)
class Answer:
    """What to tell the user.

    Args:
        entry (Entry): The chosen competitor; its network is what is saved.
        poolings (tuple[str, ...], optional): Its poolings; None: no name fits, GNP stays as it learned to be.
        confidence (float): Part of resampled sets of validation items on which the same poolings are chosen.
        verdict (str): ``"helps"``, ``"not needed"`` or ``"hurts"``: GNP against the best fixed pooling, on the test.
        learned (bool): Whether the choice beats the best constant on the validation data.
        sentences (tuple[str, ...]): The answer in words.
    """

    entry: Entry
    poolings: tuple[str, ...] | None
    confidence: float
    verdict: str
    learned: bool
    sentences: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join(self.sentences)


def answer(study: Study) -> Answer:
    """Choose among the competitors, and say it."""
    entries = [entry for entry in study.entries if entry.finished]
    losses = np.stack([study.per_graph(entry.validation, "validation") for entry in entries])
    floor = EXACT * float(study.baseline["validation"].mean())
    chosen = entries[_choose(losses.mean(1), entries, _noise(losses), floor)]
    confidence = _confidence(losses, entries, chosen, floor, study.options.seed)
    learned = chosen.loss < float(study.baseline["validation"].mean())
    family = min((e for e in entries if e.label in (GNP, CRYSTAL)), key=lambda e: (e.loss, e.label != CRYSTAL))
    fixed = [entry for entry in entries if entry.label not in (GNP, CRYSTAL)]
    best = min(fixed, key=lambda entry: entry.loss) if fixed else None
    verdict = "helps" if best is None else _verdict(family, best, study)
    helps = _help(study, family, best, verdict, chosen.label in (GNP, CRYSTAL))
    sentences = [_named(study, chosen, confidence), _errors(study, chosen), helps]
    constant = "the mean" if study.problem.task == "regression" else "the most frequent class"
    plain = float(study.baseline["larger"].mean())
    if chosen.errors["larger"].mean() >= plain:
        error = percent(study.problem.summary(study.baseline["larger"], study.targets["larger"])["error"])
        sentences.insert(2, f"The latter is no better than {constant} of the training graphs ({error}).")
    if not learned:
        sentences.insert(
            0, f"No network predicts the validation graphs better than {constant} does: nothing was learned."
        )
    return Answer(chosen, chosen.poolings, confidence, verdict, learned, tuple(sentences))


def _complexity(entry: Entry) -> int:
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


def _confidence(losses: Floats, entries: list[Entry], chosen: Entry, floor: float, seed: int) -> float:
    """How often the same poolings are chosen when validation items are drawn anew."""
    generator = np.random.default_rng(seed)
    noise, items = _noise(losses), losses.shape[1]
    same = 0
    for _ in range(RESAMPLES):
        means = losses[:, generator.integers(0, items, items)].mean(1)
        same += entries[_choose(means, entries, noise, floor)].poolings == chosen.poolings
    return same / RESAMPLES


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


def _named(study: Study, entry: Entry, confidence: float) -> str:
    sure = f"(chosen on {100 * confidence:.0f} % of {RESAMPLES} resampled validation sets)"
    if entry.poolings is None:
        return f"No named pooling fits as well as the one that GNP learned {sure}."
    names = [name if "learned" not in name else "pooling that GNP learned" for name in entry.poolings]
    places = [f"the {name} {PLACES[place]}" for place, name in zip(slots(study.problem), names, strict=True)]
    return f"Pool by {', then '.join(places)} {sure}."


def _errors(study: Study, entry: Entry) -> str:
    shown = {part: show_error(study, entry, part) for part in ("inside", "larger")}
    sizes = {part: size_range(study, part) for part in ("train", "larger")}
    if study.split.by == "random":
        return f"Error on test graphs: {shown['larger']}."
    inside = f"Error on test graphs of {sizes['train']} nodes, as in training: {shown['inside']}"
    return f"{inside}; of {sizes['larger']}: {shown['larger']}."


def _help(study: Study, family: Entry, best: Entry | None, verdict: str, chosen: bool) -> str:
    if best is None:
        return ""
    where = "the larger graphs" if study.split.by == "size" else "test graphs"
    numbers = (
        f"{show_error(study, family, 'larger')} against {show_error(study, best, 'larger')} of {best.label} on {where}"
    )
    if family.poolings is not None and family.poolings == best.poolings:
        return f"GNP finds the same by itself, so that the fixed pooling is enough: {numbers}."
    if verdict == "helps":
        return f"GNP helps: {numbers}."
    if verdict == "hurts":
        return f"GNP does not help here, it is worse than a fixed pooling: {numbers}."
    if chosen:
        return f"In the test the best fixed pooling is as good, as far as chance lets one see: {numbers}."
    return f"GNP is not needed here, a fixed pooling is as good: {numbers}."


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
