"""A few of the random cases of tools/exact.py, on every backend."""

import pytest
import torch

from tools import exact


@pytest.mark.parametrize("dtype", exact.DTYPES)
@pytest.mark.parametrize("kind", exact.DECADES)
def test_random_cases(backend, kind, dtype):
    """Triton keeps logarithms of 250 binary digits as one float, and p = 1/20 multiplies its rounding."""
    if torch.get_default_device().type != "cpu":
        pytest.skip("the cases are drawn on the CPU")
    channels = 4 if backend == "triton" else 40  # the interpreter is slow
    found = exact.search(kind, dtype, calls=3, seed=0, channels=channels)
    assert found.cases == 3 * channels
    assert found.gradients > found.cases / 3
    assert found.not_finite == 0
    most = 100 if kind == "wide" and (backend == "triton" or dtype == "float64") else 20
    assert found.value < most * torch.finfo(exact.DTYPES[dtype]).eps, found.worst["value"]
    assert found.gradient < {"float32": 1e-5, "float64": 1e-12}[dtype], found.worst["gradient"]
    assert found.by_p < {"float32": 1e-5, "float64": 1e-13}[dtype], found.worst["by_p"]


def test_the_page_shows_what_is_kept():
    page = exact.PAGE.read_text(encoding="utf-8")
    assert exact.filled(page) == page
    assert "| numba | wide | float32 | 6,000 |" in page
