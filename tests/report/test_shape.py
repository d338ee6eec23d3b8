"""A changed results.json is read, or refused in one line that names the place; there is never a traceback."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gnpool.report import markdown, page, read_study

RUNS = {"mean": 1.0, "std": 0.1, "runs": [0.9, None], "median": 1.0, "failed": 1}
TOLD = {"metric": "MAPE", "verdict": "matched", "gnp": True, "search": "point", "form": "gin"}
FORMS = {"gin": {"ours": RUNS, "verdict": "matched"}, "message": {"ours": RUNS, "verdict": "worse"}}
PAPER = {"paper": {"mean": 1.0, "std": 0.1}, "published": ["t", "a", "b"]}
CELL = {"row": "a", "column": "b", "ours": RUNS, "by_metric": RUNS, "forms": FORMS, **PAPER, **TOLD}
CURVES = {**CELL, "row": "c", "paper": None, "verdict": "", "curves": {"p_plus": [[1.0, None], [2.0, 3.0]]}}
META = {"versions": {"torch": "2.13"}, "device": "cpu", "seconds": 1.5, "seeds": [0, 1], "search": "all", "notes": ""}
RESULTS = {
    "tables": [
        {"table": "t", "title": "T", "metric": "MAPE", "rows_are": "tasks", "cells": [CELL], "meta": META},
        {"table": "u", "title": "U", "metric": "MAPE", "cells": [CURVES], "meta": META},
    ]
}
OTHERS = (None, 1, -1.5, "x", [], {}, True, [[]], [1], {"a": 1}, ["a", "b", "c"], float("nan"))


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield place
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in inner:
        yield from places(one, (*place, name))


def changed(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    if not place:
        return new
    value = value.copy()
    value[place[0]] = changed(value[place[0]], place[1:], new)
    return value


def test_the_good_one_is_shown(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps(RESULTS))
    study = read_study(tmp_path)
    assert study.tables == RESULTS["tables"]
    assert "1.00 ± 0.10" in markdown(study.tables)


def test_400_changes(tmp_path: Path) -> None:
    rng, refused = random.Random(20261118), 0  # noqa: S311 - not a secret
    known = list(places(RESULTS))
    for _ in range(400):
        text = json.dumps(changed(RESULTS, rng.choice(known), rng.choice(OTHERS)))
        (tmp_path / "results.json").write_text(text)
        try:
            study = read_study(tmp_path)
        except ValueError as error:
            refused += 1
            message = str(error)
            if not message.startswith(f"'{tmp_path}") or "\n" in message:
                raise
            continue
        assert markdown(study.tables)
        assert page(study)
    assert 100 < refused < 390


@pytest.mark.parametrize(
    ("place", "new", "message"),
    [
        (("tables", 0, "cells"), 7, "'tables[0].cells' must be a list, got int"),
        (("tables", 0, "cells", 0), {"row": "a"}, "'tables[0].cells[0]' has no 'column'"),
        (("tables", 1, "cells", 0, "ours", "mean"), True, "'tables[1].cells[0].ours.mean' must be a number, got bool"),
        (("tables", 1, "cells", 0, "gnp"), 1, "'tables[1].cells[0].gnp' must be true or false, got int"),
        (
            ("tables", 1, "cells", 0, "curves", "p_plus", 1),
            "x",
            "'tables[1].cells[0].curves.p_plus[1]' must be a list, got str",
        ),
        (("tables", 0, "meta", "versions"), [], "'tables[0].meta.versions' must be an object, got list"),
    ],
)
def test_the_place_is_named(tmp_path: Path, place: tuple[Any, ...], new: Any, message: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(changed(RESULTS, place, new)))
    with pytest.raises(ValueError, match="is not what gnpool writes") as caught:
        read_study(tmp_path)
    assert str(caught.value) == f"'{path}' is not what gnpool writes: {message}"


def test_json_without_end(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text('{"tables": ' + "[" * 100_000)
    with pytest.raises(ValueError, match=r"results\.json' is not JSON: maximum recursion depth exceeded"):
        read_study(tmp_path)
