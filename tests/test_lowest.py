"""What pyproject.toml, constraints.txt, constraints-lowest.txt and requirements-dev.lock say of versions agrees."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = ("data", "export", "ray", "report")  # what users install


def pins(name: str) -> dict[str, str]:
    lines = (ROOT / name).read_text().splitlines()
    found = [re.match(r"([\w.-]+)==([^\s\\]+)", line) for line in lines if line and not line.startswith(("#", " "))]
    assert all(found)
    return {canonicalize_name(one[1]): one[2] for one in found if one}


def requirements(*extras: str) -> dict[str, Requirement]:
    lists = [PROJECT["dependencies"], *(PROJECT["optional-dependencies"][extra] for extra in extras)]
    parsed = [Requirement(line) for lines in lists for line in lines]
    return {canonicalize_name(one.name): one for one in parsed if one.name != "gnpool"}


def test_every_lower_bound_is_tested() -> None:
    bounds = {name: str(one.specifier) for name, one in requirements(*EXTRAS).items()}
    assert bounds == {name: f">={trimmed(version)}" for name, version in pins("constraints-lowest.txt").items()}


def trimmed(version: str) -> str:
    """2.10.0 as people write it: 2.10."""
    return version.removesuffix(".0") if version.count(".") == 2 else version


@pytest.mark.parametrize("file", ["constraints.txt", "requirements-dev.lock"])
def test_what_tests_run_with_is_allowed(file: str) -> None:
    pinned, wanted = pins(file), requirements(*EXTRAS, "dev", "docs")
    assert set(wanted) - set(pinned) <= ({"triton"} if file == "constraints.txt" else set())
    assert [name for name, one in wanted.items() if name in pinned and pinned[name] not in one.specifier] == []


def test_the_lock_has_the_versions_of_the_constraints() -> None:
    locked = {name: version.removesuffix("+cpu") for name, version in pins("requirements-dev.lock").items()}
    constraints = pins("constraints.txt")
    assert {name: locked.get(name) for name in constraints} == constraints


def test_every_entry_of_the_lock_has_a_hash() -> None:
    text = (ROOT / "requirements-dev.lock").read_text()
    entries = [entry for entry in re.split(r"^(?=\S)", text, flags=re.MULTILINE) if entry and entry[0] != "#"]
    assert len(entries) == len(pins("requirements-dev.lock"))
    assert [entry for entry in entries if not re.search(r"--hash=sha256:[0-9a-f]{64}\b", entry)] == []


def test_this_environment_is_within_the_bounds() -> None:
    installed = {}
    for name in requirements(*EXTRAS):
        try:
            installed[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            assert name in requirements(*EXTRAS).keys() - requirements().keys()  # an extra may be missing
    low = pins("constraints-lowest.txt")
    assert [n for n, version in installed.items() if version not in requirements(*EXTRAS)[n].specifier] == []
    assert set(low) >= set(installed)
