"""Data that other processes make ahead is the data that this process would make, whatever happens to them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from gnpool.lab import PRESETS, TABLES, Runner, Scope
from gnpool.lab.recipes import Recipe
from gnpool.lab.recipes.jobs import RecipeJob
from gnpool.lab.recipes.models import graph_gnp, node, set_model
from gnpool.lab.running import ahead, runner
from gnpool.lab.running import data as data_module
from gnpool.lab.running.ahead import data_ahead, data_makers
from gnpool.lab.running.data import DataCache, Wanted
from gnpool.lab.running.job import merged
from gnpool.store import Store
from gnpool.tasks import GraphTask
from gnpool.tasks.task import _TASKS
from gnpool.training import Batches
from gnpool.training.padded import padding_of
from gnpool.training.parcels import Parcel, pack, unpack
from tests.faults.helpers import descendants
from tests.lab.shared import ENVIRONMENT, SMALL
from tests.lab.test_data import same
from tests.lab.test_runner import PATIENCE, wait_for

SMOKE = PRESETS["smoke"]
GPU, CPU = torch.device("cuda"), torch.device("cpu")
WANTED = Wanted.of("harmonic", "train", 4, 0, count=8)


def put(folder: Path, batches: Batches) -> Future[Parcel]:
    """The data that arrives when a process has made batches."""
    folder.mkdir(exist_ok=True)
    return _result(pack(batches, folder))


def wants(recipe: Recipe) -> list[tuple[Wanted, int | None]]:
    """The data that the job of a recipe asks for if the store is empty."""
    return [(recipe.wanted("train", SMOKE), SMOKE.epochs_of(recipe.spec)), (recipe.wanted("val", SMOKE), None)]


def failed(error: Exception) -> Future[Parcel]:
    future: Future[Parcel] = Future()
    future.set_exception(error)
    return future


def test_what_is_wanted_says_all() -> None:
    assert Wanted.of("shortest", "val", 4, None, count=8, seed=1, structure=None) == Wanted(
        "shortest", "val", 4, None, (("count", 8), ("seed", 1))
    )
    for task, options in (("harmonic", {"structure": "tree"}), ("mu_post", {})):
        wanted = Wanted.of(task, "train", 4, 3, count=8, **options)
        batches = wanted.make()
        assert (batches.batch_size, batches.seed, batches.count) == (4, 3, 8)
        assert batches.sorted_edges == (task == "harmonic")


@pytest.mark.parametrize(
    "wanted",
    [WANTED, Wanted.of("shortest", "val", 3, None, count=7), Wanted.of("sigma2_map", "train", 4, 1, count=9)],
    ids=lambda wanted: wanted.task,
)
def test_a_parcel_holds_everything(tmp_path: Path, wanted: Wanted) -> None:
    batches = wanted.make()
    padding_of(batches, 5)
    found = unpack(pack(batches, tmp_path))
    assert type(found) is Batches
    assert vars(found).keys() == vars(batches).keys()
    assert list(found.values) == list(batches.values)
    for name, value in vars(batches).items():
        held = vars(found)[name]
        pairs = [(value[k], held[k]) for k in value] if name == "values" else [(value, held)]
        for left, right in pairs:
            assert type(left) is type(right)
            if isinstance(left, torch.Tensor):
                assert left.dtype == right.dtype
                assert torch.equal(left, right), name
            else:
                assert left == right, name
    same(found, batches)


def test_what_came_is_taken_once_and_its_file_is_gone(tmp_path: Path) -> None:
    cache, made = DataCache(kept=1), WANTED.make()
    asked: list[Wanted] = []
    for _ in range(2):  # on its way: not asked for again
        cache.expect(WANTED, lambda wanted: asked.append(wanted) or put(tmp_path, made))
    found = cache.batches(WANTED)
    same(found, made)
    assert found is not made
    assert list(tmp_path.iterdir()) == []
    cache.expect(WANTED, lambda wanted: asked.append(wanted) or put(tmp_path, made))  # it is here
    assert asked == [WANTED]
    cache.held("another", int)
    cache.expect(WANTED, lambda wanted: asked.append(wanted) or put(tmp_path, made))  # no longer kept
    assert asked == [WANTED, WANTED]


def test_threads_wait_for_what_is_on_its_way(tmp_path: Path) -> None:
    cache, future = DataCache(), Future[Parcel]()
    cache.expect(WANTED, lambda _: future)
    with ThreadPoolExecutor(3) as pool:
        found = [pool.submit(cache.batches, WANTED) for _ in range(3)]
        future.set_result(put(tmp_path, WANTED.make()).result())
        assert len({id(one.result(60)) for one in found}) == 1
    same(found[0].result(), WANTED.make())


@pytest.mark.parametrize(
    "future",
    [
        lambda folder: failed(BrokenExecutor("a process was killed")),
        lambda folder: failed(ValueError("there is no task 'harmonic'")),
        lambda folder: failed(OSError("the disk is full")),
        lambda folder: _result(Parcel(folder / "nowhere", (), {})),
        lambda folder: _result(_half(put(folder, WANTED.make()).result())),
        lambda folder: _cancelled(),
    ],
    ids=["killed", "unknown there", "full disk", "lost file", "half a file", "cancelled"],
)
def test_what_did_not_come_is_made_here(tmp_path: Path, future: Callable[[Path], Future[Parcel]]) -> None:
    cache = DataCache()
    cache.expect(WANTED, lambda _: future(tmp_path))
    same(cache.batches(WANTED), WANTED.make())


def _result(parcel: Parcel) -> Future[Parcel]:
    future: Future[Parcel] = Future()
    future.set_result(parcel)
    return future


def _half(parcel: Parcel) -> Parcel:
    content = parcel.path.read_bytes()
    parcel.path.write_bytes(content[: len(content) // 2])
    return parcel


def _cancelled() -> Future[Parcel]:
    future: Future[Parcel] = Future()
    assert future.cancel()
    return future


def test_an_error_of_the_data_is_the_one_that_making_it_here_gives() -> None:
    cache, wrong = DataCache(), Wanted.of("harmonic", "train", 4, 0, structure="star")
    cache.expect(wrong, lambda _: failed(ValueError("something else")))
    with pytest.raises(ValueError, match="'structure' must be one of er, ba, regular4, expander, tree, ladder"):
        cache.batches(wrong)


def test_what_nobody_asks_for_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_module, "COMING", 2)
    cache, late = DataCache(), Future[Parcel]()
    many = [Wanted.of("harmonic", "train", 4, 0, count=k) for k in range(1, 6)]
    cache.expect(many[0], lambda _: late)
    late.set_running_or_notify_cancel()  # a process is at it
    for wanted in many[1:]:
        cache.expect(wanted, lambda wanted: put(tmp_path, wanted.make()))
    assert len(list(tmp_path.iterdir())) == 2
    late.set_result(put(tmp_path / "late", many[0].make()).result())
    assert list((tmp_path / "late").iterdir()) == []
    assert cache.batches(many[0]).count == 1


@pytest.mark.parametrize(
    ("device", "preset", "jobs", "cores", "expected"),
    [
        (GPU, "paper", 4, 16, 4),
        (GPU, "quick", 4, 16, 4),
        (GPU, "paper", 12, 16, 8),
        (GPU, "paper", 4, 1, 0),
        (GPU, "paper", 4, None, 0),
        (GPU, "paper", 1, 16, 0),
        (GPU, "smoke", 4, 16, 0),
        (CPU, "paper", 4, 16, 0),
    ],
)
def test_processes_are_used_where_they_pay(
    device: torch.device,
    preset: str,
    jobs: int,
    cores: int | None,
    expected: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    wanted = [graph_gnp("harmonic").wanted(split, PRESETS[preset]) for split in ("val", "train")]
    assert data_makers(device, jobs, wanted) == expected
    assert data_makers(device, jobs, []) == 0


def test_without_processes_nothing_is_prepared() -> None:
    cache = DataCache()
    with data_ahead(0, cache) as prepare:
        prepare(wants(graph_gnp("harmonic")))
    assert not cache._coming


def test_a_runner_prepares_what_it_will_train_in_that_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    started: list[int] = []

    @contextmanager
    def fake(makers: int) -> Iterator[Callable[[Any], None]]:
        started.append(makers)
        yield asked.append

    monkeypatch.setattr(runner, "data_ahead", fake)
    monkeypatch.setattr(runner, "AHEAD", 1)
    monkeypatch.setattr(RecipeJob, "separable", False)
    monkeypatch.setattr(RecipeJob, "work", lambda *_: True)
    store, tables = Store(tmp_path), [TABLES[SMALL], TABLES["exp_graph_harmonic"]]
    work = merged([job for table in tables for job in table.jobs(Scope("smoke"), store, CPU)])
    assert any(job.recipe.crystallized for job in work)  # type: ignore[attr-defined]
    trained = work[1]
    store.put(trained.key, scores={"runs": []})
    untrained = [job for job in work if job.root != trained.root]
    assert [job for job in work if list(job.wants(store))] == untrained
    assert list(untrained[0].wants(store)) == wants(untrained[0].recipe)  # type: ignore[attr-defined]
    monkeypatch.setattr(RecipeJob, "wants", lambda job, _: iter([(job, None)] if job in untrained else []))
    monkeypatch.setattr(runner, "data_makers", lambda device, jobs, wanted: jobs)
    Runner(store, CPU, jobs=2, processes=True).run(work)
    prepared = [job for ((job, _),) in asked]
    assert prepared[:3] == untrained[:3]  # two at work and one ahead
    assert [job for k, job in enumerate(prepared) if job not in prepared[:k]] == untrained
    asked.clear()
    Runner(store, CPU, jobs=2).run(work)  # without processes nothing is made ahead
    assert asked == []
    assert started == [2, 0]


class Quick:
    """A pool in this process."""

    def __init__(self) -> None:
        self.broken = False

    def submit(self, call: Any, *arguments: Any) -> Future[Any]:
        if self.broken:
            raise BrokenExecutor("a process was killed")
        future: Future[Any] = Future()
        future.set_result(call(*arguments))
        return future


def test_recipes_are_prepared_with_their_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Quick()

    @contextmanager
    def children(*_: Any, **__: Any) -> Iterator[Quick]:
        yield pool

    monkeypatch.setattr(ahead, "children", children)
    cache, recipe = DataCache(), node("bfs", "gnp")
    with data_ahead(1, cache) as prepare:
        prepare(wants(recipe))
        train, val = (cache.batches(recipe.wanted(split, SMOKE)) for split in ("train", "val"))
        assert list(train.paddings.values()) == [padding_of(recipe.batches("train", SMOKE), 1)]
        assert val.paddings == {}
        same(train, recipe.batches("train", SMOKE))
        same(val, recipe.batches("val", SMOKE))
        prepare(wants(graph_gnp("harmonic")))
        assert len(cache._coming) == 2
        pool.broken = True
        prepare(wants(graph_gnp("harmonic", "tree")))
        assert len(cache._coming) == 2
    assert not cache._coming  # a later run may have it made again


@pytest.mark.slow
def test_processes_make_the_same_data(monkeypatch: pytest.MonkeyPatch) -> None:
    own = GraphTask(name="own", target="edges", label=lambda graph: float(graph.degree.sum()))
    monkeypatch.setitem(_TASKS, "own", own)  # which the processes do not know
    recipes = [
        graph_gnp("harmonic"),
        graph_gnp("maxdegree", "ba"),
        node("shortest", "gnp"),
        set_model("mu_post", "basic/gnp"),
        Recipe("own", "gnp", graph_gnp("harmonic").variants, "graph"),
    ]
    cache, before = DataCache(kept=99), multiprocessing.active_children()
    with data_ahead(2, cache) as prepare:
        for recipe in recipes:
            prepare(wants(recipe))
        made = [child for child in multiprocessing.active_children() if child not in before]
        assert len(made) == 2
        for recipe in recipes:
            for split in ("train", "val"):
                found = cache.batches(recipe.wanted(split, SMOKE))
                same(found, recipe.wanted(split, SMOKE).make())
                assert bool(found.paddings) == (split == "train" and recipe.task != "own")
        os.kill(made[0].pid or 0, signal.SIGKILL)
        made[0].join(PATIENCE)
        for structure in ("tree", "ladder", "regular4", "expander"):  # whenever it is noticed
            prepare(wants(graph_gnp("harmonic", structure)))
            wanted = graph_gnp("harmonic", structure).wanted("train", SMOKE)
            same(cache.batches(wanted), wanted.make())
    assert not any(child.is_alive() for child in made)


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


PROGRAM = """
import sys, time
from gnpool.lab import PRESETS
from gnpool.lab.running.ahead import data_ahead
from gnpool.lab.running.data import CACHE
from gnpool.lab.recipes.models import graph_gnp

if __name__ == "__main__":
    with data_ahead(2) as prepare:
        prepare([(graph_gnp("harmonic").wanted("train", PRESETS["smoke"]), 2)])
        graph_gnp("harmonic").batches("train", PRESETS["smoke"])
        open(sys.argv[1], "w").close()
        time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for children in /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_behind(tmp_path: Path, how: signal.Signals) -> None:
    script, ready, folder = tmp_path / "script.py", tmp_path / "ready", tmp_path / "temporary"
    script.write_text(PROGRAM)
    folder.mkdir()
    command = [sys.executable, str(script), str(ready)]
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    environment = {**ENVIRONMENT, "TMPDIR": str(folder)}
    with subprocess.Popen(command, env=environment, start_new_session=True, **options) as process:
        wait_for(ready.exists, process)
        children = list(descendants(process.pid))
        assert len(children) >= 2
        (os.killpg if how == signal.SIGINT else os.kill)(process.pid, how)  # Ctrl-C reaches all
        _, errors = process.communicate(timeout=PATIENCE)
    begin = time.monotonic()
    while any(map(alive, children)) or list(folder.glob("gnpool-*")):
        assert time.monotonic() - begin < PATIENCE
        threading.Event().wait(0.05)
    if how == signal.SIGINT:
        assert errors.count("Traceback") == 1  # of the parent alone
        assert errors.rstrip().endswith("KeyboardInterrupt")
