"""Saved models as ONNX, through the plain form that :func:`gnpool.insight.export_model` writes."""

from __future__ import annotations

import importlib
import io
import json
import logging
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnpool.insight import export_model

METADATA = "gnpool"  # the entry that describes the preprocessing
OPSET = 18  # the first version whose scatter can take a maximum and a minimum
TOLERANCE = 1e-4  # relative to the largest output; sums in float32 may be taken in another order
SIZES = ([4, 6], [1, 30, 9, 2, 17])  # sizes of the graphs for the export, and of those for the check


def onnx_bytes(model: torch.nn.Module, extra: Mapping[str, Any] | None = None) -> bytes:
    r"""A network of :mod:`gnpool.models` as an ONNX file, which is checked in onnxruntime if that is installed.

    The inputs are those of ``x`` (N, d), ``edge_index`` (2, E), ``edge_attr`` (E, d_e) and ``ptr`` (G + 1,) that the
    network takes; N, E and G may be any numbers. It is exported with two graphs and checked with five of other sizes.
    A learned GNP is written with its exponents, in the operations of the reference.

    Args:
        model (torch.nn.Module): The network.
        extra (Mapping, optional): Stored as JSON in the metadata of the file.
    """
    _need("onnx")
    _need("onnxscript")
    with tempfile.TemporaryDirectory() as folder:
        export_model(model, folder, example(model, SIZES[0]))
        program = torch.export.load(Path(folder) / "model.pt2")
    table: dict[Any, Any] = {torch.ops.aten.searchsorted.Tensor: _searchsorted()}
    with _quiet():
        made = torch.onnx.export(
            program, dynamo=True, opset_version=OPSET, custom_translation_table=table, verbose=False
        )
    assert made is not None
    proto = made.model_proto
    if extra is not None:
        proto.metadata_props.add(key=METADATA, value=json.dumps(extra))
    data: bytes = proto.SerializeToString()
    _check(data, model)
    return data


def example(model: Any, sizes: list[int]) -> dict[str, Tensor]:
    """Random graphs of these sizes as input of a network."""
    generator = torch.Generator().manual_seed(0)
    width = getattr(model, "in_channels", 1)
    found = {"x": torch.rand(sum(sizes), width, generator=generator)}
    names = model.forward.__code__.co_varnames
    starts = np.cumsum([0, *sizes])
    level = getattr(model, "level", None)  # a law has a level, which decides on its inputs
    if "edge_index" in names and level != "set":
        edges = [
            torch.randint(0, n, (2, 2 * n), generator=generator) + int(s) for n, s in zip(sizes, starts, strict=False)
        ]
        found["edge_index"] = torch.cat(edges, dim=1)
        if channels := getattr(model, "edge_channels", 0):
            found["edge_attr"] = torch.rand(found["edge_index"].size(1), channels, generator=generator)
    if "ptr" in names and level != "node":
        found["ptr"] = torch.from_numpy(starts)
    return found


def _searchsorted() -> Any:
    """aten::searchsorted in operations of ONNX, for the single way in which plain models use it.

    It is called with ptr, the numbers 0, 1, ..., N - 1 and ``right=True``, and so counts the entries of ptr that are at
    most each number. That is a running count.
    """
    op = importlib.import_module("onnxscript").opset18

    def searchsorted(
        sorted_sequence: Any,
        values: Any,
        out_int32: bool = False,
        right: bool = False,
        side: Any = None,
        sorter: Any = None,
    ) -> Any:
        one = op.Constant(value_ints=[1])
        rows = op.Shape(values)
        marks = op.Expand(op.Constant(value_ints=[0]), op.Add(rows, one))
        ones = op.Expand(one, op.Shape(sorted_sequence))
        counts = op.CumSum(
            op.ScatterElements(marks, sorted_sequence, ones, axis=0, reduction="add"), op.Constant(value_ints=[0])
        )
        return op.Slice(counts, op.Constant(value_ints=[0]), rows, op.Constant(value_ints=[0]))

    return searchsorted


@torch.no_grad()
def _check(data: bytes, model: torch.nn.Module) -> None:
    """Compare with the network on graphs of other sizes."""
    try:
        runtime: Any = importlib.import_module("onnxruntime")
    except ImportError:
        warnings.warn("onnxruntime is not installed: the ONNX file was not checked", stacklevel=3)
        return
    inputs = example(model, SIZES[1])
    expected = model(**inputs).numpy()
    session = runtime.InferenceSession(data, providers=["CPUExecutionProvider"])
    found = session.run(None, {one.name: inputs[one.name].numpy() for one in session.get_inputs()})[0]
    scale = max(float(np.abs(expected).max()), 1e-30)
    if found.shape != expected.shape or not float(np.abs(found - expected).max()) <= TOLERANCE * scale:
        raise ValueError(
            "the ONNX file predicts other values than the model on graphs of other sizes; it was not written"
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the log and the warnings of the exporter."""
    talk, logger = io.StringIO(), logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stdout(talk), redirect_stderr(talk):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _need(package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        raise ImportError(f"ONNX needs {package}; install it with: pip install 'gnpool[export]'") from None
