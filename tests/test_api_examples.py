"""Every public class and function has an example in its docstring, which pytest runs as a doctest."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest

import gnpool

ROOMS = ["gnpool", *(f"gnpool.{room.name}" for room in pkgutil.iter_modules(gnpool.__path__) if room.ispkg)]
INNER = ["gnpool.insight.crystallize", "gnpool.insight.laws", "gnpool.tasks.arena"]  # public packages inside a room
EXCEPTIONS = {  # name: why its docstring has no example
    "gnpool.cli.main": "it runs the program and ends the process",
    "gnpool.engine.LostError": "it needs a Ray cluster",
    "gnpool.engine.RayEngine": "it needs a Ray cluster",
    "gnpool.engine.UnitError": "it needs a Ray cluster",
    "gnpool.fit.onnx_bytes": "it needs onnx and onnxscript, which are optional",
    "gnpool.lab.Runner": "it runs trainings; reproduce makes one",
    "gnpool.lab.register_table": "it changes the tables of the whole process; a page of the docs has the example",
    "gnpool.lab.reproduce": "it trains; the guide to the paper has the command",
    "gnpool.tasks.register": "it is another name of register_task",
    "gnpool.tasks.register_task": "it changes the tasks of the whole process; a page of the docs has the example",
    "gnpool.theory.WidthRow": "compare_widths, which gives it, takes many seconds",
    "gnpool.theory.compare_widths": "it takes many seconds",
    "gnpool.theory.run_checks": "it takes many seconds",
    "gnpool.theory.TheoryStudy": "run_study takes a minute; the tests of the room run it",
    "gnpool.theory.run_study": "it takes a minute; the tests of the room run it",
}


def public() -> Iterator[tuple[str, Any]]:
    """The classes and functions in the ``__all__`` of every public package, by name."""
    for package in [*ROOMS, *INNER]:
        module = importlib.import_module(package)
        for name in getattr(module, "__all__", []):
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isroutine(value):
                yield f"{package}.{name}", value


def lacks_example(value: Any) -> bool:
    return ">>> " not in (inspect.getdoc(value) or "")


@pytest.mark.parametrize(("name", "value"), list(public()), ids=lambda part: part if isinstance(part, str) else "")
def test_it_has_an_example(name: str, value: Any) -> None:
    assert lacks_example(value) == (name in EXCEPTIONS)


def test_no_exception_is_left_over() -> None:
    assert set(EXCEPTIONS) <= {name for name, _ in public()}


def test_a_missing_example_is_seen() -> None:
    def bare() -> None:
        """No example."""

    assert lacks_example(bare)
    assert not lacks_example(gnpool.norm_pool)
