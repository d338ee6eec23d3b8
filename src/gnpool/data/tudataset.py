"""Graph classification sets of the TUDataset collection, from a local zip or downloaded by PyG."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

from torch_geometric.data import Data
from torch_geometric.datasets import TUDataset

from gnpool.data.errors import DataError
from gnpool.data.files import open_zip
from gnpool.data.limits import check_unpacked

VARIABLE = "GNPOOL_DATA"  # a folder with tudataset/NAME.zip
FOLDERS = {"D&D": "DD"}  # name in tables -> name in files
NEEDED = ("A", "graph_indicator", "graph_labels")


def tudataset(name: str, root: str | Path | None = None) -> list[Data]:
    r"""The graphs of a set such as ``"PROTEINS"``, ``"NCI1"`` or ``"D&D"``, as PyG reads them.

    Node labels become one-hot ``x``, and classes become ``y``, counted from 0; continuous attributes are left out. The
    files are taken from ``$GNPOOL_DATA/tudataset/NAME.zip`` if that exists, and downloaded by PyG otherwise.

    Args:
        name (str): Name of the set in the collection.
        root (str or pathlib.Path, optional): Where files are unpacked and kept.
            (default: ``gnpool/tudataset`` in the user's cache folder)

    Raises:
        OSError: If there is no zip and the download fails, or if the zip is not one of this set.
    """
    folder = folder_name(name)
    place = cache_folder() if root is None else Path(root)
    place.mkdir(parents=True, exist_ok=True)
    if not _is_ready(place / folder):
        _prepare(name, folder, place)
    return _read(place, folder)


def _prepare(name: str, folder: str, place: Path) -> None:
    """Unpack or download a set and let PyG read it elsewhere first, so that others see all of it or nothing."""
    archive = zip_of(name)
    with tempfile.TemporaryDirectory(dir=place, prefix=".reading-") as scratch:
        aside = Path(scratch) / folder
        if archive is not None:
            unpack(archive, folder, aside / "raw")
        try:
            _read(Path(scratch), folder)
        except Exception as error:
            if archive is not None:
                raise OSError(f"{archive}: PyG cannot read it ({error})") from error
            raise OSError(
                f"the data set {name!r} is not at hand and could not be downloaded ({error}); put {folder}.zip of the "
                f"TUDataset collection into a folder 'tudataset' and set {VARIABLE} to the folder above it"
            ) from error
        if not _is_ready(place / folder):
            shutil.rmtree(place / folder, ignore_errors=True)  # left by a version with another layout of files
        try:
            aside.rename(place / folder)
        except OSError:
            if not _is_ready(place / folder):  # otherwise another process was faster
                raise


def _read(place: Path, folder: str) -> list[Data]:
    with contextlib.redirect_stderr(io.StringIO()):  # silence PyG's messages
        graphs = TUDataset(str(place), folder)
    return [graphs[k] for k in range(len(graphs))]


def _is_ready(folder: Path) -> bool:
    return (folder / "processed" / "data.pt").is_file()


def at_hand(name: str, root: str | Path | None = None) -> bool:
    """Whether :func:`tudataset` needs no download."""
    folder = folder_name(name)
    place = cache_folder() if root is None else Path(root)
    return zip_of(name) is not None or _is_ready(place / folder)


def folder_name(name: str) -> str:
    """The name of a set in its files."""
    found = FOLDERS.get(name, name)
    if not re.fullmatch(r"[A-Za-z0-9_-]+", found):
        raise ValueError(f"tudataset: 'name' must be that of a set, such as 'PROTEINS', got {name!r}")
    return found


def zip_of(name: str) -> Path | None:
    """The zip of a set in the folder that the user named, if there is one."""
    folder = os.environ.get(VARIABLE)
    path = Path(folder) / "tudataset" / f"{folder_name(name)}.zip" if folder else None
    return path if path is not None and path.is_file() else None


def cache_folder() -> Path:
    """Where unpacked and processed sets are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gnpool" / "tudataset"


def unpack(archive: Path, folder: str, raw: Path) -> None:
    """Unpack the text files ``folder/folder_*.txt`` of a zip into ``raw``, and nothing else."""
    try:
        source, file = open_zip(archive)
        with file, source:
            found = {PurePosixPath(member): member for member in source.namelist()}
            for path, member in found.items():
                if path.is_absolute() or ".." in path.parts or "\\" in member:
                    raise OSError(f"{archive}: the member {member!r} points out of its folder")
            wanted = {
                path.name: member
                for path, member in found.items()
                if path.parent.name == folder and path.name.startswith(f"{folder}_") and path.suffix == ".txt"
            }
            missing = [part for part in NEEDED if f"{folder}_{part}.txt" not in wanted]
            if missing:
                raise OSError(f"{archive}: there is no {folder}/{folder}_{missing[0]}.txt in it")
            claimed = sum(source.getinfo(member).file_size for member in wanted.values())
            check_unpacked(claimed, archive.stat().st_size, str(archive))
            raw.mkdir(parents=True, exist_ok=True)
            for name, member in wanted.items():
                (raw / name).write_bytes(source.read(member))
    except (zipfile.BadZipFile, zipfile.LargeZipFile) as error:
        raise OSError(f"{archive}: {error}") from error
    except DataError as error:
        raise OSError(str(error)) from error
