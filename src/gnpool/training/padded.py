"""Epochs whose batches all have one shape, as a CUDA graph needs them; they are put together on the device."""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch_geometric import EdgeIndex

from gnpool.training.batches import EDGES, TRANSPOSE, Batch, Batches

LISTS = ("csc_ptr", "csr_ptr", "csr_row", "csr_col")  # what a sorted EdgeIndex keeps, beside TRANSPOSE
_PADDING = threading.Lock()  # of several studies that share their batches, one computes the padding and the others wait


class Padding(NamedTuple):
    """Rows of a padded batch."""

    nodes: int
    edges: int
    graphs: int


class PaddedEpochs:
    """The epochs of ``batches``, every batch padded to the largest that the first ``epochs`` epochs have.

    Dummy graphs behind the real ones take the surplus nodes, and the surplus edges as self-loops. No dummy has more
    nodes than the largest graph; dummies that are not needed are empty. Items of dummies have weight 0, and their
    values are copies of real ones, so that losses on them are finite. A whole epoch is put together at once by a few
    operations on the device.
    """

    def __init__(self, batches: Batches, epochs: int, device: torch.device) -> None:
        self.batches = batches
        self.device = device
        self.padding = padding_of(batches, epochs)
        self.values = {name: value.to(device) for name, value in batches.values.items()}
        self.nodes, self.edges = batches.nodes.to(device), batches.edges.to(device)
        self.first_node, self.first_edge = batches.first_node.to(device), batches.first_edge.to(device)

    def epoch(self, number: int) -> dict[str, Tensor]:
        """All batches of an epoch, each tensor with a leading dimension for the batch."""
        source = self.batches
        slots = len(source), source.batch_size
        filled = np.zeros(slots, dtype=np.int64)
        filled.flat[: source.count] = source.permutation(number)
        graphs = torch.from_numpy(filled).to(self.device)  # (B, size)
        present = (torch.arange(filled.size, device=self.device) < source.count).view(slots)
        nodes = _Slots(self.nodes[graphs] * present, self.first_node[graphs], self.padding.nodes)
        edges = _Slots(self.edges[graphs] * present, self.first_edge[graphs], self.padding.edges)
        count = present.sum(1, keepdim=True)  # (B, 1)
        place = torch.arange(self.padding.graphs, device=self.device)
        held = torch.minimum(place, count - 1)  # (B, graphs) dummies repeat the last graph
        rows = {"node": nodes.rows, "edge": edges.rows, "graph": graphs.gather(1, held)}
        real = {"node": nodes.real, "edge": edges.real, "graph": place < count}

        fields = {name: self.values[name][rows[level]] for name, level in source.levels.items() if name != EDGES}
        counts = real[source.levels.get("y", "graph")]
        fields["weight"] = fields["weight"] * counts if "weight" in fields else counts.double()
        longest = max(source.max_nodes, 1)
        dummy_ends = (nodes.total + (place - count + 1) * longest).clamp(max=self.padding.nodes)
        graph_ends = torch.where(real["graph"], nodes.ends.gather(1, held), dummy_ends)
        fields["batch"] = torch.where(nodes.real, nodes.part, count + nodes.surplus // longest)
        fields["ptr"] = torch.nn.functional.pad(graph_ends, (1, 0))
        if source.has_edges:
            shift = nodes.starts.gather(1, edges.part)
            dummy = nodes.total + edges.surplus * (self.padding.nodes - nodes.total) // edges.spare  # spread evenly
            ends = [torch.where(edges.real, row[edges.rows] + shift, dummy) for row in self.values[EDGES]]
            fields[EDGES] = torch.stack(ends, dim=1)
        if source.sorted_edges and source.has_edges:
            sources, destinations = fields[EDGES].unbind(1)
            order = fields[TRANSPOSE] + edges.starts.gather(1, edges.part)
            order = torch.where(edges.real, order, torch.arange(self.padding.edges, device=self.device))
            fields[TRANSPOSE] = order
            fields["csr_row"], fields["csr_col"] = sources.gather(1, order), destinations.gather(1, order)
            bounds = torch.arange(self.padding.nodes + 1, device=self.device).expand(len(source), -1).contiguous()
            fields["csc_ptr"] = torch.searchsorted(destinations.contiguous(), bounds)
            fields["csr_ptr"] = torch.searchsorted(fields["csr_row"], bounds)
        return fields


class StaticBatch:
    """A batch that stays in its place on the device while its content is replaced."""

    def __init__(self, epochs: PaddedEpochs) -> None:
        self.epochs = epochs
        self.targets = {name: value[0].clone() for name, value in epochs.epoch(0).items()}
        fields = {name: value for name, value in self.targets.items() if name not in (*LISTS, TRANSPOSE)}
        if TRANSPOSE in self.targets:
            fields[EDGES] = self._edge_index()
        self.batch = Batch(**fields, batch_size=epochs.padding.graphs, max_nodes=epochs.batches.max_nodes)

    def _edge_index(self) -> EdgeIndex:
        nodes, kept = self.epochs.padding.nodes, self.targets
        result = EdgeIndex(kept[EDGES], sparse_size=(nodes, nodes), sort_order="col")
        result._indptr, result._T_indptr, result._T_perm = kept["csc_ptr"], kept["csr_ptr"], kept[TRANSPOSE]
        result._T_index = (kept["csr_row"], kept["csr_col"])
        (ptr, _), _ = result.get_csc()
        (t_ptr, t_row), t_eid = result.get_csr()
        places = [t.data_ptr() for t in (ptr, t_ptr, t_row, t_eid, result.as_tensor())]
        names = ("csc_ptr", "csr_ptr", "csr_col", TRANSPOSE, EDGES)
        if places != [kept[name].data_ptr() for name in names]:
            raise RuntimeError("fit_many: this version of PyG's EdgeIndex does not keep the lists it is given")
        return result

    def load(self, epoch: dict[str, Tensor], number: int) -> None:
        """Copy batch ``number`` of an epoch here."""
        torch._foreach_copy_(list(self.targets.values()), [epoch[name][number] for name in self.targets])


class _Slots:
    """Where the rows of each batch come from: parts of ``counts`` (B, G) rows that begin at ``first``, padded."""

    def __init__(self, counts: Tensor, first: Tensor, width: int) -> None:
        self.ends = counts.cumsum(1)  # (B, G)
        self.starts = self.ends - counts
        self.total = self.ends[:, -1:]  # (B, 1)
        slot = torch.arange(width, device=counts.device).expand(len(counts), width)
        self.real = slot < self.total
        self.surplus = (slot - self.total).clamp(min=0)  # number among the surplus slots
        self.spare = (width - self.total).clamp(min=1)
        held = torch.minimum(slot, (self.total - 1).clamp(min=0)).contiguous()  # surplus slots repeat the last row
        self.part = torch.searchsorted(self.ends, held, right=True).clamp(max=counts.size(1) - 1)
        self.rows = first.gather(1, self.part) + held - self.starts.gather(1, self.part)


def padding_of(batches: Batches, epochs: int) -> Padding:
    """:func:`largest`, computed once for all studies that share ``batches`` and stored with the batches."""
    key = (epochs, batches.batch_size, -1 if batches.seed is None else batches.seed)
    with _PADDING:
        if key not in batches.paddings:
            batches.paddings[key] = largest(batches, epochs)
        found: Padding = batches.paddings[key]
        return found


def largest(batches: Batches, epochs: int) -> Padding:
    """The smallest padding that fits every batch of the first ``epochs`` epochs."""
    size, longest = batches.batch_size, max(batches.max_nodes, 1)
    starts = np.arange(0, batches.count, size)
    counts = np.diff(starts, append=batches.count)
    rows = np.stack((batches.nodes.numpy(), batches.edges.numpy()))
    sums = [
        np.add.reduceat(rows[:, batches.permutation(number)], starts, axis=1)
        for number in range(epochs if batches.seed is not None else 1)
    ]
    nodes, edges = np.stack(sums, axis=1)  # (epochs, B) each
    width = int(nodes.max()) + 1  # one node more, since the surplus edges need a node
    dummies = (width - nodes + longest - 1) // longest
    return Padding(width, int(edges.max()), int((counts + dummies).max()))
