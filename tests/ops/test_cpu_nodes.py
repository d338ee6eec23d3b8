"""Powers per node give the same numbers as powers per edge, and are used only if the range allows."""

from __future__ import annotations

import pytest
import torch

if torch.get_default_device().type != "cpu":
    pytest.skip("kernels for the CPU", allow_module_level=True)

from gnpool.ops import library, norm_pool, norm_pool_neighbors
from gnpool.ops.cpu import backend as cpu
from gnpool.ops.cpu.arithmetic import BLOCK
from gnpool.ops.form import KEEP, NORM, REMOVE, ZEROS

NODES, EDGES = 40, 400
EDGE_INDEX = torch.randint(NODES, (2, EDGES), generator=torch.Generator().manual_seed(1))


def rows(channels, dtype=torch.float64, low=0.2, high=3.0):
    generator = torch.Generator().manual_seed(2)
    x = low + (high - low) * torch.rand(NODES, channels, dtype=torch.float64, generator=generator)
    x[torch.rand(NODES, channels, generator=generator) < 0.2] = 0.0
    x[::3] *= -1
    return x.to(dtype)


def results(x, p, q, uses, monkeypatch, eps=1e-6, edge_index=EDGE_INDEX, form=NORM):
    """y and all gradients; ``uses`` = 0 goes by way of the nodes, a large number edge by edge."""
    monkeypatch.setattr(cpu, "_USES", uses)
    x, p, q = (t.clone().requires_grad_() for t in (x, p, q))
    size = {"q": q} if form == NORM else {"growth": q, "zeros": {k: word for word, k in ZEROS.items()}[form]}
    y = norm_pool_neighbors(x, edge_index, p=p, **size, eps=eps)
    (y * torch.linspace(0.5, 1.5, y.numel(), dtype=y.dtype).view_as(y)).sum().backward()
    return y.detach(), x.grad, p.grad, q.grad


def flags(x, p, eps=1e-6, relu=False, form=NORM):
    """Which blocks go by the nodes (0, 1 or 2 for none, all or some), and which channels."""
    scalar = cpu._TYPES[x.dtype](eps)
    found = cpu._node_powers(x, p.double(), scalar, relu, form, moments=True)[1].tolist()
    blocks = -(-x.size(1) // BLOCK)
    return found[:blocks], found[blocks:]


@pytest.fixture(autouse=True)
def _numba(monkeypatch):
    monkeypatch.setenv("GNPOOL_BACKEND", "numba")


@pytest.mark.parametrize("eps", [1e-6, 0.0])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 2e-6)], ids=["f64", "f32"])
@pytest.mark.parametrize("channels", [1, 7, BLOCK + 3])
def test_equals_edge_by_edge(channels, dtype, tolerance, eps, monkeypatch):
    x = rows(channels, dtype)
    p = torch.linspace(-2.2, 2.2, channels, dtype=dtype)
    p = torch.where(p.abs() < 0.25, 0.4, p)
    q = torch.linspace(-1, 1, channels, dtype=dtype)
    assert flags(x, p, eps) == ([1] * -(-channels // BLOCK), [1] * channels)
    got, expected = (results(x, p, q, uses, monkeypatch, eps) for uses in (0, 10**9))
    for name, a, b in zip(("y", "dx", "dp", "dq"), got, expected, strict=True):
        scale = b.abs().max().item()
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance * scale, msg=name)


@pytest.mark.parametrize(
    ("change", "safe"),
    [
        (lambda x, p: None, [1] * 5),
        (lambda x, p: p.fill_(50.0), [0] * 5),  # powers of the smallest rows would vanish
        (lambda x, p: p.fill_(0.5), [1] * 5),
        (lambda x, p: p.fill_(-0.2), [0] * 5),  # 1 / p would blow up rounding
        (lambda x, p: p.fill_(torch.inf), [0] * 5),
        (lambda x, p: p.fill_(torch.nan), [0] * 5),
        (lambda x, p: x[3, 2].fill_(torch.nan), [1, 1, 0, 1, 1]),
        (lambda x, p: x[3, 2].fill_(torch.inf), [1, 1, 0, 1, 1]),
        (lambda x, p: x[3, 2].fill_(1e30), [1, 1, 0, 1, 1]),
        (lambda x, p: x.zero_(), [1] * 5),
    ],
    ids=["usual", "p 50", "p 1/2", "p -1/5", "p inf", "p nan", "nan", "inf", "range", "zeros"],
)
def test_takes_the_usual_way_where_the_range_does_not_allow_it(change, safe, monkeypatch):
    x, p, q = rows(5, torch.float32), torch.full((5,), 2.0), torch.zeros(5)
    change(x, p)
    assert flags(x, p) == ([{0: 0, 5: 1}.get(sum(safe), 2)], safe)
    got, expected = (results(x, p, q, uses, monkeypatch) for uses in (0, 10**9))
    for name, a, b in zip(("y", "dx", "dp", "dq"), got, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5, equal_nan=True, msg=name)


def test_blocks_and_channels_go_their_own_ways(monkeypatch):
    """The first block by way of the nodes, the second edge by edge, some of the third."""
    x = rows(3 * BLOCK)
    p, q = torch.full((3 * BLOCK,), 1.5, dtype=torch.float64), torch.zeros(3 * BLOCK, dtype=torch.float64)
    p[BLOCK : 2 * BLOCK] = p[-1] = 500.0
    assert flags(x, p) == ([1, 0, 2], [1] * BLOCK + [0] * BLOCK + [1] * (BLOCK - 1) + [0])
    got, expected = (results(x, p, q, uses, monkeypatch) for uses in (0, 10**9))
    for name, a, b in zip(("y", "dx", "dp", "dq"), got, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12, msg=name)


def test_a_backward_pass_after_a_forward_pass_edge_by_edge(monkeypatch):
    """Segments then have an M of their own, which must not be taken for the unit of the channel."""
    x, p, q = rows(4), torch.full((4,), 2.0, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)
    expected = results(x, p, q, 10**9, monkeypatch)[1]
    leaf = x.clone().requires_grad_()
    y = norm_pool_neighbors(leaf, EDGE_INDEX, p=p, q=q)
    monkeypatch.setattr(cpu, "_USES", 0)
    (y * torch.linspace(0.5, 1.5, y.numel(), dtype=y.dtype).view_as(y)).sum().backward()
    torch.testing.assert_close(leaf.grad, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("p", [[1.5, -2.0, 3.0], [1.5, 500.0, -2.0]], ids=["all channels", "some channels"])
def test_powers_kept_for_the_backward_pass_change_no_bit(p):
    """They come after the four terms; without them, as behind an operator of torch.library, they are computed again."""
    x, p, q = rows(3), torch.tensor(p, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    ptr, eid = library.build_csr(EDGE_INDEX[1], NODES, "edges")
    t_ptr, t_eid = library.build_csr(EDGE_INDEX[0], NODES, "edges")
    forward = (x, None, ptr, EDGE_INDEX[0][eid], eid, p, q, 1e-6, False, NORM)
    lists = (*forward[2:5], t_ptr, EDGE_INDEX[1][t_eid], t_eid)
    terms = library.pool_fwd(*forward)
    assert [t.shape for t in terms[4:]] == [(3,), (4,), x.shape]
    assert len(torch.ops.gnpool.pool_fwd(*forward)) == 4
    grad = torch.linspace(0.5, 1.5, x.numel(), dtype=x.dtype).view_as(x)
    args = (grad, x, None, *lists, p, q, *terms[:4], 1e-6, False, NORM, True, False)
    kept, again = cpu.pool_bwd(*args, *terms[4:]), cpu.pool_bwd(*args)
    for name, a, b in zip(("dx", "dw", "dp", "dq"), kept, again, strict=True):
        assert torch.equal(a, b), name


def test_nan_gradients_reach_the_neighbours_only(monkeypatch):
    monkeypatch.setattr(cpu, "_USES", 0)
    x = rows(3).requires_grad_()
    p = torch.tensor([1.5, -1.5, 2.0], dtype=torch.float64)
    y = norm_pool_neighbors(x, EDGE_INDEX, p=p)
    grad = torch.ones_like(y)
    grad[5, 0] = torch.nan
    y.backward(grad)
    sources = set(EDGE_INDEX[0][EDGE_INDEX[1] == 5].tolist())
    assert set(x.grad[:, 0].isnan().nonzero().flatten().tolist()) == sources
    assert not x.grad[:, 1:].isnan().any()


@pytest.mark.parametrize("threads", [1, 2])
def test_bits_do_not_depend_on_the_number_of_threads(threads, monkeypatch):
    monkeypatch.setattr(cpu, "_INLINE_BELOW", 0)
    monkeypatch.setattr(cpu, "_TASK", 64)
    x, p, q = rows(2 * BLOCK, torch.float32), torch.full((2 * BLOCK,), 1.7), torch.full((2 * BLOCK,), 0.3)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        got = results(x, p, q, 0, monkeypatch)
        torch.set_num_threads(4)
        expected = results(x, p, q, 0, monkeypatch)
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))


HARM = {
    "nan": lambda x, p, at: x[3, at].fill_(torch.nan),
    "inf": lambda x, p, at: x[3, at].fill_(torch.inf),
    "all nan": lambda x, p, at: x[:, at].fill_(torch.nan),
    "range": lambda x, p, at: x[3, at].fill_(1e30),
    "denormal": lambda x, p, at: x[:, at].mul_(1e-39),
    "p nan": lambda x, p, at: p[at].fill_(torch.nan),
    "p 1/5": lambda x, p, at: p[at].fill_(0.2),
    "p 500": lambda x, p, at: p[at].fill_(-500.0),
}


@pytest.mark.parametrize("eps", [1e-6, 0.0])
@pytest.mark.parametrize("kind", ["edges", "weights", "segments", "hub"])
@pytest.mark.parametrize("others", [[1.5, 1.0, -2.0, 0.7, 3.0, -0.4, 4.0], [1.5, 1.0, -2.0, 0.2, 3.0, -0.1, 30.0]])
@pytest.mark.parametrize("harm", HARM)
def test_no_channel_changes_a_bit_of_another(harm, others, kind, eps, monkeypatch):
    """Replicas of a training are channels side by side; what happens to one must not change the others."""
    monkeypatch.setattr(cpu, "_USES", 0)
    p = torch.tensor([*others, 2.0])
    q, at = torch.linspace(-1, 1, 8), 7
    edges = EDGE_INDEX
    if kind == "hub":
        edges = torch.randint(NODES, (2, 6000), generator=torch.Generator().manual_seed(5))
        edges[:, :2500] = 7
    weight = torch.linspace(0.1, 2.0, edges.size(1)) if kind == "weights" else None
    index = torch.arange(NODES) // 4
    found = []
    for hurt in (False, True):
        x, exponents = rows(8, torch.float32), p.clone()
        if hurt:
            HARM[harm](x, exponents, at)
        leaves = [t.requires_grad_() for t in (x, exponents, q.clone())]
        if kind == "segments":
            y = norm_pool(leaves[0], index, p=leaves[1], q=leaves[2], eps=eps)
        else:
            y = norm_pool_neighbors(leaves[0], edges, p=leaves[1], q=leaves[2], edge_weight=weight, eps=eps)
        (y * torch.linspace(0.5, 1.5, y.size(0))[:, None]).sum().backward()
        found.append([y.detach(), *(leaf.grad for leaf in leaves)])
    for name, a, b in zip(("y", "dx", "dp", "dq"), *found, strict=True):
        assert torch.equal(a[..., :at], b[..., :at]), name
    assert not torch.equal(found[0][0][:, at], found[1][0][:, at])


@pytest.mark.parametrize("way", ["in", "out"])
def test_hubs_are_cut_into_pieces(way, monkeypatch):
    """A node with thousands of edges in, or out, among others: pieces of its list are merged."""
    generator = torch.Generator().manual_seed(3)
    edges = torch.randint(NODES, (2, 3000), generator=generator)
    edges[1 if way == "in" else 0, :2500] = 7
    edges = edges[:, torch.randperm(3000, generator=generator)]
    x, q = rows(BLOCK + 2), torch.full((BLOCK + 2,), 0.5, dtype=torch.float64)
    p = torch.full_like(q, 1.5)
    p[::2] = -1.3
    got, expected = (results(x, p, q, uses, monkeypatch, edge_index=edges) for uses in (0, 10**9))
    for name, a, b in zip(("y", "dx", "dp", "dq"), got, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11, msg=name)


@pytest.mark.parametrize("form", [KEEP, REMOVE])
@pytest.mark.parametrize("eps", [1e-6, 0.0])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 4e-6)], ids=["f64", "f32"])
@pytest.mark.parametrize("hub", [False, True])
def test_the_growth_form_equals_edge_by_edge(hub, dtype, tolerance, eps, form, monkeypatch):
    x = rows(BLOCK + 3, dtype)
    p = torch.linspace(-2.2, 2.2, BLOCK + 3, dtype=dtype)  # near 0 the edges are taken one by one
    q = torch.linspace(-1, 1, BLOCK + 3, dtype=dtype)
    edges = EDGE_INDEX
    if hub:
        edges = torch.randint(NODES, (2, 3000), generator=torch.Generator().manual_seed(3))
        edges[1, :1500], edges[0, 1000:2000] = 7, 9
    safe = p.abs() >= 0.25
    if form == KEEP and eps == 0.0:
        safe &= (p > 0) | (x != 0).all(0)  # the power of a 0 is infinite
        assert not safe.all()
    assert flags(x, p, eps, form=form)[1] == safe.long().tolist()
    got, expected = (results(x, p, q, uses, monkeypatch, eps, edges, form) for uses in (0, 10**9))
    for name, a, b in zip(("y", "dx", "dp", "dg"), got, expected, strict=True):
        scale = b.abs().max().item()
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance * scale, msg=name)


GROWTH_HARM = {**HARM, "p 0": lambda x, p, at: p[at].fill_(0.0), "zero": lambda x, p, at: x[:, at].fill_(0.0)}


@pytest.mark.parametrize("zeros", ZEROS)
@pytest.mark.parametrize("kind", ["edges", "weights", "hub"])
@pytest.mark.parametrize("harm", GROWTH_HARM)
def test_no_channel_changes_a_bit_of_another_in_the_growth_form(harm, kind, zeros, monkeypatch):
    monkeypatch.setattr(cpu, "_USES", 0)
    p = torch.tensor([1.5, 0.0, -2.0, 0.2, 3.0, -0.1, 30.0, 2.0])
    growth, at = torch.linspace(-1, 1, 8), 7
    edges = EDGE_INDEX
    if kind == "hub":
        edges = torch.randint(NODES, (2, 6000), generator=torch.Generator().manual_seed(5))
        edges[:, :2500] = 7
    weight = torch.linspace(0.1, 2.0, edges.size(1)) if kind == "weights" else None
    found = []
    for hurt in (False, True):
        x, exponents = rows(8, torch.float32), p.clone()
        if hurt:
            GROWTH_HARM[harm](x, exponents, at)
        leaves = [t.requires_grad_() for t in (x, exponents, growth.clone())]
        y = norm_pool_neighbors(
            leaves[0], edges, p=leaves[1], growth=leaves[2], edge_weight=weight, eps=1e-6, zeros=zeros
        )
        (y * torch.linspace(0.5, 1.5, y.size(0))[:, None]).sum().backward()
        found.append([y.detach(), *(leaf.grad for leaf in leaves)])
    for name, a, b in zip(("y", "dx", "dp", "dg"), *found, strict=True):
        assert torch.equal(a[..., :at], b[..., :at]), name
    assert not torch.equal(found[0][0][:, at], found[1][0][:, at])
