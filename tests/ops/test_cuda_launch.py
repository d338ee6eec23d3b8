"""What was compiled is launched again for arguments of the same kind, and only for those."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton")

from gnpool.ops.cuda import launch as cuda_launch
from gnpool.ops.cuda.launch import cdiv, launch, power_of_2


class Kernel:
    """A stand-in for a Triton kernel: notes what is compiled, and what each compiled one is called with."""

    arg_names = ("x", "n", "CHUNK", "BD")

    def __init__(self):
        self.compiled, self.launched = [], []

    def __getitem__(self, grid):
        def run(*arguments, **constants):
            self.compiled.append((grid, constants))
            return Compiled(self)

        return run


class Compiled:
    def __init__(self, kernel):
        self.kernel = kernel

    def __getitem__(self, grid):
        return lambda *arguments: self.kernel.launched.append((grid, arguments))


@pytest.fixture
def kernel(monkeypatch):
    monkeypatch.setattr(cuda_launch, "_DIRECT", True)
    monkeypatch.setattr(cuda_launch, "_COMPILED", {})
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    return Kernel()


def test_the_second_launch_takes_what_the_first_compiled(kernel):
    x, y = torch.zeros(64, device="cpu"), torch.ones(64, device="cpu")
    launch(kernel, (5, 2), x, 32, CHUNK=7, BD=16, num_warps=1)
    launch(kernel, (3, 4), y, 48, CHUNK=7, BD=16, num_warps=1)
    assert kernel.compiled == [((5, 2), {"CHUNK": 7, "BD": 16, "num_warps": 1})]
    ((grid, (first, *rest)),) = kernel.launched
    assert (grid, rest) == ((3, 4, 1), [48, 7, 16])  # all in the order of the signature; options are not parameters
    assert first is y


BASE = torch.zeros(64, device="cpu")
OTHERS = {
    "another type": ((BASE.double(), 32), {}),
    "not aligned": ((BASE[1:], 32), {}),
    "1": ((BASE, 1), {}),
    "no multiple of 16": ((BASE, 33), {}),
    "64 bits": ((BASE, 2**31), {}),
    "a float": ((BASE, 0.5), {}),
    "another constant": ((BASE, 32), {"BD": 32}),
    "another option": ((BASE, 32), {"num_warps": 4}),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_kinds_are_compiled_anew(kernel, name):
    arguments, constants = OTHERS[name]
    launch(kernel, (1,), BASE, 32, CHUNK=7, BD=16, num_warps=1)
    launch(kernel, (1,), *arguments, **{"CHUNK": 7, "BD": 16, "num_warps": 1, **constants})
    assert (len(kernel.compiled), len(kernel.launched)) == (2, 0)


def test_another_device_compiles_anew(kernel, monkeypatch):
    launch(kernel, (1,), BASE, 32, CHUNK=7, BD=16)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    launch(kernel, (1,), BASE, 32, CHUNK=7, BD=16)
    assert len(kernel.compiled) == 2


@pytest.mark.parametrize(("a", "b", "expected"), [(0, 4, 0), (1, 4, 1), (4, 4, 1), (5, 4, 2), (2**40, 3, 366503875926)])
def test_cdiv_rounds_up(a, b, expected):
    assert cdiv(a, b) == expected


@pytest.mark.parametrize(("n", "expected"), [(0, 1), (1, 1), (2, 2), (3, 4), (64, 64), (65, 128)])
def test_power_of_2(n, expected):
    assert power_of_2(n) == expected
