r"""Losses and metrics of networks that point from each node to one of its neighbours.

A prediction has one log-probability for every edge: how likely its destination points to its source. ``batch.y`` is 1
for the edge that the algorithm took and 0 for the others, and ``batch.weight`` the same, so that means run over nodes.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data


def pointer_nll(prediction: Tensor, batch: Data) -> Tensor:
    r"""The negative log-probability of the edge that is pointed along; 0 for other edges.

    Shapes:
        - **prediction:** (edges,) log-probabilities, which sum to 1 over the edges into a node
        - **output:** (edges,)

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool.tasks.arena import pointer_nll
        >>> batch = Data(y=torch.tensor([1, 0, 1]), edge_index=torch.tensor([[0, 1, 0], [0, 0, 1]]))
        >>> pointer_nll(torch.tensor([0.25, 0.75, 1.0]).log(), batch)
        tensor([1.39, 0.00, 0.00])
    """
    return torch.where(batch.y > 0, -prediction.view_as(batch.y), 0.0)


def pointer_accuracy(prediction: Tensor, batch: Data) -> Tensor:
    r"""1 for an edge that is pointed along and more likely than all other edges into its node, else 0.

    A tie counts as an error, since no rule decides it. The shapes are those of :func:`pointer_nll`.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool.tasks.arena import pointer_accuracy
        >>> batch = Data(x=torch.ones(2, 1), y=torch.tensor([1, 0, 1]), edge_index=torch.tensor([[0, 1, 0], [0, 0, 1]]))
        >>> pointer_accuracy(torch.tensor([0.25, 0.75, 1.0]).log(), batch)
        tensor([0., 0., 1.])
    """
    prediction, destination = prediction.view_as(batch.y), _plain(batch.edge_index)[1]
    nodes = batch.x.size(0)
    most = torch.full((nodes,), -torch.inf, dtype=prediction.dtype, device=prediction.device)
    most = most.scatter_reduce(0, destination, prediction, "amax")
    reached = (prediction >= most.index_select(0, destination)).to(prediction.dtype)
    tied = torch.zeros(nodes, dtype=prediction.dtype, device=prediction.device).scatter_add(0, destination, reached)
    alone = tied.index_select(0, destination) == 1
    return torch.where(batch.y > 0, reached * alone, 0.0)


def pointer_graph_accuracy(prediction: Tensor, batch: Data) -> Tensor:
    r"""1 for every edge that is pointed along in a graph whose nodes are all right, else 0.

    If all graphs have equally many nodes, its mean is the share of such graphs. The shapes are those of
    :func:`pointer_nll`.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool.tasks.arena import pointer_graph_accuracy
        >>> batch = Data(x=torch.ones(2, 1), y=torch.tensor([1, 0, 1]), edge_index=torch.tensor([[0, 1, 0], [0, 0, 1]]))
        >>> pointer_graph_accuracy(torch.tensor([0.75, 0.25, 1.0]).log(), batch)
        tensor([1., 0., 1.])
    """
    right = pointer_accuracy(prediction, batch)
    weight = getattr(batch, "weight", None)
    counts = batch.y > 0 if weight is None else (batch.y > 0) & (weight.view_as(batch.y) > 0)
    missed = torch.where(counts, 1.0 - right, 0.0)
    of_node = getattr(batch, "batch", None)
    destination = _plain(batch.edge_index)[1]
    graph = torch.zeros_like(destination) if of_node is None else of_node.index_select(0, destination)
    graphs = 1 if of_node is None else batch.batch_size
    total = torch.zeros(graphs, dtype=missed.dtype, device=missed.device).scatter_add(0, graph, missed)
    return torch.where(counts, (total.index_select(0, graph) == 0).to(missed.dtype), 0.0)


def _plain(edge_index: Tensor) -> Tensor:
    """``edge_index`` without PyG's subclass."""
    tensor: Tensor = edge_index.as_tensor() if hasattr(edge_index, "as_tensor") else edge_index
    return tensor
