"""What only a GPU can show. Run with ``GNPOOL_TEST_DEVICE=cuda``."""

import pytest
import torch

from gnpool import norm_pool, norm_pool_neighbors

pytestmark = pytest.mark.skipif(torch.get_default_device().type != "cuda", reason="needs GNPOOL_TEST_DEVICE=cuda")


@pytest.fixture
def step(monkeypatch):
    """Forward and backward of both forms: what must be capturable and the same on every stream."""
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
