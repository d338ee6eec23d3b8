"""Computes the arena's numbers from the store: means, intervals, and paired comparisons."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gnpool.lab.arena.bouts import Bout
from gnpool.lab.arena.contest import Amount, Column, Contest
from gnpool.lab.results import spread, verdict
from gnpool.store import Record, Store
from gnpool.tasks.arena import published

if TYPE_CHECKING:
    from gnpool.lab.arena.tables import ArenaTable

RESAMPLES, CONFIDENCE = 1000, 0.95
CHOSEN = "chosen by an inner size shift"  # label of the row whose contender an inner contest chose
HIDDEN = ("seconds", "seconds_of_training")


def arena_results(table: ArenaTable, store: Store, amounts: Mapping[str, Amount], data_seed: int) -> dict[str, Any]:
    """The table for results.json; a contender that did not run has ``"ours": null``."""
    cells: list[dict[str, Any]] = []
    pairs: list[dict[str, Any]] = []
    everything: list[Record] = []
    for place, contest in enumerate(table.contests):
        amount = amounts[contest.id]
        records = records_of(contest, amount, store, data_seed)
        everything += records.values()
        choice = None
        if table.inner:
            inner = table.inner[place]
            judges = records_of(inner, amounts[inner.id], store, data_seed)
            everything += judges.values()
            choice = chosen_by(inner, judges, amounts[inner.id])
        for column in contest.columns:
            if amount.tests is None or column.part in amount.tests:
                tested = {name: _features(record, column) for name, record in records.items()}
                found = {name: features for name, features in tested.items() if features is not None}
                cells += [_cell(contest, column, one.name, found.get(one.name)) for one in amount.contenders]
                if table.inner:
                    of_choice = _cell(contest, column, CHOSEN, None if choice is None else found.get(choice))
                    cells.append({**of_choice, "choice": choice})
                pairs += _pairs(contest, column, amount, found)
            cells += _published_cells(contest, column)
    first = amounts[table.contests[0].id]
    meta = everything[0].meta if everything else {}
    return table.shown(
        cells,
        rows_are="poolings of the neighbours and of the readout, and published methods",
        pairs=pairs,
        meta={
            **{name: value for name, value in meta.items() if name not in HIDDEN},
            "preset": first.preset,
            "notes": notes(first),
            "seed": data_seed,
            "seeds": list(range(first.seeds)),
            "seconds": round(sum(one.meta["seconds"] for one in everything), 1),
        },
    )


def records_of(contest: Contest, amount: Amount, store: Store, data_seed: int) -> dict[str, Record]:
    """The stored results of each contender."""
    bouts = [Bout(contest, contender, amount, data_seed) for contender in amount.contenders]
    found = {bout.contender.name: store.get(bout.key) for bout in bouts}
    return {name: record for name, record in found.items() if record is not None}


def chosen_by(inner: Contest, judges: Mapping[str, Record], amount: Amount) -> str | None:
    """The contender with the best mean score in an inner contest; None until all have run."""
    if len(judges) < len(amount.contenders):
        return None
    sign = 1.0 if inner.higher else -1.0
    features = {name: _features(record, inner.columns[0]) for name, record in judges.items()}
    scores = {name: _mean(inner, found) for name, found in features.items() if found is not None}
    return max(scores, key=lambda name: sign * scores[name], default=None)


def notes(amount: Amount) -> str:
    """What was reduced from the published protocol, as a note on the results."""
    words = [f"{amount.epochs} epochs", f"{amount.hidden} channels", f"{amount.seeds} seeds"]
    for name, what in (("train", "training graphs"), ("held", "graphs in a validation"), ("test", "graphs in a test")):
        count = getattr(amount, name)
        words += [] if count is None else [f"{count:,} {what} at most"]
    return f"{amount.preset}: {', '.join(words)}"


def _features(record: Record, column: Column) -> Tensor | None:
    found = (record.tensors or {}).get(f"{column.rule}/{column.part}")
    return None if found is None else torch.as_tensor(found)


def _cell(contest: Contest, column: Column, name: str, features: Tensor | None) -> dict[str, Any]:
    paper = _of_erm(contest, column) if name == contest.erm else None
    entry: dict[str, Any] = {"row": name, "column": column.name, "ours": None, "paper": paper}
    entry |= {"metric": contest.metric, "gnp": name.startswith("GNP")}
    if features is not None:
        values = contest.score(features.double().mean(1)).tolist()
        entry["ours"] = spread([value if value == value else None for value in values])
        entry["interval"] = _interval(_resampled(contest, features))
    entry["verdict"] = verdict(entry["ours"], paper, metric=contest.metric, gnp=False, higher=contest.higher)
    return entry


def _of_erm(contest: Contest, column: Column) -> dict[str, float | None] | None:
    """The published number of the benchmark's own poolings, trained without further methods."""
    if column.name not in contest.published:
        return None
    score = published(contest.benchmark).rows.get("ERM", {}).get(contest.published[column.name])
    return None if score is None else {"mean": score.mean, "std": score.std}


def _published_cells(contest: Contest, column: Column) -> list[dict[str, Any]]:
    """The numbers that others have published, in separate rows."""
    if column.name not in contest.published:
        return []
    where = contest.published[column.name]
    return [
        {
            "row": f"{method} (published)",
            "column": column.name,
            "ours": None,
            "paper": {"mean": row[where].mean, "std": row[where].std},
            "metric": contest.metric,
            "gnp": False,
            "verdict": "",
        }
        for method, row in published(contest.benchmark).rows.items()
        if where in row
    ]


def _pairs(contest: Contest, column: Column, amount: Amount, found: dict[str, Tensor]) -> Iterator[dict[str, Any]]:
    """GNP minus the fixed pair with the best mean on the test itself, and GNP minus the benchmark's own poolings."""
    sign = 1.0 if contest.higher else -1.0
    mean = {name: _mean(contest, features) for name, features in found.items()}
    fixed = [one.name for one in amount.contenders if one.fixed and one.name in found]
    best = max(fixed, key=lambda name: sign * mean[name], default=None)
    for second in (one.name for one in amount.contenders if one.gnp and one.name in found):
        for first in dict.fromkeys([best, contest.erm]):
            if first is not None and first in found:
                gap = _resampled(contest, found[second]) - _resampled(contest, found[first])
                yield {
                    "first": first,
                    "second": second,
                    "column": column.name,
                    "difference": (mean[second] - mean[first]) / 100,
                    "interval": [end / 100 for end in _interval(gap)],
                    "pairs": min(len(found[first]), len(found[second])),
                }


def _mean(contest: Contest, features: Tensor) -> float:
    return float(contest.score(features.double().mean(1)).nanmean())


def _resampled(contest: Contest, features: Tensor) -> Tensor:
    """(resamples,) mean scores after resampling seeds and test graphs; all contenders share the drawn graphs."""
    seeds, graphs, k = features.shape
    of_graphs, of_seeds = _weights(graphs, 0), _weights(seeds, 1)
    means = (of_graphs @ features.double().transpose(0, 1).reshape(graphs, seeds * k)).view(RESAMPLES, seeds, k)
    scores = contest.score(means)
    held = torch.isfinite(scores)
    return (of_seeds * torch.where(held, scores, 0.0)).sum(1) / (of_seeds * held).sum(1)


@functools.lru_cache(maxsize=8)
def _weights(items: int, stream: int) -> Tensor:
    """(resamples, items) how often each item is drawn, as a share of the draws."""
    generator = torch.Generator().manual_seed(17 + stream)
    drawn = torch.randint(0, items, (RESAMPLES, items), generator=generator)
    counts = torch.zeros(RESAMPLES, items, dtype=torch.float64)
    return counts.scatter_add_(1, drawn, torch.ones_like(counts)) / items


def _interval(values: Tensor) -> list[float]:
    rest = (1.0 - CONFIDENCE) / 2
    ends = torch.nanquantile(values, torch.tensor([rest, 1.0 - rest], dtype=values.dtype))
    return [float(end) for end in ends]
