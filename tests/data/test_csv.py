"""CSV files are read once from the beginning to the end, and the fast reader gives what the careful one gives."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from gnpool.data import DataError, csv_blocks, read_graphs
from gnpool.data.csv_columns import Sheet, read_csv
from gnpool.data.files import Files

IDS = ("graph", "node")
ROWS = 40
LETTERS = "abcd"


def sheet(folder: Path, text: str | bytes, categorical: frozenset[str] = frozenset()) -> Sheet:
    (folder / "nodes.csv").write_bytes(text.encode() if isinstance(text, str) else text)
    return read_csv(Files(folder), "nodes.csv", IDS, categorical, frozenset())


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fast reader starts at the first byte."""
    monkeypatch.setattr(csv_blocks, "QUICK", 0)
    monkeypatch.setattr(csv_blocks, "PER_COLUMN", 0)


def content(found: Sheet) -> Any:
    ids = {
        name: ([found.ids[name][row] for row in range(found.rows)], one.words is None)
        for name, one in found.ids.items()
    }
    columns = {
        name: ([repr(value) for value in one.values.tolist()], one.categories) for name, one in found.columns.items()
    }
    return found.rows, ids, columns, [found.line_of(row) for row in range(found.rows)]


TEXTS = {
    "integers": "graph,node,v\n1,2,3\n1,3,-4\n",
    "decimals": "graph,node,v\n1,2,.5\n1,3,-4e-3\n1,4,5.\n1,5,+7E+2\n1,6,-0\n1,7,0.1e22\n",
    "many digits": "graph,node,v\n1,2,0.30000000000000004\n1,3,9007199254740993\n1,4,123456789012345678901234567890\n",
    "large powers": "graph,node,v\n1,2,1e23\n1,3,2.2250738585072014e-308\n1,4,1e999\n1,5,5e-324\n1,6,1e-23\n",
    "windows": "graph,node,v\r\n1,2,3\r\n1,3,4\r\n",
    "old line ends": "graph,node,v\r1,2,3\r1,3,4\r",
    "no last line end": "graph,node,v\n1,2,3",
    "missing": "graph,node,v\n1,2,\n1,3, NA \n1,4,?\n1,5,4\n",
    "nothing but missing": "graph,node,v\n1,2,\n1,3,null\n",
    "underscores": "graph,node,v\n1,2,1_000\n",
    "words": "graph,node,v\n1,2,x\n1,3, y \n1,4,\n1,5,x\n1,6,nan\n",
    "words after missing": "graph,node,v\n" + "1,2,\n" * ROWS + "1,3,b\n1,4,a\n",
    "late names": "graph,node,v\n" + "".join(f"1,{k},3\n" for k in range(ROWS)) + "1,07,3\n1,x,3\n",
    "fraction as name": "graph,node,v\n1,2.0,3\n",
    "signed names": "graph,node,v\n-1,+2,3\n-0,0,3\n",
    "large names": f"graph,node,v\n1,{2**63 - 1},3\n1,{-(2**63)},3\n",
    "too large names": f"graph,node,v\n1,{2**63},3\n1,5,3\n",
    "blanks in names": "graph,node,v\n1, 2,3\n1,2,3\n",
    "accents": "graph,node,v\né,2,ü\nz,3,ß\n",
    "mark": "\ufeffgraph,node,v\n1,2,3\n",
    "quotes": 'graph,node,v\n1,2,"a, b"\n1,3,"c\nd"\n1,4,e\n',
    "late quotes": "graph,node,v\n" + "1,2,a\n" * ROWS + '1,3,"b\n\nc"\n1,4,""\n',
    "quoted header": '"graph","node","v, w"\n1,2,3\n',
    "empty lines": "\n\ngraph,node,v\n\n1,2,3\n\n\n1,3,4\n\n",
    "no rows": "graph,node,v\n",
    "semicolons": "graph;node;v\n1;2;a,b\n1;3;c\n",
    "tabs": "graph\tnode\tv\n1\t2\ta b\n1\t3\tc\n",
    "bars": "graph|node|v\n1|2|3\n",
}


@pytest.mark.parametrize("block", [8, 64, 1 << 20])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_quick_way_gives_what_the_careful_one_gives(
    text: str, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    careful = content(sheet(tmp_path, text))
    monkeypatch.setattr(csv_blocks, "QUICK", 0)
    monkeypatch.setattr(csv_blocks, "PER_COLUMN", 0)
    monkeypatch.setattr(csv_blocks, "BYTES", block)
    assert content(sheet(tmp_path, text)) == careful
    monkeypatch.setattr(csv_blocks, "ROWS", 1)
    monkeypatch.setattr(csv_blocks, "QUICK", 1 << 30)
    assert content(sheet(tmp_path, text)) == careful


@pytest.mark.usefixtures("quick")
def test_what_the_quick_way_gives(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = [*rng.standard_normal(500), *(rng.standard_normal(500).round(4) * 10.0 ** rng.integers(-20, 20, 500))]
    words = [LETTERS[k] * (1 + k) for k in rng.integers(0, 4, 1000)]
    text = "graph,node,v,w\n" + "".join(
        f"g{k // 10},{k},{v!r},{w}\n" for k, (v, w) in enumerate(zip(map(float, values), words, strict=True))
    )
    found = sheet(tmp_path, text)
    assert found.ids["graph"].words == [f"g{k}" for k in range(100)]
    assert found.ids["node"].values.tolist() == list(range(1000))
    assert found.columns["v"].values.tolist() == list(map(float, values))  # to the last bit
    categories = found.columns["w"].categories
    assert categories == ("a", "bb", "ccc", "dddd")
    assert [categories[k] for k in found.columns["w"].values] == words


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_column_told_to_be_categories_is_words(separator: str, tmp_path: Path) -> None:
    found = sheet(tmp_path, "graph,node,v\n1,2,6\n1,3,06\n1,4,\n".replace(",", separator), frozenset({"v"}))
    assert (found.columns["v"].categories, found.columns["v"].values.tolist()) == (("06", "6"), [1, 0, -1])


BAD = {
    "ragged": (b"graph,node,v\n1,2,3\n\n1,2\n", "line 4: it has 2 columns, but the header has 3"),
    "wide": (b"graph,node,v\n1,2,3\n1,2,3,4\n", "line 3: it has 4 columns, but the header has 3"),
    "no text": (b"graph,node,v\n1,2,3\n\n1,\xff,3\n", "line 4: it is not UTF-8 text"),
    "mixed": (
        b"graph,node,v\n1,2,3\n" + b"1,2,4\n" * ROWS + b"1,3,x\n",
        "line 43, column 'v': 'x' is not a number, but",
    ),
    "mixed from words on": (
        b"graph,node,v\n1,1,\n" + b"1,2,x\n" * ROWS + b"1,3,4\n",
        "line 3, column 'v': 'x' is not a",
    ),
    "open quote": (b'graph,node,v\n1,2,3\n1,3,"4\n', "line 3: it is not CSV"),
    "empty name": (b"graph,node,v\n1,2,3\n1,,3\n1,,3\n", "line 3, column 'node': the name is empty"),
    "twice": (b"graph,node,v,v\n", "line 1: it names 'v' twice"),
    "no name": (b"graph,node,\n", "line 1: column 3 has no name"),
}


@pytest.mark.parametrize("way", ["quick", "careful"])
@pytest.mark.parametrize("block", [8, 1 << 20])
@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD)
def test_errors_name_the_line(
    text: bytes, message: str, block: int, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_blocks, "BYTES", block)
    for name in ("QUICK", "PER_COLUMN") if way == "quick" else ():
        monkeypatch.setattr(csv_blocks, name, 0)
    with pytest.raises(DataError) as caught:
        sheet(tmp_path, text)
    assert message in str(caught.value)


class Watched:
    """Counts how often the files of a folder are opened, and how many bytes are read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened, self.bytes = 0, 0
        original = csv_blocks.whole_lines

        def counted(raw: Any) -> Iterator[bytes]:
            self.opened += 1
            for text in original(raw):
                self.bytes += len(text)
                yield text

        monkeypatch.setattr(csv_blocks, "whole_lines", counted)


@pytest.mark.parametrize("way", ["quick", "careful"])
def test_a_file_of_many_text_columns_is_read_once(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("QUICK", "PER_COLUMN") if way == "quick" else ():
        monkeypatch.setattr(csv_blocks, name, 0)
    watched = Watched(monkeypatch)
    head = ",".join(["graph", "node", *(f"c{k}" for k in range(100))])
    rows = [
        ",".join([f"g{r}", f"n{r}", *("" if r < 15 else LETTERS[(r + k) % 4] for k in range(100))]) for r in range(20)
    ]
    text = "\n".join([head, *rows]) + "\n"
    found = sheet(tmp_path, text)
    assert len(found.columns) == 100
    assert (watched.opened, watched.bytes) == (1, len(text))


class Name(str):
    """The name of a column, which counts how often it is compared."""

    __slots__ = ()
    compared: ClassVar[Counter[str]] = Counter()

    def strip(self, *_: Any) -> Name:  # type: ignore[override]
        return self

    def __eq__(self, other: object) -> bool:
        Name.compared["all"] += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_names_of_columns_are_not_compared_with_each_other() -> None:
    Name.compared.clear()
    header = csv_blocks.check_header([Name(f"c{k}") for k in range(2000)], "x.csv")
    assert len(header) == 2000
    assert Name.compared["all"] < 3 * 2000  # and not 2000 * 2000


def test_a_long_line_is_joined_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_blocks, "BYTES", 4)

    class Raw:
        def __init__(self) -> None:
            self.left = b"a" * 50 + b"\nb\n" + b"c" * 9

        def read(self, size: int) -> bytes:
            piece, self.left = self.left[:size], self.left[size:]
            return piece

    assert list(csv_blocks.whole_lines(Raw())) == [b"a" * 50 + b"\n", b"b\n", b"c" * 9 + b"\n"]


TABLES = {
    "graphs": "graph,y\na,2.5\nb,1\n",
    "nodes": "graph,node,mass\na,1,0.5\na,2,4\nb,1,3\n",
    "edges": "graph,source,target\na,1,2\n",
}


@pytest.mark.parametrize(
    ("ending", "separator"), [(".csv", ";"), (".csv", "\t"), (".tsv", "\t"), (".csv.gz", ","), (".tsv.gz", "\t")]
)
def test_tables_in_other_dress(ending: str, separator: str, tmp_path: Path) -> None:
    for name, text in TABLES.items():
        data = text.replace(",", separator).encode()
        (tmp_path / f"{name}{ending}").write_bytes(gzip.compress(data) if ending.endswith(".gz") else data)
    table = read_graphs(tmp_path)
    assert table.edge_index is not None
    assert table.y is not None
    assert (table.names.tolist(), table.sizes.tolist(), table.y.values.tolist()) == (["a", "b"], [2, 1], [2.5, 1])
    assert table.features[0].values.tolist() == [0.5, 4, 3]
    assert table.edge_index.tolist() == [[1, 0], [0, 1]]


def test_a_packed_table_that_is_damaged(tmp_path: Path) -> None:
    packed = gzip.compress(b"graph,y\n" + bytes(range(65, 91)) * 300)
    for name, text in TABLES.items():
        (tmp_path / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "graphs.csv.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(DataError, match=r"graphs.csv.gz: the gzip file is damaged"):
        read_graphs(tmp_path)


def test_two_files_of_one_table(tmp_path: Path) -> None:
    for name in ("nodes.csv", "nodes.csv.gz", "graphs.csv"):
        (tmp_path / name).write_text("graph,node\n")
    with pytest.raises(DataError, match=r"there are both nodes.csv and nodes.csv.gz"):
        read_graphs(tmp_path)
