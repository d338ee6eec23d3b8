"""Checks the form of ``results.json``, which anybody may have changed. Errors name the place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Check = Callable[[Any, str], None]


def check_tables(tables: Any) -> None:
    """Raise a ``ValueError`` that names the place if these are not tables."""
    _TABLES(tables, "tables")


def _one_of(words: str, *types: type) -> Check:
    def check(value: Any, place: str) -> None:
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise ValueError(f"'{place}' must be {words}, got {type(value).__name__}")

    return check


def _maybe(check: Check) -> Check:
    return lambda value, place: None if value is None else check(value, place)


def _each(check: Check) -> Check:
    def whole(value: Any, place: str) -> None:
        _LIST(value, place)
        for number, one in enumerate(value):
            check(one, f"{place}[{number}]")

    return whole


def _by_name(check: Check) -> Check:
    def whole(value: Any, place: str) -> None:
        _OBJECT(value, place)
        for name, one in value.items():
            check(one, f"{place}.{name}")

    return whole


def _fields(needed: Mapping[str, Check], others: Mapping[str, Check]) -> Check:
    """An object with some fields; further ones may hold anything."""

    def whole(value: Any, place: str) -> None:
        _OBJECT(value, place)
        for name in needed:
            if name not in value:
                raise ValueError(f"'{place}' has no {name!r}")
        for name, check in {**needed, **others}.items():
            if name in value:
                check(value[name], f"{place}.{name}")

    return whole


_OBJECT, _LIST = _one_of("an object", dict), _one_of("a list", list)
_TEXT, _NUMBER, _BOOL = _one_of("text", str), _one_of("a number", int, float), _one_of("true or false", bool)
_SUMMARY = _fields(
    {"mean": _maybe(_NUMBER)},
    {
        "std": _maybe(_NUMBER),
        "median": _maybe(_NUMBER),
        "runs": _maybe(_each(_maybe(_NUMBER))),
        "failed": _maybe(_NUMBER),
    },
)
_CELL = _fields(
    {"row": _TEXT, "column": _TEXT},
    {
        "ours": _maybe(_SUMMARY),
        "by_metric": _maybe(_SUMMARY),
        "paper": _maybe(_SUMMARY),
        "metric": _maybe(_TEXT),
        "verdict": _maybe(_TEXT),
        "gnp": _maybe(_BOOL),
        "form": _maybe(_TEXT),
        "forms": _by_name(_fields({"ours": _SUMMARY}, {"verdict": _TEXT})),
        "search": _maybe(_TEXT),
        "anew": _maybe(_TEXT),
        "published": _maybe(_each(_TEXT)),
        "curves": _maybe(_by_name(_each(_each(_maybe(_NUMBER))))),
    },
)
_META = _fields(
    {},
    {"versions": _maybe(_OBJECT), "seconds": _maybe(_NUMBER), "seeds": _maybe(_LIST), "search": _maybe(_TEXT)},
)
_TABLES = _each(
    _fields(
        {"table": _TEXT, "title": _TEXT, "metric": _TEXT, "cells": _each(_CELL)},
        {"rows_are": _maybe(_TEXT), "columns_are": _maybe(_TEXT), "meta": _META},
    )
)
