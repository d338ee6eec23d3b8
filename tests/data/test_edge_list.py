import gzip

import numpy as np
import pytest

from gnpool.data import EdgeListError, parse_edge_list, read_edge_list
from gnpool.data import edge_list as module


def shape(graph):
    edges = zip(graph.source.tolist(), graph.target.tolist(), graph.probability.tolist(), strict=True)
    return graph.nodes, graph.names, list(edges)


TWO = [(0, 1, 0.5), (1, 2, 0.25)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("0 1 0.5\n1 2 0.25\n", (3, None, TWO), id="blanks"),
        pytest.param("0\t1\t0.5\r\n1\t2\t0.25\r\n", (3, None, TWO), id="tabs and CRLF"),
        pytest.param("0,1,0.5\n1, 2 ,.25", (3, None, TWO), id="commas, no last line end"),
        pytest.param("5 2\n0 1 0.5\n1 2 0.25\n", (5, None, TWO), id="header, nodes without edges"),
        pytest.param("5\t2\n0 1 0.5\n1 2 25e-2\n", (5, None, TWO), id="header with another separator"),
        pytest.param("\ufeff# a graph\n\n% of\n0 1 0.5\n// three\n1 2 0.25\n\n", (3, None, TWO), id="comments"),
        pytest.param("source,target,Probability\n0,1,0.5\n1,2,0.25\n", (3, None, TWO), id="column titles"),
        pytest.param("7 30 0.5\n30 900 0.25\n", (3, ["7", "30", "900"], TWO), id="numbers with gaps"),
        pytest.param(f"1 2 0.5\n2 {10**12} 0.25\n", (3, ["1", "2", str(10**12)], TWO), id="huge numbers"),
        pytest.param("ann bob 0.5\nbob cid 0.25\n", (3, ["ann", "bob", "cid"], TWO), id="names"),
        pytest.param("1 x 0.5\nx 2 0.25\n", (3, ["1", "x", "2"], TWO), id="names and numbers"),
        pytest.param("-1 0 0.5\n0 2 0.25\n", (3, ["-1", "0", "2"], TWO), id="a negative number is a name"),
        pytest.param("an n\tbo b\t0.5\nbo b\tcid\t0.25\n", (3, ["an n", "bo b", "cid"], TWO), id="blanks in names"),
        pytest.param('"a",é,0.5\né,c,0.25\n', (3, ["a", "é", "c"], TWO), id="quotes and accents"),
        pytest.param("", (0, None, []), id="empty"),
        pytest.param("4 0\n", (4, None, []), id="header only"),
        pytest.param("0 1 0\n1 0 1\n", (2, None, [(0, 1, 0.0), (1, 0, 1.0)]), id="0 and 1"),
    ],
)
def test_forms(text, expected, tmp_path):
    assert shape(parse_edge_list(text.encode())) == expected
    for name, data in (("plain.txt", text.encode()), ("packed.gz", gzip.compress(text.encode()))):
        (tmp_path / name).write_bytes(data)
        assert shape(read_edge_list(tmp_path / name)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("0 1 0.5\n1 2 1.5\n", "line 2: the probability must lie in [0, 1], got 1.5", id="above 1"),
        pytest.param("# c\n\n0 1 -0.5\n", "line 3: the probability must lie in [0, 1], got -0.5", id="below 0"),
        pytest.param("a b nan\n", "line 1: the probability must lie in [0, 1], got nan", id="nan"),
        pytest.param("0 1 0.5\n1 2 high\n", "line 2: the probability must be a number, got 'high'", id="no number"),
        pytest.param("0 1 0.5\n1 2\n", "line 2: expected 'source target probability', got 2 fields", id="two fields"),
        pytest.param("0 1 0.5 9\n", "line 1: expected 'source target probability', got 4 fields", id="four fields"),
        pytest.param("0 1\n1 2 .5 3\n2 3", "line 2: expected 'source target", id="fields that add up"),
        pytest.param("a,b,0.5\na,,0.5\n", "line 2: a node has no name", id="empty name"),
        pytest.param("0,1,0.5\n0,,2,0.5\n", "line 2: expected 'source target probability', got 4", id="empty field"),
        pytest.param("3 1\n0 1 0.5\n1 2 0.5\n", "1 edges, but 2 follow", id="wrong count"),
        pytest.param(
            "3 1\n0 3 0.5\n", "line 2: node 3 is not among the 3 nodes of the first line, 0 to 2", id="beyond"
        ),
        pytest.param(
            "3 1\n0 x 0.5\n", "line 2: after a line 'nodes edges' nodes are numbers from 0, got 'x'", id="name"
        ),
        pytest.param("0 1 .5\n# c\n2 2 1\n0 1 .5\n", "line 4: the edge 0 1 is already in line 1", id="twice"),
        pytest.param("a b .5\nb a .5\na b .1\n", "line 3: the edge a b is already in line 1", id="names twice"),
    ],
)
def test_bad_lines(text, message):
    with pytest.raises(EdgeListError) as error:
        parse_edge_list(text.encode(), "graph.txt")
    assert str(error.value).startswith("graph.txt")
    assert message in str(error.value)


def test_names_that_are_no_text():
    with pytest.raises(EdgeListError, match="names must be UTF-8"):
        parse_edge_list(b"\xff\xfe b 0.5\n")


def test_damaged_gzip(tmp_path):
    path = tmp_path / "graph.gz"
    path.write_bytes(gzip.compress(b"0 1 0.5\n" * 100)[:30])
    with pytest.raises(EdgeListError, match=r"graph.gz: the gzip file is damaged"):
        read_edge_list(path)


def test_loops_are_left_out_and_repeated_edges_combined():
    graph = parse_edge_list(b"0 0 1\n0 1 0.5\n1 0 0.1\n0 1 0.5\n0 1 0.2\n", duplicates="combine")
    assert shape(graph) == (2, None, [(0, 1, pytest.approx(0.8)), (1, 0, pytest.approx(0.1))])
    assert (graph.self_loops, graph.combined) == (1, 2)
    with pytest.raises(ValueError, match="'duplicates' must be one of error, combine, got 'sum'"):
        parse_edge_list(b"", duplicates="sum")


def test_names_and_numbers_of_nodes():
    named = parse_edge_list(b"ann bob 0.5\n")
    assert (named.name(1), named.numbers(["bob", "ann"])) == ("bob", [1, 0])
    with pytest.raises(ValueError, match="there is no node 'cid' in the graph, which has 2 nodes"):
        named.numbers(["ann", "cid"])
    numbered = parse_edge_list(b"3 1\n0 1 0.5\n")
    assert (numbered.name(2), numbered.numbers(["2"])) == ("2", [2])
    for wrong in ("3", "-1", "x"):
        with pytest.raises(ValueError, match=f"there is no node '{wrong}'"):
            numbered.numbers([wrong])


@pytest.mark.parametrize("separator", [" ", "\t", ","])
def test_chunks_join_to_the_whole(separator, monkeypatch):
    rng = np.random.default_rng(0)
    key = rng.permutation(100 * 100)[:2000]
    key = key[key // 100 != key % 100]
    lines = [
        separator.join(map(str, (k // 100, k % 100, round(p, 4))))
        for k, p in zip(key, rng.random(len(key)), strict=True)
    ]
    lines.insert(700, "# a comment, with 3 commas, 1 2 3")
    data = "\n".join(["100 " + str(len(key)), *lines]).encode()
    whole = shape(parse_edge_list(data))
    monkeypatch.setattr(module, "CHUNK", 1000)
    assert shape(parse_edge_list(data)) == whole
    assert [s * 100 + t for s, t, _ in whole[2]] == key.tolist()
    monkeypatch.setattr(module._Text, "numbers", lambda self: None)
    with pytest.raises(EdgeListError, match="nodes are numbers"):  # the slow path is for names
        parse_edge_list(data)
