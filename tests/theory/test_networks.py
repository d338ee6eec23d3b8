from __future__ import annotations

import numpy as np
import pytest
import torch

from gnpool.theory import (
    HEADS,
    NormReadout,
    PlainReadout,
    Readout,
    angular_directions,
    compare_widths,
    draw_parameters,
    empirical_kernel,
    feature_map,
    linearization_gap,
    network,
    train_network,
    widths,
)
from gnpool.theory.networks import Parameters
from tests.theory import oracle

GRAPHS = oracle.graphs_of(
    [[[1.0, 2.0], [3.0, 0.4], [0.5, 0.5]], [[2.0, 2.1], [1.0, 3.0]], [[0.3, 0.1], [1.5, 1.0]]], y=[1.0, 2.0, 0.5]
)


def by_hand(parameters: dict[str, np.ndarray], pool: oracle.Pool) -> np.ndarray:
    width = parameters["outer"].size
    pooled = np.array([[pool(h @ w) for w in parameters["inner"]] for h in oracle.split(GRAPHS)])
    if "hidden" not in parameters:
        return pooled @ parameters["outer"] / np.sqrt(width)
    hidden = pooled @ parameters["hidden"].T / np.sqrt(width) + parameters["bias"]
    return np.maximum(hidden, 0) @ parameters["outer"] * np.sqrt(2 / width)


def jacobian_by_hand(parameters: Parameters, pool: oracle.Pool, step: float = 1e-6) -> np.ndarray:
    columns = []
    for name, tensor in parameters.items():
        for place in np.ndindex(tuple(tensor.shape)):
            shifted = []
            for sign in (1, -1):
                changed = {key: value.numpy().copy() for key, value in parameters.items()}
                changed[name][place] += sign * step
                shifted.append(by_hand(changed, pool))
            columns.append((shifted[0] - shifted[1]) / (2 * step))
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("head", ["linear", "mlp"])
@pytest.mark.parametrize(
    ("readout", "pool"),
    [(NormReadout(-1.0, 0.5), oracle.gnp(-1, 0.5)), (PlainReadout("max"), oracle.plain("max"))],
    ids=["gnp", "max"],
)
def test_output_and_kernel_by_hand(head: str, readout: Readout, pool: oracle.Pool) -> None:
    parameters = draw_parameters(5, 2, head, seed=1)
    expected = by_hand({name: value.numpy() for name, value in parameters.items()}, pool)
    np.testing.assert_allclose(network(parameters, GRAPHS, readout).numpy(), expected, rtol=1e-12)
    jacobian = jacobian_by_hand(parameters, pool)
    np.testing.assert_allclose(empirical_kernel(parameters, GRAPHS, readout).numpy(), jacobian @ jacobian.T, rtol=1e-6)


@pytest.mark.parametrize("head", ["linear", "mlp"])
def test_kernel_of_wide_networks_is_the_infinite_one(head: str) -> None:
    readout = NormReadout(3.0)
    infinite = HEADS[head](feature_map(GRAPHS, readout, angular_directions(5000)))
    found = torch.stack([empirical_kernel(draw_parameters(300, 2, head, seed=s), GRAPHS, readout) for s in range(20)])
    torch.testing.assert_close(found.mean(0), infinite, rtol=0.06, atol=0.0)


def test_training_is_gradient_descent_from_the_function_zero() -> None:
    pool = oracle.gnp(2, 0)
    parameters = draw_parameters(4, 2, seed=2)
    end, losses = train_network(parameters, GRAPHS, NormReadout(2.0), steps=2, rate=0.01)
    start = by_hand({name: value.numpy() for name, value in parameters.items()}, pool)
    current, expected = parameters, []
    for _ in range(2):
        residual = by_hand({name: v.numpy() for name, v in current.items()}, pool) - start - GRAPHS.y.numpy()
        expected.append(0.5 * (residual**2).sum())
        gradient = torch.from_numpy(residual @ jacobian_by_hand(current, pool))
        sizes = [value.numel() for value in current.values()]
        parts = zip(current.items(), gradient.split(sizes), strict=True)
        current = {name: value - 0.01 * part.view_as(value) for (name, value), part in parts}
    assert losses == pytest.approx(expected, rel=1e-6)
    for name, value in end.items():
        torch.testing.assert_close(value, current[name], rtol=1e-6, atol=1e-9)


def test_trained_networks_approach_the_kernel_only_where_the_pooling_is_continuous() -> None:
    mlp, positive, negative = widths.CASES
    for case in (mlp, positive):
        narrow, wide = compare_widths(case, (16, 256))
        assert np.mean(wide.function) < 0.04
        for mean in (np.mean, np.median):  # the outcome hangs on neither
            assert mean(wide.function) < 0.7 * mean(narrow.function)
            assert mean(wide.kernel) < 0.7 * mean(narrow.kernel)
    assert max(wide.flipped + wide.unflipped) < 0.01
    narrow, wide = compare_widths(negative, (16, 256))
    assert np.mean(wide.kernel) < 0.7 * np.mean(narrow.kernel)
    assert min(wide.function) > 0.15
    assert np.mean(wide.flipped) > 1 > 10 * np.mean(wide.unflipped)


def test_linearization_gap_by_hand() -> None:
    graphs = oracle.graphs_of([[[1.0], [2.0]], [[3.0], [1.0], [1.0]]])
    start = {"inner": torch.tensor([[1.0], [-1.0]]).double(), "outer": torch.tensor([2.0, 3.0]).double()}
    end = {"inner": torch.tensor([[1.5], [0.5]]).double(), "outer": torch.tensor([2.5, 3.0]).double()}
    flipped, unflipped = linearization_gap(start, end, graphs, NormReadout(1.0))
    # Sums of degrees s = 3, 5. Channel 0: 2.5 * 1.5 s - 2 s less (0.5 * 2 + 0.5) s. Channel 1 was dead: 3 * 0.5 s.
    sums = np.array([3.0, 5.0])
    np.testing.assert_allclose(unflipped.numpy(), 0.25 * sums / np.sqrt(2))
    np.testing.assert_allclose(flipped.numpy(), 1.5 * sums / np.sqrt(2))


def test_unknown_head() -> None:
    with pytest.raises(ValueError, match="'head' must be linear or mlp, got 'deep'"):
        draw_parameters(4, 1, "deep")


def test_unknown_readout() -> None:
    class Other(Readout):
        def pool(self, z, graphs):  # type: ignore[no-untyped-def]
            raise NotImplementedError

    with pytest.raises(TypeError, match="'readout' must be a NormReadout or a PlainReadout, got Other"):
        network(draw_parameters(2, 2), GRAPHS, Other())
