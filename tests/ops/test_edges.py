"""The edges of the operator, one row each: a value with its gradient, or the exact text of an error."""

import math
import re

import pytest
import torch

from gnpool import norm_pool, norm_pool_neighbors

pytestmark = pytest.mark.usefixtures("backend")

inf, nan = math.inf, math.nan
EPS = 1e-6
TINY = 1e-40  # denormal in float32
ROOT2 = math.sqrt(2)

# id: rows of one channel, arguments, expected y by segment, expected gradient of y.sum() by row
VALUES = {
    "sum": ([1, 2, 4], {"p": 1, "eps": 0}, [7], [1, 1, 1]),
    "mean": ([1, 2, 4], {"p": 1, "q": 1, "eps": 0}, [7 / 3], [1 / 3] * 3),
    "harmonic sum": ([1, 2, 4], {"p": -1, "eps": 0}, [4 / 7], [16 / 49, 4 / 49, 1 / 49]),
    "max": ([1, 4, 2], {"p": inf, "eps": 0}, [4], [0, 1, 0]),
    "min": ([2, 1, 4], {"p": -inf, "eps": 0}, [1], [0, 1, 0]),
    "max takes eps": ([1, 4, 2], {"p": inf, "eps": 0.5}, [4.5], [0, 1, 0]),
    "max divided by size": ([1, 4], {"p": inf, "q": 1, "eps": 0}, [2], [0, 0.5]),
    "ties of max share": ([4, 4, 2], {"p": inf, "eps": 0}, [4], [0.5, 0.5, 0]),
    "ties of min share": ([1, 1, 2], {"p": -inf, "eps": 0}, [1], [0.5, 0.5, 0]),
    "ties of a finite p": ([4, 4, 4], {"p": 50, "eps": 0}, [4 * 3 ** (1 / 50)], [3 ** (1 / 50 - 1)] * 3),
    "tie of max by sign": ([-4, 4], {"p": inf, "eps": 0}, [4], [-0.5, 0.5]),
    "zeros, p > 0": ([0, 0], {"p": 2, "eps": 0.25}, [0.25 * ROOT2], [0, 0]),
    "zeros, p > 0, no eps": ([0, 0], {"p": 2, "eps": 0}, [0], [0, 0]),
    "zeros, p in (0, 1), no eps": ([0, 1], {"p": 0.5, "eps": 0}, [1], [0, 1]),
    "zeros, p < 0": ([0, 0], {"p": -2}, [0], [0, 0]),
    "zeros, max": ([0, 0], {"p": inf, "eps": 0}, [0], [0, 0]),
    "zeros, min": ([0, 0], {"p": -inf}, [0], [0, 0]),
    "a zero, p < 0": ([0, 2, 4], {"p": -1, "eps": 0}, [4 / 3], [0, 4 / 9, 1 / 9]),
    "a zero, min": ([0, 2, 4], {"p": -inf, "eps": 0}, [2], [0, 1, 0]),
    "n counts removed rows": ([0, 2, 4], {"p": -1, "q": 1, "eps": 0}, [4 / 9], [0, 4 / 27, 1 / 27]),
    "all below eps, p < 0": ([0.1, 0.2], {"p": -1, "eps": 0.25}, [0], [0, 0]),
    "all below eps, p > 0": ([0.25, 0.5], {"p": 1, "eps": 1}, [2.75], [1, 1]),
    "at eps is removed": ([0.25, 1], {"p": -1, "eps": 0.25}, [1.25], [0, 1]),
    "at an inexact eps is removed": ([1e-3, 1], {"p": -1, "eps": 1e-3}, [1.001], [0, 1]),
    "just above eps is kept": ([0.25 + 2**-20, 1], {"p": -inf, "eps": 0.25}, [0.5 + 2**-20], [1, 0]),
    "negatives count by size": ([-3, 4], {"p": 2, "eps": 0}, [5], [-0.6, 0.8]),
    "negatives, p < 0": ([-2, 4], {"p": -1, "eps": 0}, [4 / 3], [-4 / 9, 1 / 9]),
    "denormals": ([TINY, TINY], {"p": 2, "eps": 0}, [ROOT2 * TINY], [1 / ROOT2] * 2),
    "denormals, p < 0": ([TINY, TINY], {"p": -1, "eps": 0}, [TINY / 2], [0.25, 0.25]),
    "a denormal beside 1": ([TINY, 1], {"p": -1, "eps": 0}, [TINY], [1, TINY**2]),
    "a denormal ratio and a small p": ([TINY, 1e3], {"p": 0.25, "eps": 0}, None, None),
    "inf, p > 0": ([1, inf], {"p": 2}, [inf], [0, 1]),
    "inf, sum": ([1, inf], {"p": 1}, [inf], [1, 1]),
    "inf twice": ([inf, inf, 1], {"p": 2}, [inf], [1 / ROOT2, 1 / ROOT2, 0]),
    "inf, p < 0": ([2, inf], {"p": -1, "eps": 0}, [2], [1, 0]),
    "inf alone, p < 0": ([inf, inf], {"p": -1, "eps": 0}, [inf], [0.25, 0.25]),
    "inf and removed, p < 0": ([0, inf], {"p": -1}, [inf], [0, 1]),
    "-inf": ([-inf, 1], {"p": 2}, [inf], [-1, 0]),
    "inf, max": ([inf, 1], {"p": inf}, [inf], [1, 0]),
    "inf, min": ([inf, 1], {"p": -inf, "eps": 0}, [1], [0, 1]),
    "nan": ([nan, 1], {"p": 2}, [nan], [nan, nan]),
    "nan, p < 0": ([nan, 1], {"p": -2}, [nan], [nan, nan]),
    "nan, max": ([nan, 1], {"p": inf}, [nan], [nan, nan]),
    "nan, min": ([1, nan], {"p": -inf}, [nan], [nan, nan]),
    "nan stays in its segment": ([nan, 1, 3], {"p": 1, "eps": 0, "index": [0, 1, 1]}, [nan, 4], [nan, 1, 1]),
    "one element": ([-3], {"p": 7.5, "q": 2, "eps": 0}, [3], [-1]),
    "one element, p < 0": ([3], {"p": -7.5, "q": 2, "eps": 0}, [3], [1]),
    "empty segments": ([1, 2], {"p": 1, "eps": 0, "index": [1, 3], "dim_size": 5}, [0, 1, 0, 2, 0], [1, 1]),
    "empty segments, p < 0": ([1, 2], {"p": -1, "eps": 0, "index": [1, 3], "dim_size": 4}, [0, 1, 0, 2], [1, 1]),
    "empty segments, q < 0": ([2], {"p": 1, "q": -1, "eps": 0, "index": [1]}, [0, 2], [1]),
    "dangling dim_size": ([1, 2], {"p": inf, "eps": 0, "index": [0, 0], "dim_size": 3}, [2, 0, 0], [0, 1]),
    "unsorted": ([1, 2, 3, 4], {"p": 1, "eps": 0, "index": [2, 0, 2, 1]}, [2, 4, 4], [1, 1, 1, 1]),
    "int32 index": ([1, 2], {"p": 1, "eps": 0, "index": torch.tensor([1, 0], dtype=torch.int32)}, [2, 1], [1, 1]),
    "ptr": ([1, 2, 4], {"p": 1, "eps": 0, "ptr": [0, 2, 2, 3]}, [3, 0, 4], [1, 1, 1]),
    "ptr and its dim_size": ([1, 2], {"p": 1, "eps": 0, "ptr": [0, 2], "dim_size": 1}, [3], [1, 1]),
    "int32 ptr": ([1, 2], {"p": 1, "eps": 0, "ptr": torch.tensor([0, 1, 2], dtype=torch.int32)}, [1, 2], [1, 1]),
    "no rows": ([], {"p": 1, "index": [], "dim_size": 2}, [0, 0], []),
    "no rows, no dim_size": ([], {"p": 1, "index": []}, [], []),
    "no rows, one segment": ([], {"p": -1}, [0], []),
    "no segments": ([], {"p": 1, "ptr": [0]}, [], []),
    "huge p": ([1, 4, 2], {"p": 1e20, "eps": 0}, [4], [0, 1, 0]),
    "huge q": ([1, 1], {"p": 1, "q": 1000, "eps": 0}, [2 ** (1 - 1000)], [2**-1000] * 2),
    "0-d tensors": ([1, 2, 4], {"p": torch.tensor(1.0), "q": torch.tensor(1.0), "eps": 0}, [7 / 3], [1 / 3] * 3),
    "(D,) tensors": ([1, 2, 4], {"p": torch.tensor([1.0]), "q": torch.tensor([1.0]), "eps": 0}, [7 / 3], [1 / 3] * 3),
    "p = 0 in a tensor": ([1, 2], {"p": torch.tensor(0.0), "index": [0, 0], "dim_size": 2}, [nan, 0], [nan, nan]),
    "p = nan in a tensor": ([1, 2], {"p": torch.tensor(nan), "index": [0, 0], "dim_size": 2}, [nan, 0], [nan, nan]),
}


def arguments(options):
    return {
        name: torch.tensor(value, dtype=torch.int64) if isinstance(value, list) else value
        for name, value in options.items()
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("row", VALUES)
def test_value_and_gradient(backend, row, dtype):
    values, options, expected, expected_grad = VALUES[row]
    x = torch.tensor(values, dtype=dtype)[:, None].requires_grad_()
    y = norm_pool(x, **arguments(options))
    (grad,) = torch.autograd.grad(y.sum(), x)
    if expected is None:  # beyond what can be written down: the same in float64
        wide = x.detach().double().requires_grad_()
        expected_y = norm_pool(wide, **arguments(options))
        (expected_g,) = torch.autograd.grad(expected_y.sum(), wide)
        expected, expected_grad = expected_y.squeeze(1).tolist(), expected_g.squeeze(1).tolist()
    exact = {"rel": 2e-6 if dtype == torch.float32 else 1e-12, "abs": 0.0, "nan_ok": True}
    if row == "huge q" and dtype == torch.float32:
        expected, expected_grad = [0], [0, 0]  # not representable
    if row == "a denormal ratio and a small p" and dtype == torch.float32 and backend == "triton":
        exact["rel"] = 1e-2  # the ratio 1e-43 itself has two digits in float32
    if row.startswith("denormals") or row == "a denormal beside 1":
        exact["abs"] = 2e-45 if dtype == torch.float32 else 0.0  # the spacing of float32 there
    assert y.squeeze(1).tolist() == pytest.approx(expected, **exact)
    assert grad.squeeze(1).tolist() == pytest.approx(expected_grad, **exact)
    assert torch.equal(norm_pool(x.detach(), **arguments(options)).nan_to_num(), y.detach().nan_to_num()), "no gradient"


def test_nan_in_one_channel_leaves_the_others_alone():
    x = torch.ones(3, 3)
    x[1, 1] = nan
    x.requires_grad_()
    p = torch.tensor([1.0, 1.0, -1.0], requires_grad=True)
    y = norm_pool(x, p=p, eps=0.0)
    assert y.squeeze(0).tolist() == pytest.approx([3, nan, 1 / 3], nan_ok=True)
    gx, gp = torch.autograd.grad(y.sum(), (x, p))
    assert gx[:, 0].tolist() == [1, 1, 1]
    assert gx[:, 1].isnan().all()
    assert gx[:, 2].tolist() == pytest.approx([1 / 9] * 3)
    assert gp.isnan().tolist() == [False, True, False]


def test_gradients_of_p_and_q_at_the_edges():
    def grads(values, p, q=0.0, eps=0.0):
        p, q = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (p, q))
        y = norm_pool(torch.tensor(values, dtype=torch.float64)[:, None], p=p, q=q, eps=eps)
        return [g.item() for g in torch.autograd.grad(y.sum(), (p, q))]

    assert grads([1, 2], inf) == [0, pytest.approx(-2 * math.log(2))]
    assert grads([1, 2], -inf) == [0, pytest.approx(-math.log(2))]
    assert grads([0, 0], 2.0) == [0, 0]
    assert grads([0, 0], -2.0, eps=1e-6) == [0, 0]
    assert grads([5], 3.0) == [0, 0]
    assert grads([], 3.0) == [0, 0]
    assert grads([inf], 3.0) == [0, 0]
    # dG/dp of the paper with S = sum v^p, for 1 and 2 at p = 1: 3 (-log 3 + 2 log 2 / 3)
    assert grads([1, 2], 1.0)[0] == pytest.approx(3 * (-math.log(3) + 2 * math.log(2) / 3))


def test_no_channels():
    x = torch.rand(4, 0, requires_grad=True)
    y = norm_pool(x, torch.tensor([0, 2, 2, 1]), p=torch.empty(0), dim_size=3)
    assert y.shape == (3, 0)
    assert torch.autograd.grad(y.sum(), x)[0].shape == (4, 0)
    assert norm_pool(torch.rand(4, 0, 3), p=2.0).shape == (1, 0, 3)


def test_non_contiguous_rows():
    x = torch.rand(6, 10, dtype=torch.float64).t()[::2]  # strided both ways
    index = torch.tensor([0, 1, 0, 1, 2])
    assert torch.equal(norm_pool(x, index, p=3.0), norm_pool(x.contiguous(), index, p=3.0))
    flipped = x.flip(0)
    expected = norm_pool(flipped, index.flip(0), p=-2.0)
    assert torch.allclose(norm_pool(x, index, p=-2.0), expected, rtol=1e-14)


def test_nothing_is_written_into_the_arguments():
    x, index = torch.randn(6, 2), torch.tensor([3, 0, 1, 1, 3, 0])
    copies = x.clone(), index.clone()
    norm_pool(x, index, p=-1.5)
    assert torch.equal(x, copies[0])
    assert torch.equal(index, copies[1])


X = torch.ones(4, 3)
IDX = torch.tensor([0, 1, 1, 2])
EDGE = torch.ones(2, 1, dtype=torch.int64)
ERRORS = {
    "integer x": (lambda: norm_pool(torch.ones(4, 3, dtype=torch.int64), IDX, p=1), TypeError,
        "norm_pool: 'x' must be a floating point tensor, got torch.int64; convert it with x.float()"),
    "complex x": (lambda: norm_pool(torch.ones(4, 3, dtype=torch.complex64), IDX, p=1), TypeError,
        "norm_pool: 'x' must be a floating point tensor, got torch.complex64"),
    "list x": (lambda: norm_pool([[1.0]], p=1), TypeError,
        "norm_pool: 'x' must be a floating point tensor, got list"),
    "one-dimensional x": (lambda: norm_pool(torch.ones(4), IDX, p=1), ValueError,
        "norm_pool: 'x' must have shape (N, ..., D), got (4,); for a single channel use x[:, None]"),
    "index and ptr": (lambda: norm_pool(X, IDX, ptr=torch.tensor([0, 4]), p=1), ValueError,
        "norm_pool: pass either 'index' or 'ptr', not both"),
    "short index": (lambda: norm_pool(X, IDX[:3], p=1), ValueError,
        "norm_pool: 'index' must have one value for each of the 4 rows of 'x', got 3"),
    "float index": (lambda: norm_pool(X, IDX.float(), p=1), TypeError,
        "norm_pool: 'index' must be an int64 or int32 tensor, got torch.float32"),
    "index of two dimensions": (lambda: norm_pool(X, IDX[:, None], p=1), ValueError,
        "norm_pool: 'index' must have one dimension, got shape (4, 1)"),
    "index too large": (lambda: norm_pool(X, IDX, dim_size=2, p=1), IndexError,
        "norm_pool: 'index' must lie in [0, 2), got 2 at position 3"),
    "index negative": (lambda: norm_pool(X, torch.tensor([0, -1, 1, 5]), dim_size=3, p=1), IndexError,
        "norm_pool: 'index' must lie in [0, 3), got -1 at position 1"),
    "negative dim_size": (lambda: norm_pool(X, IDX, dim_size=-1, p=1), ValueError,
        "norm_pool: 'dim_size' must be at least 0, got -1"),
    "ptr that decreases": (lambda: norm_pool(X, ptr=torch.tensor([0, 3, 2, 4]), p=1), ValueError,
        "norm_pool: 'ptr' must start at 0, never decrease and end at 4; got [0, 3, 2, 4]"),
    "ptr that ends early": (lambda: norm_pool(X, ptr=torch.tensor([0, 3]), p=1), ValueError,
        "norm_pool: 'ptr' must start at 0, never decrease and end at 4; got [0, 3]"),
    "ptr that starts late": (lambda: norm_pool(X, ptr=torch.tensor([1, 4]), p=1), ValueError,
        "norm_pool: 'ptr' must start at 0, never decrease and end at 4; got [1, 4]"),
    "empty ptr": (lambda: norm_pool(X, ptr=torch.empty(0, dtype=torch.int64), p=1), ValueError,
        "norm_pool: 'ptr' must have at least one value, got none"),
    "ptr and another dim_size": (lambda: norm_pool(X, ptr=torch.tensor([0, 4]), dim_size=2, p=1), ValueError,
        "norm_pool: 'ptr' has 1 segments but 'dim_size' is 2"),
    "ptr and a smaller dim_size": (lambda: norm_pool(X, ptr=torch.tensor([0, 2, 4]), dim_size=1, p=1), ValueError,
        "norm_pool: 'ptr' has 2 segments but 'dim_size' is 1"),
    "dim_size alone": (lambda: norm_pool(X, dim_size=2, p=1), ValueError,
        "norm_pool: without 'index' and 'ptr' there is one segment, but 'dim_size' is 2"),
    "p = 0": (lambda: norm_pool(X, IDX, p=0), ValueError,
        "norm_pool: 'p' must not be 0 with 'q'"),
    "p = 0.0": (lambda: norm_pool(X, IDX, p=0.0), ValueError,
        "norm_pool: 'p' must not be 0 with 'q'"),
    "p = nan": (lambda: norm_pool(X, IDX, p=nan), ValueError, "norm_pool: 'p' must be a number, got nan"),
    "q = nan": (lambda: norm_pool(X, IDX, p=1, q=nan), ValueError, "norm_pool: 'q' must be a number, got nan"),
    "p a string": (lambda: norm_pool(X, IDX, p="max"), TypeError,
        "norm_pool: 'p' must be a number or a tensor, got str"),
    "integer tensor p": (lambda: norm_pool(X, IDX, p=torch.tensor(2)), TypeError,
        "norm_pool: 'p' must be a floating point tensor, got torch.int64"),
    "p of another size": (lambda: norm_pool(X, IDX, p=torch.ones(4)), ValueError,
        ("norm_pool: 'p' must be a number, a 0-d tensor or a tensor of shape (3,), one value per channel; "
         "got shape (4,)")),
    "q of two dimensions": (lambda: norm_pool(X, IDX, p=1, q=torch.ones(1, 3)), ValueError,
        ("norm_pool: 'q' must be a number, a 0-d tensor or a tensor of shape (3,), one value per channel; "
         "got shape (1, 3)")),
    "negative eps": (lambda: norm_pool(X, IDX, p=1, eps=-1.0), ValueError,
        "norm_pool: 'eps' must be at least 0 and finite, got -1.0"),
    "eps = nan": (lambda: norm_pool(X, IDX, p=1, eps=nan), ValueError,
        "norm_pool: 'eps' must be at least 0 and finite, got nan"),
    "another device": (lambda: norm_pool(X, IDX, p=torch.ones(3, device="meta")), ValueError,
        f"norm_pool: 'p' is on meta but 'x' is on {X.device}"),
    "edges: x of three dimensions": (lambda: norm_pool_neighbors(X[None], EDGE, p=1), ValueError,
        "norm_pool_neighbors: 'x' must have shape (N, D), got (1, 4, 3)"),
    "edges: float": (lambda: norm_pool_neighbors(X, torch.ones(2, 1), p=1), TypeError,
        "norm_pool_neighbors: 'edge_index' must be an int64 or int32 tensor, got torch.float32"),
    "edges: transposed": (lambda: norm_pool_neighbors(X, torch.ones(5, 2).long(), p=1), ValueError,
        "norm_pool_neighbors: 'edge_index' must have shape (2, E), got (5, 2)"),
    "edges: source out of range": (lambda: norm_pool_neighbors(X, torch.tensor([[0, 4], [1, 1]]), p=1), IndexError,
        "norm_pool_neighbors: 'edge_index[0]' must lie in [0, 4), got 4 at position 1"),
    "edges: destination out of range": (lambda: norm_pool_neighbors(X, torch.tensor([[0], [3]]), p=1, dim_size=2),
        IndexError, "norm_pool_neighbors: 'edge_index[1]' must lie in [0, 2), got 3 at position 0"),
    "edges: integer weight": (lambda: norm_pool_neighbors(X, EDGE, edge_weight=torch.tensor([1]), p=1),
        TypeError, "norm_pool_neighbors: 'edge_weight' must be a floating point tensor, got torch.int64"),
    "edges: weight of another size": (lambda: norm_pool_neighbors(X, EDGE, edge_weight=torch.ones(2), p=1),
        ValueError, "norm_pool_neighbors: 'edge_weight' must have one value for each of the 1 edges, got shape (2,)"),
    "edges: p = 0": (lambda: norm_pool_neighbors(X, EDGE, p=0), ValueError,
        "norm_pool_neighbors: 'p' must not be 0 with 'q'"),
}  # fmt: skip


@pytest.mark.parametrize("row", ERRORS)
def test_error(row):
    call, kind, text = ERRORS[row]
    with pytest.raises(kind, match=f"^{re.escape(text)}"):
        call()


def test_a_long_ptr_is_shown_in_brief():
    ptr = torch.arange(20)
    with pytest.raises(ValueError, match=re.escape("end at 4; got [0, 1, 2, 3, 4, 5, ..., 19]")):
        norm_pool(X, ptr=ptr, p=1)
