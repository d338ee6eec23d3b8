"""Random numbers: the same for the same key, independent otherwise, of the right distribution."""

from __future__ import annotations

import hashlib
import json
import math

import numpy as np
import pytest

from gnpool.tasks.streams import Stream


def test_a_stream_is_pcg64_seeded_by_the_hash_of_its_key() -> None:
    seed = int.from_bytes(hashlib.sha256(json.dumps(["shortest", 3]).encode()).digest(), "big")
    raw = np.random.PCG64(seed).random_raw(5)
    assert np.array_equal(Stream("shortest", 3).uniform(5), (raw >> np.uint64(11)) * 2.0**-53)


@pytest.mark.parametrize("other", [("a", "b", 1), ("ab", 0), ("b", "a", 0), ("a", "b", "0"), ("a", "b", 0, "")])
def test_another_key_another_stream(other: tuple[str | int, ...]) -> None:
    ours, theirs = Stream("a", "b", 0).uniform(4000), Stream(*other).uniform(4000)
    assert abs(np.corrcoef(ours, theirs)[0, 1]) < 0.06  # 4 standard errors


def test_integers_are_uniform_without_the_upper_end() -> None:
    stream = Stream("integers")
    drawn = stream.integers(20, 30, 50_000)
    single = np.array([stream.integer(20, 30) for _ in range(5000)])
    for values in (drawn, single):
        counts = np.bincount(values, minlength=30)
        assert counts[:20].sum() == 0
        assert counts.size == 30
        assert np.abs(counts[20:] - values.size / 10).max() < 4.5 * math.sqrt(0.09 * values.size)


def test_permutations_are_uniform() -> None:
    stream = Stream("permutation")
    counts: dict[tuple[int, ...], int] = {}
    for _ in range(6000):
        order = tuple(stream.permutation(3).tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 6
    assert max(abs(count - 1000) for count in counts.values()) < 4.5 * math.sqrt(6000 * 5 / 36)


@pytest.mark.parametrize(
    ("name", "cdf"),
    [
        ("normal", lambda x: 0.5 * (1.0 + math.erf(x / math.sqrt(2.0)))),
        ("exponential", lambda x: 1.0 - math.exp(-x)),
        ("uniform", lambda x: x),
        # Gamma(15, 1) exceeds x when a Poisson process of rate 1 has fewer than 15 events before x.
        ("gamma", lambda x: 1.0 - sum(math.exp(-x + k * math.log(x) - math.lgamma(k + 1)) for k in range(15))),
    ],
)
def test_distributions(name: str, cdf: object) -> None:
    assert callable(cdf)
    stream, count = Stream("distribution", name), 10_000
    values = [stream.gamma(15) for _ in range(count)] if name == "gamma" else getattr(stream, name)(count)
    expected = np.array([cdf(x) for x in np.sort(values).tolist()])
    gap = np.abs(expected - (np.arange(count) + 0.5) / count).max()
    assert gap < 1.95 / math.sqrt(count)  # Kolmogorov and Smirnov, 0.1 %


def test_shapes_and_upper_end() -> None:
    values = Stream("uniform").uniform((300, 3), 10.0)
    assert values.shape == (300, 3)
    assert 9.9 < values.max() < 10.0
    assert 0.0 <= values.min() < 0.1
