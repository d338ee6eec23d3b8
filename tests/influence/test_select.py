import numpy as np
import pytest
import torch

from gnpool.influence import (
    CascadeGraph,
    ModelGains,
    MonteCarloGains,
    degree_seeds,
    influence_bound,
    lazy_greedy,
    model_influence,
    random_seeds,
    simulate,
)
from gnpool.models import MONSTOR
from tests.influence.exact import enumerated, tiny_graph


def random_graph(seed: int, nodes: int = 60, edges: int = 300, largest: float = 0.4) -> CascadeGraph:
    rng = np.random.default_rng(seed)
    pairs = np.unique(rng.integers(0, nodes, (edges, 2)), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return CascadeGraph(nodes, *pairs.T, rng.random(len(pairs)) * largest)


@pytest.mark.parametrize("seed", range(40))
def test_bound_is_above_the_exact_influence(seed):
    graph = tiny_graph(np.random.default_rng(seed))
    bound = influence_bound(graph)
    if bound is not None:
        exact = [enumerated(graph, [node])[0] for node in range(graph.nodes)]
        assert (bound >= np.array(exact) - 1e-5).all()


def test_bound_of_a_tree_is_exact():
    graph = CascadeGraph(4, np.array([0, 0, 1]), np.array([1, 2, 3]), np.array([0.5, 0.2, 0.3]))
    exact = [enumerated(graph, [node])[0] for node in range(4)]
    assert influence_bound(graph) == pytest.approx(exact)


def test_no_bound_where_the_series_diverges():
    assert influence_bound(CascadeGraph(2, np.array([0, 1]), np.array([1, 0]), np.ones(2))) is None


@pytest.mark.parametrize("k", [1, 4, 60])
@pytest.mark.parametrize("with_bound", [False, True])
def test_lazy_greedy_is_greedy(k, with_bound):
    graph = random_graph(1)
    bound = np.full(graph.nodes, 1e9) if with_bound else None
    found = lazy_greedy(MonteCarloGains(graph, 300, seed=4), graph.nodes, k, bound=bound, batch=7)
    plain = MonteCarloGains(graph, 300, seed=4)
    for seed, gain in zip(found.seeds, found.gains, strict=True):
        gains = plain.gains(range(graph.nodes))
        assert gain == pytest.approx(max(gains))
        assert gains[seed] == pytest.approx(max(gains))
        plain.add(seed)
    assert len(set(found.seeds)) == k
    assert found.violations == 0


def test_bounds_spare_estimates_and_change_nothing():
    graph = random_graph(2, nodes=200, edges=600, largest=0.2)
    without = lazy_greedy(MonteCarloGains(graph, 2000), graph.nodes, 5)
    bound = influence_bound(graph)
    assert bound is not None
    found = lazy_greedy(MonteCarloGains(graph, 2000), graph.nodes, 5, bound=1.2 * bound)  # beyond the noise
    assert found.seeds == without.seeds
    assert found.evaluations < without.evaluations


def test_gains_are_those_of_simulations_with_the_same_live_edges():
    graph = random_graph(3)
    gains = MonteCarloGains(graph, 500, seed=7)
    first = simulate(graph, [[3], [3, 8]], 500, seed=7, paired=True).influence
    assert gains.gains([3]) == [first[0].item()]
    gains.add(3)
    assert gains.gains([8, 3]) == pytest.approx([(first[1] - first[0]).item(), 0.0])


def test_estimates_above_the_bound_are_counted():
    class Liar:
        def gains(self, candidates):
            return [5.0 for _ in candidates]

        def add(self, node):
            pass

    assert lazy_greedy(Liar(), 3, 1, bound=np.array([1.0, 9.0, 2.0])).violations == 2


def test_degree_and_random():
    graph = random_graph(5)
    degree = degree_seeds(graph, 5)
    assert graph.out_degree[degree.seeds].tolist() == sorted(graph.out_degree.tolist(), reverse=True)[:5]
    assert random_seeds(graph, 5, 1).seeds == random_seeds(graph, 5, 1).seeds != random_seeds(graph, 5, 2).seeds
    assert len(set(random_seeds(graph, 60).seeds)) == 60


@pytest.mark.parametrize("k", [0, 61])
def test_impossible_numbers_of_seeds(k):
    graph = random_graph(5)
    for choose in (degree_seeds, random_seeds, lambda g, k: lazy_greedy(MonteCarloGains(g, 64), g.nodes, k)):
        with pytest.raises(ValueError, match=r"'k' must lie in \[1, 60\], the number of nodes, got"):
            choose(graph, k)


def test_model_gains_are_differences_of_model_influence():
    torch.manual_seed(1)
    graph, model = random_graph(6), MONSTOR("gnp")
    gains = ModelGains(model, graph, 3)
    first = gains.gains([4, 9])
    gains.add(4)
    second = gains.gains([9])
    expected = model_influence(model, graph, [[4], [9], [4, 9]], 3)
    assert first == pytest.approx(expected[:2])
    assert second == pytest.approx([expected[2] - expected[0]], abs=1e-5)
    assert gains.gains([]) == []


def test_a_model_is_not_asked_again_about_a_seed_it_was_just_asked_about(monkeypatch):
    torch.manual_seed(1)
    graph, model = random_graph(6), MONSTOR("gnp")
    gains, widths = ModelGains(model, graph, 3), []
    inner = gains._influence
    monkeypatch.setattr(gains, "_influence", lambda seeds: widths.append(seeds.size(1)) or inner(seeds))
    gains.gains([4, 9])
    gains.add(9)
    gains.add(4)  # what it brought before node 9 was a seed does not count
    assert widths == [2, 1]
    assert gains.now == pytest.approx(model_influence(model, graph, [[4, 9]], 3)[0], abs=1e-5)


def test_model_estimates_never_exceed_the_bound():
    graph = random_graph(7, largest=0.15)
    bound = influence_bound(graph)
    for seed in range(5):
        torch.manual_seed(seed)
        found = model_influence(MONSTOR("max"), graph, [[node] for node in range(graph.nodes)], 4)
        assert (np.array(found) <= bound + 1e-4).all()
