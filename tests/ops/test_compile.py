"""torch.compile, torch.export and the rules of torch.library."""

import shutil

import pytest
import torch

from gnpool import norm_pool, norm_pool_neighbors
from gnpool.ops import library
from gnpool.ops.form import NORM

pytestmark = pytest.mark.usefixtures("backend")

INDEX = torch.tensor([3, 0, 1, 1, 3, 0])
PTR = torch.tensor([0, 2, 2, 6])
EDGES = torch.tensor([[0, 1, 2, 5, 4], [1, 0, 1, 1, 3]])

FORMS = {
    "index": lambda x, p, w: norm_pool(x, INDEX, p=p, q=0.3, dim_size=5),
    "ptr": lambda x, p, w: norm_pool(x, ptr=PTR, p=-p, q=p),
    "neither": lambda x, p, w: norm_pool(x, p=p, eps=0.0),
    "three dimensions": lambda x, p, w: norm_pool(x[:, None].expand(-1, 2, -1), INDEX, p=p, dim_size=5).sum(1),
    "neighbors": lambda x, p, w: norm_pool_neighbors(x, EDGES, p=p, edge_weight=w),
    "no weight": lambda x, p, w: norm_pool_neighbors(x, EDGES, p=p),
}


def inputs(dtype=torch.float32):
    x = torch.randn(6, 3, dtype=dtype, requires_grad=True)
    p = torch.tensor([1.5, -2.0, 3.0], requires_grad=True)
    w = torch.rand(5, dtype=dtype, requires_grad=True)
    return x, p, w


@pytest.mark.parametrize("form", FORMS)
def test_compiled_without_a_break_it_is_the_same(form):
    torch.compiler.reset()
    compiled = torch.compile(FORMS[form], fullgraph=True, backend="aot_eager")
    arguments = inputs()
    results = []
    for function in (FORMS[form], compiled):
        y = function(*arguments)
        grads = torch.autograd.grad(y.square().sum(), arguments, allow_unused=True)
        results.append((y, *(g for g in grads if g is not None)))
    for eager, traced in zip(*results, strict=True):
        assert torch.equal(eager, traced)


@pytest.mark.skipif(not (shutil.which("c++") or shutil.which("g++")), reason="inductor needs a C++ compiler")
def test_compiled_by_inductor_without_gradients():
    torch.compiler.reset()
    x, p, w = inputs()
    with torch.no_grad():
        expected = FORMS["index"](x, p, w)
        assert torch.equal(torch.compile(FORMS["index"], fullgraph=True)(x, p, w), expected)


def test_compiled_code_checks_the_index():
    torch.compiler.reset()
    compiled = torch.compile(lambda x, i: norm_pool(x, i, p=2.0, dim_size=2), fullgraph=True, backend="aot_eager")
    with pytest.raises(IndexError, match=r"'index' must lie in \[0, 2\), got 3 at position 0"):
        compiled(torch.rand(6, 3), INDEX)


def test_one_graph_serves_inputs_of_any_size():
    torch.compiler.reset()
    compiled = torch.compile(
        lambda x, i: norm_pool(x, i, p=2.0, dim_size=4), fullgraph=True, dynamic=True, backend="aot_eager"
    )
    for n in (6, 9, 30):
        x, index = torch.rand(n, 3), torch.randint(0, 4, (n,))
        assert torch.equal(compiled(x, index), norm_pool(x, index, p=2.0, dim_size=4))


class Readout(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.p = torch.nn.Parameter(torch.tensor(1.5))

    def forward(self, x, index):
        return norm_pool(x, index, p=self.p, q=0.5, dim_size=4)


def test_export_save_and_load(tmp_path):
    model, arguments = Readout(), (torch.rand(6, 3), INDEX)
    rows = torch.export.Dim("rows", min=2)
    program = torch.export.export(model, arguments, dynamic_shapes={"x": {0: rows}, "index": {0: rows}})
    torch.export.save(program, tmp_path / "readout.pt2")
    loaded = torch.export.load(tmp_path / "readout.pt2").module()
    for n in (6, 11):
        x, index = torch.rand(n, 3), torch.randint(0, 4, (n,))
        torch.testing.assert_close(loaded(x, index), model(x, index), rtol=0, atol=0)


def test_opcheck():
    x, p, q = torch.randn(6, 3), torch.tensor([1.5, -2.0, 3.0]).double(), torch.zeros(3).double()
    ptr, eid = library.build_csr(EDGES[1], 6, "edges")
    t_ptr, t_eid = library.build_csr(EDGES[0], 6, "edges")
    col, t_row, weight = EDGES[0][eid], EDGES[1][t_eid], torch.rand(5)
    forward = (x, weight, ptr, col, eid, p, q, 1e-6, False, NORM)
    terms = library.pool_fwd(*forward)
    lists = (ptr, col, eid, t_ptr, t_row, t_eid)
    ops = torch.ops.gnpool
    calls = {
        ops.build_csr.default: [(INDEX, 5, "index")],
        ops.transpose.default: [
            (EDGES[0], EDGES[1], ptr, 6, True, "edges"),
            (EDGES[0], None, torch.tensor([0, 2, 4, 4, 4, 4, EDGES.size(1)]), 6, False, "edges"),
        ],
        ops.checked_ptr.default: [(PTR, 6, "ptr")],
        ops.checked_index.default: [(INDEX, 4, "index")],
        ops.pool.default: [forward],
        ops.pool_fwd.default: [forward],
        ops.pool_bwd.default: [
            (torch.rand(6, 3), x, weight, *lists, p, q, *terms, 1e-6, False, NORM, *needs)
            for needs in ((True, True), (True, False), (False, True))
        ],
    }
    for op, argument_lists in calls.items():
        for arguments in argument_lists:
            torch.library.opcheck(op, arguments)
