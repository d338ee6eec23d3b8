"""Kills short runs at random moments, starts them again, and compares their results with undisturbed runs.

    python -m tools.kills                        # 1,000 kills; resumes where it stopped
    python -m tools.kills --most 50 --only fit   # 50 more of one kind
    python -m tools.kills --jobs 16              # 16 series at once

A series uses one folder. A run is killed by SIGKILL at a random moment within the time of an undisturbed run, and is
started again, up to five times; then it may finish. A run that finishes before its moment starts again in an empty
folder. Scores, weights and files must equal those of the undisturbed run bit by bit. The number of the series decides
on the moments. Every other series writes a checkpoint after each step instead of every 30 seconds, so that it is
killed while it writes, and resumes in the middle of an epoch. Outcomes go to results/reliability.json;
a folder that differs is kept in build/kills.

Runs are forked from a process that has imported everything. Only the runs of ``processes`` and ``ray`` (`--only ray`,
which needs Ray) are separate programs; in half of their series the workers are killed, too.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gnpool import GNPAggregation, Setting, crystallize
from gnpool.data import Column, GraphTable
from gnpool.fit import Options, answer, run_study
from gnpool.fit.result import write_result
from gnpool.insight.crystallize import Crystal
from gnpool.lab import reproduce
from gnpool.store import Store
from gnpool.training import fit as training
from tools.forks import Child, side_by_side
from tools.outcomes import keep, kept

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / "build" / "kills"
TABLE = "ablation_b"  # two trainings, six exams
SEED = 20
KILLS = 5  # kills in a series
PATIENCE = 900.0  # seconds for one run


def reproducing(folder: Path, *options: str) -> str:
    """The smoke run of a table; with options, it is run by the command line program."""
    if options:
        command = [sys.executable, "-m", "gnpool", "reproduce", TABLE, "--preset", "smoke", "--out", str(folder)]
        subprocess.run([*command, "--device", "cpu", *options], check=True, capture_output=True)
    else:
        reproduce([TABLE], folder, preset="smoke", jobs=1, device="cpu")
    (table,) = json.loads((folder / "results.json").read_text())["tables"]
    timeless(table)
    parts = [json.dumps(table, sort_keys=True).encode()]
    for record in sorted(Store(folder, create=False).records(tensors=True), key=lambda one: json.dumps(one.key)):
        parts.append(json.dumps([record.key, record.scores], sort_keys=True).encode())
        parts += [tensor_bytes(value) for _, value in sorted((record.tensors or {}).items())]
    return digest(*parts)


def timeless(result: dict[str, Any]) -> None:
    """Remove the time and the commit, which can change during the runs."""
    for name in ("seconds", "commit"):
        result["meta"].pop(name, None)


def fitting(folder: Path) -> str:
    """A fit of a few rings; the target is the maximum of a feature."""
    rng = np.random.default_rng(0)
    sizes = np.arange(4, 28)
    nodes, ends = int(sizes.sum()), np.cumsum(sizes)
    follower = np.arange(1, nodes + 1)
    follower[ends - 1] = ends - sizes
    edges = np.stack([np.arange(nodes), follower])
    mass = rng.random(nodes)
    y = Column("y", np.maximum.reduceat(mass, ends - sizes))
    both, features = np.concatenate([edges, edges[::-1]], axis=1), (Column("mass", mass),)
    both = both[:, np.lexsort((both[0], both[1]))]
    table = GraphTable(np.arange(len(sizes)), sizes, both, features, y, "graph", np.arange(nodes))
    study = run_study(table, Options(epochs=2, seeds=1), checkpoint=folder / "cache")
    write_result(folder / "out", study, answer(study))
    result = json.loads((folder / "out" / "fit.json").read_text())
    timeless(result)
    files = sorted(path for path in (folder / "out").rglob("model.*"))
    return digest(json.dumps(result, sort_keys=True).encode(), *(path.read_bytes() for path in files))


class Net(torch.nn.Module):
    """A network with a pooling between a norm and a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(2)
        self.pool = GNPAggregation(2, start="sum")
        self.out = torch.nn.Linear(2, 1)

    def forward(self, x: torch.Tensor, ptr: torch.Tensor) -> torch.Tensor:
        """One number for each set."""
        found: torch.Tensor = self.out(self.pool(self.norm(x), ptr=ptr))
        return found


def crystallizing(folder: Path) -> str:
    """The search for exact poolings of a small network."""
    from torch_geometric.data import Data

    generator = torch.Generator().manual_seed(0)
    rows = [torch.rand(3 + k % 5, 2, generator=generator) + 0.1 for k in range(24)]
    sets = [Data(x=x, y=x.sum().view(1)) for x in rows]
    torch.manual_seed(0)
    found: Crystal = crystallize(
        Net().eval(),
        sets,
        sets,
        lambda prediction, batch: (prediction.view_as(batch.y) - batch.y).square(),
        checkpoint=folder,
        epochs=6,
        trials=2,
        settings=[Setting(lr=1e-2, lr_p=1e-2), Setting(lr=1e-3, lr_p=1e-2)],
        batch_size=8,
    )
    weights = found.model.state_dict()
    losses = repr([(trial.stage, trial.loss, trial.poolings) for trial in found.tried])
    return digest(found.reason.encode(), losses.encode(), *(tensor_bytes(weights[name]) for name in sorted(weights)))


def tensor_bytes(value: torch.Tensor) -> bytes:
    """The bits of a tensor."""
    return value.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes()


def digest(*parts: bytes) -> str:
    """The digest of all parts in this order."""
    found = hashlib.sha256()
    for part in parts:
        found.update(hashlib.sha256(part).digest())
    return found.hexdigest()


KINDS: dict[str, tuple[Callable[[Path], str], int]] = {  # kind -> its run, and the number of kills
    "reproduce": (reproducing, 400),
    "fit": (fitting, 250),
    "crystallize": (crystallizing, 250),
    "processes": (lambda folder: reproducing(folder, "--jobs", "2"), 50),
    "ray": (lambda folder: reproducing(folder, "--engine", "ray", "--jobs", "2"), 50),
}


def start(kind: str, folder: Path, number: int) -> Child:
    """Start a run in a separate process."""

    def work() -> str:
        torch.set_num_threads(1)
        if number % 2:
            training.CHECKPOINT_SECONDS = 0.0
        folder.mkdir(parents=True, exist_ok=True)
        return KINDS[kind][0](folder)

    return Child.start(kind, work, folder.with_suffix(".json"))


def ended(child: Child) -> str:
    """The result of an undisturbed run."""
    while not child.done(PATIENCE):
        time.sleep(0.01)
    found = child.answer()
    if found is None:
        raise RuntimeError(child.log.read_text(encoding="utf-8"))
    return str(found)


def series(kind: str, number: int, wanted: str, seconds: float, folder: Path) -> dict[str, Any]:
    """The kills in one folder, and whether the result is right; ``seconds`` is the time of an undisturbed run."""
    rng = random.Random(f"{SEED} {kind} {number}")  # noqa: S311 -- moments, not secrets
    kills, ends = 0, []
    while kills < KILLS and len(ends) < KILLS:
        shutil.rmtree(folder, ignore_errors=True)
        found = None
        while found is None:
            child, moment = start(kind, folder, number), rng.random() * seconds if kills < KILLS else PATIENCE
            while time.monotonic() - child.begin < moment and found is None:
                if child.done(PATIENCE):
                    found = ended(child)
                time.sleep(0.001)
            if found is None:
                child.kill(everything=number % 4 < 2)
                kills += 1
        ends.append(found)
        if found != wanted:
            folder.rename(PLACE / f"find-{kind}-{number}-{len(ends)}")  # to compare with undisturbed-...
    shutil.rmtree(folder, ignore_errors=True)
    return {"kills": kills, "ends": len(ends), "same": set(ends) == {wanted}}


def main() -> int:
    """Run from the command line; return 1 if a series ended with other bits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=KINDS, action="append", help="kinds to run  [default: all but ray]")
    parser.add_argument("--most", type=int, help="number of series of each kind to run now")
    parser.add_argument("--jobs", type=int, default=1, help="number of series at once")
    options = parser.parse_args()
    PLACE.mkdir(parents=True, exist_ok=True)
    asked = {kind: count for kind, (_, count) in KINDS.items()}
    outcomes: dict[str, dict[str, dict[str, Any]]] = kept("kills").get("series", {})
    for kind in options.only or [name for name in KINDS if name != "ray"]:
        done = outcomes.setdefault(kind, {})
        goal = KINDS[kind][1] // KILLS
        todo = [number for number in range(2 * goal) if str(number) not in done][: options.most]
        if not todo or sum(one["kills"] for one in done.values()) >= KINDS[kind][1]:
            continue
        wanted, begin = undisturbed(kind), time.monotonic()
        if undisturbed(kind) != wanted:
            raise RuntimeError(f"{kind}: two undisturbed runs differ")
        seconds = time.monotonic() - begin
        print(f"{kind}: undisturbed {seconds:.1f} s", flush=True)
        work = [(str(n), functools.partial(series, kind, n, wanted, seconds)) for n in todo]
        for number, answer_, _ in side_by_side(work, PLACE, options.jobs, PATIENCE):
            done[number] = answer_ or {"kills": 0, "ends": 0, "same": False}
            count = sum(one["kills"] for one in done.values())
            print(f"{kind} {number}: {done[number]}, {count} kills", flush=True)
            keep("kills", {"seed": SEED, "asked": asked, "series": outcomes})
            if count >= KINDS[kind][1]:
                break
    same = all(one["same"] for done in outcomes.values() for one in done.values())
    for kind, done in outcomes.items():
        print(f"{kind}: {sum(one['kills'] for one in done.values())} kills in {len(done)} series")
    return int(not same)


def undisturbed(kind: str) -> str:
    """The result without any kill."""
    folder = PLACE / f"undisturbed-{kind}"
    shutil.rmtree(folder, ignore_errors=True)
    return ended(start(kind, folder, 0))


if __name__ == "__main__":
    sys.exit(main())
