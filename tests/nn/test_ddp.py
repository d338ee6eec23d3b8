"""Two processes with half of the batch each end where one process with the whole batch does."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="torch is built without torch.distributed")

CODE = """
import faulthandler
import os
import sys
import torch
from torch.nn.parallel import DistributedDataParallel
from gnpool import GNPAggregation, param_groups

def train(rank, world, path):
    faulthandler.dump_traceback_later(240)  # where it hangs, if it does
    torch.manual_seed(0)
    torch.set_num_threads(1)
    layer = GNPAggregation(4, coordinates=sys.argv[2])
    model = torch.nn.Sequential(layer, torch.nn.Linear(4, 1)).double()
    x, y = torch.rand(8, 6, 4, dtype=torch.float64), torch.rand(8, dtype=torch.float64)
    mine = slice(8 * rank // world, 8 * (rank + 1) // world)
    if world > 1:
        torch.distributed.init_process_group("gloo")
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
        del wrapped  # before its group: the other way round torch may wait for a thread that waits for Python's lock
        torch.distributed.destroy_process_group()
    faulthandler.cancel_dump_traceback_later()

if __name__ == "__main__":
    train(int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1)), sys.argv[1])
"""

TWO = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
SECONDS = 300


def launch(arguments: list[str]) -> None:
    """Run Python; torchrun passes SIGTERM on to its ranks."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    with tempfile.TemporaryFile("w+") as output:  # a pipe would stay open as long as any rank lives
        process = subprocess.Popen([sys.executable, *arguments], env=environment, stdout=output, stderr=output)
        try:
            code: int | str = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait(60)
            code = f"none after {SECONDS} s"
        output.seek(0)
        assert code == 0, f"exit code {code}:\n{output.read()}"


@pytest.mark.parametrize(
    ("coordinates", "raw", "start"), [("growth", "raw_p", 0.8813736), ("published", "raw_p_pos", 0.0)]
)
def test_two_processes_equal_one(coordinates, raw, start, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(CODE)
    states = []
    for launcher in ((), TWO):
        path = tmp_path / f"state{len(states)}.pt"
        launch([*launcher, str(script), str(path), coordinates])
        states.append(torch.load(path, weights_only=True))
    assert states[0].keys() == states[1].keys()
    assert abs(states[0][f"layers.0.{raw}"] - start) > 1e-3  # p has moved
    for name, alone in states[0].items():
        torch.testing.assert_close(states[1][name], alone, rtol=1e-10, atol=1e-12, msg=name)


@pytest.mark.slow
def test_the_example_ends_where_one_process_does(tmp_path):
    example = Path(__file__).parents[2] / "examples" / "ddp.py"
    options = [str(example), "--double", "--steps", "6", "--batch-size", "33", "--out"]  # shares of 17 and 16 graphs
    states = []
    for start in ((), TWO):
        path = tmp_path / f"state{len(states)}.pt"
        launch([*start, *options, str(path)])
        states.append(torch.load(path, weights_only=True))
    assert abs(states[0]["readout.raw_p"] - 0.8813736) > 1e-3  # p has moved from 1
    for layer in ("readout", "conv.aggr_module"):
        assert abs(states[0][f"{layer}.raw_growth"]) > 1e-3
    for name, alone in states[0].items():
        torch.testing.assert_close(states[1][name], alone, rtol=1e-9, atol=1e-11, msg=name)
