"""A stack holds the parameters of the modules of its seeds. It is made on the CPU and moved once, there and back."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gnpool import Setting, fit_many
from gnpool.training import Fit
from gnpool.training.stack import Stack
from tests.training.problems import Net, graphs, squared

CPU = torch.device("cpu")
SEEDS = [3, 1, 3, 0, 1, 3]


def frozen() -> torch.nn.Module:
    net = Net("batch_norm")
    net.output.weight.requires_grad_(False)
    return net


def halved() -> torch.nn.Module:
    net = Net("gcn")
    net.output.to(torch.bfloat16)
    return net


@pytest.mark.parametrize(
    ("make", "dtype"),
    [
        (Net, torch.float32),
        (frozen, torch.float32),
        (halved, torch.float32),
        (lambda: Net().double(), torch.float64),
    ],
    ids=["gnp", "buffers and frozen parameters", "half precision", "double precision"],
)
@pytest.mark.parametrize("seeds", [SEEDS, [2, 5, 4], [7]], ids=str)
def test_rows_and_constants_are_those_of_the_modules(make: Any, dtype: torch.dtype, seeds: list[int]) -> None:
    stack = Stack(make, seeds, CPU)
    assert stack.flat.dtype == dtype
    assert stack.flat.is_contiguous()
    for k, seed in enumerate(seeds):
        torch.manual_seed(seed)
        module = make()
        trained = [p.detach() for p in module.parameters() if p.requires_grad]
        assert torch.equal(stack.flat[k], torch.cat([p.to(dtype).flatten() for p in trained]))
        rest = {n: p.detach() for n, p in module.named_parameters() if not p.requires_grad}
        rest |= dict(module.named_buffers())
        assert list(stack.constants) == list(rest)
        for name, value in rest.items():
            assert stack.constants[name].dtype == value.dtype
            assert torch.equal(stack.constants[name][k], value), name
        kept = {name: value[k] for name, value in stack.constants.items()}
        for name, value in stack.state_dict(stack.flat[k], kept).items():
            assert torch.equal(value, module.state_dict()[name]), name


def test_rows_of_one_seed_are_apart() -> None:
    stack = Stack(frozen, [1, 1], CPU)
    stack.flat[0] += 1.0
    stack.constants["output.weight"][0] += 1.0
    assert not (stack.flat[0] == stack.flat[1]).any()
    assert not (stack.constants["output.weight"][0] == stack.constants["output.weight"][1]).any()
    original = next(p for p in stack.module.parameters() if p.requires_grad)
    assert torch.equal(original.flatten(), stack.flat[1, : original.numel()])  # the module has tensors of its own


def test_a_module_is_made_once_for_each_seed() -> None:
    made: list[int] = []
    Stack(lambda: made.append(torch.initial_seed()) or Net(), SEEDS, CPU)
    assert made == [3, 1, 0]


class Moves(TorchDispatchMode):
    """Counts copies to the device that stands for a GPU here."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.count += func is torch.ops.aten._to_copy.default and result.device.type == "meta"
        return result


@pytest.mark.parametrize("seeds", [1, 20])
def test_each_tensor_moves_once(seeds: int) -> None:
    with Moves() as moves:
        stack = Stack(frozen, list(range(seeds)), torch.device("meta"))
    assert stack.flat.shape == (seeds, sum(stack.sizes))
    own = len([*stack.module.parameters(), *stack.module.buffers()])
    assert moves.count == own + 1 + len(stack.constants)


class Answers(TorchDispatchMode):
    """Counts the numbers that are read one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


def test_outcomes_of_many_runs_are_read_at_once() -> None:
    """A GPU that others use answers only a few times a second, so asking once for each run would take minutes."""
    result = fit_many(Net, graphs(8), squared, Setting(lr=1e-3), seeds=3, epochs=1, validation=graphs(4, seed=1))
    with Answers() as answers:
        again = Fit(result._units)
    assert answers.count == 0
    assert again.runs == result.runs


def test_another_architecture_is_refused_whatever_repeats() -> None:
    def make() -> torch.nn.Module:
        return torch.nn.Linear(1, 2 if torch.initial_seed() == 9 else 1)

    Stack(make, [0, 0, 1], CPU)
    with pytest.raises(ValueError, match="'make_model' must give modules of one architecture, whatever the seed"):
        Stack(make, [0, 0, 9], CPU)
