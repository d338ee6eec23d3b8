"""Ways into PyTorch Geometric, the compilers and ONNX that need no special care from the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_geometric.nn.aggr
from torch import Tensor
from torch_geometric.nn import GIN, GINConv, MeanAggregation, SAGEConv
from torch_geometric.nn.resolver import aggregation_resolver

from gnpool import GNPAggregation, GNPConv, norm_pool, register_with_pyg
from gnpool.nn.exponent import exponent, signed_exponent
from tests.nn.expected import scatter_exponents

INDEX = torch.tensor([0, 1, 1, 3, 3, 3])


def test_compiled_as_the_mean_is_without_dim_size() -> None:
    layer = scatter_exponents(GNPAggregation(4))
    for aggregation in (MeanAggregation(), layer):
        torch.compiler.reset()
        compiled = torch.compile(aggregation, fullgraph=True, backend="aot_eager")
        for index in (INDEX, torch.tensor([2, 0, 6, 6, 6, 1, 1])):
            x = torch.rand(index.numel(), 4, requires_grad=True)
            results = []
            for function in (aggregation, compiled):
                y = function(x, index)
                results.append((y, *torch.autograd.grad(y.square().sum(), x)))
            for eager, traced in zip(*results, strict=True):
                assert torch.equal(eager, traced)


@pytest.mark.parametrize("dim", [0, 1, -2, -3])
def test_output_is_contiguous(dim: int) -> None:
    assert GNPAggregation(4)(torch.rand(6, 6, 4), INDEX, dim_size=4, dim=dim).is_contiguous()


@pytest.fixture
def registered() -> Any:
    register_with_pyg()
    register_with_pyg()  # a second call does nothing
    yield
    del torch_geometric.nn.aggr.GNPAggregation  # type: ignore[attr-defined]


@pytest.mark.usefixtures("registered")
def test_found_by_name() -> None:
    for name in ("gnp", "GNP", "GNPAggregation"):
        made = aggregation_resolver(name, channels=4, start="max")
        assert repr(made) == "GNPAggregation(4, start='max')"
    conv = SAGEConv(4, 8, aggr="gnp", aggr_kwargs={"channels": 4})
    assert type(conv.aggr_module) is GNPAggregation


@pytest.mark.usefixtures("registered")
def test_each_layer_of_a_model_has_its_own_by_name_and_one_by_instance() -> None:
    by_name = GIN(4, 4, 3, aggr="gnp", aggr_kwargs={"channels": 4})
    assert len({id(conv.aggr_module) for conv in by_name.convs}) == 3
    by_instance = GIN(4, 4, 3, aggr=GNPAggregation(4))
    assert len({id(conv.aggr_module) for conv in by_instance.convs}) == 1


def test_without_registration_no_name_is_known() -> None:
    with pytest.raises(ValueError, match="Could not resolve 'gnp'"):
        aggregation_resolver("gnp", channels=4)


@pytest.mark.parametrize(
    "attempt",
    [
        lambda x: torch.jit.script(GNPAggregation(4)),
        lambda x: torch.jit.script(GINConv(torch.nn.Linear(4, 4), aggr=GNPAggregation(4))),
        lambda x: torch.jit.trace(GNPAggregation(4), (x, INDEX)),
        lambda x: torch.jit.trace(lambda x: norm_pool(x, p=2.0), (x,)),
        lambda x: torch.jit.trace(GNPConv(torch.nn.Linear(4, 4), GNPAggregation(4)), (x, INDEX.view(2, 3))),
    ],
    ids=["layer", "convolution", "traced layer", "traced operator", "traced convolution"],
)
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_torchscript_is_refused_in_words(attempt: Callable[[Tensor], Any]) -> None:
    with pytest.raises(RuntimeError, match=r"TorchScript is not supported; use torch\.compile"):
        attempt(torch.rand(6, 4))


class Net(torch.nn.Module):
    """A fused convolution, a plain one and a readout, in both coordinates."""

    def __init__(self) -> None:
        super().__init__()
        self.fused = GNPConv(torch.nn.Linear(4, 4), scatter_exponents(GNPAggregation(4)))
        self.plain = SAGEConv(4, 4, aggr=scatter_exponents(GNPAggregation(4, coordinates="published")))
        self.readout = scatter_exponents(GNPAggregation(4))

    def forward(self, x: Tensor, edge_index: Tensor, ptr: Tensor) -> Tensor:
        h = self.plain(self.fused(x, edge_index).relu(), edge_index)
        y: Tensor = self.readout(h.relu(), ptr=ptr)
        return y


@pytest.mark.filterwarnings("ignore")
def test_onnx_of_a_convolution() -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")

    def data(nodes: int, *starts: int) -> tuple[Tensor, Tensor, Tensor]:
        ptr = torch.tensor([0, *starts, nodes])
        return torch.randn(nodes, 4), torch.randint(0, nodes, (2, 3 * nodes)), ptr

    model = Net().eval()
    shapes = {"x": {0: "nodes"}, "edge_index": {1: "edges"}, "ptr": {0: "graphs"}}
    program = torch.onnx.export(model, data(7, 2), dynamo=True, dynamic_shapes=shapes, verbose=False)
    assert program is not None
    session = runtime.InferenceSession(program.model_proto.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    for inputs in (data(7, 3), data(20, 0, 4, 4, 15)):
        (found,) = session.run(None, dict(zip(names, (t.numpy() for t in inputs), strict=True)))
        torch.testing.assert_close(torch.from_numpy(found), model(*inputs).detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("function", "cap"), [(exponent, 6.0), (signed_exponent, 6.0)])
def test_the_cap_holds_in_forward_mode(function: Callable[[Tensor, float], Tensor], cap: float) -> None:
    t = torch.tensor([0.5, 20.0], dtype=torch.float64)
    value, tangent = torch.func.jvp(lambda t: function(t, cap), (t,), (torch.ones_like(t),))
    assert value[1].item() == cap
    assert value[0].item() < cap
    assert tangent[1].item() == 0.0
    assert tangent[0].item() > 0.0
    assert torch.equal(value, function(t, cap))
