"""Writes the tables of README and of pages of docs/ (PAGES below), from the raw outcomes in results/learned.

python -m studies.tables           # writes them into the pages
python -m studies.tables --check   # fails if a page is out of date
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np

from gnpool.tasks.arena import published
from studies import ablation, crystals, learned, loop, motif, paper_tasks
from studies import found as studied
from studies.files import read_runs
from studies.laws import HELD, LAWS, TESTS, Law

PAGES_FOLDER = Path(__file__).parents[1] / "docs"
RESULTS = Path(__file__).parents[1] / "results" / "learned"
VERDICTS = ("law", "undecided", "approximate", "nothing")
DRAWS = 10_000  # draws of the bootstrap over seeds
TRIAL_RATE = 1e-3  # rate of the runs without batch norm that the page shows


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def percent(value: float) -> str:
    """An error in percent, with as many digits as are meaningful."""
    return f"{value:.0f}" if value >= 99.5 else f"{value:.1f}" if value >= 9.95 else f"{value:.2f}"


def median_and_worst(errors: list[float]) -> str:
    """Median and largest value over seeds, as text."""
    return f"{percent(statistics.median(errors))} ({percent(max(errors))})"


def paired_interval(ours: list[float], theirs: list[float]) -> tuple[float, float]:
    """The 95 % interval of the mean difference of the errors, with seeds resampled in pairs."""
    difference = np.array(ours) - np.array(theirs)
    drawn = np.random.default_rng(0).integers(0, len(difference), (DRAWS, len(difference)))
    low, high = np.quantile(difference[drawn].mean(1), (0.025, 0.975))
    return float(low), float(high)


def laws_table(laws: dict[str, Law], found: list[dict[str, Any]]) -> str:
    """Median and worst error over seeds, in growth and in published coordinates."""
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
    kept = [0, *(k for k in range(1, len(head)) if any(row[k] != "not run" for row in rows))]
    return table([head[k] for k in kept], [[row[k] for k in kept] for row in rows])


def meets(errors: dict[str, list[float]]) -> bool:
    """Whether a law is learned: a median of at most 1 % at 50 to 99 nodes and 3 % at 1,000, and no seed above 5 %."""
    medians = {part: statistics.median(values) for part, values in errors.items()}
    return medians["50-99"] <= 1.0 and medians["1000"] <= 3.0 and max(max(errors["50-99"]), max(errors["1000"])) <= 5.0


def errors_of(runs: list[dict[str, Any]]) -> dict[str, list[float]]:
    """The errors of the chosen runs, by size."""
    return {part: [run["errors"][part] for run in runs] for part in TESTS}


def counts(found: list[dict[str, Any]]) -> str:
    """The number of laws for which the bounds hold, and the laws for which growth coordinates are worse."""
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
    words = (
        f"{good} of {len(names)} laws are learned: their median error is at most 1 % at 50 to 99 nodes and at most 3 % "
        "at 1,000, and no seed is above 5 %."
    )
    compared = (
        f"We compared the coordinates on {len(both)} laws at three sizes, with paired intervals over seeds. Growth "
        f"coordinates are worse in {len(worse)} of {len(TESTS) * len(both)} comparisons. "
    )
    return f"{words} {compared if both else ''}{failed} of {total:,} runs diverged."


def with_published(found: list[dict[str, Any]]) -> str:
    """The portfolio's choices if it includes the published coordinates."""
    runs = {(one["law"], one["pooling"]): one["runs"] for one in found}
    good, kept, cases = 0, 0, 0
    for name in LAWS:
        best = learned.chosen({"runs": [*runs[name, "gnpg"], *runs[name, "gnp"]]})
        kept += sum(run in runs[name, "gnpg"] for run in best)
        cases += len(best)
        good += meets(errors_of(best))
    return (
        f"If the portfolio has the published coordinates, too, validation still chooses growth coordinates in {kept} "
        f"of {cases} cases, and {good} laws are learned."
    )


def loop_table(found: list[dict[str, Any]], fresh: bool = False) -> str:
    """GNP and the best fixed pair of poolings for each law, on the first draws or on the fresh ones."""
    rows = []
    for law in ("max of sums", *loop.OTHERS):
        errors: dict[str, list[float]] = {}
        for run in found:
            plain = run["groups"] == "param_groups" and not run["options"]
            if plain and run["law"] == law and (run["seed"] in loop.FRESH) == fresh:
                errors.setdefault(f"{run['aggr']}/{run['readout']}", []).append(run["error"])
        fixed = min((name for name in errors if name != "gnp/gnp"), key=lambda name: statistics.median(errors[name]))
        times = statistics.median(errors["gnp/gnp"]) / statistics.median(errors[fixed])
        cells = [median_and_worst(errors["gnp/gnp"]), f"{fixed}: {median_and_worst(errors[fixed])}", f"{times:.1f}"]
        rows.append([LAWS[law].text, *cells])
    return table(["law", "GNP", "best fixed pair", "GNP / fixed"], rows)


def loop_others(found: list[dict[str, Any]]) -> str:
    """The first law with other optimiser groups and coordinates, on the first draws."""
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
            if run["law"] == "max of sums"
            and run["aggr"] == "gnp"
            and (run["groups"], run["options"]) == way
            and run["seed"] not in loop.FRESH
        ]
        rows.append([name, median_and_worst(errors)])
    return table(["way", "error"], rows)


def motif_table(found: list[dict[str, Any]]) -> str:
    """The accuracy on the shifted test graphs."""
    rows = []
    for one in found:
        cells = []
        for rule in motif.CRITERIA:
            accuracy = motif.chosen(one, rule)
            spread = statistics.stdev(accuracy)
            cells.append(f"{statistics.mean(accuracy):.1f} ± {spread:.1f} (lowest {min(accuracy):.1f})")
        rows.append([one["pooling"], *cells])
    return table(["pooling", "chosen by shifted validation", "chosen by validation of training sizes"], rows)


def arena_headline(tables: list[dict[str, Any]]) -> str:
    """Both shifts of GOOD-Motif: GNP and fixed pairs in one network, and the best published number that was checked."""
    named = {"sum/mean": "sum, mean", "sum/max": "sum, max", "sum/max, rewired graphs": "sum, max, rewired graphs"}
    named["GNP, rewired graphs"] = "**GNP**, rewired graphs"
    rows: dict[str, list[str]] = {name: [] for name in ("best published", *named.values())}
    for benchmark in ("good_motif_size", "good_motif_basis"):
        best = published(benchmark).best("covariate", mark="verified")
        assert best is not None
        rows["best published"].append(f"{best[1].mean:.1f} ± {best[1].std:.1f} ({best[0]})")
        (one,) = [one for one in tables if (one["table"], one["meta"]["preset"]) == (benchmark, "paper")]
        ours = {cell["row"]: cell["ours"] for cell in one["cells"] if cell["column"] == "covariate"}
        for row, name in named.items():
            rows[name].append(f"{ours[row]['mean']:.1f} ± {ours[row]['std']:.1f}")
    head = ["aggregation and readout", "on larger graphs", "on other base graphs"]
    return table(head, [[name, *cells] for name, cells in rows.items()])


def tasks_table(found: list[dict[str, Any]]) -> str:
    """The tasks of the paper in growth coordinates."""
    rows = []
    for one in found:
        runs = paper_tasks.chosen(one)
        for name in runs[0]["errors"]:
            errors = [run["errors"][name] for run in runs]
            rows.append([one["task"], name, f"{statistics.mean(errors):.2f} ± {statistics.stdev(errors):.2f}"])
    return table(["task", "test", "error"], rows)


def branches_table(runs: list[dict[str, Any]]) -> str:
    """One branch and two on the set tasks: the errors of the run that validation chose, seed by seed."""
    seeds = sorted({run["seed"] for run in runs})
    forms = {"one branch": ["one branch"], "two branches": ["two branches"], "both": ["one branch", "two branches"]}
    rows = []
    for task in dict.fromkeys(run["task"] for run in runs):
        cells = []
        for among in forms.values():
            best = [
                min(
                    (run for run in runs if run["task"] == task and run["seed"] == seed and run["form"] in among),
                    key=lambda run: run["loss"],
                )
                for seed in seeds
            ]
            cells.append(", ".join(f"{run['error']:.2f}" for run in best))
        rows.append([task, *cells])
    return table(["task", *list(forms)[:2], "chosen among both"], rows)


def sizes_table(runs: list[dict[str, Any]]) -> str:
    """The plain loop with the default usual size beside measured ones, seed by seed."""
    rows = []
    for law, convolution in dict.fromkeys((run["law"], run["convolution"]) for run in runs):
        mine = [run for run in runs if (run["law"], run["convolution"]) == (law, convolution)]
        cells = [[run["error"] for run in mine if run["sizes"] == sizes] for sizes in ("16", "measured")]
        rows.append([LAWS[law].text, f"`{convolution}`", *(", ".join(map(percent, errors)) for errors in cells)])
    return table(["law", "convolution", "size 16", "measured sizes"], rows)


def norms_table(runs: list[dict[str, Any]]) -> str:
    """GOOD-Motif without batch norm: accuracies on validation graphs, seed by seed, for each change."""
    shown = [run for run in runs if run["lr"] == TRIAL_RATE]
    rows = []
    for change in dict.fromkeys(run["change"] for run in shown):
        mine = [run for run in shown if run["change"] == change]
        by_start: dict[str, list[str]] = {run["start"]: [] for run in mine}
        for run in mine:
            by_start[run["start"]].append(f"{run['validation']:.0f}")
        if list(by_start) == ["None"]:
            rows.append([f"{change}, for comparison", ", ".join(by_start["None"]), ""])
        else:
            rows.append([change, ", ".join(by_start["sum"]), ", ".join(by_start["mean"])])
    order = ["none", "size 3 in convolutions"]
    rows.sort(key=lambda row: (order.index(row[0]) if row[0] in order else len(order), "comparison" in row[0], row[0]))
    return table(["change", "from the sum", "from the mean"], rows)


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


def wilson(right: int, runs: int) -> tuple[float, float]:
    """Wilson's 95 % interval for a share."""
    z = 1.96
    middle = (right + z**2 / 2) / (runs + z**2)
    half = z / (runs + z**2) * math.sqrt(right * (runs - right) / runs + z**2 / 4)
    return middle - half, middle + half


def share(right: int, runs: int) -> str:
    """A share with its interval, in percent."""
    low, high = wilson(right, runs)
    return f"{100 * right / runs:.1f} % ({100 * low:.1f} to {100 * high:.1f})"


def found_groups(runs: list[dict[str, Any]]) -> list[tuple[str, float, list[dict[str, Any]]]]:
    """The runs by group of laws and noise, for the groups that were run."""
    found = []
    for group, laws in studied.GROUPS.items():
        for noise in (0.0, studied.NOISE):
            chosen = [run for run in runs if run["law"] in laws and run["noise"] == noise]
            if chosen:
                found.append((group, noise, chosen))
    return found


def found_table(runs: list[dict[str, Any]]) -> str:
    """How often a law is found, and which answers are given."""
    rows = []
    for group, noise, chosen in found_groups(runs):
        inside = group not in ("outside", "outside, kept back", "nothing", "paper, outside")
        verdicts = [sum(run["verdict"] == name for run in chosen) for name in VERDICTS]
        by_law = {run["law"]: [one for one in chosen if one["law"] == run["law"]] for run in chosen}
        rates = {law: statistics.mean(studied.right(run) for run in of_law) for law, of_law in by_law.items()}
        worst = min(rates, key=lambda law: rates[law])
        right = share(sum(map(studied.right, chosen)), len(chosen)) if inside else ""
        lowest = f"{worst}: {100 * rates[worst]:.0f} %" if inside and rates[worst] < 1 else ""
        cells = [f"{len(by_law)}", f"{len(chosen):,}", right, lowest, " / ".join(map(str, verdicts))]
        seconds = statistics.median(run["seconds"] for run in chosen)
        rows.append([group, f"{100 * noise:.0f} %", *cells, f"{seconds:.1f}"])
    head = ["laws", "noise", "how many", "runs", "right", "lowest law", " / ".join(VERDICTS), "seconds"]
    return table(head, rows)


def trust_table(runs: list[dict[str, Any]]) -> str:
    """How often the stated size of trust holds, beside the rule to trust up to twice the size."""
    rows = []
    for group, noise, chosen in found_groups([run for run in runs if run["errors"]]):
        twice = sum(run["errors"]["2"] <= run["tolerance"] for run in chosen)
        reach = statistics.geometric_mean(run["factor"] for run in chosen)
        held = share(sum(map(studied.trusted, chosen)), len(chosen))
        rows.append([group, f"{100 * noise:.0f} %", held, f"{reach:.1f}", share(twice, len(chosen))])
    return table(["laws", "noise", "trust holds", "trusted up to, times the size", "twice the size holds"], rows)


def coverage(runs: list[dict[str, Any]]) -> str:
    """The stated size of trust, and plain rules to trust up to a fixed multiple of the size, over all runs."""
    runs = [run for run in runs if run["errors"]]
    held = sum(map(studied.trusted, runs))
    reach = statistics.geometric_mean(run["factor"] for run in runs)
    plain = {
        factor: sum(studied.trusted({**run, "factor": factor}) for run in runs) / len(runs)
        for factor in studied.FACTORS
    }
    others = ", ".join(f"{100 * rate:.1f} % ({factor} times)" for factor, rate in plain.items())
    return (
        f"{len(runs):,} runs found a formula. In {share(held, len(runs))} of them trust holds. The stated size is "
        f"{reach:.1f} times the given size (geometric mean). A rule that trusts every formula up to a fixed multiple "
        f"of the size, with the same tolerances, holds in {others}."
    )


def planned(runs: list[dict[str, Any]]) -> str:
    """How much of the plan has been run."""
    jobs = len(list(studied.plan()))
    return (
        f"{len(runs):,} of {jobs:,} planned runs are done. The plan has {studied.MANY} seeds for {len(studied.OFTEN)} "
        f"laws and {studied.FEW} seeds for the others."
    )


def false_laws(runs: list[dict[str, Any]]) -> str:
    """Wrong formulas that were reported as laws."""
    wrong = [run for run in runs if run["verdict"] == "law" and not studied.right(run)]
    beyond = [run for run in wrong if not studied.trusted(run)]
    return (
        f"In {len(wrong)} of {len(runs):,} runs the verdict is `law`, but the formula is not right by the measure "
        f"above. In {len(beyond)} of these the error is above the stated tolerance within the stated size."
    )


def crystals_table(runs: list[dict[str, Any]]) -> str:
    """The crystallized forms of trained networks, and their errors before and after."""
    rows = []
    for run in sorted(runs, key=lambda run: (list(crystals.CASES).index(run["case"]), run["seed"])):
        text = run["text"].replace("learned GNP", "learned")
        cells = [f"{run['learned']:.2g} %", text, crystals.shown(run), f"{run['steps']:,}", run["verdict"]]
        rows.append([crystals.CASES[run["case"]].text, *cells])
    return table(["target", "learned network", "crystallized to", "crystallized network", "steps", "verdict"], rows)


def crystals_counts(runs: list[dict[str, Any]]) -> str:
    """How many laws were found, and how often a target without a law was not taken for one."""
    inside = [run for run in runs if crystals.CASES[run["case"]].inside]
    outside = [run for run in runs if not crystals.CASES[run["case"]].inside]
    found, wrong = sum(map(crystals.right, inside)), len(outside) - sum(map(crystals.right, outside))
    return (
        f"`crystallize` found {found} of {len(inside)} laws. "
        f"Of {len(outside)} targets without a law it called {wrong} a law."
    )


def crystal_blocks() -> dict[str, str]:
    """Every generated part of the page on crystallizing, by name."""
    runs = read_runs(RESULTS / "crystals.json")
    return {"crystals": f"{crystals_counts(runs)}\n\n{crystals_table(runs)}"}


def trial_runs(name: str) -> list[dict[str, Any]]:
    """The stored runs of a trial."""
    found: list[dict[str, Any]] = json.loads((RESULTS / "trials" / "runs.json").read_text(encoding="utf-8"))[name]
    return found


def blocks() -> dict[str, str]:
    """Every generated part of the page on learning, by name."""
    laws, held = read_runs(RESULTS / "laws.json"), read_runs(RESULTS / "held.json")
    again, held_again = read_runs(RESULTS / "laws-1.json"), read_runs(RESULTS / "held-1.json")
    return {
        "laws": laws_table(LAWS, laws),
        "counts": counts(laws),
        "with published": with_published(laws),
        "held": laws_table(HELD, held),
        "held counts": counts(held),
        "again": laws_table(LAWS, again),
        "again counts": counts(again),
        "held again": laws_table(HELD, held_again),
        "held again counts": counts(held_again),
        "motif": motif_table(read_runs(RESULTS / "motif.json")),
        "tasks": tasks_table(read_runs(RESULTS / "paper_tasks.json")),
        "norms": norms_table(trial_runs("motif without batch norm, 4,000 graphs, 12 epochs")),
        "branches": branches_table(trial_runs("sets, 60 epochs")),
    }


def loop_blocks() -> dict[str, str]:
    """Every generated part of the page on the plain loop, by name."""
    trained = read_runs(RESULTS / "loop.json")
    return {
        "loop": loop_table(trained),
        "loop fresh": loop_table(trained, fresh=True),
        "loop others": loop_others(trained),
        "loop sizes": sizes_table(trial_runs("plain loop with measured sizes")),
        "ablation": ablation_table(read_runs(RESULTS / "ablation.json")),
    }


def law_blocks() -> dict[str, str]:
    """Every generated part of the page on laws, by name."""
    runs = list(studied.stored(RESULTS / "found.json").values())
    tables = {"found": found_table(runs), "trust": trust_table(runs)}
    return {**tables, "coverage": coverage(runs), "false": false_laws(runs), "planned": planned(runs)}


def readme_blocks() -> dict[str, str]:
    """The generated part of the README."""
    return {"readme arena": arena_headline(read_runs(RESULTS / "arena.json"))}


MODELS = {"fit": "choice of `fit`", "fixed": "best fixed poolings", "GIN": "plain GIN", "constant": "constant guess"}


def real_sets_table(runs: list[dict[str, Any]]) -> str:
    """Wrong answers on each set of real graphs, in percent: the mean over seeds, the lowest and the highest."""
    rows = []
    for name in dict.fromkeys(one["set"] for one in runs):
        for model, words in MODELS.items():
            found = [one["wrong"] for one in runs if (one["set"], one["model"]) == (name, model)]
            errors = [[100 * statistics.mean(wrong[part]) for wrong in found] for part in ("inside", "larger")]
            if found:
                rows.append([name, words, str(len(found)), *map(mean_and_range, errors)])
    return table(["set", "model", "seeds", "wrong inside the training sizes", "wrong on larger graphs"], rows)


def mean_and_range(errors: list[float]) -> str:
    """Mean, lowest and highest value over seeds, as text."""
    mean, low, high = (f"{value:.1f}" for value in (statistics.mean(errors), min(errors), max(errors)))
    return f"{mean} %" if low == high else f"{mean} % ({low} to {high})"


def own_data_blocks() -> dict[str, str]:
    """The generated part of the page on users' own data."""
    return {"real sets": real_sets_table(read_runs(RESULTS / "real_sets.json"))}


PAGES = {
    PAGES_FOLDER / "own-data.md": own_data_blocks,
    PAGES_FOLDER / "learning.md": blocks,
    PAGES_FOLDER / "learning-loop.md": loop_blocks,
    PAGES_FOLDER / "laws.md": law_blocks,
    PAGES_FOLDER / "insight.md": crystal_blocks,
    PAGES_FOLDER.parent / "README.md": readme_blocks,
}


def filled(page: str, parts: dict[str, str]) -> str:
    """The page with every block between its marks rewritten."""
    for name, text in parts.items():
        begin, end = f"<!-- studies:{name} -->\n", "<!-- studies:end -->"
        head, found, rest = page.partition(begin)
        if not found:
            raise ValueError(f"a page has no block {name!r}; add its marks to the page")
        page = f"{head}{begin}\n{text}\n\n{end}{rest.partition(end)[2]}"
    return page


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing, and fail if a page is out of date")
    given = parser.parse_args()
    for path, parts in PAGES.items():
        page = path.read_text(encoding="utf-8")
        new = filled(page, parts())
        if given.check and new != page:
            sys.exit(f"{path.name} is out of step with results/learned: run python -m studies.tables")
        if new != page:
            path.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
