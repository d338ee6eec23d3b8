"""What was run: versions, seeds, time, device, settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gnpool.report.fitted import fit_facts, fit_machine
from gnpool.report.page.markup import Markup, tag
from gnpool.report.page.tables import number_table
from gnpool.report.study import StoredStudy, Training

SEARCH = {"all": "every setting with every seed", "point": "every setting once, then the best with every seed"}
SETTING = {
    "lr": "rate",
    "lr_p": "rate of p",
    "lr_q": "rate of q",
    "lr_g": "rate of the growth",
    "start": "start",
    "clip": "clip",
    "optimizer": "",
}  # shown of a setting


def runs_section(study: StoredStudy) -> Markup:
    """The section that says where the numbers come from."""
    metas = [table.get("meta", {}) for table in study.tables]
    trained = study.trainings
    told = [*metas, fit_machine(study.fit or {})]
    seconds = study.seconds or sum(float(meta.get("seconds") or 0.0) for meta in told)
    facts: dict[str, str] = {
        "folder": study.name,
        "preset": _each(meta.get("preset") for meta in metas),
        "search": _each(SEARCH.get(way) for meta in metas for way in str(meta.get("search")).split(", ")),
        "seeds": ", ".join(dict.fromkeys(str(seed) for meta in metas for seed in meta.get("seeds") or [])),
        "data seed": _each(meta.get("seed") for meta in metas),
        "trainings": _trainings(trained),
        "time of the work": duration(seconds) if seconds else "",
        "stored units": ", ".join(f"{count:,} {table}" for table, count in study.units.items()),
        "damaged files": "; ".join(study.damaged),
    }
    if study.fit is not None:
        facts |= fit_facts(study.fit)
    for k, machine in enumerate(study.machines, start=1):
        name = f"machine {k}" if len(study.machines) > 1 else "machine"
        facts[name] = ", ".join(value if key == "device" else f"{key} {value}" for key, value in machine.items())
    shown = [part for name, value in facts.items() if value for part in (tag("dt", name), tag("dd", value))]
    details = None
    if any(training.runs for training in trained):
        rows = [_row(training) for training in trained]
        head = ["training", "model", "runs", "failed", "seconds", "chosen setting", "device"]
        details = tag("details", tag("summary", f"All {len(rows)} trainings"), number_table("Trainings", head, rows))
    notes = [tag("p", note, class_="notes") for note in dict.fromkeys(str(m.get("notes") or "") for m in metas) if note]
    return tag(
        "section",
        tag("h2", "What was run", id="runs-title"),
        *notes,
        tag("dl", *shown, class_="facts"),
        details,
        id="runs",
        aria_labelledby="runs-title",
    )


def duration(seconds: float) -> str:
    """A time, to be read.

    Example:
        >>> from gnpool.report.page.runs import duration
        >>> duration(42.4), duration(600), duration(86400)
        ('42 s', '10 min', '24.0 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _each(values: Iterable[object]) -> str:
    return "; ".join(dict.fromkeys(str(value) for value in values if value not in (None, "")))


def _trainings(trained: list[Training]) -> str:
    runs, failed = sum(training.runs for training in trained), sum(training.failed for training in trained)
    if not runs:
        return ""
    return f"{len(trained):,} with {runs:,} runs" + (f", of which {failed:,} failed" if failed else ", none failed")


def _row(training: Training) -> list[str]:
    return [
        ", ".join(part for part in (training.task, training.data) if part),
        training.model,
        str(training.runs),
        str(training.failed),
        f"{training.seconds:,.1f}" if training.seconds else "",
        _setting(training.setting),
        training.device,
    ]


def _setting(setting: Mapping[str, object]) -> str:
    shown = [f"{name} {setting[key]}".strip() for key, name in SETTING.items() if setting.get(key) is not None]
    return ", ".join(shown)
