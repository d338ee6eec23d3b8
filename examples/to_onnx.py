"""Export a model with GNP to ONNX, and run it in onnxruntime on a graph of another size.

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
    """A GIN on one graph, with GNP in both places."""

    def __init__(self) -> None:
        super().__init__()
        layers = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.ReLU())
        self.conv = GINConv(layers, aggr=GNPAggregation(3))
        self.readout, self.output = GNPAggregation(16), torch.nn.Linear(16, 1)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        """One number for the graph."""
        return self.output(self.readout(self.conv(x, edge_index)))


def main() -> float:
    """Export; return the difference between onnxruntime and torch on a larger graph."""
    torch.manual_seed(0)
    net = Net().eval()
    example = torch.rand(10, 3), erdos_renyi_graph(10, 0.4)
    sizes = {"x": {0: torch.export.Dim("nodes")}, "edge_index": {1: torch.export.Dim("edges")}}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        torch.onnx.export(
            net, example, path, dynamo=True, dynamic_shapes=sizes, input_names=["x", "edge_index"], verbose=False
        )
        session = onnxruntime.InferenceSession(path)
    x, edge_index = torch.rand(200, 3), erdos_renyi_graph(200, 0.05)
    (found,) = session.run(None, {"x": x.numpy(), "edge_index": edge_index.numpy()})
    difference = abs(float(found.item()) - net(x, edge_index).item())
    print(f"onnxruntime and torch differ by {difference:.1e}")
    return difference


if __name__ == "__main__":
    main()
