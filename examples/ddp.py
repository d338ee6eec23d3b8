"""One model over several processes: GNP layers inside a PyG network under DistributedDataParallel.

    torchrun --nproc-per-node 2 examples/ddp.py                  # gloo on CPUs, NCCL where there are GPUs
    torchrun --nnodes 2 --nproc-per-node 8 --rdzv-endpoint HOST:29500 examples/ddp.py

Every rank takes its share of the graphs of each global batch. p and q are ordinary parameters, whose gradients DDP
averages. Ranks may hold different numbers of graphs; the loss is divided by the global count, so that the result is
that of one process with the whole batch. Sampling needs nothing compiled: a rank picks graphs or, from one large graph,
target nodes with their neighbourhoods (torch_geometric.utils.k_hop_subgraph).
"""

from __future__ import annotations

import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.data import Batch
from torch_geometric.nn import GINConv

from gnpool import GNPAggregation, param_groups
from gnpool.tasks import get_task


class Net(torch.nn.Module):
    """A GIN that aggregates neighbours and reads out graphs by GNP."""

    def __init__(self, hidden: int = 16) -> None:
        super().__init__()
        layers = (torch.nn.Linear(1, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, hidden), torch.nn.ReLU())
        self.conv = GINConv(torch.nn.Sequential(*layers), aggr=GNPAggregation(1))
        self.readout = GNPAggregation(hidden)
        self.output = torch.nn.Linear(hidden, 1)

    def forward(self, batch: Batch) -> torch.Tensor:
        """One number for each graph."""
        h = self.conv(batch.x.to(self.output.weight.dtype), batch.edge_index)
        return self.output(self.readout(h, batch.batch, dim_size=batch.num_graphs)).squeeze(-1)


def share(items: list[int], rank: int, world: int) -> list[int]:
    """The part of a global batch that belongs to a rank; parts differ by one item at most."""
    return items[rank::world]


def train(steps: int, batch_size: int, rank: int, world: int, device: torch.device, dtype: torch.dtype) -> Net:
    """Train for some steps; with ``world`` > 1 the process group must exist."""
    torch.manual_seed(0)  # the same initial weights on all ranks
    graphs = get_task("maxdegree").dataset("train", count=256)
    net = Net().to(device, dtype)
    model = DistributedDataParallel(net) if world > 1 else net
    optimizer = torch.optim.RMSprop(param_groups(model, 1e-3, lr_p=1e-2))
    order = torch.Generator().manual_seed(1)  # the same batches on all ranks, each of which takes its share
    for step in range(steps):
        chosen = torch.randperm(len(graphs), generator=order)[:batch_size].tolist()
        batch = Batch.from_data_list([graphs[k] for k in share(chosen, rank, world)]).to(device)
        error = (model(batch) - batch.y.to(dtype)).square().sum()
        # DDP takes the mean over ranks; with this factor it is the mean over the joined batch.
        loss = error * world / batch_size
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 10 == 0:
            p = net.readout.p.item()
            here = error.item() / len(batch.y)
            print(f"step {step}: loss of the graphs of rank 0: {here:.3f}, p of the readout: {p:.4f}")
    return net


def main() -> None:
    """Run as one of torchrun's processes, or alone."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch-size", type=int, default=32, help="graphs of a global batch")
    parser.add_argument("--double", action="store_true", help="double precision")
    parser.add_argument("--out", help="where rank 0 writes the weights")
    options = parser.parse_args()
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    if world > 1:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        dtype = torch.float64 if options.double else torch.float32
        net = train(options.steps, options.batch_size, rank, world, device, dtype)
        if rank == 0 and options.out:
            torch.save(net.state_dict(), options.out)
    finally:
        if world > 1:  # DDP is gone with train(): a group that is destroyed under a living one can hang
            dist.destroy_process_group()


if __name__ == "__main__":
    main()
