"""Tests that need a GPU. Run them with ``GNPOOL_TEST_DEVICE=cuda``."""

import functools

import pytest
import torch

from gnpool import norm_pool, norm_pool_neighbors
from gnpool.ops.registry import VARIABLE
from tests.ops.conftest import poison_new_memory

pytestmark = pytest.mark.skipif(torch.get_default_device().type != "cuda", reason="needs GNPOOL_TEST_DEVICE=cuda")


@pytest.fixture
def step(monkeypatch):
    """Forward and backward pass of both forms, which must be capturable and the same on every stream."""
    monkeypatch.delenv("GNPOOL_CHECK", raising=False)  # to look at an index is to wait for the device
    x = torch.rand(4_000, 64, requires_grad=True)
    p = torch.tensor(1.7, requires_grad=True)
    index = torch.randint(0, 50, (4_000,))
    edges = torch.randint(0, 4_000, (2, 30_000))

    def run():
        y = norm_pool(x, index, p=p, dim_size=50)
        z = norm_pool_neighbors(x, edges, p=-p, q=0.5)
        return torch.autograd.grad(y.square().sum() + z.sum(), (x, p))

    return run


def test_a_cuda_graph_captures_it_after_an_earlier_call(step):
    expected = step()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(a, b) for a, b in zip(captured, expected, strict=True))


def test_another_stream_gives_the_same_bits(step):
    expected = step()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        actual = step()
    side.synchronize()
    assert all(torch.equal(a, b) for a, b in zip(actual, expected, strict=True))


@pytest.mark.parametrize("edges", [250_000, 1_000_000])
def test_no_message_is_held(edges):
    nodes, channels = 20_000, 64
    ends = torch.randint(0, nodes, (2, edges))
    p = torch.tensor(1.7, requires_grad=True)
    norm_pool_neighbors(torch.rand(nodes, channels, requires_grad=True), ends, p=p).sum().backward()
    x = torch.rand(nodes, channels, requires_grad=True)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    norm_pool_neighbors(x, ends, p=p).sum().backward()
    rows = 16 * nodes * channels * 4  # what a pass keeps for each node and channel, several times over
    lists = 24 * edges * 8  # both orders of the edges, and the scratch of two sorts
    assert torch.cuda.max_memory_allocated() - before < rows + lists < rows + edges * channels * 4


def segments():
    """131,072 segments of 0 to 63 rows."""
    ptr = torch.nn.functional.pad(torch.randint(0, 64, (131_072,)).cumsum(0), (1, 0))
    return int(ptr[-1]), functools.partial(norm_pool, ptr=ptr)


def neighbors():
    """100,000 nodes and two million edges, a tenth of them to one node."""
    edges = torch.randint(0, 100_000, (2, 2_000_000))
    edges[1, ::10] = 7
    return 100_000, lambda x, p, q: norm_pool_neighbors(x, edges, p=p, q=q)


@pytest.mark.parametrize("p", [1.7, -2.0, 30.0])
@pytest.mark.parametrize(
    ("dtype", "bound"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2), (torch.float16, 4e-3)], ids=str
)
@pytest.mark.parametrize("form", [segments, neighbors])
def test_full_size_in_poisoned_memory(form, dtype, bound, p, monkeypatch):
    count, pool = form()
    x = (torch.randn(count, 64) + torch.rand(64)).to(dtype)

    def derivatives(backend, x):
        monkeypatch.setenv(VARIABLE, backend)
        inputs = [x.requires_grad_(), *(torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (p, 0.4))]
        y = pool(inputs[0], p=inputs[1], q=inputs[2])
        # a gradient that the input's type holds exactly, so that both backends have the same one
        return [y.detach(), *torch.autograd.grad(y, inputs, torch.full_like(y, 0.5))]

    expected = derivatives("reference", x.detach().double())
    poison_new_memory(monkeypatch)
    y, dx, *others = derivatives("triton", x.detach().clone())
    step = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps  # of the numbers next to 0
    assert bool(((y.double() - expected[0]).abs() <= bound * expected[0].abs() + step).all())
    assert bool(((dx.double() - expected[1]).abs().amax(0) <= bound * expected[1].abs().amax(0)).all())
    for mine, theirs in zip(others, expected[2:], strict=True):  # sums over everything, of both signs
        assert abs(float(mine - theirs)) <= bound * float(expected[0].abs().sum())


def test_offsets_beyond_32_bits():
    """More values than 2^31: the last rows are found, forward and backward."""
    channels, segments = 64, 1_000
    count = 2**31 // channels + segments
    if torch.cuda.mem_get_info()[0] < 40 * 2**30:
        pytest.skip("needs 40 GB of free memory")
    x = torch.ones(count, channels, requires_grad=True)
    ptr = torch.cat([torch.tensor([0]), torch.arange(count - segments, count + 1)])  # one giant, then single rows
    y = norm_pool(x, ptr=ptr, p=2.0)
    torch.testing.assert_close(y[0], torch.full((channels,), (count - segments) ** 0.5), rtol=1e-4, atol=0)
    assert torch.equal(y[1:], torch.full((segments, channels), float(y[-1, 0])))
    assert float(y[-1, 0]) == pytest.approx(1.0, rel=1e-5)
    (grad,) = torch.autograd.grad(y[1:].sum(), x)
    assert float(grad[:-segments].abs().max()) == 0.0
    torch.testing.assert_close(grad[-segments:], torch.ones(segments, channels), rtol=1e-5, atol=0)
