"""Counts the verdicts of ``results.json``, which were decided when the results were computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gnpool.display import models as display

Cell = Mapping[str, Any]  # of results.json
# In the order in which they are shown. "both fail" counts as matched, and "failed" (no run came to an end, and nothing
# is published) as not run.
WORDS = ("matched", "both fail", "better", "worse", "different outcome", "not run")
GOOD = ("matched", "both fail", "better")
MARKS = {
    "matched": "●",
    "both fail": "○",
    "better": "▲",
    "worse": "▼",
    "different outcome": "◆",
    "not run": "□",
    "failed": "✕",
}
OLD = {"agrees": "matched"}  # words of older files


@dataclass(frozen=True)
class Counts:
    """The number of published cells by verdict.

    Args:
        words (Mapping): Number of cells by verdict.

    Example:
        >>> from gnpool.report import count_verdicts
        >>> paper = {"mean": 1.0, "std": 0.1}
        >>> counts = count_verdicts([{"paper": paper, "verdict": word} for word in ("matched", "better", "not run")])
        >>> counts.total, counts.run, counts.good
        (3, 2, 2)
    """

    words: Mapping[str, int]

    @property
    def total(self) -> int:
        """Published cells."""
        return sum(self.words.values())

    @property
    def good(self) -> int:
        """Cells that are matched or better."""
        return sum(self.words[word] for word in GOOD)

    @property
    def run(self) -> int:
        """Cells that were run."""
        return self.total - self.words["not run"]

    def __str__(self) -> str:
        named = [f"{count} {word}" for word, count in self.words.items() if count]
        return ", ".join(named) if named else "none"


def count(cells: Iterable[Cell]) -> Counts:
    """Count the verdicts of the published cells.

    Example:
        >>> from gnpool.report import count_verdicts
        >>> paper = {"mean": 1.0, "std": 0.1}
        >>> cells = [{"paper": paper, "verdict": word} for word in ("matched", "better", "matched", "not run")]
        >>> str(count_verdicts(cells)), count_verdicts(cells).good
        ('2 matched, 1 better, 1 not run', 3)
    """
    found = Counter(word_of(cell) for cell in cells if is_compared(cell))
    return Counts({word: found[word] for word in WORDS})


def is_published(cell: Cell) -> bool:
    """Whether the paper has a number in this place."""
    return cell.get("paper") is not None and cell["paper"].get("mean") is not None


def is_compared(cell: Cell) -> bool:
    """Whether a cell is a result; published numbers of nodes or edges are not."""
    return is_published(cell) and cell.get("metric") != "COUNT"


def word_of(cell: Cell) -> str:
    """The verdict of a cell, in current words."""
    word = str(cell.get("verdict") or "")
    return OLD.get(word, word)


def is_gnp(cell: Cell) -> bool:
    """Whether this is a cell of GNP; older results are judged by their names."""
    if "gnp" in cell:
        return bool(cell["gnp"])
    return display.is_gnp(f"{cell['row']} {cell['column']}")


def by_kind(cells: Iterable[Cell]) -> dict[str, Counts]:
    """Count the cells of GNP and of the baselines.

    Example:
        >>> from gnpool.report import by_kind
        >>> paper = {"mean": 1.0, "std": 0.1}
        >>> cells = [
        ...     {"row": row, "column": "c", "paper": paper, "verdict": word}
        ...     for row, word in (("GNP", "matched"), ("GNP*", "better"), ("max", "not run"))
        ... ]
        >>> {kind: str(counts) for kind, counts in by_kind(cells).items()}
        {'GNP': '1 matched, 1 better', 'baselines': '1 not run'}
    """
    found = list(cells)
    return {
        display.GNP: count(cell for cell in found if is_gnp(cell)),
        "baselines": count(cell for cell in found if not is_gnp(cell)),
    }
