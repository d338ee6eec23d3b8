from __future__ import annotations

import math

import pytest
import torch

from gnpool.theory import Check, checks, gradient_formula, run_checks


@pytest.mark.parametrize("seed", [0, 1])
def test_all_hold(seed: int) -> None:
    found = run_checks(seed)
    assert [check.name for check in found if not check.holds] == []
    assert len({check.name for check in found}) == len(found) == 20


@pytest.mark.parametrize(
    ("check", "holds"),
    [
        (Check("", 1.0, 1.0), True),
        (Check("", 1.1, 1.0), False),
        (Check("", math.nan, 1.0), False),
        (Check("", 1.1, 1.0, above=True), True),
        (Check("", 1.0, 1.0, above=True), False),
        (Check("", math.nan, 1.0, above=True), False),
    ],
)
def test_bounds(check: Check, holds: bool) -> None:
    assert check.holds is holds


def test_gradient_formula_by_hand() -> None:
    # v = (1, e), p = 1, q = 1: G = (1 + e)/2, S = 1 + e, so dG/dp = G (e/(1 + e) - log(1 + e)).
    x = torch.tensor([[1.0], [math.e]], dtype=torch.float64)
    expected = (1 + math.e) / 2 * (math.e / (1 + math.e) - math.log(1 + math.e))
    assert gradient_formula(x, 1.0, 1.0).item() == pytest.approx(expected)
    assert gradient_formula(x, 1.0, 1.0, printed=True).item() == pytest.approx(
        (1 + math.e) / 2 * (2 * math.e / (1 + math.e) - math.log((1 + math.e) / 2))
    )


def test_a_wrong_operator_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = checks.norm_pool
    monkeypatch.setattr(checks, "norm_pool", lambda *args, **options: right(*args, **options) * 1.001)
    failed = [check.name for check in checks.special_cases() + checks.gradient_in_p() if not check.holds]
    assert "GNP (1, 0) is the sum" in failed
    assert "d GNP / dp: corrected formula and autograd" in failed


def test_a_wrong_derivative_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = checks.NormReadout.pool

    def wrong(self, z, graphs):  # type: ignore[no-untyped-def]
        value, slope = right(self, z, graphs)
        return value, 1.001 * slope

    monkeypatch.setattr(checks.NormReadout, "pool", wrong)
    failed = [check.name for check in checks.kernels() + checks.minimum_norm() if not check.holds]
    assert "feature map and autograd through the operator" in failed
    assert "kernel of a network of width 64 and its own feature map" in failed
    assert "scalar features: kernel and its closed form, rank 1" in failed
    assert "Theorem 1: second block of w > 0 is the label" in failed
