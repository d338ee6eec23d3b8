from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from gnpool.training import machine

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(machine.COMMIT, raising=False)
    machine.commit.cache_clear()
    yield
    machine.commit.cache_clear()


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    command = [str(shutil.which("git")), "-C", str(folder), *identity, *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "src" / "gnpool").mkdir(parents=True)
    (tmp_path / "src" / "gnpool" / "a.py").write_text("1\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    monkeypatch.setattr(machine, "ROOT", tmp_path)
    return tmp_path


def test_commit_of_a_source_tree(tree: Path) -> None:
    assert machine.commit() == git(tree, "rev-parse", "--short=7", "HEAD")
    assert machine.describe_machine(CPU)["commit"] == machine.commit()


def test_a_plus_tells_of_changes(tree: Path) -> None:
    (tree / "notes.txt").write_text("not the source\n")
    (tree / "src" / "gnpool" / "a.py").write_text("2\n")
    assert machine.commit() == git(tree, "rev-parse", "--short=7", "HEAD") + "+"


def test_changes_beside_the_source_do_not_count(tree: Path) -> None:
    (tree / "notes.txt").write_text("not the source\n")
    assert not str(machine.commit()).endswith("+")


def test_the_environment_tells_it(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(machine.COMMIT, "abc1234")
    assert machine.commit() == "abc1234"


def test_an_installed_package_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "ROOT", tmp_path)
    assert machine.commit() is None
    assert "commit" not in machine.describe_machine(CPU)


def test_a_tree_without_history_has_none(tree: Path) -> None:
    (tree / ".git" / "HEAD").unlink()
    assert machine.commit() is None
