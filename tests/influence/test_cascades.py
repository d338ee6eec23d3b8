import math

import numpy as np
import pytest
import torch

from gnpool.influence import CascadeGraph, simulate
from gnpool.influence.cascades import check_seeds
from tests.influence.exact import enumerated, tiny_graph

RUNS = 4000


def chain(*probabilities: float) -> CascadeGraph:
    count = len(probabilities)
    return CascadeGraph(count + 1, np.arange(count), np.arange(1, count + 1), np.array(probabilities))


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_estimates_agree_with_enumeration(first):
    for number in range(first, first + 20):
        rng = np.random.default_rng(number)
        graph = tiny_graph(rng)
        seeds = rng.choice(graph.nodes, int(rng.integers(1, 3)), replace=False).tolist()
        mean, variance, by_step = enumerated(graph, seeds)
        found = simulate(graph, [seeds], RUNS, seed=number, record=True)
        assert abs(found.influence[0] - mean) <= 4 * math.sqrt(variance / RUNS) + 1e-12, number
        assert found.standard_error[0] == pytest.approx(math.sqrt(variance / RUNS), rel=0.15, abs=1e-3)
        counts = found.steps[0].numpy()
        rows = [min(step, len(counts) - 1) for step in range(len(by_step))]
        error = np.abs(counts[rows] / RUNS - by_step)
        assert (error <= 5 * np.sqrt(by_step * (1 - by_step).clip(0) / RUNS) + 1e-9).all(), number
        assert found.probability[0].sum() == pytest.approx(found.influence[0].item())


def test_standard_error_is_that_of_the_mean():
    graph = chain(0.5, 0.5, 0.25)
    means = [simulate(graph, [[0]], 500, seed=s).influence[0].item() for s in range(200)]
    told = simulate(graph, [[0]], 500).standard_error[0].item()
    assert np.std(means, ddof=1) == pytest.approx(told, rel=0.15)


@pytest.mark.parametrize(
    ("graph", "seeds", "expected"),
    [
        pytest.param(chain(1.0, 1.0), [0], 3.0, id="certain"),
        pytest.param(chain(0.0, 1.0), [0], 1.0, id="impossible"),
        pytest.param(chain(1.0, 1.0), [2], 1.0, id="against the direction"),
        pytest.param(chain(1.0, 1.0), [], 0.0, id="no seeds"),
        pytest.param(chain(1.0, 1.0), [0, 0, 1], 3.0, id="a seed twice"),
        pytest.param(CascadeGraph(3, *(np.zeros(0, dtype=int),) * 2, np.zeros(0)), [0, 2], 2.0, id="no edges"),
        pytest.param(CascadeGraph(2, np.array([0, 1]), np.array([1, 0]), np.ones(2)), [1], 2.0, id="cycle"),
        pytest.param(CascadeGraph(2, np.array([0]), np.array([0]), np.ones(1)), [0], 1.0, id="self-loop"),
    ],
)
def test_certain_cascades(graph, seeds, expected):
    found = simulate(graph, [seeds], 100, record=True)
    assert found.influence.tolist() == [expected]
    assert found.standard_error.tolist() == [0.0]
    assert found.probability.sum() == expected


def test_steps_of_a_chain():
    (counts,) = simulate(chain(1.0, 1.0, 1.0), [[0]], 70, record=True).steps
    assert (counts == 70 * torch.ones(4, 4).tril()).all()
    (cut,) = simulate(chain(1.0, 1.0, 1.0), [[0]], 70, record=True, max_steps=1).steps
    assert cut.tolist() == [[70, 0, 0, 0], [70, 70, 70, 70]]


def test_same_bits_for_any_number_of_threads_and_order_of_edges():
    rng = np.random.default_rng(0)
    pairs = np.unique(rng.integers(0, 300, (3000, 2)), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    probability = rng.random(len(pairs)) * 0.3
    order = rng.permutation(len(pairs))
    graph = CascadeGraph(300, *pairs.T, probability)
    shuffled = CascadeGraph(300, *pairs[order].T, probability[order])
    threads = torch.get_num_threads()
    found = []
    try:
        for count, network in ((1, graph), (4, graph), (2, shuffled)):
            torch.set_num_threads(count)
            found.append(simulate(network, [[0, 1], [2], [5, 7]], 3000, seed=5, record=True))
    finally:
        torch.set_num_threads(threads)
    for other in found[1:]:
        assert torch.equal(found[0].influence, other.influence)
        assert torch.equal(found[0].standard_error, other.standard_error)
        assert all(torch.equal(a, b) for a, b in zip(found[0].steps, other.steps, strict=True))


def test_paired_sets_see_the_same_live_edges():
    graph = tiny_graph(np.random.default_rng(3))
    alone = simulate(graph, [[0]], 1000, seed=2)
    paired = simulate(graph, [[0], [0], [0, 1]], 1000, seed=2, paired=True)
    own = simulate(chain(0.5), [[0], [0]], 1000, seed=2)
    assert paired.influence[0] == paired.influence[1] == alone.influence[0]
    assert paired.influence[2] >= paired.influence[0]
    assert own.influence[0] != own.influence[1]


def test_seeds_differ_and_progress_ends():
    seen = []
    first = simulate(chain(0.5), [[0]], 5000, seed=1, progress=lambda done, total: seen.append((done, total)))
    second = simulate(chain(0.5), [[0]], 5000, seed=2)
    assert first.influence != second.influence
    assert seen[-1] == (5000, 5000)


def test_one_run_has_no_standard_error():
    found = simulate(chain(0.5), [[0]], 1)
    assert found.influence.item() in (1.0, 2.0)
    assert math.isnan(found.standard_error.item())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[5]],), r"seed set 0: nodes must lie in \[0, 2\), got 5"),
        (([[0], [-1]],), r"seed set 1: nodes must lie in \[0, 2\), got -1"),
        (([[0]], 0), "'runs' must be at least 1, got 0"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        simulate(chain(0.5), *arguments)


def test_nodes_that_were_not_recorded():
    with pytest.raises(ValueError, match="simulate with record=True"):
        _ = simulate(chain(0.5), [[0]], 10).probability


@pytest.mark.parametrize(
    ("source", "target", "probability", "message"),
    [
        ([0, 1], [1], [0.5, 0.5], r"must have one shape \(E,\)"),
        ([0], [7], [0.5], r"nodes must lie in \[0, 2\), got 7"),
        ([0], [1], [1.5], r"'probability' must lie in \[0, 1\], got 1.5"),
        ([0, 0], [1, 1], [0.5, 0.5], "an edge is repeated"),
    ],
)
def test_bad_graphs(source, target, probability, message):
    with pytest.raises(ValueError, match=message):
        CascadeGraph(2, np.array(source), np.array(target), np.array(probability))


@pytest.mark.parametrize(
    ("runs", "paired", "bytes_"), [(1, False, 1 << 28), (200, False, 8 * 3 * 6 * 2), (70, True, 900)]
)
def test_gpu_kernels_give_the_bits_of_the_cpu(runs, paired, bytes_, monkeypatch):
    pytest.importorskip("triton")
    from gnpool.influence import cascade_cuda
    from gnpool.influence.cascades import Order, block_lanes, finished

    monkeypatch.setattr(cascade_cuda, "HOST_BYTES", bytes_)
    source, target = np.array([[0, 0, 1, 2, 3, 4, 5, 2], [1, 2, 3, 3, 4, 5, 0, 0]])
    graph = CascadeGraph(6, source, target, np.array([0.5, 0.1, 1.0, 0.0, 0.9, 0.3, 0.7, 0.2]))
    sets = [[0], [1, 2], [], [3, 3]]
    here = simulate(graph, sets, runs, seed=3, record=True, max_steps=2, paired=paired)
    device = torch.get_default_device()
    order, blocks = Order(runs, 3, True, 2, paired), range(block_lanes(runs).size)
    there = finished(order, cascade_cuda.spread_cuda(graph, check_seeds(graph, sets), order, blocks, device, None))
    assert torch.equal(here.influence, there.influence)
    assert torch.equal(here.standard_error.nan_to_num(-1), there.standard_error.nan_to_num(-1))
    assert all(torch.equal(a, b) for a, b in zip(here.steps, there.steps, strict=True))
