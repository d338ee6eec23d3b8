"""Small files that ask for gigabytes, and files that are not ordinary ones, are refused at once, in one line."""

from __future__ import annotations

import gzip
import os
import socket
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gnpool.data import DataError, EdgeListError, parse_edge_list, read_edge_list, read_graphs
from gnpool.data.limits import VARIABLE, check_need, memory_limit
from gnpool.data.tudataset import unpack
from gnpool.influence import CascadeGraph, load_monstor
from gnpool.models import SavedModelError, load_model
from gnpool.store.regular import NotRegularError, open_regular, read_regular

HUGE = 10**9
TABLES = {"graphs": "graph,y\na,1\n", "nodes": "graph,node\na,1\n", "edges": "graph,source,target\na,1,1\n"}


@contextmanager
def little_memory() -> Iterator[None]:
    """Fails if the block allocates much memory in Python or NumPy."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 200e6
    finally:
        tracemalloc.stop()


def pt(path: Path, *graphs: Data) -> Path:
    torch.save(list(graphs), path)
    return path


def packed_tables(path: Path) -> Path:
    path.mkdir()
    for name, text in TABLES.items():
        more = b"\n" * (70 << 20) if name == "nodes" else b""
        (path / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode() + more, 9))
    return path


def parquet(path: Path) -> Path:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path.mkdir()
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(10**6, dtype=np.int32)), pa.array(["a"]))
    for name, text in TABLES.items():
        (path / f"{name}.csv").write_text(text)
    (path / "nodes.csv").unlink()
    columns = {"graph": column, "node": column, **{f"c{k}": column for k in range(20)}}
    pq.write_table(pa.table(columns), path / "nodes.parquet", compression="zstd")
    return path


ONE = torch.ones(1)
GREEDY: dict[str, tuple[Callable[[Path], Path], str]] = {
    "num_nodes": (lambda p: pt(p / "x.pt", Data(num_nodes=HUGE, y=1.0)), r"x.pt: the graphs in it would need 64.0 GB"),
    "num_nodes of many": (lambda p: pt(p / "x.pt", *[Data(num_nodes=10**7, y=1.0)] * 100), r"would need 64.0 GB"),
    "num_nodes beyond 64 bits": (lambda p: pt(p / "x.pt", Data(num_nodes=2**70, y=1.0)), r"would need"),
    "expanded x": (lambda p: pt(p / "x.pt", Data(x=ONE.expand(HUGE, 1), y=1.0)), r"would need 72.0 GB"),
    "wide x": (lambda p: pt(p / "x.pt", Data(x=ONE.expand(2, HUGE), y=1.0)), r"would need 16.0 GB"),
    "expanded edges": (
        lambda p: pt(p / "x.pt", Data(x=torch.ones(1, 1), edge_index=torch.zeros(1).long().expand(2, HUGE), y=1.0)),
        r"would need 16.0 GB",
    ),
    "gzip": (packed_tables, r"nodes.csv.gz: it unpacks to \d+.\d MB or more, which is absurd for \d+.\d kB"),
}


@pytest.mark.parametrize(("make", "message"), GREEDY.values(), ids=GREEDY)
def test_what_asks_for_gigabytes(make: Callable[[Path], Path], message: str, tmp_path: Path) -> None:
    path = make(tmp_path / "d" if make is packed_tables else tmp_path)
    with little_memory(), pytest.raises(DataError, match=message) as caught:
        read_graphs(path)
    assert VARIABLE in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_parquet_file_that_asks_for_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = parquet(tmp_path / "d")
    monkeypatch.setenv(VARIABLE, "64M")
    with pytest.raises(DataError, match=r"nodes.parquet: a table of 1000000 rows and 22 columns would need 176.0 MB"):
        read_graphs(path)


def test_edge_lists_that_ask_for_gigabytes(tmp_path: Path) -> None:
    (tmp_path / "g.txt").write_text(f"{HUGE} 1\n0 1 0.5\n")
    with (
        little_memory(),
        pytest.raises(EdgeListError, match=r"g.txt: a graph of 1,000,000,000 nodes would need 64.0 GB .*LIMIT=60G"),
    ):
        read_edge_list(tmp_path / "g.txt")
    (tmp_path / "g.gz").write_bytes(gzip.compress(b"#" * (70 << 20)))
    with little_memory(), pytest.raises(EdgeListError, match=r"g.gz: it unpacks to \d+.\d MB or more"):
        read_edge_list(tmp_path / "g.gz")


def test_the_limit_can_be_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "g.txt").write_text(f"{HUGE} 1\n0 1 0.5\n")
    monkeypatch.setenv(VARIABLE, "60G")
    assert read_edge_list(tmp_path / "g.txt").nodes == HUGE
    monkeypatch.setenv(VARIABLE, "1M")
    with pytest.raises(DataError, match="would need"):
        read_graphs(pt(tmp_path / "x.pt", Data(num_nodes=100_000, y=1.0)))


@pytest.mark.parametrize(
    ("text", "bytes_"), [("", 2**30), ("16G", 2**34), ("1.5 GiB", 3 * 2**29), ("512m", 2**29), ("1000", 1000)]
)
def test_sizes(text: str, bytes_: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, text)
    assert memory_limit() == bytes_


@pytest.mark.parametrize("text", ["much", "-1", "0", "1 G G", "9" * 40])
def test_sizes_that_are_none(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(DataError, match=f"{VARIABLE} must be a size such as 16G"):
        memory_limit()


@pytest.mark.parametrize(
    ("need", "held", "fits"),
    [
        pytest.param(2**30, 0, True, id="the limit"),
        pytest.param(2**30 + 1, 0, False, id="above it"),
        pytest.param(200 * 10**7, 10**7, True, id="a large file may ask for more"),
        pytest.param(200 * 10**7 + 1, 10**7, False, id="but not for that"),
        pytest.param(2**33 + 1, 10**9, False, id="and none for more than 8 GiB"),
    ],
)
def test_what_may_be_asked_for(need: int, held: int, fits: bool) -> None:
    if fits:
        check_need(need, held, "it")
    else:
        with pytest.raises(DataError):
            check_need(need, held, "it")


def test_nodes_beyond_32_bits() -> None:
    """The product of source and nodes, plus the target, would not fit 64 bits."""
    nodes = 5_000_000_000
    text = f"{nodes} 4\n0 1 .5\n{nodes - 1} 0 .25\n4611686019 0 .125\n1 0 1\n"
    graph = parse_edge_list(text.encode())
    assert (graph.nodes, graph.source.tolist()) == (nodes, [0, nodes - 1, 4611686019, 1])
    ordered = CascadeGraph(nodes, graph.source, graph.target, graph.probability)
    assert ordered.source.tolist() == [1, 4611686019, nodes - 1, 0]
    assert ordered.probability.tolist() == [1, 0.125, 0.25, 0.5]
    with pytest.raises(EdgeListError, match=r"line 4: the edge 0 1 is already in line 2"):
        parse_edge_list(f"{nodes} 3\n0 1 .5\n{nodes - 1} 1 .5\n0 1 .5\n".encode())
    combined = parse_edge_list(f"{nodes} 3\n0 1 .5\n{nodes - 1} 1 .5\n0 1 .5\n".encode(), duplicates="combine")
    assert sorted(zip(combined.source.tolist(), combined.probability.tolist(), strict=True)) == [
        (0, 0.75),
        (nodes - 1, 0.5),
    ]


def pipe(path: Path) -> str:
    os.mkfifo(path)
    return "a pipe"


def device(path: Path) -> str:
    path.symlink_to("/dev/zero")
    return "a device"


def plug(path: Path) -> str:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))
    return "a socket"


def table(name: str) -> Callable[[Path, Callable[[Path], str]], Any]:
    def read(folder: Path, put: Callable[[Path], str]) -> Any:
        for one, text in TABLES.items():
            (folder / f"{one}.csv").write_text(text)
        (folder / f"{name}.csv").unlink()
        return put(folder / f"{name}.csv"), lambda: read_graphs(folder)

    return read


def alone(name: str, read: Callable[[Path], Any]) -> Callable[[Path, Callable[[Path], str]], Any]:
    return lambda folder, put: (put(folder / name), lambda: read(folder / name))


def tu(folder: Path, put: Callable[[Path], str]) -> Any:
    (folder / "T_graph_indicator.txt").write_text("1\n")
    return put(folder / "T_A.txt"), lambda: read_graphs(folder)


def weights(folder: Path, put: Callable[[Path], str]) -> Any:
    (folder / "model.json").write_text('{"format": 1, "spec": {}, "extra": {}, "weights": {"bytes": 8}}')
    return put(folder / "model.safetensors"), lambda: load_model(folder)


READERS = {
    "nodes.csv": table("nodes"),
    "edges.csv": table("edges"),
    "zip": alone("x.zip", read_graphs),
    "TU zip": alone("x.zip", lambda path: unpack(path, "X", path.parent / "raw")),
    "pt": alone("x.pt", read_graphs),
    "TU file": tu,
    "edge list": alone("x.txt", read_edge_list),
    "model.json": alone("model.json", lambda path: load_model(path.parent)),
    "model.safetensors": weights,
    "influence model": alone("x.safetensors", load_monstor),
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="such files are made on POSIX systems")
@pytest.mark.parametrize("put", [pipe, device, plug])
@pytest.mark.parametrize("prepare", READERS.values(), ids=READERS)
def test_only_ordinary_files_are_opened(
    prepare: Callable[..., Any], put: Callable[[Path], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    kind, read = prepare(Path(), put)
    opened: list[str] = []
    original = os.open

    def watched(path: Any, flags: int) -> int:
        opened.append(str(path))
        assert Path(path).is_file()  # else it would hang
        return original(path, flags)

    monkeypatch.setattr("gnpool.store.regular.os.open", watched)
    with pytest.raises(
        (DataError, SavedModelError, NotRegularError, OSError), match=f"it is {kind}; only ordinary files"
    ):
        read()
    assert all(Path(path).is_file() for path in opened)


def test_a_link_to_an_ordinary_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    (tmp_path / "b").symlink_to("a")
    assert read_regular(tmp_path / "b") == b"12345"
    assert read_regular(tmp_path / "b", 3) == b"1234"
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes have names on POSIX systems")
def test_a_pipe_that_takes_the_place_in_the_last_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("")
    about = (tmp_path / "file").stat()
    monkeypatch.setattr(Path, "stat", lambda self: about)
    with pytest.raises(NotRegularError, match="it is a pipe"):
        open_regular(tmp_path / "pipe")


def test_a_zip_of_honest_text_is_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "d.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        for name, text in TABLES.items():
            packed.writestr(f"{name}.csv.gz", gzip.compress(text.encode()))
    assert read_graphs(tmp_path / "d.zip").sizes.tolist() == [1]
