"""Graphs of networkx as data, and the features of edges from every source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gnpool.data import DataError, GraphTable, from_networkx, read_graphs

nx = pytest.importorskip("networkx", reason="its graphs are what is read")


def molecules() -> list[Any]:
    water = nx.Graph(name="water", y=2.5)
    water.add_node("O", mass=16.0, kind="O", place=[0.0, 1.0])
    water.add_node("H1", mass=1, kind="H", place=(2.0, 3.0))
    water.add_node("H2", kind="H", place=np.array([4.0, 5.0]))
    water.add_edge("O", "H1", order=1, bond="single")
    water.add_edge("O", "H2", order=2)
    other = nx.DiGraph(y=1)
    other.add_node((0, 1), mass=True, kind="?", place=torch.tensor([6.0, 7.0]))
    other.add_edge((0, 1), (0, 1), order=3.5, bond="loop")
    return [water, other]


def test_attributes_become_columns() -> None:
    table = read_graphs(molecules())
    assert table.names.tolist() == ["water", 1]
    assert table.sizes.tolist() == [3, 1]
    assert table.node_names is not None
    assert table.node_names.tolist() == ["O", "H1", "H2", "(0, 1)"]
    mass, kind, *place = table.features
    np.testing.assert_array_equal(mass.values, [16, 1, np.nan, 1])
    assert (kind.categories, kind.values.tolist()) == (("H", "O"), [1, 0, 0, -1])
    assert [(one.name, one.values.tolist()) for one in place] == [("place0", [0, 2, 4, 6]), ("place1", [1, 3, 5, 7])]
    assert table.edge_index is not None
    assert table.edge_index.tolist() == [[1, 2, 0, 0, 3], [0, 0, 1, 2, 3]]
    order, bond = table.edge_attr
    assert order.values.tolist() == [1, 2, 1, 2, 3.5]
    assert (bond.categories, bond.values.tolist()) == (("loop", "single"), [1, -1, 1, -1, 0])
    assert table.y is not None
    assert table.y.values.tolist() == [2.5, 1]


def test_targets_of_nodes_and_a_single_graph() -> None:
    path = nx.path_graph(3)
    nx.set_node_attributes(path, {0: "a", 1: "b", 2: "a"}, "colour")
    table = read_graphs(path, "node", y="colour")
    assert table.features == ()
    assert table.y is not None
    assert (table.y.categories, table.y.values.tolist()) == (("a", "b"), [0, 1, 0])
    assert read_graphs([path], labelled=False).y is None


def broken(change: Any) -> list[Any]:
    graphs = [nx.path_graph(3), nx.path_graph(2)]
    for graph in graphs:
        graph.graph["y"] = 1.0
        nx.set_node_attributes(graph, 1.0, "v")
    change(graphs)
    return graphs


BAD = {
    "no target": (lambda g: g[1].graph.pop("y"), r"the target is missing \(item 1, from 0\)"),
    "no target at all": (lambda g: [one.graph.clear() for one in g], r"graphs have no attribute 'y' with the target"),
    "several targets": (lambda g: [one.graph.update(y=[1.0, 2.0]) for one in g], r"'y' of a graph must be one number"),
    "mixed": (
        lambda g: g[1].nodes[0].update(v="x"),
        r"attribute 'v' of a node of graph 1 .* is a text, but others are",
    ),
    "object": (lambda g: g[1].nodes[1].update(v=object()), r"'v' of a node of graph 1 .* must be a number, a text or"),
    "infinite": (lambda g: g[1].nodes[1].update(v=float("inf")), r"'v' of a node of graph 1 \(from 0\) is infinite"),
    "matrix": (
        lambda g: g[1].nodes[1].update(w=np.ones((2, 2))),
        r"'w' of a node of graph 1 .* must be a number, a te",
    ),
    "ragged": (
        lambda g: g[1].nodes[1].update(w=[[1], [1, 2]]),
        r"'w' of a node of graph 1 .* must be a number, a text",
    ),
    "widths": (
        lambda g: (g[0].nodes[1].update(w=[1]), g[1].nodes[1].update(w=[1, 2])),
        r"'w' of a node of graph 1 \(from 0\) has 2 numbers, but others have 1",
    ),
    "edge": (lambda g: g[1].edges[0, 1].update(w={}), r"'w' of an edge of graph 1"),
    "multigraph": (lambda g: g.append(nx.MultiGraph([(0, 1)])), r"graph 2 \(from 0\) is a multigraph"),
    "no nodes": (lambda g: g.append(nx.Graph()), r"graph 2 \(from 0\) has no nodes"),
    "another thing": (
        lambda g: g.append(Data(x=torch.ones(1, 1))),
        r"expected graphs of networkx, got Data as graph 2",
    ),
}


@pytest.mark.parametrize(("change", "message"), BAD.values(), ids=BAD)
def test_errors_name_the_graph(change: Any, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_graphs(broken(change))
    assert "\n" not in str(caught.value)


def test_an_empty_list() -> None:
    with pytest.raises(DataError, match="there are no graphs"):
        from_networkx([])


def edge_table(table: GraphTable) -> dict[tuple[int, int], list[float]]:
    assert table.edge_index is not None
    rows = zip(*(column.values.tolist() for column in table.edge_attr), strict=True)
    return {(s, t): list(row) for (s, t), row in zip(table.edge_index.T.tolist(), rows, strict=True)}


def test_features_of_edges_in_tables(tmp_path: Path) -> None:
    (tmp_path / "graphs.csv").write_text("graph,y\na,1\nb,2\n")
    (tmp_path / "nodes.csv").write_text("graph,node\na,1\na,2\na,3\nb,1\nb,2\n")
    (tmp_path / "edges.csv").write_text(
        "graph,source,target,length,kind\nb,1,2,9,x\na,2,1,5,x\na,2,3,7,y\na,1,2,6,\na,2,3,7,y\n"
    )
    table = read_graphs(tmp_path)
    kinds = {"x": 0.0, "y": 1.0}
    wanted = {(1, 0): [5, 0], (0, 1): [6, -1], (1, 2): [7, 1], (2, 1): [7, 1], (3, 4): [9, 0], (4, 3): [9, 0]}
    assert table.edge_attr[1].categories == tuple(kinds)
    assert edge_table(table) == wanted
    chosen = table.select(np.array([1, 0]))
    shift = {0: 2, 1: 3, 2: 4, 3: 0, 4: 1}
    assert edge_table(chosen) == {(shift[s], shift[t]): row for (s, t), row in wanted.items()}
    one_way = read_graphs(tmp_path, directed=True)
    assert set(edge_table(one_way)) == {(1, 0), (0, 1), (1, 2), (3, 4)}


def test_features_of_edges_in_lists() -> None:
    edges = torch.tensor([[1, 0], [0, 1]])
    graphs = [
        Data(num_nodes=2, edge_index=edges, edge_attr=torch.tensor([[1.0, 2], [3, 4]]) + k, y=1.0) for k in (0, 10)
    ]
    for graph in graphs:
        graph.edge_weight = torch.tensor([0.5, 0.25])
    table = read_graphs(graphs)
    assert [column.name for column in table.edge_attr] == ["edge_attr0", "edge_attr1", "edge_weight"]
    assert edge_table(table) == {
        (1, 0): [1, 2, 0.5],
        (0, 1): [3, 4, 0.25],
        (3, 2): [11, 12, 0.5],
        (2, 3): [13, 14, 0.25],
    }
    graphs[1].edge_attr = torch.ones(3, 2)
    with pytest.raises(
        DataError, match=r"'edge_attr' of graph 1 .* a row of numbers for each of its 2 edges, got shape"
    ):
        read_graphs(graphs)
    del graphs[1].edge_attr
    with pytest.raises(DataError, match=r"'edge_attr' of graph 1 .* got nothing"):
        read_graphs(graphs)


def test_an_edge_given_twice_with_other_features() -> None:
    edges = torch.tensor([[1, 1], [0, 0]])
    graph = Data(num_nodes=2, edge_index=edges, edge_attr=torch.tensor([1.0, 2.0]), y=1.0)
    with pytest.raises(DataError, match=r"the edge comes twice, .* 'edge_attr0' \(edge \[1, 0\] of graph 0, from 0\)"):
        read_graphs([graph])
    graph.edge_attr = torch.tensor([2.0, 2.0])
    assert edge_table(read_graphs([graph])) == {(1, 0): [2.0]}


def test_features_of_edges_in_a_tudataset(tmp_path: Path) -> None:
    for name, text in {
        "T_A.txt": "1, 2\n2, 1\n3,4\n",
        "T_graph_indicator.txt": "1\n1\n2\n2\n",
        "T_graph_labels.txt": "1\n-1\n",
        "T_edge_labels.txt": "5\n7\n5\n",
        "T_edge_attributes.txt": "0.5, 1\n0.25, 2\n0.75, 3\n",
    }.items():
        (tmp_path / name).write_text(text)
    table = read_graphs(tmp_path)
    assert [column.name for column in table.edge_attr] == ["label", "attribute0", "attribute1"]
    assert table.edge_attr[0].categories == ("5", "7")
    assert edge_table(table) == {(0, 1): [0, 0.5, 1], (1, 0): [1, 0.25, 2], (2, 3): [0, 0.75, 3], (3, 2): [0, 0.75, 3]}
    (tmp_path / "T_edge_labels.txt").write_text("5\n7\n")
    with pytest.raises(DataError, match=r"T_edge_labels.txt: it has 2 lines, but there are 3 edges"):
        read_graphs(tmp_path)
