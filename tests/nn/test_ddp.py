"""Two processes with half of the batch each end where one process with the whole batch does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

CODE = """
import sys
import torch
from torch.nn.parallel import DistributedDataParallel
from gnpool import GNPAggregation, param_groups

def train(rank, world, path):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(GNPAggregation(4), torch.nn.Linear(4, 1)).double()
    x, y = torch.rand(8, 6, 4, dtype=torch.float64), torch.rand(8, dtype=torch.float64)
    mine = slice(8 * rank // world, 8 * (rank + 1) // world)
    if world > 1:
        join = "file://" + path + ".join"
        torch.distributed.init_process_group("gloo", init_method=join, rank=rank, world_size=world)
    layer = torch.nn.ModuleList(model)
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = layer
        def forward(self, x):
            pooled = self.layers[0](x.flatten(0, 1), torch.arange(len(x)).repeat_interleave(6), dim_size=len(x))
            return self.layers[1](pooled).squeeze(1)
    net = Net()
    wrapped = DistributedDataParallel(net) if world > 1 else net
    optimizer = torch.optim.SGD(param_groups(wrapped, 0.1, lr_p=1.0))
    for _ in range(5):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(wrapped(x[mine]), y[mine]).backward()
        optimizer.step()
    if rank == 0:
        torch.save(net.state_dict(), path)
    if world > 1:
        torch.distributed.destroy_process_group()

if __name__ == "__main__":
    world, path = int(sys.argv[1]), sys.argv[2]
    if world == 1:
        train(0, 1, path)
    else:
        torch.multiprocessing.spawn(train, (world, path), nprocs=world)
"""


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch is built without torch.distributed")
def test_two_processes_equal_one(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(CODE)
    states = []
    for world in (1, 2):
        path = tmp_path / f"state{world}.pt"
        subprocess.run([sys.executable, str(script), str(world), str(path)], check=True, timeout=300)
        states.append(torch.load(path, weights_only=True))
    assert states[0].keys() == states[1].keys()
    assert states[0]["layers.0.raw_p_pos"] != 0  # p has moved
    for name, alone in states[0].items():
        torch.testing.assert_close(states[1][name], alone, rtol=1e-10, atol=1e-12, msg=name)


@pytest.mark.slow
@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch is built without torch.distributed")
def test_the_example_ends_where_one_process_does(tmp_path):
    example = Path(__file__).parents[2] / "examples" / "ddp.py"
    options = [str(example), "--double", "--steps", "6", "--batch-size", "33", "--out"]  # shares of 17 and 16 graphs
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    states = []
    for launch in ([], ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]):
        path = tmp_path / f"state{len(states)}.pt"
        command = [sys.executable, *launch, *options, str(path)]
        subprocess.run(command, check=True, timeout=300, env=environment, capture_output=True)
        states.append(torch.load(path, weights_only=True))
    assert states[0]["readout.raw_p_pos"] != 0  # p has moved
    assert states[0]["conv.aggr_module.raw_p_pos"] != 0
    for name, alone in states[0].items():
        torch.testing.assert_close(states[1][name], alone, rtol=1e-9, atol=1e-11, msg=name)
