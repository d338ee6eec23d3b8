"""Data sets that are not part of the repository, for the tests that need them."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from pathlib import Path

import pytest

DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "data"


def use_real_data(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Point the test to the folder of zips and to a cache that all tests share, or skip it."""
    folder = Path(os.environ.get("GNPOOL_DATA") or DEFAULT)
    if not (folder / "tudataset" / "NCI1.zip").is_file():
        pytest.skip(f"there is no tudataset/NCI1.zip in {folder}; set GNPOOL_DATA to a folder that has it")
    monkeypatch.setenv("GNPOOL_DATA", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(_cache()))
    return folder


@functools.cache
def _cache() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="gnpool-data-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
