"""Reads directed graphs with a probability on every edge from text files."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnpool.data.errors import DataError
from gnpool.data.files import read_maybe_packed
from gnpool.data.limits import check_need
from gnpool.data.table import edge_order

COMMENT = re.compile(rb"^[ \t]*(?:[#%]|//)[^\n]*$", re.MULTILINE)
TITLES = {"probability", "prob", "p", "weight", "w"}  # names of the third column, if the first line names the columns
CHUNK = 1 << 24  # bytes parsed at once
WHOLE = 2.0**53  # whole numbers up to here are exact in float64
DUPLICATES = ("error", "combine")
NODE = 64  # bytes of memory that a simulation needs for a node
LONGEST = 18  # digits of a number of nodes or edges


class EdgeListError(DataError):
    r"""An edge list that cannot be read; the message names the file and, if possible, the line.

    Example:
        >>> from gnpool.data import EdgeListError, parse_edge_list
        >>> try:
        ...     parse_edge_list(b"ann bob 0.5\nbob cid\n", "friends.txt")
        ... except EdgeListError as error:
        ...     print(error)
        friends.txt, line 2: expected 'source target probability', got 2 fields
    """


@dataclass(frozen=True, eq=False)
class EdgeList:
    r"""A directed graph whose edges carry probabilities.

    Args:
        source (numpy.ndarray): The node an edge leaves, int64 (E).
        target (numpy.ndarray): The node it enters, int64 (E).
        probability (numpy.ndarray): Its probability, float64 (E).
        nodes (int): Number of nodes, numbered from 0.
        names (list, optional): The names of the nodes in the file; None if they are their numbers.
        self_loops (int): Edges from a node to itself that were left out.
        combined (int): Repeated edges that were combined.

    Example:
        >>> from gnpool.data import parse_edge_list
        >>> edges = parse_edge_list(b"ann bob 0.5\nbob cid 0.25\n")
        >>> edges.numbers(["cid", "ann"]), edges.name(1)
        ([2, 0], 'bob')
        >>> edges.source, edges.target, edges.probability
        (array([0, 1]), array([1, 2]), array([0.5 , 0.25]))
    """

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    probability: NDArray[np.float64]
    nodes: int
    names: list[str] | None = None
    self_loops: int = 0
    combined: int = 0

    def name(self, node: int) -> str:
        """The name of a node in the file."""
        return str(node) if self.names is None else self.names[node]

    def numbers(self, names: list[str]) -> list[int]:
        """The nodes with these names.

        Raises:
            ValueError: It names the first one that is not in the graph.
        """
        if self.names is None:
            found = [int(name) if name.isdecimal() and int(name) < self.nodes else -1 for name in names]
        else:
            number = {name: i for i, name in enumerate(self.names)}
            found = [number.get(name, -1) for name in names]
        for name, node in zip(names, found, strict=True):
            if node < 0:
                raise ValueError(f"there is no node {name!r} in the graph, which has {self.nodes:,} nodes")
        return found


def read_edge_list(path: str | Path, *, duplicates: str = "error") -> EdgeList:
    r"""Reads lines ``source target probability``, separated by blanks, tabs or commas, plain or gzipped.

    - Empty lines and lines that begin with ``#``, ``%`` or ``//`` are left out.
    - The first line may be ``nodes edges``. Nodes are then the numbers from 0, and those without edges count, too;
      the number of edges is checked. Otherwise the nodes are those that edges name.
    - The first line may name the columns, the third one ``probability``, ``prob``, ``p``, ``weight`` or ``w``.
    - Names are texts, in the order of their first appearance. If all of them are whole numbers, they are taken as
      numbers in ascending order (and ``007`` is ``7``).
    - A probability lies in [0, 1].
    - An edge from a node to itself is left out and counted, since it cannot activate anything.
    - A repeated edge is an error. With ``duplicates="combine"`` it becomes one edge with the probability of at least
      one success, :math:`1 - \prod (1 - p_i)`.

    Args:
        path (str or Path): The file.
        duplicates (str, optional): ``"error"`` or ``"combine"``. (default: ``"error"``)

    Raises:
        EdgeListError: It names the line that cannot be read.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from gnpool.data import read_edge_list
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "graph.txt").write_text("# a triangle\na b 0.5\nb c 0.5\nc a 0.1\n")
        ...     edges = read_edge_list(Path(folder, "graph.txt"))
        >>> edges.nodes, edges.names, float(edges.probability.sum())
        (3, ['a', 'b', 'c'], 1.1)
    """
    try:
        data = read_maybe_packed(path)
        found = parse_edge_list(data, str(path), duplicates=duplicates)
        check_need(NODE * found.nodes, len(data), f"a graph of {found.nodes:,} nodes", str(path))
    except EdgeListError:
        raise
    except DataError as error:
        raise EdgeListError(error.message, file=error.file) from error
    return found


def parse_edge_list(data: bytes, name: str = "edge list", *, duplicates: str = "error") -> EdgeList:
    r"""Parses the bytes of a file, as :func:`read_edge_list` does; messages begin with ``name``.

    Example:
        >>> from gnpool.data import parse_edge_list
        >>> graph = parse_edge_list(b"ann,bob,0.5\nbob,cid,0.25\ncid,cid,1\n")
        >>> graph.nodes, graph.names, graph.probability.tolist(), graph.self_loops
        (3, ['ann', 'bob', 'cid'], [0.5, 0.25], 1)
        >>> parse_edge_list(b"3 2\n0 1 0.5\n1 2 1.5\n")
        Traceback (most recent call last):
        gnpool.data.edge_list.EdgeListError: edge list, line 3: the probability must lie in [0, 1], got 1.5
    """
    if duplicates not in DUPLICATES:
        raise ValueError(f"'duplicates' must be one of {', '.join(DUPLICATES)}, got {duplicates!r}")
    text = _Text(data, name)
    columns = text.numbers()
    names: list[str] | None = None
    if columns is not None:
        source, target, probability = columns
    else:
        source, target, probability, names = text.words()
    bad = ~((probability >= 0) & (probability <= 1))
    if bad.any():
        at = int(bad.argmax())
        raise text.error(at, f"the probability must lie in [0, 1], got {probability[at]:g}")
    if text.header is None:
        nodes = len(names) if names is not None else 0
        if names is None:
            source, target, names, nodes = _compact(source, target)
    else:
        nodes = _check_header(text, source, target, names)
    return _simplify(text, source, target, probability, nodes, names, duplicates)


class _Text:
    """The bytes of a file after its header: their separator, header and lines."""

    def __init__(self, data: bytes, name: str) -> None:
        self.data, self.name = data.removeprefix(b"\xef\xbb\xbf"), name
        self.start, self.header, self.separator = 0, None, b""
        for _, begin, end in self._lines(0):
            first = self.data[begin:end].strip()
            self.separator = next((s for s in (b",", b"\t") if s in first), b"")
            fields = self._fields(first)
            if len(fields) == 2 and all(field.isdigit() and len(field) <= LONGEST for field in fields):
                self.header, self.start = (int(fields[0]), int(fields[1])), end + 1
            elif len(fields) == 3 and fields[2].decode(errors="replace").lower() in TITLES:
                self.start = end + 1
            break
        if self.header is not None:  # its separator may be another one
            for _, begin, end in self._lines(self.start):
                self.separator = next((s for s in (b",", b"\t") if s in self.data[begin:end]), b"")
                break

    def numbers(self) -> tuple[NDArray[Any], ...] | None:
        """Source, target and probability, if all are numbers and every line has three; fast."""
        parts: list[NDArray[np.float64]] = []
        begin = self.start
        blanks = np.zeros(256, dtype=bool)
        blanks[list(b" \t\r\n" + self.separator)] = True
        while begin < len(self.data):
            end = begin + CHUNK
            end = len(self.data) if end >= len(self.data) else self.data.find(b"\n", end) + 1 or len(self.data)
            chunk = self.data[begin:end]
            begin = end
            if any(mark in chunk for mark in (b"#", b"%", b"//")):
                chunk = COMMENT.sub(b"", chunk)
            if self.separator and any(pair in chunk for pair in (b",,", b"\t\t")):
                return None  # an empty field
            letters = np.frombuffer(b"\n" + chunk + b"\n", dtype=np.uint8)
            blank = blanks[letters]
            starts = np.flatnonzero(blank[:-1] & ~blank[1:])  # in front of the first letter of each field
            ends = np.flatnonzero(letters == 10)
            fields = np.diff(np.searchsorted(starts, ends))
            if ((fields != 3) & (fields != 0)).any():
                return None
            with warnings.catch_warnings():
                warnings.simplefilter("error", DeprecationWarning)  # what numpy says of text that is no number
                try:
                    separated = chunk.replace(self.separator, b" ") if self.separator == b"," else chunk
                    values = np.fromstring(separated, dtype=np.float64, sep=" ")
                except (DeprecationWarning, ValueError):
                    return None
            if values.size != starts.size:
                return None
            ids = values.reshape(-1, 3)[:, :2]
            if not ((ids >= 0) & (ids < WHOLE) & (ids == np.floor(ids))).all():
                return None
            parts.append(values.reshape(-1, 3))
        if not parts:
            empty = np.empty(0)
            return empty.astype(np.int64), empty.astype(np.int64), empty
        source, target = (np.concatenate([part[:, i] for part in parts]).astype(np.int64) for i in (0, 1))
        return source, target, np.concatenate([part[:, 2] for part in parts])

    def words(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], list[str]]:
        """Source, target and probability for any names, line by line; an error names the line."""
        number: dict[bytes, int] = {}
        ends: list[int] = []
        values: list[float] = []
        for line, begin, end in self._lines(self.start):
            fields = self._fields(self.data[begin:end].strip(b" \r"))
            if len(fields) != 3:
                raise self._error(line, f"expected 'source target probability', got {len(fields)} fields")
            if not fields[0] or not fields[1]:
                raise self._error(line, "a node has no name")
            try:
                values.append(float(fields[2]))
            except ValueError:
                text = fields[2].decode(errors="replace")
                raise self._error(line, f"the probability must be a number, got {text!r}") from None
            ends += (number.setdefault(field, len(number)) for field in fields[:2])
        try:
            names = [name.decode() for name in number]
        except UnicodeDecodeError as error:
            raise EdgeListError(f"names must be UTF-8, got {error.object!r}", file=self.name) from error
        pairs = np.array(ends, dtype=np.int64).reshape(-1, 2)
        return pairs[:, 0].copy(), pairs[:, 1].copy(), np.array(values, dtype=np.float64), names

    def error(self, edge: int, message: str) -> EdgeListError:
        """The error of an edge, by its number."""
        return self._error(self.line(edge), message)

    def line(self, edge: int) -> int:
        """The line of an edge; slow, for messages."""
        for k, (line, _, _) in enumerate(self._lines(self.start)):
            if k == edge:
                return line
        raise IndexError(edge)

    def _error(self, line: int, message: str) -> EdgeListError:
        return EdgeListError(message, file=self.name, line=line)

    def _lines(self, start: int) -> Iterator[tuple[int, int, int]]:
        """Number, begin and end of the lines that are neither empty nor comments, from a byte on."""
        line, begin = 1 + self.data.count(b"\n", 0, start), start
        while begin < len(self.data):
            end = self.data.find(b"\n", begin)
            end = len(self.data) if end < 0 else end
            content = self.data[begin : min(end, begin + 4096)].strip()
            if content and not content.startswith((b"#", b"%", b"//")):
                yield line, begin, end
            line, begin = line + 1, end + 1

    def _fields(self, content: bytes) -> list[bytes]:
        if not self.separator:
            return content.split()
        return [field.strip().strip(b'"') for field in content.split(self.separator)]


def _check_header(text: _Text, source: NDArray[Any], target: NDArray[Any], names: list[str] | None) -> int:
    """The number of nodes that the header gives, if the edges fit it."""
    assert text.header is not None
    nodes, edges = text.header
    if names is not None:
        # or the first number that is too large to be exact
        first = next((i for i, name in enumerate(names) if not name.isdecimal()), 0)
        at = int(((source == first) | (target == first)).argmax())
        message = f"after a line 'nodes edges' nodes are numbers from 0, got {names[first]!r}"
        raise text.error(at, message)
    beyond = (source >= nodes) | (target >= nodes)
    if beyond.any():
        at = int(beyond.argmax())
        largest = max(int(source[at]), int(target[at]))
        raise text.error(at, f"node {largest} is not among the {nodes} nodes of the first line, 0 to {nodes - 1}")
    if source.size != edges:
        raise EdgeListError(f"the first line announces {edges} edges, but {source.size} follow", file=text.name)
    return nodes


def _compact(source: NDArray[Any], target: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], list[str] | None, int]:
    """Numbers without gaps, in the order of the given ones; names only if they differ from the numbers."""
    if not source.size:
        return source, target, None, 0
    largest = int(max(source.max(), target.max()))
    if largest < 8 * source.size + 1_000_000:
        seen = np.zeros(largest + 1, dtype=bool)
        seen[source] = True
        seen[target] = True
        ids = np.flatnonzero(seen)
        place = np.cumsum(seen) - 1
        source, target = place[source], place[target]
    else:
        ids, places = np.unique(np.concatenate([source, target]), return_inverse=True)
        source, target = places[: source.size], places[source.size :]
    if ids.size == largest + 1:
        return source, target, None, int(ids.size)
    return source, target, [str(i) for i in ids.tolist()], int(ids.size)


def _simplify(
    text: _Text,
    source: NDArray[Any],
    target: NDArray[Any],
    probability: NDArray[Any],
    nodes: int,
    names: list[str] | None,
    duplicates: str,
) -> EdgeList:
    """The graph without loops and repeated edges."""
    loops = source == target
    place = np.flatnonzero(~loops) if loops.any() else None  # where the edges that stay stood
    if place is not None:
        source, target, probability = source[place], target[place], probability[place]
    order, repeated = edge_order(source, target, nodes)
    combined = 0
    if order is not None:
        again = np.flatnonzero(repeated)
        combined = int(again.size)
        if combined and duplicates == "error":
            first, second = order[again[0]], order[again[0] + 1]
            lines = [text.line(int(e if place is None else place[e])) for e in (first, second)]
            ends = " ".join(str(v) if names is None else names[v] for v in (int(source[first]), int(target[first])))
            message = f"the edge {ends} is already in line {lines[0]}; 'duplicates' may combine them"
            raise text._error(lines[1], message)
        if combined:
            begins = np.flatnonzero(np.concatenate([[True], ~repeated]))
            failure = np.multiply.reduceat(1 - probability[order], begins)
            source, target, probability = source[order][begins], target[order][begins], 1 - failure
    return EdgeList(source, target, probability, nodes, names, int(loops.sum()), combined)
