"""The readers give the right data, and answer bad input with one line that says what is wrong and where."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gnpool.data import DataError, GraphTable, csv_blocks, read_graphs
from gnpool.data.files import Files

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("GNPOOL_DATA", ROOT.parent / "shared" / "data"))
GRAPHS = "graph,y\na,2.5\nb,1\n"
NODES = "graph,node,mass,kind\na,1,0.5,C\nb,7,1,N\na,2,,C\na,3,-4,<script>\nb,8,3e3,\n"
EDGES = "graph,source,target\na,1,2\na,2,3\nb,8,7\na,2,1\n"
TU = {
    "T_A.txt": "1, 2\n2, 1\n3,4\n4,3\n",
    "T_graph_indicator.txt": "1\n1\n2\n2\n2\n",
    "T_graph_labels.txt": "1\n-1\n",
    "T_node_labels.txt": "3\n5\n3\n3\n5\n",
    "T_node_attributes.txt": "0.5, 1\n-1, 2\n0, 3\n0, 4\n0, 5\n",
}


def tables(folder: Path, **texts: str | None) -> Path:
    found = {"graphs": GRAPHS, "nodes": NODES, "edges": EDGES, **texts}
    folder.mkdir(exist_ok=True)
    for name, text in found.items():
        if text is not None:
            (folder / f"{name}.csv").write_text(text)
    return folder


def packed(path: Path, texts: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in texts.items():
            file.writestr(name, text)
    return path


def check_tables(table: GraphTable) -> None:
    assert table.names.tolist() == ["a", "b"]
    assert table.sizes.tolist() == [3, 2]
    assert table.edge_index is not None
    assert table.edge_index.tolist() == [[1, 0, 2, 1, 4, 3], [0, 1, 1, 2, 3, 4]]
    assert table.edge_counts.tolist() == [4, 2]
    mass, kind = table.features
    np.testing.assert_array_equal(mass.values, [0.5, np.nan, -4, 1, 3000])
    assert kind.categories == ("<script>", "C", "N")
    assert kind.values.tolist() == [1, 1, 0, 2, -1]
    assert table.y is not None
    assert table.y.values.tolist() == [2.5, 1]
    assert table.node_names is not None
    assert table.node_names.tolist() == [1, 2, 3, 7, 8]


def test_tables(tmp_path: Path) -> None:
    check_tables(read_graphs(tables(tmp_path / "d")))


def test_tables_in_small_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_blocks, "ROWS", 2)
    check_tables(read_graphs(tables(tmp_path / "d")))


def test_tables_in_a_zip_with_bom_and_windows_line_ends(tmp_path: Path) -> None:
    texts = {
        "d/graphs.csv": "\ufeff" + GRAPHS,
        "d/nodes.csv": NODES.replace("\n", "\r\n"),
        "d/edges.csv": EDGES + "\n\n",
    }
    check_tables(read_graphs(packed(tmp_path / "d.zip", texts)))


def test_tables_as_parquet(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    folder = tables(tmp_path / "csv")
    (tmp_path / "d").mkdir()
    options = pc.ConvertOptions(strings_can_be_null=True)
    for name in ("graphs", "nodes", "edges"):
        pq.write_table(pc.read_csv(folder / f"{name}.csv", convert_options=options), tmp_path / "d" / f"{name}.parquet")
    check_tables(read_graphs(tmp_path / "d"))


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    tables(tmp_path / "d", nodes=None)
    (tmp_path / "d" / "nodes.parquet").write_bytes(b"PAR1")
    with pytest.raises(ImportError, match=r"pip install 'gnpool\[data\]'"):
        read_graphs(tmp_path / "d")


def test_options_of_tables(tmp_path: Path) -> None:
    folder = tables(
        tmp_path / "d",
        graphs="graph,note,label\n10,x,hit\n2,y,miss\n",
        nodes="graph,node,kind,junk\n2,0,6,q\n10,0,7,r\n10,1,6,s\n",
        edges="graph,source,target,weight\n10,0,1,0.5\n10,1,1,1\n",
    )
    table = read_graphs(folder, y="label", directed=True, categorical=["kind"], ignore=["junk"])
    assert table.names.tolist() == [10, 2]
    assert table.sizes.tolist() == [2, 1]
    assert table.edge_index is not None
    assert table.edge_index.tolist() == [[0, 1], [1, 1]]
    assert [(c.name, c.categories, c.values.tolist()) for c in table.features] == [
        ("kind", ("6", "7"), [1, 0, 0]),
        ("graph.note", ("x", "y"), [0, 0, 1]),
    ]
    assert table.y is not None
    assert (table.y.categories, table.y.values.tolist()) == (("hit", "miss"), [0, 1])
    assert table.notes == ()
    assert [(c.name, c.values.tolist()) for c in table.edge_attr] == [("weight", [0.5, 1])]


def test_sets_and_node_targets(tmp_path: Path) -> None:
    sets = read_graphs(tables(tmp_path / "s", nodes="graph,v\nb,1\na,2\nb,3\n", edges=None))
    assert sets.edge_index is None
    assert sets.sizes.tolist() == [1, 2]
    assert sets.features[0].values.tolist() == [2, 1, 3]
    nodes = tables(tmp_path / "n", graphs=None, nodes="graph,node,v,y\nz,1,1,5\ny,1,2,6\nz,2,3,7\n", edges=None)
    table = read_graphs(nodes, "node")
    assert table.names.tolist() == ["z", "y"]
    assert table.y is not None
    assert table.y.values.tolist() == [5, 7, 6]
    assert [column.name for column in table.features] == ["v"]


def test_unlabelled(tmp_path: Path) -> None:
    table = read_graphs(tables(tmp_path / "d", graphs=None), labelled=False)
    assert table.y is None
    assert table.names.tolist() == ["a", "b"]


@pytest.mark.parametrize("ids", [["01", "1"], ["1", "x"], ["99999999999999999999", "1"]])
def test_names_of_graphs(ids: list[str], tmp_path: Path) -> None:
    folder = tables(
        tmp_path / "d",
        graphs="graph,y\n" + "".join(f"{i},1\n" for i in ids),
        nodes="graph,node\n" + "".join(f"{i},{k}\n" for i in ids[::-1] for k in (0, 2**62)),
        edges=f"graph,source,target\n{ids[1]},0,{2**62}\n",
    )
    table = read_graphs(folder)
    assert table.names.tolist() == ids
    assert table.sizes.tolist() == [2, 2]
    assert table.edge_index is not None
    assert table.edge_index.tolist() == [[3, 2], [2, 3]]


def test_select() -> None:
    graphs = [
        Data(x=torch.arange(n * 2.0).view(n, 2), edge_index=torch.tensor([[0, n - 1], [n - 1, 0]]), y=torch.tensor([n]))
        for n in (2, 3, 4)
    ]
    table = read_graphs(graphs).select(np.array([2, 0]))
    again = read_graphs([graphs[2], graphs[0]])
    assert table.edge_index is not None
    assert again.edge_index is not None
    np.testing.assert_array_equal(table.edge_index, again.edge_index)
    np.testing.assert_array_equal(table.features[1].values, again.features[1].values)
    assert table.y is not None
    assert table.y.values.tolist() == [4, 2]
    assert table.names.tolist() == [2, 0]


def check_tu(table: GraphTable) -> None:
    assert table.sizes.tolist() == [2, 3]
    assert table.edge_index is not None
    assert table.edge_index.tolist() == [[1, 0, 3, 2], [0, 1, 2, 3]]
    label, first, second = table.features
    assert (label.categories, label.values.tolist()) == (("3", "5"), [0, 1, 0, 0, 1])
    assert first.values.tolist() == [0.5, -1, 0, 0, 0]
    assert second.values.tolist() == [1, 2, 3, 4, 5]
    assert table.y is not None
    assert (table.y.categories, table.y.values.tolist()) == (("-1", "1"), [1, 0])


@pytest.mark.parametrize("place", ["folder", "raw", "zip"])
def test_tu(place: str, tmp_path: Path) -> None:
    if place == "zip":
        check_tu(read_graphs(packed(tmp_path / "T.zip", {f"T/{name}": text for name, text in TU.items()})))
        return
    folder = tmp_path / "T" / "raw" if place == "raw" else tmp_path / "T"
    folder.mkdir(parents=True)
    for name, text in TU.items():
        (folder / name).write_text(text)
    check_tu(read_graphs(tmp_path / "T"))


@pytest.mark.parametrize(
    ("name", "graphs", "nodes", "edges", "columns"),
    [("PROTEINS", 1113, 43471, 162088, 2), ("NCI1", 4110, 122747, 265506, 1)],
)
def test_tu_collection(name: str, graphs: int, nodes: int, edges: int, columns: int) -> None:
    path = SHARED / "tudataset" / f"{name}.zip"
    if not path.exists():
        pytest.skip(f"{path} is not there; set GNPOOL_DATA")
    table = read_graphs(path)
    assert table.edge_index is not None
    assert len(table.sizes) == graphs
    assert int(table.sizes.sum()) == nodes
    assert len(table.features) == columns
    assert table.edge_index.shape[1] == edges


def graphs_of(count: int = 3) -> list[Data]:
    return [
        Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]]), y=torch.tensor([1.0 * k])) for k in range(count)
    ]


def test_pt(tmp_path: Path) -> None:
    torch.save(graphs_of(), tmp_path / "d.pt")
    table = read_graphs(tmp_path / "d.pt")
    assert table.y is not None
    assert table.y.values.tolist() == [0, 1, 2]
    assert table.edge_index is not None
    assert table.edge_index.tolist() == [[0, 2, 4], [1, 3, 5]]


def test_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine11.py").write_text(
        "import torch\nfrom torch_geometric.data import Data\n"
        "def graphs():\n    return [Data(num_nodes=2, y=3.0)]\nnumber = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    table = read_graphs("mine11:graphs")
    assert table.sizes.tolist() == [2]
    assert table.features == ()
    with pytest.raises(DataError, match="mine11:number: the module has no function 'number'"):
        read_graphs("mine11:number")
    with pytest.raises(DataError, match="there is no module 'nowhere11'"):
        read_graphs("nowhere11:graphs")


def test_functions_give_what_read_graphs_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine13.py").write_text(
        "import networkx as nx, numpy as np\n"
        "def graphs():\n    return [nx.disjoint_union(nx.Graph(mass=n), nx.path_graph(n)) for n in (2, 3)]\n"
        "def one():\n    return nx.star_graph(3)\n"
        "class Frame(dict):\n"
        "    columns = property(lambda self: list(self))\n"
        "    shape = property(lambda self: (len(next(iter(self.values()))), len(self)))\n"
        "def frames():\n"
        "    return {'graphs': Frame(graph=['a', 'b'], mass=[1.0, 2.0]), 'nodes': Frame(graph=['a', 'b', 'b'])}\n"
    )
    monkeypatch.chdir(tmp_path)
    table = read_graphs("mine13:graphs", y="mass")
    assert table.y is not None
    assert (table.sizes.tolist(), table.y.values.tolist()) == ([2, 3], [2, 3])
    table = read_graphs("mine13:frames", y="mass")
    assert table.y is not None
    assert (table.sizes.tolist(), table.y.values.tolist(), table.edge_index) == ([1, 2], [1, 2], None)
    with pytest.raises(DataError, match="mine13:one: the graphs have no attribute 'y'"):
        read_graphs("mine13:one")


WITHOUT_COLUMNS: dict[str, Any] = {"y": "mass", "part": "part", "categorical": ["mass"], "ignore": ["mass"]}


@pytest.mark.parametrize("argument", WITHOUT_COLUMNS)
def test_columns_are_refused_where_there_are_none(argument: str, tmp_path: Path) -> None:
    for name, text in TU.items():
        (tmp_path / name).write_text(text)
    asked = {argument: WITHOUT_COLUMNS[argument]}
    graphs = [Data(num_nodes=2, y=3.0)]
    torch.save(graphs, tmp_path / "graphs.pt")
    for source in (graphs, tmp_path / "graphs.pt", tmp_path):
        with pytest.raises(ValueError, match=f"'{argument}' names a column of a table, got '"):
            read_graphs(source, **asked)
    if argument == "y":  # data without targets needs no name for them
        assert read_graphs(graphs, labelled=False, **asked).y is None


BAD_FUNCTIONS = {
    "raises": (
        "def graphs():\n    raise RuntimeError('line\\nby line')",
        r"did not return a list of graphs \(RuntimeError: line by l",
    ),
    "none": ("def graphs(): pass", r"did not return a list of graphs \(TypeError: 'NoneType' object is not iterable\)"),
    "argument": (
        "def graphs(n): return n",
        r"did not return a list of graphs \(TypeError: graphs\(\) missing 1 required",
    ),
    "stops on the way": (
        "def graphs():\n    yield 1\n    assert False",
        r"did not return a list of graphs \(AssertionError\)",
    ),
    "others": ("def graphs(): return [1]", r"expected a list of Data, got int as graph 0"),
    "syntax": ("def graphs(:", r"the module cannot be imported \(SyntaxError: "),
    "its import": ("import nowhere12", r"there is no module 'nowhere12'"),
}


@pytest.mark.parametrize(("name", "code", "message"), [(k, *v) for k, v in BAD_FUNCTIONS.items()], ids=BAD_FUNCTIONS)
def test_functions_that_fail(
    name: str, code: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "mine_" + name.replace(" ", "_")
    (tmp_path / f"{module}.py").write_text(code + "\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=f"{module}:graphs: .*{message}") as caught:
        read_graphs(f"{module}:graphs")
    assert len(str(caught.value).splitlines()) == 1


BAD_TABLES: dict[str, tuple[dict[str, str | None], str]] = {
    "missing column": (
        {"nodes": "graph,mass\na,1\n"},
        r"nodes.csv, line 1: the column 'node' is missing; the columns are 'gr",
    ),
    "missing target": ({"graphs": "graph,label\na,1\n"}, r"graphs.csv, line 1: the column 'y' with the target is miss"),
    "missing file": ({"nodes": None}, r"d: there is no nodes.csv \(or .parquet\)"),
    "NaN target": ({"graphs": "graph,y\na,1\n\nb,nan\n"}, r"graphs.csv, line 4, column 'y': the target is missing"),
    "empty target": ({"graphs": "graph,y\na,x\nb,\n"}, r"graphs.csv, line 3, column 'y': the target is missing"),
    "infinite value": ({"nodes": NODES + "b,9,-inf,C\n"}, r"nodes.csv, line 7, column 'mass': the value is infinite"),
    "infinite target": ({"graphs": "graph,y\na,inf\nb,1\n"}, r"line 2, column 'y': the target is infinite"),
    "unknown graph": ({"nodes": NODES + "c,1,1,C\n"}, r"nodes.csv, line 7, column 'graph': the graph 'c' is not in"),
    "unknown graph of edge": ({"edges": EDGES + "c,1,1\n"}, r"edges.csv, line 6, column 'graph': the graph 'c' is not"),
    "unknown node": ({"edges": EDGES + "a,1,9\n"}, r"edges.csv, line 6, column 'target': graph 'a' has no node '9'"),
    "node of another graph": (
        {"edges": "graph,source,target\na,7,1\n"},
        r"line 2, column 'source': graph 'a' has no no",
    ),
    "graph twice": ({"graphs": GRAPHS + "a,1\n"}, r"graphs.csv, line 4, column 'graph': the graph 'a' is repeated"),
    "node twice": (
        {"nodes": NODES + "b,7,1,C\n"},
        r"nodes.csv, line 7, column 'node': the node '7' of graph 'b' is repeated",
    ),
    "graph without nodes": (
        {"graphs": GRAPHS + "c,1\n"},
        r"graphs.csv, line 4, column 'graph': the graph 'c' has no no",
    ),
    "mixed column": ({"nodes": NODES + "b,9,12;5,C\n"}, r"nodes.csv, line 7, column 'mass': '12;5' is not a number"),
    "ragged": ({"nodes": NODES + "b,9\n"}, r"nodes.csv, line 7: it has 2 columns, but the header has 4"),
    "decimal commas": ({"graphs": "graph;y\na;1\nb;2,5\n"}, r"graphs.csv, line 3, column 'y': '2,5' is not a number"),
    "edge twice": (
        {"edges": "graph,source,target,w\na,1,2,5\na,2,3,5\na,1,2,6\n"},
        r"edges.csv, line 4: the edge comes twice, with different values of 'w'",
    ),
    "column twice": ({"graphs": "graph,y,y\na,1,1\n"}, r"graphs.csv, line 1: it names 'y' twice"),
    "column without name": ({"graphs": "graph,y,\na,1,1\n"}, r"graphs.csv, line 1: column 3 has no name"),
    "empty file": ({"graphs": ""}, r"graphs.csv: the file is empty"),
    "no rows": ({"graphs": "graph,y\n"}, r"graphs.csv: it has no rows"),
    "open quote": ({"graphs": 'graph,y\na,"1\n'}, r"graphs.csv, line 2: it is not CSV"),
    "empty name": ({"nodes": NODES + ",1,1,C\n"}, r"nodes.csv, line 7, column 'graph': the name is empty"),
    "script in names": (
        {"edges": "graph,source,target\n<script>\x1b[2J,1,1\n"},
        r"column 'graph': the graph '<script>\\x1b\[2J' is not in",
    ),
    "quoted line breaks": (
        {"graphs": 'graph,note,y\na,"x\ny",1\nb,z,oops\n'},
        r"line 4, column 'y': 'oops' is not a num",
    ),
}


@pytest.mark.parametrize(("texts", "message"), BAD_TABLES.values(), ids=BAD_TABLES)
def test_bad_tables(texts: dict[str, str | None], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_graphs(tables(tmp_path / "d", **texts))
    assert len(str(caught.value).splitlines()) == 1
    assert "\x1b" not in str(caught.value)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    folder = tables(tmp_path / "d")
    (folder / "nodes.csv").write_bytes(b"graph,node\na,1\n\na,\xff\xfe\n")
    with pytest.raises(DataError, match=r"nodes.csv, line 4: it is not UTF-8 text"):
        read_graphs(folder)


@pytest.mark.parametrize("option", ["categorical", "ignore"])
def test_columns_that_are_not_there(option: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no table has the column 'colour'"):
        read_graphs(tables(tmp_path / "e"), **{option: ["mass", "colour"]})  # type: ignore[arg-type]


def test_targets_do_not_matter_to_a_prediction(tmp_path: Path) -> None:
    table = read_graphs(tables(tmp_path / "d", graphs="graph,y\na,inf\nb,\n"), labelled=False)
    assert table.sizes.tolist() == [3, 2]
    wrong = [Data(x=torch.ones(2, 1), y=torch.ones(5)), Data(x=torch.ones(3, 1))]
    assert read_graphs(wrong, labelled=False).y is None


BAD_TU: dict[str, tuple[dict[str, str], str]] = {
    "unknown node": ({"T_A.txt": "1, 2\n2, 9\n"}, r"T_A.txt, line 2: node 9 does not exist: there are 5"),
    "node 0": ({"T_A.txt": "0, 1\n"}, r"T_A.txt, line 1: node 0 does not exist"),
    "between graphs": ({"T_A.txt": "1, 2\n2, 3\n"}, r"T_A.txt, line 2: the edge joins two graphs"),
    "words": ({"T_A.txt": "1, 2\nx, 3\n"}, r"T_A.txt, line 2: expected 2 numbers with commas between them, got 'x, 3'"),
    "one column": ({"T_A.txt": "1, 2\n3\n"}, r"T_A.txt, line 2: expected 2 numbers"),
    "fractions": ({"T_node_labels.txt": "1\n2.5\n1\n1\n1\n"}, r"T_node_labels.txt, line 2: expected whole numbers"),
    "fewer labels": ({"T_node_labels.txt": "1\n2\n"}, r"T_node_labels.txt: it has 2 lines, but there are 5 nodes"),
    "fewer targets": ({"T_graph_labels.txt": "1\n"}, r"T_graph_labels.txt: it has 1 lines, but there are 2 graphs"),
    "order": ({"T_graph_indicator.txt": "1\n2\n1\n2\n2\n"}, r"line 3: the nodes of a graph must stand together"),
    "empty": ({"T_graph_indicator.txt": ""}, r"T_graph_indicator.txt: it is empty"),
    "infinite": (
        {"T_node_attributes.txt": "1, 2\n3, 4\n5, inf\n7, 8\n9, 10\n"},
        r"T_node_attributes.txt, line 3, column 'attribute1': the value is infinite",
    ),
    "two sets": ({"U_A.txt": ""}, r"expected one NAME_A.txt, got 'T_A.txt', 'U_A.txt'"),
}


@pytest.mark.parametrize(("texts", "message"), BAD_TU.values(), ids=BAD_TU)
def test_bad_tu(texts: dict[str, str], message: str, tmp_path: Path) -> None:
    path = packed(tmp_path / "T.zip", {f"T/{name}": text for name, text in {**TU, **texts}.items()})
    with pytest.raises(DataError, match=message):
        read_graphs(path)


def claims_much(path: Path) -> None:
    """A zip whose directory claims a size that it does not have."""
    packed(path, {"T/T_A.txt": "1, 2\n" * 1000})
    data = bytearray(path.read_bytes())
    for mark, place in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        at = data.index(mark) + place
        data[at : at + 4] = (4_000_000_000).to_bytes(4, "little")
    path.write_bytes(bytes(data))


def scrambled(path: Path) -> None:
    torch.save(graphs_of(), path)
    data = bytearray(path.read_bytes())
    at = data.index(b"edge_index")
    data[at : at + 10] = b"\xff" * 10
    path.write_bytes(bytes(data))


class Bomb:
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mkdir, (str(BOMB_MADE),)


BOMB_MADE = Path("bomb_made")
BAD_FILES: dict[str, tuple[Callable[[Path], Any], str, str]] = {
    "nothing": (lambda p: None, "x", r"x: there is no such file or folder"),
    "empty folder": (lambda p: p.mkdir(), "x", r"x: it has neither graphs.csv and nodes.csv"),
    "no zip": (lambda p: p.write_bytes(b"hello"), "x.zip", r"x.zip: it is not a zip that can be read"),
    "text": (lambda p: p.write_bytes(b"hello"), "x.txt", r"x.txt: it is neither a folder, a zip nor a .pt"),
    "one table": (
        lambda p: p.write_text(GRAPHS),
        "x.csv",
        r"x.csv: it is one table; give the folder that holds graphs",
    ),
    "leads out": (
        lambda p: packed(p, {"../../T_A.txt": ""}),
        "x.zip",
        r"it has a file '../../T_A.txt', which leads out",
    ),
    "absolute": (lambda p: packed(p, {"/etc/T_A.txt": ""}), "x.zip", r"it has a file '/etc/T_A.txt', which leads out"),
    "drive": (lambda p: packed(p, {"C:/T_A.txt": ""}), "x.zip", r"it has a file 'C:/T_A.txt', which leads out"),
    "twice": (lambda p: packed(p, {"a/T_A.txt": "", "b/T_A.txt": ""}), "x.zip", r"it has two files 'T_A.txt'"),
    "absurd size": (claims_much, "x.zip", r"it unpacks to 4.0 GB or more, which is absurd for \d+ bytes"),
    "no list": (
        lambda p: torch.save(torch.ones(()), p),
        "x.pt",
        r"x.pt: expected a list of Data, got a single Tensor",
    ),
    "a graph": (lambda p: torch.save(graphs_of()[0], p), "x.pt", r"x.pt: expected a list of Data, got a single Data"),
    "a dict": (lambda p: torch.save({"a": 1}, p), "x.pt", r"x.pt: expected a list of Data, got a single dict"),
    "damaged list": (scrambled, "x.pt", r"x.pt: it cannot be read \("),
    "no graphs": (lambda p: torch.save([], p), "x.pt", r"x.pt: there are no graphs"),
    "no Data": (lambda p: torch.save([{"x": 1}], p), "x.pt", r"x.pt: expected a list of Data, got dict as graph 0"),
    "bomb": (lambda p: torch.save([Bomb()], p), "x.pt", r"x.pt: it holds objects other than tensors and PyTorch Geom"),
    "no torch": (lambda p: p.write_bytes(b"\x80\x02."), "x.pt", r"x.pt: it is not a file of torch.save"),
    "other zip": (lambda p: packed(p, {"a": "b"}), "x.pt", r"x.pt: "),
}


@pytest.mark.parametrize(("make", "name", "message"), BAD_FILES.values(), ids=BAD_FILES)
def test_bad_files(
    make: Callable[[Path], Any], name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make(tmp_path / name)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DataError, match=message) as caught:
        read_graphs(tmp_path / name)
    assert len(str(caught.value).splitlines()) == 1
    assert sorted(tmp_path.rglob("*")) == before  # nothing unpacked, no code run
    assert not BOMB_MADE.exists()


def test_a_damaged_zip_is_named(tmp_path: Path) -> None:
    path = packed(tmp_path / "T.zip", {f"T/{name}": text * 50 for name, text in TU.items()})
    data = bytearray(path.read_bytes())
    data[60:90] = bytes(30)
    path.write_bytes(bytes(data))
    files = Files(path)
    with pytest.raises(DataError, match=r"T_A.txt: it (is damaged|cannot be read)"), files.open("T_A.txt") as file:
        file.read()


BAD_LISTS: dict[str, tuple[list[Any], str]] = {
    "mixed": ([*graphs_of(1), Data(x=torch.ones(2, 1), y=1.0)], r"graph 1 \(from 0\) has no edge_index, but others"),
    "widths": ([Data(x=torch.ones(2, 1), y=1.0), Data(x=torch.ones(2, 3), y=1.0)], r"graph 1 .* has 3 features, but"),
    "no x": ([Data(y=1.0)], r"graph 0 \(from 0\) must have 'x' or 'num_nodes'"),
    "no nodes": ([Data(x=torch.ones(0, 1), y=1.0)], r"graph 0 \(from 0\) has no nodes"),
    "no y": ([Data(x=torch.ones(2, 1))], r"'y' of graph 0 \(from 0\) must be one number, got nothing"),
    "long y": (
        [Data(x=torch.ones(2, 1), y=torch.ones(2))],
        r"'y' of graph 0 .* got shape \[2\]; targets of nodes need --target",
    ),
    "NaN": ([Data(x=torch.ones(2, 1), y=float("nan"))], r"column 'y': the target is missing \(item 0, from 0\)"),
    "edges": (
        [Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [2]]), y=1.0)],
        r"'edge_index' of graph 0 .* names a node that it does not have: \[0, 2\], of 2 nodes",
    ),
    "float edges": (
        [Data(x=torch.ones(2, 1), edge_index=torch.ones(2, 3), y=1.0)],
        r"'edge_index' of graph 0 \(from 0\) must be integers of shape \(2, E\)",
    ),
    "words": ([Data(x=torch.ones(2, 1), y="a")], r"'y' of graph 0 \(from 0\) must be one number, got str"),
    "sparse": (
        [Data(x=torch.ones(2, 1).to_sparse(), y=1.0)],
        r"'x' of graph 0 .* dense tensor of real numbers, got to",
    ),
    "complex": ([Data(x=torch.ones(2, 1) * 1j, y=1.0)], r"'x' of graph 0 .* dense tensor of real numbers, got torch.s"),
    "infinite": (
        [Data(x=torch.ones(2, 2), y=1.0), Data(x=torch.tensor([[1.0, -torch.inf]]), y=1.0)],
        r"'x' of graph 1 \(from 0\) has an infinite value in column 1",
    ),
    "3-d": ([Data(x=torch.ones(2, 1, 1), y=1.0)], r"'x' of graph 0 \(from 0\) must be a 2-d tensor, got \[2, 1, 1\]"),
}


@pytest.mark.parametrize(("graphs", "message"), BAD_LISTS.values(), ids=BAD_LISTS)
def test_bad_lists(graphs: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_graphs(graphs)


def test_level() -> None:
    with pytest.raises(ValueError, match="'level' must be one of"):
        read_graphs(graphs_of(), "edge")
