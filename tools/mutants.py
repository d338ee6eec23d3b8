"""Changes the package in small ways, one at a time, and checks whether a test notices.

    python -m tools.mutants                  # the whole sample; resumes where it stopped
    python -m tools.mutants --most 50        # 50 more
    python -m tools.mutants --only store     # one part
    python -m tools.mutants --again          # mutants that survived without a reason once more, after tests were added
    python -m tools.mutants --jobs 16        # 16 at once
    python -m tools.mutants --show ID        # the change of one mutant

A mutant is one change of one expression or statement: a reversed comparison, a number increased by one, a removed
statement. A seed draws the sample from all possible changes, with a given number from each part (``PARTS``). A first
run of the tests records which of them execute the lines of the sample (build/mutants/map.json). A mutant is then tested
by these tests only, first by those of its room, for at most ``--seconds``. A test that fails or does not end kills it.
Outcomes go to results/reliability.json; tools/survivors.json gives the reasons for survivors that are accepted.

Compiled lines cannot be traced, so a Numba kernel is tested by the folder that launches it. Triton's kernels run in
the interpreter, line by line. Tests that already fail on this machine without any change are left out.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import functools
import hashlib
import importlib
import itertools
import json
import os
import resource
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tools.forks import side_by_side
from tools.outcomes import REASONS, keep, kept, read

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "gnpool"
PLACE = ROOT / "build" / "mutants"
SEED = 20
PARTS: dict[str, tuple[list[str], int, list[str]]] = {  # part -> its files, number of mutants, its tests
    "ops": (["ops/*.py"], 100, ["ops/test_*.py", "nn/test_*.py"]),
    "cpu": (["ops/cpu/*.py"], 30, ["ops/test_*.py"]),
    "triton": (["ops/cuda/*.py"], 50, ["ops/test_*.py"]),
    "nn": (["nn/*.py"], 50, ["nn/test_*.py"]),
    "insight": (["insight/*.py", "insight/laws/*.py"], 70, ["insight/**/test_*.py"]),
    "training": (
        [
            f"training/{name}.py"
            for name in ("portfolio", "fit", "result", "settings", "unit", "evaluate", "checkpoint")
        ],
        35,
        ["training/test_*.py"],
    ),
    "store": (["store/*.py"], 50, ["store/test_*.py", "data/test_limits.py"]),
    "verdicts": (
        [f"lab/{name}.py" for name in ("results", "record", "paper")],
        15,
        [f"lab/test_{name}.py" for name in ("results", "record", "record_models", "classify", "influence")],
    ),
}
SLOW = {f"test_{name}" for name in ("compile", "convergence", "cuda_compiles", "ddp", "learning")}
LEFT_OUT = {"insight/figure.py"}  # sizes and colours of a drawing
PRELOADED = ("torch", "torch_geometric", "torch_geometric.nn", "numba", "triton", "hypothesis", "rich", "typer")

OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
NAMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "any": "all", "all": "any"}


@dataclass(frozen=True)
class Mutant:
    """A change of a file: the text between two places becomes another."""

    id: str
    part: str
    file: str  # below src/gnpool
    lines: tuple[int, int]  # of the node, and of its statement
    begin: int  # in bytes
    end: int
    text: str

    def applied(self, source: bytes) -> bytes:
        """The file with the change."""
        return source[: self.begin] + self.text.encode() + source[self.end :]


class Changes(ast.NodeVisitor):
    """All possible changes of a file, as (where, kind, node, new text)."""

    def __init__(self) -> None:
        self.found: list[tuple[str, str, Any, str, int]] = []
        self.names: list[str] = []
        self.statement = 0

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.stmt):
            self.statement = node.lineno
        if isinstance(node, (ast.JoinedStr, ast.Assert, ast.Import, ast.ImportFrom)) or _typing_only(node):
            return
        if isinstance(node, ast.Raise):  # tests check that an error is raised, but not its words
            self.add("raise", node, "pass")
            return
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("warnings.warn", "cast"):
            return
        self._change(node)
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            self.names.append(node.name)
            for child in [*node.body, *([] if isinstance(node, ast.ClassDef) else node.args.defaults)]:
                self.visit(child)
            self.names.pop()
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None:
                self.visit(node.value)
        else:
            self.generic_visit(node)

    def add(self, kind: str, node: Any, text: str) -> None:
        self.found.append((".".join(self.names) or "<module>", kind, node, text, self.statement))

    def _change(self, node: ast.AST) -> None:
        if isinstance(node, ast.Compare):
            for place, operator in enumerate(node.ops):
                self._swapped(node, lambda new, to, place=place: new.ops.__setitem__(place, to()), operator)  # type: ignore[misc]
        elif isinstance(node, (ast.BinOp, ast.BoolOp)) and not _of_strings(node):
            self._swapped(node, lambda new, to: setattr(new, "op", to()), node.op)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
            self.add("drop " + type(node.op).__name__, node, f"({ast.unparse(node.operand)})")
        elif isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
            self.add("constant", node, repr(not node.value if isinstance(node.value, bool) else node.value + 1))
        elif isinstance(node, (ast.If, ast.IfExp, ast.While)):
            self.add("not", node.test, f"(not ({ast.unparse(node.test)}))")
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in NAMES:
            before, dot, name = ast.unparse(node.func).rpartition(".")
            self.add("name", node.func, before + dot + NAMES[name])
        elif isinstance(node, ast.AugAssign) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
            self.add("leave out", node, "pass")
        elif isinstance(node, ast.With) and all(item.optional_vars is None for item in node.items):
            self.add("without", node.items[0].context_expr, "__import__('contextlib').nullcontext()")

    def _swapped(self, node: ast.expr, put: Callable[[Any, Any], None], operator: ast.AST) -> None:
        to = OPERATORS.get(type(operator))
        if to is not None:
            new = copy.deepcopy(node)
            put(new, to)
            self.add(f"{type(operator).__name__} {to.__name__}", node, f"({ast.unparse(new)})")


def _typing_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _of_strings(node: ast.AST) -> bool:
    return any(
        isinstance(part, ast.JoinedStr) or isinstance(getattr(part, "value", None), str) for part in ast.walk(node)
    )


def mutants_of(part: str, path: Path) -> Iterator[Mutant]:
    """Every mutant of a file."""
    source = path.read_bytes()
    begins = [0]
    for line in source.splitlines(keepends=True):
        begins.append(begins[-1] + len(line))
    changes, numbers = Changes(), dict[str, int]()
    changes.visit(ast.parse(source))
    file = path.relative_to(SOURCE).as_posix()
    for name, kind, node, text, statement in changes.found:
        what = f"{file}::{name}::{kind}"
        numbers[what] = numbers.get(what, 0) + 1
        begin, end = (
            begins[line - 1] + column
            for line, column in ((node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset))
        )
        yield Mutant(f"{what}::{numbers[what]}", part, file, (node.lineno, statement), begin, end, text)


def sample() -> list[Mutant]:
    """The mutants of this seed, in an order in which every first part is a sample of all."""
    found: list[tuple[float, Mutant]] = []
    for part, (patterns, count, _) in PARTS.items():
        paths = [path for pattern in patterns for path in sorted(SOURCE.glob(pattern))]
        paths = [path for path in paths if path.relative_to(SOURCE).as_posix() not in LEFT_OUT]
        ranked = sorted((m for path in paths for m in mutants_of(part, path)), key=_rank)
        found += [((place + 0.5) / count, mutant) for place, mutant in enumerate(ranked[:count])]
    return [mutant for _, mutant in sorted(found, key=lambda one: (one[0], _rank(one[1])))]


def _rank(mutant: Mutant) -> str:
    return hashlib.sha256(f"{SEED} {mutant.id}".encode()).hexdigest()


class Watch:
    """A pytest plugin that records which tests execute the lines of the sample, and their time."""

    def __init__(self, lines: dict[str, set[int]], base: Path, most: float) -> None:
        self.most, self.begin = most, time.process_time()
        self.lines = {str(base / "gnpool" / file): (file, numbers) for file, numbers in lines.items()}
        self.current: str | None = None
        self.codes: dict[Any, tuple[str, set[int]] | None] = {}
        self.seen: dict[str, set[str]] = {}  # "file:line", or "file:0" for any call into it
        self.seconds: dict[str, float] = {}
        self.passed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.passed.add(report.nodeid)

    def trace(self, frame: Any, event: str, argument: Any) -> Any:
        code = frame.f_code
        try:
            known = self.codes[code]
        except KeyError:
            known = self.codes[code] = self._known(code)
        if known is None or self.current is None:
            return None
        file, numbers = known
        self.seen.setdefault(f"{file}:0", set()).add(self.current)
        if not numbers:
            return None

        def line(frame: Any, event: str, argument: Any) -> Any:
            if frame.f_lineno in numbers and self.current is not None:
                self.seen.setdefault(f"{file}:{frame.f_lineno}", set()).add(self.current)
            return line

        return line(frame, event, argument)

    def _known(self, code: Any) -> tuple[str, set[int]] | None:
        of_file = self.lines.get(code.co_filename)
        if of_file is None:
            return None
        file, numbers = of_file
        return file, numbers & {line for _, _, line in code.co_lines() if line is not None}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: hashlib.sha256(item.nodeid.encode()).digest())  # so that a part is a sample of all

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.current, begin = item.nodeid, time.process_time()
        threading.settrace(self.trace)
        sys.settrace(self.trace)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            self.seconds[item.nodeid] = round(time.process_time() - begin, 3)
            self.current = None
            if time.process_time() - self.begin > self.most:
                item.session.shouldstop = "the seconds of this file are spent"


class Choice:
    """A pytest plugin that runs only these tests, in this order, and records the first failure."""

    def __init__(self, ids: list[str]) -> None:
        self.order = {name: place for place, name in enumerate(ids)}
        self.failed: str | None = None

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((item for item in items if item.nodeid in self.order), key=lambda i: self.order[i.nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self.failed is None:
            self.failed = report.nodeid


def pytest_with(base: Path, paths: list[str], plugin: object, *options: str) -> int:
    """Run tests on a copy of the package."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "gnpool"]:
        del sys.modules[name]  # the modules of this program itself
    sys.path.insert(0, str(base))
    os.environ["PYTHONPATH"] = f"{base}{os.pathsep}{ROOT}"
    os.chdir(ROOT)
    common = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts=", "--import-mode=importlib"]
    return int(pytest.main([*common, *options, *paths], plugins=[plugin]))


def test_files(only: str | None) -> list[str]:
    """The test files for the map, of one part or all."""
    patterns = {pattern for part, (_, _, found) in PARTS.items() if only in (None, part) for pattern in found}
    files = {path for pattern in patterns for path in (ROOT / "tests").glob(pattern) if path.stem not in SLOW}
    return sorted(path.relative_to(ROOT).as_posix() for path in files)


def make_map(mutants: list[Mutant], only: str | None, most: float, slow: bool, jobs: int) -> dict[str, Any]:
    """Record which tests execute which lines of the sample, and their seconds, file by file. It can be resumed."""
    lines: dict[str, set[int]] = {}
    for mutant in mutants:
        lines.setdefault(mutant.file, set()).update(mutant.lines)
    for file in sorted({path for patterns, _, _ in PARTS.values() for p in patterns for path in SOURCE.glob(p)}):
        lines.setdefault(file.relative_to(SOURCE).as_posix(), set())
    stamp = hashlib.sha256(b"".join((SOURCE / file).read_bytes() for file in sorted(lines))).hexdigest()
    path = PLACE / "map.json"
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if found.get("stamp") != stamp:
        found = {"stamp": stamp, "files": {}}

    def watched(name: str, place: Path) -> dict[str, Any]:
        plugin = Watch(lines, PLACE / "base", most)
        pytest_with(PLACE / "base", [name], plugin, *([] if slow else ["-m", "not slow"]))
        seen = {key: sorted(value & plugin.passed) for key, value in plugin.seen.items()}
        return {"seen": seen, "seconds": plugin.seconds}

    digests = {name: f"{most} {hashlib.sha256((ROOT / name).read_bytes()).hexdigest()}" for name in test_files(only)}
    fresh = [name for name in digests if found["files"].get(name, {}).get("digest") != digests[name]]
    todo = [(name, functools.partial(watched, name)) for name in fresh]
    for name, answer, seconds in side_by_side(todo, PLACE, jobs, 1200.0):
        print(f"map: {name}, {seconds:.0f} s", flush=True)
        found["files"][name] = {"digest": digests[name], **(answer or {"seen": {}, "seconds": {}})}
        path.write_text(json.dumps(found), encoding="utf-8")
    return found


def chosen(mutant: Mutant, found: dict[str, Any], seconds: float) -> list[str]:
    """The tests of a mutant in order: those of its room first, and quick tests before slow ones."""
    seen: dict[str, set[str]] = {}
    cost: dict[str, float] = {}
    for entry in found["files"].values():
        cost |= entry["seconds"]
        for key, names in entry["seen"].items():
            seen.setdefault(key, set()).update(names)
    names = set().union(*(seen.get(f"{mutant.file}:{line}", set()) for line in mutant.lines))
    compiled_or_global = not names or "::<module>::" in mutant.id
    if compiled_or_global:
        names |= seen.get(f"{mutant.file}:0", set())
    if not names and mutant.part == "cpu":  # compiled, and launched by another file
        names = set().union(*(found for key, found in seen.items() if key.startswith("ops/cpu/")))
    room = PARTS[mutant.part][2][0].partition("/")[0]
    stem = Path(mutant.file).stem

    def rank(name: str) -> tuple[bool, bool, float]:
        return not name.startswith(f"tests/{room}/"), stem not in name, cost[name]

    ordered, total = [], 0.0
    for name in sorted(names, key=rank):
        if total + cost[name] <= seconds or not ordered:
            ordered.append(name)
            total += cost[name]
    return ordered


def tried(mutant: Mutant, ids: list[str], most: int, place: Path) -> dict[str, Any]:
    """Run the tests of one mutant in a copy of the package, for limited processor time."""
    resource.setrlimit(resource.RLIMIT_CPU, (most, most))
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(PLACE / "base", place)
    target = place / "gnpool" / mutant.file
    target.write_bytes(mutant.applied(target.read_bytes()))
    plugin = Choice(ids)
    files = list(dict.fromkeys(name.partition("::")[0] for name in ids))
    return {"status": pytest_with(place, files, plugin, "-x"), "failed": plugin.failed, "tests": len(ids)}


def outcome(answer: dict[str, Any] | None) -> dict[str, Any]:
    """``killed`` and the test that killed it, or ``survived`` and the number of tests."""
    if answer is None:
        return {"outcome": "killed", "by": "the clock, or the end of the program"}
    if answer["status"] == 0:
        return {"outcome": "survived", "tests": answer["tests"]}
    return {"outcome": "killed", "by": answer["failed"] or "an error on import"}


def shares(outcomes: dict[str, dict[str, Any]], reasons: dict[str, str]) -> str:
    """A summary of all mutants that were tried."""
    killed = sum(one["outcome"] == "killed" for one in outcomes.values())
    equal = sum(1 for name, one in outcomes.items() if one["outcome"] != "killed" and name in reasons)
    return (
        f"{killed} of {len(outcomes)} killed ({100 * killed / max(1, len(outcomes)):.1f} %), "
        f"{equal} left alive for a reason, {len(outcomes) - killed - equal} without one"
    )


def main() -> int:
    """Run from the command line; return 1 if a mutant survived without a reason."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, help="number of mutants to try now")
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--again", action="store_true", help="try again mutants that survived without a reason")
    parser.add_argument("--seconds", type=float, default=60.0, help="processor seconds of tests for one mutant")
    parser.add_argument("--map", type=float, default=300.0, help="processor seconds of each test file for the map")
    parser.add_argument("--jobs", type=int, default=1, help="number of mutants at once")
    parser.add_argument("--slow", action="store_true", help="run tests that are marked slow, too")
    parser.add_argument("--show", help="print what a mutant changes")
    options = parser.parse_args()
    mutants = sample()
    parts = {mutant.id: mutant.part for mutant in mutants}
    wanted = {part: list(parts.values()).count(part) for part in PARTS}
    if options.show:
        (mutant,) = (one for one in mutants if one.id == options.show)
        source = (SOURCE / mutant.file).read_bytes()
        print(f"{mutant.file}:{mutant.lines[0]}: {source[mutant.begin : mutant.end].decode()}  ->  {mutant.text}")
        return 0
    for name, value in {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}.items():
        os.environ[name] = value
    for name in PRELOADED:
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(name)
    if "numba" not in sys.modules:
        mutants = [mutant for mutant in mutants if mutant.part != "cpu"]  # no test would run them
    PLACE.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(PLACE / "base", ignore_errors=True)
    shutil.copytree(SOURCE, PLACE / "base" / "gnpool")
    found = make_map(mutants, options.only, options.map, options.slow, options.jobs)
    outcomes = {name: one for name, one in kept("mutants").get("outcomes", {}).items() if name in parts}
    reasons = read(REASONS)
    alive = {name for name, one in outcomes.items() if one["outcome"] != "killed"} - set(reasons)
    todo = [m for m in mutants if (m.id in alive if options.again else m.id not in outcomes)]
    todo = [m for m in todo if options.only in (None, m.part)][: options.most]
    choices = {mutant.id: chosen(mutant, found, options.seconds) for mutant in todo}
    most = int(30 + 3 * options.seconds)
    work = [(m.id, functools.partial(tried, m, choices[m.id], most)) for m in todo if choices[m.id]]
    answers = itertools.chain(
        ((name, {"outcome": "not covered"}) for name, ids in choices.items() if not ids),
        ((name, outcome(answer)) for name, answer, _ in side_by_side(work, PLACE, options.jobs, 5 * most)),
    )
    for number, (name, one) in enumerate(answers, start=1):
        outcomes[name] = {"part": parts[name], **one}
        print(f"{number} of {len(todo)}: {one['outcome']} {name}", flush=True)
        keep("mutants", {"seed": SEED, "sample": wanted, "outcomes": dict(sorted(outcomes.items()))})
    print(shares(outcomes, reasons))
    return int(any(one["outcome"] != "killed" and name not in reasons for name, one in outcomes.items()))


if __name__ == "__main__":
    sys.exit(main())
