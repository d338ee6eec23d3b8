"""Export a model with GNP to ONNX, and run it in onnxruntime on graphs of other sizes.

pip install 'gnpool[export]'
python examples/to_onnx.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import onnxruntime
import torch
from torch_geometric.nn import GINConv
from torch_geometric.utils import erdos_renyi_graph

from gnpool import GNPAggregation


class Net(torch.nn.Module):
    """A GIN with GNP in both places."""

    def __init__(self) -> None:
        super().__init__()
        layers = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.ReLU())
        self.conv = GINConv(layers, aggr=GNPAggregation(3))
        self.readout, self.output = GNPAggregation(16), torch.nn.Linear(16, 1)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, ptr: torch.Tensor) -> torch.Tensor:
        """One number for each graph; the nodes of graph i are those from ptr[i] to ptr[i + 1]."""
        return self.output(self.readout(self.conv(x, edge_index), ptr=ptr))


def main() -> float:
    """Export; return the difference between onnxruntime and torch on larger graphs."""
    torch.manual_seed(0)
    net = Net().eval()
    example = torch.rand(10, 3), erdos_renyi_graph(10, 0.4), torch.tensor([0, 4, 10])
    sizes = {"x": {0: "nodes"}, "edge_index": {1: "edges"}, "ptr": {0: "ends"}}
    program = torch.onnx.export(net, example, dynamo=True, dynamic_shapes=sizes, verbose=False)
    assert program is not None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        program.save(path)
        session = onnxruntime.InferenceSession(path)
    larger = torch.rand(200, 3), erdos_renyi_graph(200, 0.05), torch.tensor([0, 50, 120, 200])
    names = [one.name for one in session.get_inputs()]
    (found,) = session.run(None, {name: value.numpy() for name, value in zip(names, larger, strict=True)})
    difference = (torch.from_numpy(found) - net(*larger)).abs().max().item()
    print(f"onnxruntime and torch differ by {difference:.1e}")
    return difference


if __name__ == "__main__":
    main()
