"""What holds for every benchmark: counts, equal data for equal arguments, sorted edges, types."""

from __future__ import annotations

import pytest
import torch

from gnpool.tasks.arena import benchmark_names, get_benchmark
from gnpool.training import Batches
from tests.tasks.helpers import same

ALL = (
    "good_motif_size",
    "good_motif_basis",
    "good_motif_size_concept",
    "good_motif_basis_concept",
    "pna_multitask",
    "salsa_bfs",
    "salsa_dijkstra",
    "salsa_eccentricity",
    "colors",
    "triangles",
)
COVARIATE = {"train": 18000, "id_val": 3000, "id_test": 3000, "val": 3000, "test": 3000}
CONCEPT = {"train": 12600, "id_val": 2700, "id_test": 2700, "val": 6000, "test": 6000}
ALGORITHMS = {"train": 10000, "val": 1000} | {
    f"{kind}_{nodes}": {10_000: 20, 100_000: 5}.get(nodes, 1000)
    for kind in ("er", "ws", "delaunay")
    for nodes in (16, 80, 160, 800, 1600, 10_000, 100_000)
}
COUNTS = {
    "good_motif_size": COVARIATE,
    "good_motif_basis": COVARIATE,
    "good_motif_size_concept": CONCEPT,
    "good_motif_basis_concept": CONCEPT,
    "pna_multitask": {"train": 5120, "val": 640, "test": 1280}
    | {f"test_{low}": 1280 for low in (20, 25, 30, 35, 40, 45, 60, 75, 95)},
    "salsa_bfs": ALGORITHMS,
    "salsa_dijkstra": ALGORITHMS,
    "salsa_eccentricity": ALGORITHMS,
    "colors": {"train": 500, "val": 2500, "test": 2500, "large": 2500, "large_c": 2500},
    "triangles": {"train": 30000, "val": 5000, "test": 5000, "large": 5000},
}


def test_names() -> None:
    assert sorted(benchmark_names()) == sorted(ALL)


@pytest.mark.parametrize("name", ALL)
def test_published_counts(name: str) -> None:
    assert {part: one.count for part, one in get_benchmark(name).parts.items()} == COUNTS[name]


@pytest.mark.parametrize("name", ALL)
def test_data_follows_from_the_arguments(name: str) -> None:
    benchmark = get_benchmark(name)
    first, last = next(iter(benchmark.parts)), "test" if "test" in benchmark.parts else "ws_80"
    for part in (first, last):
        few = benchmark.dataset(part, count=12)
        assert same(few[:5], benchmark.dataset(part, count=5))
        assert not same(few, benchmark.dataset(part, count=12, seed=1))
    assert not same(benchmark.dataset(first, count=5), benchmark.dataset(last, count=5))


@pytest.mark.parametrize("name", ALL)
def test_fields(name: str) -> None:
    benchmark = get_benchmark(name)
    for part in [part for part in benchmark.parts if not part.endswith("000")]:
        for graph in benchmark.dataset(part, count=2):
            source, destination = graph.edge_index
            nodes = graph.num_nodes
            keys = destination * nodes + source
            assert (keys.diff() > 0).all()  # sorted, none twice
            assert set(keys.tolist()) == set((source * nodes + destination).tolist())  # both directions
            assert ((source == destination).sum() == nodes) == name.startswith("salsa")
            assert graph.x.shape == (nodes, benchmark.in_channels)
            assert graph.x.dtype == torch.float32
        Batches(benchmark.dataset(part, count=3), 2)  # every field belongs to nodes, edges or graphs


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"part": "holdout"}, "'part' of 'colors' must be one of train, val, test, large, large_c, got 'holdout'"),
        ({"part": "val", "count": 0}, "'count' must be a whole number from 1, got 0"),
        ({"part": "val", "count": True}, "'count' must be a whole number from 1, got True"),
    ],
)
def test_what_cannot_be_asked_for(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        get_benchmark("colors").dataset(**options)  # type: ignore[arg-type]


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="there is no benchmark 'mnist'; the names are good_motif_size"):
        get_benchmark("mnist")
