from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from gnpool.tasks import get_task
from gnpool.theory import (
    FeatureMap,
    NormReadout,
    PlainReadout,
    Readout,
    angular_directions,
    feature_map,
    join,
    linear_head_kernel,
    mlp_head_kernel,
    neighbor_sums,
    random_directions,
    scalar_directions,
)
from tests.theory import oracle

PLANE = [[[1.0, 2.0], [3.0, 0.4], [0.5, 0.5]], [[2.0, 2.1], [1.0, 3.0]], [[0.3, 0.1], [1.5, 1.0], [0.2, 3.0]]]
CASES: list[tuple[Readout, oracle.Pool]] = [
    (NormReadout(-1.0), oracle.gnp(-1, 0)),
    (NormReadout(2.0, 0.5), oracle.gnp(2, 0.5)),
    *((PlainReadout(name, relu), oracle.plain(name, relu)) for name in ("max", "mean") for relu in (True, False)),
    *((PlainReadout(name), oracle.plain(name)) for name in ("min", "sum")),
]
IDS = [str(readout) for readout, _ in CASES]


def test_neighbor_sums() -> None:
    data = get_task("harmonic").dataset("train", count=5, features=(2, 3.0))
    graphs = neighbor_sums(data)
    expected = []
    for graph in data:
        dense = np.zeros((graph.num_nodes, graph.num_nodes))
        dense[tuple(graph.edge_index.flip(0).numpy())] = 1.0
        expected.append(dense @ graph.x.double().numpy())
    np.testing.assert_allclose(graphs.h.numpy(), np.concatenate(expected), rtol=1e-12)
    assert graphs.sizes.tolist() == [graph.num_nodes for graph in data]
    assert graphs.y.tolist() == [graph.y.item() for graph in data]
    halves = join([neighbor_sums(data[:2]), neighbor_sums(data[2:])])
    assert all(torch.equal(getattr(halves, name), getattr(graphs, name)) for name in ("h", "index", "sizes", "y"))


def test_no_graphs() -> None:
    with pytest.raises(ValueError, match="'dataset' must hold one graph at least"):
        neighbor_sums([])


@pytest.mark.parametrize(("readout", "pool"), CASES, ids=IDS)
def test_scalar_kernel_is_the_gaussian_integral(readout: Readout, pool: oracle.Pool) -> None:
    rows = [[[1.0], [3.0], [2.0]], [[4.0], [1.0]], [[2.0], [2.0], [5.0], [1.0]]]
    graphs = oracle.graphs_of(rows)
    w = np.linspace(-9.0, 9.0, 18_000)  # an even number: no point at 0, where the slope jumps
    density = np.exp(-(w**2) / 2) / np.sqrt(2 * np.pi) * (w[1] - w[0])
    value = np.array([[pool(h[:, 0] * s) for s in w] for h in oracle.split(graphs)])
    slopes = np.array([[pool(h[:, 0] * np.sign(s)) * np.sign(s) for s in w] for h in oracle.split(graphs)])
    expected = (value * density) @ value.T + (slopes * density) @ slopes.T
    found = linear_head_kernel(feature_map(graphs, readout, scalar_directions())).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(("readout", "pool"), CASES, ids=IDS)
def test_plane_kernel_is_the_gaussian_integral(readout: Readout, pool: oracle.Pool) -> None:
    graphs = oracle.graphs_of(PLANE)
    # Polar: the radius of a Gaussian in the plane has E[r^2] = 2; the steps are not those of the quadrature tested.
    angles = 0.1 + np.arange(9001) * 2 * np.pi / 9001
    units = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    parts = oracle.split(graphs)
    value = np.array([[pool(h @ e) for e in units] for h in parts])
    slopes = np.array([[oracle.slope(pool, h, e) for e in units] for h in parts])
    # A difference across the jump of p < 0 is huge, and no part of the derivative.
    slopes[np.abs(slopes) > 100] = 0.0
    expected = 2 * value @ value.T / 9001 + np.einsum("gkc,hkc->gh", slopes, slopes) / 9001
    found = linear_head_kernel(feature_map(graphs, readout, angular_directions(20_000))).numpy()
    np.testing.assert_allclose(found, expected, rtol=3e-3)
    sampled = linear_head_kernel(feature_map(graphs, readout, random_directions(40_000, 2))).numpy()
    assert np.linalg.norm(sampled - found) < 0.03 * np.linalg.norm(found)


def test_mlp_head_is_the_expectation_over_its_hidden_layer() -> None:
    value = torch.tensor([[0.5, 0.2], [1.5, -0.3], [1.5, -0.3], [0.0, 0.0]], dtype=torch.float64)
    slope = torch.tensor([[0.4], [2.0], [1.0], [0.3]], dtype=torch.float64)
    found = mlp_head_kernel(FeatureMap(value, slope)).numpy()
    # A hidden unit is a Gaussian combination of the features and of the 1 that carries its bias. In the plane of two
    # graphs it is a direction: integrate over its angle; E[r^2] = 2.
    extended = np.concatenate([value.numpy(), np.ones((4, 1))], axis=1)
    angles = (np.arange(200_000) + 0.5) * 2 * np.pi / 200_000
    for i in range(4):
        for j in range(4):
            length = np.linalg.norm(extended[[i, j]], axis=1)
            cosine = np.clip(extended[i] @ extended[j] / length.prod(), -1, 1)
            u = length[0] * np.cos(angles)
            v = length[1] * np.cos(angles - np.arccos(cosine))
            product = 2 * (np.maximum(u, 0) * np.maximum(v, 0)).mean()
            both = ((u > 0) & (v > 0)).mean()
            kernel = 2 * product + 2 * both * (extended[i] @ extended[j] + slope[i, 0] * slope[j, 0]).item()
            assert found[i, j] == pytest.approx(kernel, rel=1e-4)


def test_mlp_head_keeps_its_digits_where_graphs_are_alike() -> None:
    value = torch.tensor([[1.0], [1.0 + 1e-9]], dtype=torch.float64)
    kernel = mlp_head_kernel(FeatureMap(value, value))
    # For an angle d, d (pi - d) + ... is linear in d: a cosine would give 0 or 2e-8 here.
    assert (kernel[0, 0] - kernel[0, 1]).item() == pytest.approx(
        (kernel[0, 0] - mlp_head_kernel(FeatureMap(1.0 + 2e-9 * (value - 1) / 2e-9, value))[0, 1]).item(), abs=1e-15
    )
    angle = 1e-9 / 2.0  # of (1, 1) and (1 + 1e-9, 1)
    expected = 2 * (1.0 + 1.0 + 1.0) * angle / (2 * math.pi)  # what the probability that both are positive loses
    gain = 2 * 1e-9 * (0.5 + 0.5 + 0.5) * 1.0  # what the longer features gain: half of each inner product, doubled
    assert (kernel[0, 1] - kernel[0, 0]).item() == pytest.approx(gain - expected, rel=1e-5)


def test_wrong_number_of_channels() -> None:
    with pytest.raises(ValueError, match="'directions' have 1 channels, but the graphs have 2 features"):
        feature_map(oracle.graphs_of(PLANE), NormReadout(1.0), scalar_directions())


def test_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = oracle.graphs_of(PLANE)
    whole = feature_map(graphs, NormReadout(-1.0), random_directions(50, 2))
    monkeypatch.setattr("gnpool.theory.kernel.CHUNK", 56)  # seven directions at a time
    parts = feature_map(graphs, NormReadout(-1.0), random_directions(50, 2))
    torch.testing.assert_close(whole.value, parts.value)
    torch.testing.assert_close(whole.slope, parts.slope)
