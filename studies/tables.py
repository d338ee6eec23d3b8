"""The tables of docs/learning.md, from the raw outcomes in results/learned.

python -m studies.tables           # writes them into the page
python -m studies.tables --check   # fails if the page is out of step
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np

from studies import ablation, learned, loop, motif, paper_tasks
from studies.files import read_runs
from studies.laws import HELD, LAWS, TESTS, Law

PAGE = Path(__file__).parents[1] / "docs" / "learning.md"
RESULTS = Path(__file__).parents[1] / "results" / "learned"
DRAWS = 10_000  # of the bootstrap over seeds


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def percent(value: float) -> str:
    """An error in percent, with as many digits as say something."""
    return f"{value:.0f}" if value >= 99.5 else f"{value:.1f}" if value >= 9.95 else f"{value:.2f}"


def median_and_worst(errors: list[float]) -> str:
    """Over seeds."""
    return f"{percent(statistics.median(errors))} ({percent(max(errors))})"


def paired_interval(ours: list[float], theirs: list[float]) -> tuple[float, float]:
    """95 % of the mean difference of the errors, seeds drawn anew in pairs."""
    difference = np.array(ours) - np.array(theirs)
    drawn = np.random.default_rng(0).integers(0, len(difference), (DRAWS, len(difference)))
    low, high = np.quantile(difference[drawn].mean(1), (0.025, 0.975))
    return float(low), float(high)


def laws_table(laws: dict[str, Law], found: list[dict[str, Any]]) -> str:
    """Median and worst error over seeds, growth beside published coordinates."""
    by_name = {(one["law"], one["pooling"]): learned.chosen(one) for one in found}
    rows = []
    for law in laws.values():
        cells = []
        for part in ("50-99", "1000"):
            for pooling in ("gnpg", "gnp"):
                runs = by_name.get((law.name, pooling))
                cells.append("not run" if runs is None else median_and_worst([run["errors"][part] for run in runs]))
        if any(cell != "not run" for cell in cells):
            rows.append([f"{'set: ' if law.level == 'set' else ''}{law.text}", *cells])
    head = ["law", "50 to 99, growth", "50 to 99, published", "1,000, growth", "1,000, published"]
    return table(head, rows)


def meets(errors: dict[str, list[float]]) -> bool:
    """Whether a law is learned: a median of at most 1 % at 50 to 99 nodes and 3 % at 1,000, and no seed above 5 %."""
    medians = {part: statistics.median(values) for part, values in errors.items()}
    return medians["50-99"] <= 1.0 and medians["1000"] <= 3.0 and max(max(errors["50-99"]), max(errors["1000"])) <= 5.0


def errors_of(runs: list[dict[str, Any]]) -> dict[str, list[float]]:
    """By size, the errors of the chosen runs."""
    return {part: [run["errors"][part] for run in runs] for part in TESTS}


def counts(found: list[dict[str, Any]]) -> str:
    """In how many laws the bounds hold, and where growth coordinates are worse."""
    errors = {(one["law"], one["pooling"]): errors_of(learned.chosen(one)) for one in found}
    names = [name for name, pooling in errors if pooling == "gnpg"]
    both = [name for name in names if (name, "gnp") in errors]
    worse = [
        name
        for name in both
        for part in TESTS
        if paired_interval(errors[name, "gnpg"][part], errors[name, "gnp"][part])[0] > 0
    ]
    failed = sum(run["failed"] is not None for one in found for run in one["runs"])
    total = sum(len(one["runs"]) for one in found)
    good = sum(meets(errors[name, "gnpg"]) for name in names)
    return (
        f"{good} of {len(names)} laws have a median of at most 1 % at 50 to 99 nodes and 3 % at 1,000, and no seed "
        f"above 5 %. Growth coordinates are worse than the published ones, by a paired interval over seeds, in "
        f"{len(worse)} of {len(TESTS) * len(both)} comparisons (three sizes). {failed} of {total:,} runs diverged."
    )


def with_published(found: list[dict[str, Any]]) -> str:
    """What the portfolio chooses if the published coordinates are in it."""
    runs = {(one["law"], one["pooling"]): one["runs"] for one in found}
    good, kept, cases = 0, 0, 0
    for name in LAWS:
        best = learned.chosen({"runs": [*runs[name, "gnpg"], *runs[name, "gnp"]]})
        kept += sum(run in runs[name, "gnpg"] for run in best)
        cases += len(best)
        good += meets(errors_of(best))
    return (
        f"With the published coordinates in the portfolio, validation still chooses growth coordinates in {kept} of "
        f"{cases} cases, and the bounds hold for {good} laws."
    )


def loop_table(found: list[dict[str, Any]]) -> str:
    """GNP beside the best fixed pair of poolings, law by law."""
    rows = []
    for law in ("max of sums", *loop.OTHERS):
        errors: dict[str, list[float]] = {}
        for run in found:
            if run["law"] == law and run["groups"] == "param_groups" and not run["options"]:
                errors.setdefault(f"{run['aggr']}/{run['readout']}", []).append(run["error"])
        fixed = min((name for name in errors if name != "gnp/gnp"), key=lambda name: statistics.median(errors[name]))
        times = statistics.median(errors["gnp/gnp"]) / statistics.median(errors[fixed])
        cells = [median_and_worst(errors["gnp/gnp"]), f"{fixed}: {median_and_worst(errors[fixed])}", f"{times:.1f}"]
        rows.append([LAWS[law].text, *cells])
    return table(["law", "GNP", "best fixed pair", "GNP / fixed"], rows)


def loop_others(found: list[dict[str, Any]]) -> str:
    """The first law with other optimiser groups and coordinates."""
    ways = {
        "growth coordinates, `param_groups(model, lr=3e-3)`": ("param_groups", {}),
        "growth coordinates, `model.parameters()`": ("parameters", {}),
        "published coordinates, `param_groups(model, lr=3e-3)`": ("param_groups", {"coordinates": "published"}),
    }
    rows = []
    for name, way in ways.items():
        errors = [
            run["error"]
            for run in found
            if run["law"] == "max of sums" and run["aggr"] == "gnp" and (run["groups"], run["options"]) == way
        ]
        rows.append([name, median_and_worst(errors)])
    return table(["way", "error"], rows)


def motif_table(found: list[dict[str, Any]]) -> str:
    """Accuracy on the shifted test graphs."""
    rows = []
    for one in found:
        cells = []
        for rule in motif.CRITERIA:
            accuracy = motif.chosen(one, rule)
            spread = statistics.stdev(accuracy)
            cells.append(f"{statistics.mean(accuracy):.1f} ± {spread:.1f} (lowest {min(accuracy):.1f})")
        rows.append([one["pooling"], *cells])
    return table(["pooling", "chosen by shifted validation", "chosen by validation of training sizes"], rows)


def tasks_table(found: list[dict[str, Any]]) -> str:
    """The tasks of the paper in growth coordinates."""
    rows = []
    for one in found:
        runs = paper_tasks.chosen(one)
        for name in runs[0]["errors"]:
            errors = [run["errors"][name] for run in runs]
            rows.append([one["task"], name, f"{statistics.mean(errors):.2f} ± {statistics.stdev(errors):.2f}"])
    return table(["task", "test", "error"], rows)


def ablation_table(found: list[dict[str, Any]]) -> str:
    """Errors without one piece at a time."""
    laws = [law for law in ablation.STUDIED if any(one["law"] == law for one in found)]
    by_name = {(one["variant"], one["law"]): learned.chosen(one) for one in found}
    rows = []
    for variant in ablation.VARIANTS:
        cells = []
        for law in laws:
            runs = by_name.get((variant, law))
            parts = [errors_of(runs)[part] for part in ("50-99", "1000")] if runs else [[], []]
            cells += [median_and_worst(errors) if errors else "not run" for errors in parts]
        if any(cell != "not run" for cell in cells):
            rows.append([variant, *cells])
    return table(["variant", *(f"{law}, {size}" for law in laws for size in ("50 to 99", "1,000"))], rows)


def blocks() -> dict[str, str]:
    """Every generated part of the page, by name."""
    laws, held = read_runs(RESULTS / "laws.json"), read_runs(RESULTS / "held.json")
    trained = read_runs(RESULTS / "loop.json")
    return {
        "laws": laws_table(LAWS, laws),
        "counts": counts(laws),
        "with published": with_published(laws),
        "held": laws_table(HELD, held),
        "held counts": counts(held),
        "loop": loop_table(trained),
        "loop others": loop_others(trained),
        "motif": motif_table(read_runs(RESULTS / "motif.json")),
        "tasks": tasks_table(read_runs(RESULTS / "paper_tasks.json")),
        "ablation": ablation_table(read_runs(RESULTS / "ablation.json")),
    }


def filled(page: str) -> str:
    """The page with every block between its marks written anew."""
    for name, text in blocks().items():
        begin, end = f"<!-- studies:{name} -->\n", "<!-- studies:end -->"
        head, found, rest = page.partition(begin)
        if not found:
            raise ValueError(f"docs/learning.md has no block {name!r}")
        page = f"{head}{begin}\n{text}\n\n{end}{rest.partition(end)[2]}"
    return page


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing, and fail if the page is out of step")
    given = parser.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    new = filled(page)
    if given.check and new != page:
        sys.exit("docs/learning.md is out of step with results/learned: run python -m studies.tables")
    if new != page:
        PAGE.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
