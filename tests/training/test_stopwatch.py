from __future__ import annotations

from pathlib import Path

import pytest

from gnpool.lab import TABLES, reproduce
from gnpool.lab.recipes.presets import get_preset
from gnpool.store import Store
from gnpool.training.stopwatch import FILE, SAVE_SECONDS, Stopwatch


class Clock:
    def __init__(self) -> None:
        self.now = 50.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr("gnpool.training.stopwatch.time", found)
    return found


def stopped() -> None:
    raise KeyboardInterrupt


def test_what_is_stopped_goes_on_with_its_seconds(tmp_path: Path, clock: Clock) -> None:
    watch = Stopwatch(tmp_path)
    clock.now += 3.0
    with pytest.raises(KeyboardInterrupt):
        watch.around(stopped)()
    clock.now += 100.0  # nobody works
    again = Stopwatch(tmp_path)
    assert again.seconds == 3.0
    clock.now += 4.0
    assert again.seconds == 7.0


def test_what_is_killed_loses_a_few(tmp_path: Path, clock: Clock) -> None:
    check = Stopwatch(tmp_path).around(lambda: None)
    for _ in range(int(4 * SAVE_SECONDS)):
        clock.now += 0.9
        check()
    spent = 4 * SAVE_SECONDS * 0.9
    assert spent - SAVE_SECONDS < Stopwatch(tmp_path).seconds <= spent


def test_without_a_folder_it_starts_anew(clock: Clock) -> None:
    watch = Stopwatch(None)
    clock.now += 3.0
    with pytest.raises(KeyboardInterrupt):
        watch.around(stopped)()
    assert watch.seconds == 3.0
    assert Stopwatch(None).seconds == 0.0


@pytest.mark.parametrize("text", ["", "soon", "nan", "inf", "-3"])
def test_a_damaged_file_counts_for_nothing(tmp_path: Path, clock: Clock, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    assert Stopwatch(tmp_path).seconds == 0.0


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path: Path, clock: Clock) -> None:
    watch = Stopwatch(tmp_path / "missing")
    clock.now += 2 * SAVE_SECONDS
    watch.around(lambda: None)()
    assert watch.seconds == 2 * SAVE_SECONDS


def test_a_training_that_goes_on_tells_all_its_seconds(tmp_path: Path) -> None:
    store, preset = Store(tmp_path), get_preset("smoke")
    keys = [cell.recipe.key(preset, "all") for cell in TABLES["graph_diff"].cells]
    assert {key["table"] for key in keys} == {"training", "crystal"}
    for key in keys:
        (store.checkpoint(key) / FILE).write_text("1000")
    reproduce(["graph_diff"], tmp_path, preset="smoke", jobs=1)
    for key in keys:
        record = store.get(key)
        assert record is not None
        assert 1000 < record.meta["seconds"] < 1100
