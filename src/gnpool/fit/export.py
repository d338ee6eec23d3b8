"""Exports saved models to formats that run without gnpool."""

from __future__ import annotations

import tempfile
from pathlib import Path

from gnpool.fit.onnx import SIZES, example, onnx_bytes
from gnpool.fit.predict import model_folder, write_file
from gnpool.insight import export_model
from gnpool.models.folder import write_folder
from gnpool.models.hub import HUB_FILES, hub_files
from gnpool.models.saved import load_saved

FORMATS = ("onnx", "torch", "pyg", "hub")
PLAIN = ("model.py", "model.safetensors", "model.pt2")


def write_export(folder: str | Path, out: str | Path, form: str) -> list[Path]:
    r"""Writes a saved model as ONNX (``"onnx"``), as a program of :mod:`torch.export` (``"torch"``), as source and
    weights in plain PyTorch Geometric (``"pyg"``, a folder), or as the Hugging Face hub keeps models (``"hub"``, a
    folder with ``config.json`` and ``model.safetensors``).

    Args:
        folder (str or Path): The saved model.
        out (str or Path): The file or folder to write.
        form (str): The format.

    Returns:
        list[Path]: The files that were written.

    Example:
        >>> import tempfile
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool import GNPRegressor
        >>> from gnpool.fit import write_export
        >>> sets = [Data(x=torch.ones(n, 1), y=float(n)) for n in range(2, 12) for _ in range(5)]
        >>> with tempfile.TemporaryDirectory() as place:
        ...     saved = GNPRegressor(epochs=1, seeds=1).fit(sets).save(f"{place}/model")
        ...     files = write_export(saved, f"{place}/plain", "pyg")
        ...     print(sorted(path.name for path in files))
        ['model.pt2', 'model.py', 'model.safetensors']
    """
    if form not in FORMATS:
        raise ValueError(f"write_export: 'form' must be one of {FORMATS}, got {form!r}")
    out = Path(out)
    if form == "hub":
        return _write_folder(out, hub_files(model_folder(folder)), HUB_FILES)
    saved = load_saved(model_folder(folder))
    if form == "onnx":
        write_file(out, onnx_bytes(saved.model, saved.extra))
        return [out]
    with tempfile.TemporaryDirectory() as place:
        export_model(saved.model, place, example(saved.model, SIZES[0]))
        files = {name: (Path(place) / name).read_bytes() for name in PLAIN}
    if form == "torch":
        write_file(out, files["model.pt2"])
        return [out]
    return _write_folder(out, files, PLAIN)


def _write_folder(out: Path, files: dict[str, bytes], ours: tuple[str, ...]) -> list[Path]:
    """Files into a folder, which must be new, empty or one of these."""
    write_folder(out, files, replaces=lambda found: {path.name for path in found.iterdir()} <= set(ours))
    return [out / name for name in files]
