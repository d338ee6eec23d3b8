"""Search for inputs that crash, hang or give silent wrong values: the operator, readers, saved models and the store.

    python -m tools.fuzz                     # 20,000 examples; the seed is printed
    python -m tools.fuzz --examples 300 --seed 7
    python -m tools.fuzz --only readers
    python -m tools.fuzz --seed 1 --keep     # and write the counts to results/reliability.json

- Operator: values and gradients of the fast backend must agree with the reference in float64.
- Readers: text with characters changed, added or removed must be read consistently, or refused with a single line.
- Models: a model.json or fit.json with values changed, removed or deeply nested, and weights with false headers but
  correct checksums, must be refused with an error of this package, or must predict and export.
- Store: a stored unit must come back. After a byte is changed or a file is cut, the unit must be missing, and it must
  be possible to store it again.
- Files: changed records, headers of tensors, lists of packs and checkpoints with corrected checksums must be read to
  something valid, or moved away.

A test runs a few examples of each (tests/test_fuzz.py).
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import functools
import hashlib
import io
import json
import math
import random
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import typer
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from gnpool import models, norm_pool
from gnpool.cli.inputs import stored_in
from gnpool.data import Column, DataError, GraphTable, read_graphs
from gnpool.data.edge_list import parse_edge_list
from gnpool.fit.export import write_export
from gnpool.fit.predict import load_predictor, prediction_rows
from gnpool.fit.preprocess import Preprocessing, Rule
from gnpool.fit.problem import Problem
from gnpool.influence import load_monstor, save_monstor
from gnpool.insight.crystal import CrystalAggregation
from gnpool.models.networks.monstor import MONSTOR
from gnpool.models.saved import SavedModelError, model_files
from gnpool.ops.form import NORM
from gnpool.ops.reference import pool_terms
from gnpool.report import page, read_study
from gnpool.store import Store, StoreError
from gnpool.store.packs import COMMENT, MARK
from gnpool.training.checkpoint import check_like, read_checkpoint, write_checkpoint
from tools.outcomes import keep

PATIENCE = 60  # seconds for one example, after which it counts as hanging
SHARES = {"operator": 0.15, "readers": 0.15, "models": 0.4, "files": 0.2, "store": 0.1}
EXPONENTS = st.floats(0.01, 200.0) | st.floats(-200.0, -0.01) | st.sampled_from([1.0, -1.0, 2.0, math.inf, -math.inf])
VALUES = st.sampled_from([0.0, -0.0, 1e-30, 1e-7, 1.0, -1.0, 3.5, 1e6, 1e30, math.inf, -math.inf, math.nan])

GRAPHS = "graph,y\na,2.5\nb,1\n"
NODES = 'graph,node,mass,kind\na,1,0.5,C\nb,7,1,N\na,2,,C\na,3,-4,"x, y"\nb,8,3e3,\n'
EDGES = "graph,source,target\na,1,2\na,2,3\nb,8,7\n"
TU = {
    "T_A.txt": "1, 2\n2, 1\n3,4\n4,3\n",
    "T_graph_indicator.txt": "1\n1\n2\n2\n2\n",
    "T_graph_labels.txt": "1\n-1\n",
    "T_node_labels.txt": "3\n5\n3\n3\n5\n",
    "T_node_attributes.txt": "0.5, 1\n-1, 2\n0, 3\n0, 4\n0, 5\n",
}
LIST = "# 3 nodes\n0 1 0.5\n1 2 0.25\n2 0 1\n"


@st.composite
def pooled(draw: Any) -> tuple[torch.Tensor, torch.Tensor, int, float, float]:
    """Rows, their segments, the number of segments, p and q."""
    rows, segments = draw(st.integers(0, 60)), draw(st.integers(1, 8))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    x = 10 ** rng.uniform(-4, 4, (rows, 2)) * rng.choice([-1.0, 1.0], (rows, 2))
    odd = draw(st.lists(st.tuples(st.integers(0, 59), st.integers(0, 1), VALUES), max_size=4))
    for row, column, value in odd:
        if row < rows:
            x[row, column] = value
    index = rng.integers(0, segments, rows)
    return torch.from_numpy(x), torch.from_numpy(index), segments, draw(EXPONENTS), draw(st.floats(-2.0, 2.0))


def check_operator(case: tuple[torch.Tensor, torch.Tensor, int, float, float]) -> None:
    """The fast backend must give the value and the gradient of the definition."""
    x, index, size, p, q = case
    if len(x) % 2:  # half of them are sorted
        index = index.sort().values
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    got = norm_pool(ours, index, p=p, q=q, dim_size=size)
    exponent, other = torch.full((2,), p, dtype=torch.float64), torch.full((2,), q, dtype=torch.float64)
    wanted = pool_terms(theirs, index, size, exponent, other, 1e-6, False, NORM).y
    close(got, wanted, "value", p)
    if x.isfinite().all() and wanted.isfinite().all():
        up = torch.linspace(0.5, 1.5, got.numel(), dtype=torch.float64).view_as(got)
        (mine,) = torch.autograd.grad(got, ours, up)
        close(mine, torch.autograd.grad(wanted, theirs, up)[0], "gradient", p)


def close(got: torch.Tensor, wanted: torch.Tensor, what: str, p: float) -> None:
    """Equal up to rounding, which small exponents magnify."""
    tolerance = 1e-10 * max(1.0, 1 / abs(p)) * max(1.0, min(abs(p), 200.0))
    torch.testing.assert_close(got, wanted, rtol=tolerance, atol=1e-290, equal_nan=True, msg=lambda m: f"{what}: {m}")


EDITS = st.lists(
    st.tuples(
        st.integers(0, 400), st.sampled_from(["set", "add", "cut"]), st.text(max_size=3) | st.sampled_from("0,-\n")
    ),
    max_size=4,
)


def edited(text: str, edits: list[tuple[int, str, str]]) -> bytes:
    """A text with some places changed."""
    for place, kind, new in edits:
        at = place % (len(text) + 1)
        rest = text[at + (0 if kind == "add" else len(new) or 1) :]
        text = text[:at] + ("" if kind == "cut" else new) + rest
    return text.encode("utf-8", "surrogatepass")


def check_readers(format_: str, edits: list[tuple[int, str, str]], where: int) -> None:
    """Changed text must be read consistently, or refused with a single line."""
    if format_ == "list":
        refused(lambda: parse_edge_list(edited(LIST, edits)))
        return
    texts = copy.copy(TU) if format_ == "tu" else {"graphs.csv": GRAPHS, "nodes.csv": NODES, "edges.csv": EDGES}
    victim = sorted(texts)[where % len(texts)]
    with tempfile.TemporaryDirectory() as folder:
        for name, text in texts.items():
            Path(folder, name).write_bytes(edited(text, edits) if name == victim else text.encode())
        table = refused(lambda: read_graphs(folder))
    if table is None:
        return
    nodes = int(table.sizes.sum())
    assert len(table.names) == len(table.sizes) == len(table.y.values)
    assert (table.sizes > 0).all()
    assert np.isfinite(table.y.values).all()
    assert all(len(column.values) == nodes for column in table.features)
    if table.edge_index is not None:
        graph = np.repeat(np.arange(len(table.sizes)), table.sizes)
        assert ((table.edge_index >= 0) & (table.edge_index < nodes)).all()
        assert (graph[table.edge_index[0]] == graph[table.edge_index[1]]).all()  # no edge leaves its graph


def refused(read: Callable[[], Any]) -> Any:
    """The result of reading, or None if the input is refused properly."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return read()
    except (DataError, SavedModelError, ValueError) as error:
        assert ours(error), f"an error of others: {error!r}"  # noqa: PT017 -- no test, a search
        message = str(error)
        assert message
        assert "\n" not in message, f"more than one line: {message!r}"
        return None


ODD = st.sampled_from(
    [
        None,
        True,
        -1,
        0,
        1,
        2.5,
        2**70,
        1e308,
        math.nan,
        math.inf,
        "",
        "x",
        "relu",
        "sum",
        [],
        {},
        [[0, 1, "sum"]],
        [1, 2],
    ]
)
CHANGE = st.tuples(st.integers(0, 10**6), st.sampled_from(["set", "set", "drop", "deep", "copy"]), ODD)
FILES = st.sampled_from(["json", "json", "json", "extra", "tensors", "text", "pt", "monstor", "fit"])


def changed(found: Any, changes: list[tuple[int, str, Any]]) -> Any:
    """JSON with some values replaced, removed, nested or put elsewhere."""
    for place, kind, new in changes:
        places = list(nodes(found))
        if not places:
            break
        holder, key = places[place % len(places)]
        if kind == "set":
            holder[key] = copy.deepcopy(new)
        elif kind == "drop":
            del holder[key]
        elif kind == "copy":
            source, name = places[place * 7919 % len(places)]
            holder[key] = copy.deepcopy(source[name])
        else:
            for _ in range(40):
                holder[key] = [holder[key]]
    return found


def trimmed(found: Any) -> Any:
    """JSON with only the first items of long lists."""
    if isinstance(found, dict):
        return {key: trimmed(value) for key, value in found.items()}
    return [trimmed(value) for value in found[:2]] if isinstance(found, list) else found


def nodes(found: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a JSON value, as a pair of its container and its key."""
    keys = list(found) if isinstance(found, dict) else range(len(found)) if isinstance(found, list) else []
    for key in keys:
        yield found, key
        yield from nodes(found[key])


def ours(error: Exception) -> bool:
    """Whether an error was raised by this package and not by a library."""
    frames = traceback.extract_tb(error.__traceback__)
    return "gnpool" in Path(frames[-1].filename).parts


@functools.cache
def saved_models() -> list[dict[str, bytes]]:
    """The files of a few networks with what prediction needs, learned, named and crystallized."""
    torch.manual_seed(0)
    found = []
    for kind, arguments in (
        ("GraphNet", {"in_channels": 3, "aggr": "gnpg", "readout": "gnp", "hidden": 4}),
        (
            "GraphNet",
            {"in_channels": 3, "aggr": "sum", "readout": "max", "hidden": 4, "form": "gin", "out_channels": 2},
        ),
        ("SetNet", {"in_channels": 3, "pool": "gnpg", "hidden": 4, "depth": 2}),
        ("NodeNet", {"in_channels": 3, "aggr": "gnp", "hidden": 4, "layers": 2}),
    ):
        model = getattr(models, kind)(**arguments)
        if kind == "GraphNet" and arguments["aggr"] == "gnpg":
            model.aggr = CrystalAggregation(4, [(0, 4, "sum")], "relu", torch.nn.Linear(4, 4, bias=False))
        if kind == "NodeNet":
            model.layers[0].aggr = CrystalAggregation.from_gnp(model.layers[0].aggr, {"positive": "harmonic sum"})
        classes = ("no", "yes") if arguments.get("out_channels") == 2 else ()
        task, level = "classification" if classes else "regression", "node" if kind == "NodeNet" else "graph"
        rules = (Rule("mass", "log", 2.0, 1.0, True), Rule("kind", "one-hot", categories=("C",)))
        extra = {
            "problem": Problem(task, level, kind != "SetNet", classes, 2.0 if not classes else 1.0).to_dict(),
            "preprocessing": Preprocessing(rules).to_dict(),
        }
        found.append(model_files(model, {"class": kind, "arguments": arguments}, extra))
    return found


def check_models(file: str, which: int, changes: list[tuple[int, str, Any]], edits: list[tuple[int, str, str]]) -> None:
    """A changed file with correct checksums must be refused by an error of this package, or be usable."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        place = Path(folder)
        if file == "fit":
            stored = sorted((Path(__file__).parents[1] / "results" / "fit").glob("*/fit.json"))
            if stored:
                found = changed(trimmed(json.loads(stored[which % len(stored)].read_text())), changes)
                (place / "fit.json").write_text(json.dumps(found))
                refused(lambda: shown(place))
            return
        if file in ("pt", "monstor"):
            check_tensors(file, place, changes)
            return
        files = saved_models()[which % len(saved_models())]
        description, weights = json.loads(files["model.json"]), files["model.safetensors"]
        if file == "tensors":
            weights = lying(weights, changes)
            description["weights"] = {"bytes": len(weights), "sha256": hashlib.sha256(weights).hexdigest()}
        elif file != "text":
            part = "extra" if file == "extra" else "spec"
            description = changed(description, changes) if which % 3 == 0 else description
            if isinstance(description.get(part), dict):
                changed(description[part], changes)
        text = json.dumps(description)
        (place / "model.json").write_bytes(edited(text, edits) if file == "text" else text.encode())
        (place / "model.safetensors").write_bytes(weights)
        refused(lambda: use(place, export=which % 4 == 0))


def shown(place: Path) -> None:
    """Make the page of a fit, as the command line does."""
    with contextlib.suppress(typer.Exit), contextlib.redirect_stderr(io.StringIO()), stored_in(place):
        page(read_study(place))


def use(place: Path, export: bool) -> None:
    """Predict with a saved model, and write it as plain PyTorch Geometric."""
    predictor = load_predictor(place)
    names, features = (
        np.arange(2),
        (Column("mass", np.array([1.0, np.nan, 3.0])), Column("kind", np.array([0, -1, 0]), ("C",))),
    )
    edges = np.array([[1, 0], [0, 1]]) if predictor.problem.edges else None
    table = GraphTable(names, np.array([2, 1]), edges, features, None, predictor.problem.level, np.arange(3))
    outputs, _ = predictor.outputs(table)
    prediction_rows(predictor, table, outputs)
    if export:
        write_export(place, place / "plain", "pyg")


def lying(weights: bytes, changes: list[tuple[int, str, Any]]) -> bytes:
    """Weights whose header was changed."""
    length = int.from_bytes(weights[:8], "little")
    header = json.dumps(changed(json.loads(weights[8 : 8 + length]), changes)).encode()
    claimed = 2**62 if changes and changes[0][0] % 11 == 0 else len(header)
    return claimed.to_bytes(8, "little") + header + weights[8 + length :]


def check_tensors(file: str, place: Path, changes: list[tuple[int, str, Any]]) -> None:
    """Lists of Data and models of influence whose bytes were changed."""
    path = place / f"x.{file}"
    if file == "pt":
        graphs = [Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]]), y=torch.tensor([1.0]), num_nodes=2)] * 2
        torch.save(graphs, path)
        data = bytearray(path.read_bytes())
        begin = data.index(b"data.pkl")
        for at, _, new in changes:  # inside the pickle, whose checksum torch ignores
            data[begin + at % 900] = hash(str(new)) % 256 if new is not None else 0x80
        path.write_bytes(bytes(data))
        refused(lambda: read_graphs(path))
        return
    model = MONSTOR("max", hidden=4, layers=2)
    save_monstor(path, model, 2, {"a": 1})
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    spec = changed(json.loads(header["__metadata__"]["gnpool"]), changes)
    header["__metadata__"]["gnpool"] = json.dumps(spec)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])
    refused(lambda: load_monstor(path))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5).filter(lambda name: name != "$float"), inner, max_size=3)
    ),
    max_leaves=8,
)


def check_store(label: str, scores: Any, tensor: list[float], damage: tuple[str, int, int] | None) -> None:
    """A stored unit must come back, or be missing after damage and be storable again."""
    with tempfile.TemporaryDirectory() as folder:
        found: list[Any] = []
        store = Store(Path(folder, "store"), on_damage=found.append)
        key, given_tensors = {"table": "t", "label": label}, {"a": torch.tensor(tensor, dtype=torch.float64)}
        assert store.put(key, scores=scores, tensors=given_tensors)
        if damage is not None:
            suffix, place, change = damage
            (file,) = Path(folder, "store", "units").rglob(f"*{suffix}")
            content = bytearray(file.read_bytes())
            at = place % len(content)
            if change:
                content[at] ^= change
            else:
                del content[at:]
            file.write_bytes(content)
        record = store.get(key)
        if damage is not None:
            assert record is None
            assert len(found) == 1
            assert store.put(key, scores=scores, tensors=given_tensors)
            record = store.get(key)
        assert record is not None
        assert record.tensors is not None
        assert repr(record.scores) == repr(scores)
        assert record.tensors["a"].tolist() == tensor or any(map(math.isnan, tensor))
        assert [path.name for path in Path(folder).iterdir()] == ["store"]  # no label leads out of the folder


KEY = {"table": "t", "unit": 1}
GIVEN: dict[str, Any] = {"scores": [{"mape": 1.5, "odd": math.nan}, None], "meta": {"device": "cpu"}}
FORGED = ("record", "tensors", "pack", "checkpoint")
CHANGES = st.lists(
    st.tuples(
        st.integers(0, 2000),
        st.integers(0, 12),  # number of characters to remove
        st.text(max_size=6)
        | st.sampled_from(["null", "[]", "{}", "-1", "1e999", '"a"', "true", '{"$float": "nan"}', "9" * 30])
        | st.integers(1, 3000).map(lambda depth: "[" * depth)
        | st.integers(1, 3000).map(lambda depth: '{"a":' * depth),
    ),
    min_size=1,
    max_size=3,
)


def forged(data: bytes, changes: list[tuple[int, int, str]]) -> bytes:
    """Bytes with some places changed."""
    for place, gone, new in changes:
        at = place % (len(data) + 1)
        data = data[:at] + new.encode("utf-8", "surrogatepass") + data[at + gone :]
    return data


def sealed(body: bytes) -> bytes:
    """A record of this content with a correct checksum."""
    return f'{{"sha256": "{hashlib.sha256(body).hexdigest()}",\n'.encode() + body


def check_files(kind: str, changes: list[tuple[int, int, str]]) -> None:
    """A file with other content and correct checksums must be read to something valid, or be ignored."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind == "checkpoint":
            check_checkpoint(Path(folder, "unit.safetensors"), changes)
            return
        found: list[Any] = []
        store = Store(folder, on_damage=found.append)
        store.put(KEY, tensors={"a": torch.arange(3.0), "b": torch.zeros(2, 2)}, **GIVEN)
        forge(store, kind, changes)
        try:
            record = store.get(KEY)
            store.keys()
            assert (record is None) == bool(found) or kind == "pack"
            if record is not None:
                assert record.key == KEY
                assert isinstance(record.meta, dict)
                assert all(isinstance(value, torch.Tensor) for value in (record.tensors or {}).values())
            else:
                assert store.put(KEY, **GIVEN)
                assert repr(store.get(KEY).scores) == repr(GIVEN["scores"])  # type: ignore[union-attr]
        except StoreError as error:
            if kind != "pack" and "schema" not in str(error):
                raise


def forge(store: Store, kind: str, changes: list[tuple[int, int, str]]) -> None:
    """Change a file of the only unit of a store."""
    (record,) = (store.root / "units").rglob("*.json")
    tensors = record.with_suffix(".safetensors")
    body = record.read_bytes().partition(b"\n")[2]
    if kind == "record":
        record.write_bytes(sealed(forged(body, changes)))
    elif kind == "tensors":
        content = tensors.read_bytes()
        length = int.from_bytes(content[:8], "little")
        head = forged(content[8 : 8 + length], changes)
        content = len(head).to_bytes(8, "little") + head + content[8 + length :]
        tensors.write_bytes(content)
        fields = json.loads(b"{" + body)
        fields["tensors"] |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        record.write_bytes(sealed(json.dumps(fields).encode()[1:]))
    else:
        packing = store.pack()
        assert packing is not None
        with zipfile.ZipFile(packing.path) as archive:
            begin = archive.start_dir
        content = packing.path.read_bytes()
        listed = forged(content[begin:-COMMENT], changes)
        packing.path.write_bytes(content[:begin] + listed + MARK + hashlib.sha256(listed).hexdigest().encode())


def check_checkpoint(path: Path, changes: list[tuple[int, int, str]]) -> None:
    """A changed checkpoint must be read to something valid, or be refused."""
    given = {"a": torch.arange(3.0), "b": torch.zeros(2, 2)}
    write_checkpoint(path, given, "study")
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    head = forged(content[8 : 8 + length], changes)
    path.write_bytes(len(head).to_bytes(8, "little") + head + content[8 + length :])
    try:
        found = read_checkpoint(path, "study", lambda tensors: check_like(tensors, given))
    except ValueError as error:
        if "belongs to another study" not in str(error):
            raise
        return
    assert (found is None) == (not path.exists())
    if found is not None:
        assert [value.shape for value in found.values()] == [value.shape for value in given.values()]


DAMAGE = st.none() | st.tuples(st.sampled_from([".json", ".safetensors"]), st.integers(0, 10**4), st.integers(0, 255))
PARTS: dict[str, tuple[Callable[..., None], tuple[Any, ...]]] = {
    "operator": (check_operator, (pooled(),)),
    "readers": (check_readers, (st.sampled_from(["tables", "tu", "list"]), EDITS, st.integers(0, 9))),
    "models": (check_models, (FILES, st.integers(0, 10**4), st.lists(CHANGE, min_size=1, max_size=3), EDITS)),
    "files": (check_files, (st.sampled_from(FORGED), CHANGES)),
    "store": (check_store, (st.text(max_size=20), JSON, st.lists(st.floats(), max_size=5), DAMAGE)),
}


def run(part: str, examples: int, number: int) -> int:
    """Search one part; returns how many examples were tried."""
    check, strategies = PARTS[part]
    tried = 0

    def one(arguments: tuple[Any, ...]) -> None:
        nonlocal tried
        tried += 1
        signal.alarm(PATIENCE)  # ends the program, and prints the arguments
        try:
            check(*arguments)
        finally:
            signal.alarm(0)

    checks = list(HealthCheck)
    options = settings(
        max_examples=examples, deadline=None, database=None, derandomize=False, suppress_health_check=checks
    )
    seed(number)(options(given(st.tuples(*strategies))(one)))()
    return tried


def hanging(*_: object) -> None:
    """Raise an error when the alarm rings."""
    raise TimeoutError(f"an example took longer than {PATIENCE} seconds")


def main() -> int:
    """Run from the command line; return 0 if nothing was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=20_000)
    parser.add_argument("--seed", type=int, help="seed of a run to repeat")
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--keep", action="store_true", help="write the counts to results/reliability.json")
    options = parser.parse_args()
    number = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    signal.signal(signal.SIGALRM, hanging)
    torch.set_num_threads(1)
    print(f"seed {number}", flush=True)
    counts = {}
    for part in PARTS if options.only is None else [options.only]:
        begin = time.monotonic()
        count = math.ceil(options.examples * (SHARES[part] if options.only is None else 1.0))
        tried = run(part, count, number)
        counts[part] = tried
        print(f"{part}: {tried} examples, {time.monotonic() - begin:.0f} s, nothing found", flush=True)
    if options.keep:
        keep("fuzz", {"seed": number, "tried": counts, "found": 0})  # anything found has ended the program before
    return 0


if __name__ == "__main__":
    sys.exit(main())
