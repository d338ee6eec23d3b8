"""The import rule of docs/architecture.md: a room imports only the rooms it knows."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "gnpool"

# Room -> the rooms it knows directly, from the top of the house down. A room also knows what those know.
ABOVE_LAB = {
    "display": set(),
    "store": set(),
    "engine": {"store"},
    "ops": set(),
    "nn": {"ops"},
    "training": {"nn", "engine"},
    "insight": {"nn", "training", "display"},
    "models": {"nn", "insight"},
    "data": {"store"},
    "tasks": {"data"},
    "influence": {"models", "training", "data"},
    "theory": {"ops", "tasks", "display"},
}
DIRECT: dict[str, set[str]] = {
    **ABOVE_LAB,
    "lab": set(ABOVE_LAB),
    "fit": set(ABOVE_LAB),
    "report": {"store", "display"},
    "cli": {*ABOVE_LAB, "lab", "fit", "report"},
}
ROOMS = list(DIRECT)


def closure(direct: dict[str, set[str]]) -> dict[str, set[str]]:
    known: dict[str, set[str]] = {}
    for room, neighbours in direct.items():  # in order: whatever a room knows stands above it
        known[room] = neighbours.union(*(known[other] for other in neighbours))
    return known


KNOWS = closure(DIRECT)


def imported(source: str, path: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted target of every import of gnpool in a file; `path` is relative to src/gnpool."""
    package = ["gnpool", *path.parent.parts]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = [*base, *(node.module.split(".") if node.module else [])]
            targets = [".".join([*base, alias.name]) for alias in node.names]
        else:
            continue
        for target in targets:
            if target.split(".")[0] == "gnpool":
                yield node.lineno, target


def violations(source: str, path: Path) -> list[str]:
    """Broken rules of one file, as messages; `path` is relative to src/gnpool."""
    if path in (Path("__init__.py"), Path("__main__.py")):
        return []
    room = path.parts[0].removesuffix(".py")
    if room not in KNOWS:
        return [f"{path}: '{room}' is not a room of docs/architecture.md"]
    found = []
    for line, target in imported(source, path):
        parts = target.split(".")
        other = parts[1] if len(parts) > 1 else "*"
        if other in KNOWS:
            if other != room and other not in KNOWS[room]:
                found.append(f"{path}:{line}: '{room}' does not know '{other}' (imports {target})")
        elif room != "cli":  # the package itself: its __init__ imports every public room
            found.append(f"{path}:{line}: import {target} from the room that defines it")
    return found


def test_a_room_knows_only_rooms_above_it() -> None:
    for place, room in enumerate(ROOMS):
        assert KNOWS[room] <= set(ROOMS[:place]), room


def test_closure() -> None:
    assert KNOWS["training"] == {"nn", "ops", "engine", "store"}
    assert KNOWS["influence"] == {"models", "insight", "training", "data", "nn", "ops", "engine", "store", "display"}
    assert KNOWS["fit"] == set(ROOMS[: ROOMS.index("lab")])
    assert KNOWS["report"] == {"store", "display"}
    assert KNOWS["cli"] == set(ROOMS) - {"cli"}


def test_no_room_imports_one_it_does_not_know() -> None:
    files = sorted(SOURCE.rglob("*.py"))
    assert files
    found = [
        message for file in files for message in violations(file.read_text(encoding="utf-8"), file.relative_to(SOURCE))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("path", "source", "message"),
    [
        ("ops/a.py", "import gnpool.nn", "ops/a.py:1: 'ops' does not know 'nn' (imports gnpool.nn)"),
        ("ops/a.py", "from gnpool.nn.aggr import X", "'ops' does not know 'nn' (imports gnpool.nn.aggr.X)"),
        ("ops/a.py", "from gnpool import nn", "'ops' does not know 'nn'"),
        ("ops/a.py", "from ..nn import X", "'ops' does not know 'nn'"),
        ("ops/a.py", "from .. import nn", "'ops' does not know 'nn'"),
        ("ops/kernels/a.py", "from ...nn import X", "'ops' does not know 'nn'"),
        ("ops/a.py", "def f():\n    from gnpool.nn import X", "ops/a.py:2: 'ops' does not know 'nn'"),
        ("fit/a.py", "import gnpool.lab", "'fit' does not know 'lab'"),
        ("report/a.py", "import gnpool.lab.specs", "'report' does not know 'lab'"),
        ("data/a.py", "import gnpool.ops", "'data' does not know 'ops'"),
        ("nn/__init__.py", "from gnpool import norm_pool", "import gnpool.norm_pool from the room"),
        ("nn/a.py", "import gnpool", "import gnpool from the room"),
        ("attic/a.py", "", "'attic' is not a room"),
    ],
)
def test_checker_catches(path: str, source: str, message: str) -> None:
    found = violations(source, Path(path))
    assert len(found) == 1
    assert message in found[0]


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("__init__.py", "from gnpool.cli import main"),
        ("ops/a.py", "from . import reference\nfrom .reference import f\nimport torch, gnpoolish"),
        ("ops/__init__.py", "from .reference import f\nfrom gnpool.ops import g"),
        ("nn/a.py", "from ..ops import norm_pool"),
        ("training/a.py", "import gnpool.ops.reference"),
        ("cli.py", "import gnpool\nfrom gnpool.lab import run"),
    ],
)
def test_checker_lets_pass(path: str, source: str) -> None:
    assert violations(source, Path(path)) == []


def documented(room: str, knows: str) -> set[str]:
    """The rooms that a cell of the *knows* column names."""
    above = set(ROOMS[: ROOMS.index(room)])
    phrases = {"all above": above, "all above but lab": above - {"lab"}, "everything": above}
    return phrases.get(knows, set(knows.split(", ")) - {"torch", "PyTorch Geometric", "nothing"})


def test_architecture_table_is_this_table() -> None:
    rows = {}
    for line in (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 4:
            rows[cells[0].strip("`/")] = (cells[2], cells[3])
    assert list(rows) == ROOMS
    for room, (knows, today) in rows.items():
        assert documented(room, knows) == DIRECT[room], room
        exists = (SOURCE / room).is_dir() or (SOURCE / f"{room}.py").is_file()
        assert today == ("yes" if exists else "planned"), f"docs/architecture.md marks '{room}' as '{today}'"
