import numpy as np
import pytest
import torch

from gnpool.influence import CascadeGraph, draw_seeds, make_labels, simulate
from gnpool.influence import labels as module


@pytest.fixture
def graph() -> CascadeGraph:
    rng = np.random.default_rng(0)
    pairs = np.unique(rng.integers(0, 150, (900, 2)), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return CascadeGraph(150, *pairs.T, rng.random(len(pairs)) * 0.2)


def same(first, second) -> bool:
    parts = ("table", "first", "pairs", "last")
    return all(torch.equal(getattr(first, name), getattr(second, name)) for name in parts)


def test_rows_are_the_frequencies_of_simulations(graph):
    labels = make_labels(graph, sets=3, runs=500, seed=1)
    assert labels.kinds == ["uniform"] * 3 + ["degree"] * 3
    seeds = [draw_seeds(graph, "degree", np.random.default_rng([1, 1, number])) for number in range(3)]
    found = simulate(graph, seeds, 500, seed=module._seed_of(1, 1, 0), record=True)
    for number in range(3):
        first, pairs, last = (int(t[3 + number]) for t in (labels.first, labels.pairs, labels.last))
        assert last == first + pairs + 1
        assert torch.equal(labels.table[first : first + pairs + 1].int(), found.steps[number][: pairs + 1])
        assert torch.equal(labels.table[last].int(), found.steps[number][-1])
        growth = found.steps[number].sum(1).diff() / 500
        assert (growth[:pairs] >= module.GROWTH).all()
    assert labels.influence()[3:].tolist() == pytest.approx(found.influence.tolist())


def test_history_of_the_pairs(graph):
    labels = make_labels(graph, sets=2, runs=200)
    first, pairs = int(labels.first[1]), int(labels.pairs[1])
    expected = [[first + i + d if i + d >= 0 else 0 for d in (-3, -2, -1, 0, 1)] for i in range(pairs)]
    assert labels.history([1]).tolist() == expected
    assert not labels.table[0].any()


def test_a_folder_resumes_and_a_longer_list_begins_with_a_shorter_one(graph, tmp_path, monkeypatch):
    whole = make_labels(graph, sets=30, runs=100, folder=tmp_path)
    assert same(whole, make_labels(graph, sets=30, runs=100))

    calls = []
    original = module.chunk_unit
    monkeypatch.setattr(module, "chunk_unit", lambda *a: calls.append(a[2:5]) or original(*a))
    assert same(whole, make_labels(graph, sets=30, runs=100, folder=tmp_path))
    assert calls == []
    part = make_labels(graph, sets=10, runs=100, folder=tmp_path)
    assert calls == []
    assert torch.equal(part.table[part.last[:10]], whole.table[whole.last[:10]])
    assert torch.equal(part.table[part.last[10:]], whole.table[whole.last[30:40]])

    damaged = next(tmp_path.glob("*/degree-00000.npz"))
    damaged.write_bytes(damaged.read_bytes()[:100])
    assert same(whole, make_labels(graph, sets=30, runs=100, folder=tmp_path))
    assert len(calls) == 1
    make_labels(graph, sets=1, runs=101, folder=tmp_path)
    assert len(calls) == 3  # another number of runs is another folder
    assert not list(tmp_path.glob("*/.*"))


HARMS = {
    "pairs without rows": lambda pairs, counts: (pairs + 1, counts),
    "negative pairs": lambda pairs, counts: (pairs - pairs.max() - 1, counts),
    "too many pairs": lambda pairs, counts: (np.full(25, 51), np.zeros((25 * 53, counts.shape[1]), np.int16)),
    "other nodes": lambda pairs, counts: (pairs, counts[:, 1:]),
    "other numbers": lambda pairs, counts: (pairs, counts.astype(np.int32)),
    "more cascades than there are": lambda pairs, counts: (pairs, counts + np.int16(101)),
    "gigabytes": lambda pairs, counts: (pairs, np.zeros((2**20, 100), np.int16)),
    "objects": lambda pairs, counts: (pairs, np.array([None])),
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_file_that_cannot_be_is_simulated_again(graph, tmp_path, harm):
    whole = make_labels(graph, sets=25, runs=100, folder=tmp_path)
    file = next(tmp_path.glob("*/uniform-00000.npz"))
    with np.load(file) as content:
        pairs, counts = HARMS[harm](content["pairs"], content["counts"])
    np.savez_compressed(file, pairs=pairs, counts=counts)
    assert module._load(file, graph.nodes, 100) is None
    assert same(whole, make_labels(graph, sets=25, runs=100, folder=tmp_path))


def test_stopping_keeps_what_is_finished(graph, tmp_path):
    seen = []

    def check() -> None:
        seen.append(len(list(tmp_path.glob("*/*.npz"))))
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_labels(graph, sets=50, runs=64, folder=tmp_path, check=check)
    assert seen == [0, 1, 2]


def test_sizes_and_chances_of_seeds(graph):
    rng = np.random.default_rng(0)
    uniform = [draw_seeds(graph, "uniform", rng) for _ in range(2000)]
    degree = [draw_seeds(graph, "degree", rng) for _ in range(2000)]
    for sets in (uniform, degree):
        assert {len(nodes) for nodes in sets} == {1, 2}  # 2 % of 150 is 3, which is not reached
        assert all(len(set(nodes.tolist())) == len(nodes) for nodes in sets)
    first = np.bincount([nodes[0] for nodes in degree], minlength=150) / 2000
    expected = graph.out_degree / graph.edges
    assert np.abs(first - expected).max() < 5 * np.sqrt(expected.max() / 2000)
    assert np.bincount([nodes[0] for nodes in uniform], minlength=150).max() < 40


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sets": 0}, "'sets' must be at least 1, got 0"),
        ({"runs": 0}, r"'runs' must lie in \[1, 32767\], got 0"),
        ({"runs": 40_000}, r"'runs' must lie in \[1, 32767\], got 40000"),
    ],
)
def test_bad_numbers(graph, options, message):
    with pytest.raises(ValueError, match=message):
        make_labels(graph, **options)


def test_unknown_kind(graph):
    with pytest.raises(ValueError, match="'kind' must be one of uniform, degree, got 'pagerank'"):
        draw_seeds(graph, "pagerank", np.random.default_rng(0))
