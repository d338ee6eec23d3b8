"""Exported files answer as the model does, in a process that cannot import gnpool."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch_geometric.data import Batch, Data
from torch_geometric.nn import MLP, SAGEConv

from gnpool import GNPAggregation, GNPConv
from gnpool.display.poolings import JOINED
from gnpool.insight import NAMES, CrystalAggregation, export_model
from gnpool.insight.crystallize import replaced
from gnpool.insight.networks import check_code
from gnpool.insight.plain import functions, pooling_class, pooling_state
from gnpool.models import DeepNet, GraphNet, NodeNet, SetNet

ALONE = """
import importlib.util
import sys
sys.modules["gnpool"] = None  # an import raises
import torch
from safetensors.torch import load_file, save_file
for folder in sys.argv[1:]:
    spec = importlib.util.spec_from_file_location("model", folder + "/model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    inputs = load_file(folder + "/inputs")
    with torch.no_grad():
        source = module.load()(**inputs)
        program = torch.export.load(folder + "/model.pt2").module()(**inputs)
    save_file({"source": source.contiguous(), "program": program.contiguous()}, folder + "/found")
assert not any(name.startswith("gnpool.") for name in sys.modules)
"""


def graphs(sizes, channels=1, seed=0, weights=False, features=0):
    generator = torch.Generator().manual_seed(seed)
    found = []
    for n in sizes:
        edges = torch.randint(0, n, (2, 3 * n), generator=generator)
        data = Data(x=torch.rand(n, channels, generator=generator), edge_index=edges)
        if weights:
            data.edge_weight = torch.rand(3 * n, generator=generator)
        if features:
            data.edge_attr = torch.rand(3 * n, features, generator=generator)
        found.append(data)
    return Batch.from_data_list(found)


class Users(torch.nn.Module):
    """A user's model with PyG's convolution around our aggregation, our convolution, and a readout."""

    def __init__(self):
        super().__init__()
        self.first = SAGEConv(1, 6, aggr=GNPAggregation(1))
        self.second = GNPConv(torch.nn.Linear(6, 6), GNPAggregation(6, start="mean"))
        self.readout = GNPAggregation(6, per_channel=True, bias=True)
        self.out = torch.nn.Linear(6, 2)

    def forward(self, x, edge_index, ptr):
        h = self.second(self.first(x, edge_index).relu(), edge_index).relu()
        return self.out(self.readout(h, ptr=ptr))


class Indexed(torch.nn.Module):
    """A user's model whose readout gets the graph of each node, but not the number of graphs."""

    def __init__(self):
        super().__init__()
        self.conv = SAGEConv(1, 6, aggr=GNPAggregation(1))
        self.readout = GNPAggregation(6, coordinates="published")
        self.head = MLP([6, 6, 1])

    def forward(self, x, edge_index, batch):
        return self.head(self.readout(self.conv(x, edge_index).relu(), batch))


def crystal():
    names = {"aggr": {"positive": "sum", "negative": "min"}, "readout": {"negative": "harmonic sum"}}
    return replaced(GraphNet(1, hidden=6), names, biases=False)


def node_net(**options):
    model = NodeNet(2, edge_weights=True, hidden=6, layers=2, **options)
    return replaced(model, {"layers.0.aggr": {"negative": "min"}})


def growth_net():
    """One file has layers with both rules for rows of 0."""
    model = GraphNet(1, "gnpg", GNPAggregation(6, zeros="remove"), hidden=6)
    model.aggr.p, model.aggr.growth, model.readout.p = 1e-4, 0.3, -0.7
    return model


def deep_net():
    """Layers with statistics of their own, as after a training, and features of edges."""
    model = DeepNet(1, hidden=6, layers=2, residual=True, jumping="cat", dropout=0.5, edge_channels=3, head=4,
                    train_eps=True, last_activation=False)  # fmt: skip
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if name.endswith(("running_mean", "running_var", "eps")):
                value.add_(torch.rand(value.shape))
    return model


MODELS = {
    "crystallized": (crystal, {}, "harmonic_sum_pool"),
    "learned": (lambda: GraphNet(1, hidden=6), {}, "norm_pool"),
    "learned growth": (growth_net, {}, "power_mean_pool"),
    "geometric": (lambda: replaced(growth_net(), {"aggr": {"one": "geometric mean"}}), {}, "geometric_mean_pool"),
    "GIN": (lambda: GraphNet(1, "mean", hidden=6, form="gin", eps=0.5, activation="elu"), {}, "mean_pool"),
    "GIN, without the node": (
        lambda: replaced(GraphNet(1, "gnpg", hidden=6, form="gin"), {"aggr": {"one": "max"}}, own=False),
        {},
        "max_pool",
    ),
    "lattice": (
        lambda: replaced(
            growth_net(), {"aggr": {"one": "n^(1/2) cubic mean"}, "readout": {"one": "L3 norm and n^-1 max"}}
        ),
        {},
        "size_power",
    ),
    "nodes": (node_net, {"channels": 2, "weights": True}, "min_pool"),
    "nodes, GIN": (lambda: node_net(form="gin", eps=0.5), {"channels": 2, "weights": True}, "min_pool"),
    "nodes, GIN, no weights": (lambda: NodeNet(2, "max", form="gin", layers=2), {"channels": 2}, "max_pool"),
    "sets": (lambda: replaced(SetNet(1, hidden=6), {"pool": {"positive": "mean with a 0"}}), {}, "mean_with_a_0_pool"),
    "deep": (deep_net, {"features": 3}, "power_mean_pool"),
    "deep, nodes": (
        lambda: DeepNet(1, "min", None, hidden=6, layers=2, norm="layer", jumping="max", out_channels=2),
        {},
        "min_pool",
    ),
    "a user's": (Users, {}, "torch.ops.aten"),
    "a user's, by index": (Indexed, {}, "torch.ops.aten"),
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """All models, and the answers that one process without gnpool gives for larger graphs."""
    found = {}
    for name, (make, options, _) in MODELS.items():
        torch.manual_seed(0)
        model = make().eval()
        folder = export_model(model, tmp_path_factory.mktemp("model"), graphs((5, 8, 6), **options))
        larger = graphs((11, 4, 30, 7), seed=1, **options)  # other numbers of nodes, edges and graphs
        arguments = [arg.arg for arg in forward_of((folder / "model.py").read_text()).args.args if arg.arg != "self"]
        inputs = {key: larger.ptr if key == "ptr" else larger[key] for key in arguments}
        save_file({key: value.contiguous() for key, value in inputs.items()}, folder / "inputs")
        found[name] = (folder, model, inputs)
    command = [sys.executable, "-c", ALONE, *(str(folder) for folder, _, _ in found.values())]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    return found


@pytest.mark.parametrize("name", MODELS)
def test_without_gnpool(name, exported):
    folder, model, inputs = exported[name]
    source = (folder / "model.py").read_text()
    assert MODELS[name][2] in source
    assert "import gnpool" not in source
    assert max(len(line) for line in source.splitlines()) <= 120 or name.startswith("a user's")
    with torch.no_grad():
        expected = model(**inputs)
    for values in load_file(folder / "found").values():
        torch.testing.assert_close(values, expected, rtol=1e-5, atol=1e-6)


def forward_of(source):
    (model,) = [n for n in ast.parse(source).body if isinstance(n, ast.ClassDef) and n.name == "Model"]
    return next(n for n in model.body if isinstance(n, ast.FunctionDef) and n.name == "forward")


@pytest.mark.parametrize("named", [*NAMES, *JOINED.values()], ids=str)
def test_every_name_is_exact(named):
    layer = CrystalAggregation(3, [(0, 3, named.name)])
    x, index = torch.rand(7, 3, dtype=torch.float64), torch.tensor([0, 0, 0, 2, 2, 3, 3])
    x[1, 1] = 0.0
    torch.testing.assert_close(written(layer)(x, index, 4), layer(x, index, dim_size=4), rtol=1e-14, atol=0)


@pytest.mark.parametrize(
    "options", [{}, {"branches": "both"}, {"branches": "negative"}, {"nonneg": "abs"}, {"eps": 0.0}]
)
@pytest.mark.parametrize("p", [1.2, 49.0])
@pytest.mark.parametrize("coordinates", ["published", "growth"])
def test_a_learned_layer_of_two_branches(options, p, coordinates):
    layer = GNPAggregation(4, mix=False, coordinates=coordinates, **{"branches": "split", **options}).double()
    size = "q" if coordinates == "published" else "growth"
    for short in ("pos", "neg"):
        if hasattr(layer, f"raw_p_{short}"):
            setattr(layer, f"p_{short}", p)
            setattr(layer, f"{size}_{short}", 0.3)
    x, index = torch.randn(8, 4, dtype=torch.float64), torch.tensor([0, 0, 0, 2, 2, 3, 3, 3])
    x[5:] = 0.0  # a segment of zeros, and segment 1 has no row
    expected = layer(x, index, dim_size=4).detach()
    torch.testing.assert_close(written(layer)(x, index, 4), expected, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize(("zeros", "eps"), [("keep", 1e-6), ("keep", 0.0), ("remove", 1e-6), ("remove", 0.0)])
@pytest.mark.parametrize("p", [-49.0, -1.0, -1e-4, 0.0, 1e-12, 1e-6, 0.4, 1.0, 49.0])
def test_a_learned_layer_of_one_branch(p, zeros, eps):
    """Exponents on both sides of 0, zeros in a segment, a segment of zeros (the last) and an empty one (the second)."""
    layer = GNPAggregation(4, mix=False, zeros=zeros, eps=eps).double()
    layer.p, layer.growth = p, 0.3
    generator = torch.Generator().manual_seed(0)
    x, index = torch.randn(8, 4, generator=generator).double(), torch.tensor([0, 0, 0, 2, 2, 3, 3, 3])
    x[5:] = 0.0
    expected = layer(x, index, dim_size=4).detach()
    torch.testing.assert_close(written(layer)(x, index, 4), expected, rtol=1e-9, atol=1e-300)


def test_exponents_per_channel_are_written():
    layer = GNPAggregation(3, mix=False, per_channel=True).double()
    layer.p, layer.growth = torch.tensor([-2.0, 0.0, 5.0]), torch.tensor([0.0, 0.5, -1.0])
    x, index = torch.rand(6, 3, dtype=torch.float64), torch.tensor([0, 0, 1, 1, 1, 1])
    torch.testing.assert_close(written(layer)(x, index, 2), layer(x, index).detach(), rtol=1e-9, atol=0)


def written(layer):
    source, needs = pooling_class("Pooling", layer)
    namespace: dict = {}
    head = "import torch\nfrom torch import Tensor\nfrom torch_geometric.utils import scatter\n"
    exec(head + functions(needs) + "\n" + source, namespace)  # noqa: S102 -- the text under test
    module = namespace["Pooling"]().double()
    module.load_state_dict(pooling_state(layer))
    return module


def test_names_of_modules_do_not_become_code(tmp_path):
    class Odd(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.add_module('a"); open("pwned", "w"); ("', torch.nn.Linear(1, 4))
            self.add_module("pool\n", GNPAggregation(4))

        def forward(self, x, ptr):
            first, pool = self.children()
            return pool(first(x), ptr=ptr)

    batch = graphs((5, 8, 6))
    folder = export_model(Odd(), tmp_path / "out", batch)
    source = (folder / "model.py").read_text()
    calls = {ast.unparse(n.func) for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Call)}
    assert "open" not in calls
    assert not Path("pwned").exists()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def f(x):\n    return open(x)", "calls open, which plain torch does not have"),
        ("def f(x):\n    return torch.ops.gnpool.pool(x)", "calls torch.ops.gnpool.pool"),
        ("def f(x):\n    import os", "calls of torch's operations"),
    ],
)
def test_traced_code_may_call_torch_only(code, message):
    with pytest.raises(ValueError, match=message):
        check_code(code)


class Looking(torch.nn.Module):
    """A model that torch.export cannot follow, because it chooses by a value."""

    def __init__(self):
        super().__init__()
        self.pool = GNPAggregation(1)

    def forward(self, x):
        return self.pool(x) if x.sum() > 0 else -self.pool(x)


def test_a_model_that_cannot_be_traced(tmp_path):
    with pytest.raises(ValueError, match=r"torch.export cannot follow Looking: .*data-dependent") as caught:
        export_model(Looking(), tmp_path, {"x": torch.ones(3, 1)})
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_errors(tmp_path):
    with pytest.raises(ValueError, match="'example' must have the tensor 'edge_index'"):
        export_model(GraphNet(1, hidden=4), tmp_path, {"x": torch.ones(3, 1)})
    with pytest.raises(ValueError, match="'Not a name'"):
        pooling_class("Not a name", GNPAggregation(2))
    with pytest.raises(TypeError, match="Linear cannot be written as plain code"):
        pooling_class("Pooling", torch.nn.Linear(2, 2))
    assert not list(tmp_path.iterdir())
