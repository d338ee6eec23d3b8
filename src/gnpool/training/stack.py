"""Many copies of one module as one matrix of parameters."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from gnpool.nn import param_groups, set_starts

GROUPS = ("rest", "p", "q", "g")
M = TypeVar("M", bound=torch.nn.Module)
_SEEDING = threading.Lock()  # torch has a single generator for all threads


class Stack:
    """R modules of one architecture: trainable parameters in ``flat`` (R, P), everything else in ``constants``.

    A row of ``flat`` holds the parameters of one replica end to end, so that an optimiser step or a norm is one
    operation over all replicas and all parameters, whatever their shapes. Parameters of less than float32 have their
    master copy there. Constants are buffers and frozen parameters, by name, (R, *) each; training may change buffers
    in place, as batch norm does.
    """

    def __init__(
        self,
        make_model: Callable[[], torch.nn.Module],
        seeds: Sequence[int],
        device: torch.device,
        starts: Sequence[str | None] | None = None,
    ) -> None:
        begins = list(zip(seeds, starts or [None] * len(seeds), strict=True))
        self.module = begun(make_model, *begins[0])
        self.pristine = copy.deepcopy(self.module)  # functional_call leaves tensors behind in a part that has two names
        first = _state(self.module)  # before it moves to the device
        self.module.to(device)
        self.trained = {name: p for name, p in self.module.named_parameters() if p.requires_grad}
        one_name = {id(value): name for name, value in _named(self.module)}
        self.names = {name: one_name[id(value)] for name, value in self.module.state_dict(keep_vars=True).items()}
        if not self.trained:
            raise ValueError("fit_many: 'make_model' gave a module without trainable parameters")
        self.sizes = [p.numel() for p in self.trained.values()]
        dtypes = {p.dtype for p in self.trained.values()} | {torch.float32}
        self.dtype = torch.float64 if torch.float64 in dtypes else torch.float32
        distinct = list(dict.fromkeys(begins))  # runs that differ only in their rates begin with the same weights
        states = [first]
        for begin in distinct[1:]:
            states.append(_state(begun(make_model, *begin)))
            if _shapes(states[-1]) != _shapes(first):
                raise ValueError("fit_many: 'make_model' must give modules of one architecture, whatever the seed")
        places = torch.tensor([distinct.index(begin) for begin in begins], device="cpu")

        def stacked(parts: list[Tensor]) -> Tensor:
            return torch.stack(parts).index_select(0, places)

        # Tensors are stacked on the CPU, so that the number of copies to the device does not grow with the runs.
        rows = [torch.cat([state[name].to(self.dtype).flatten() for name in self.trained]) for state in states]
        self.flat = stacked(rows).to(device)
        others = [name for name in first if name not in self.trained]
        self.constants = {name: stacked([state[name] for state in states]).to(device) for name in others}

    @property
    def group_of_column(self) -> Tensor:
        """(P,) the optimiser group of each column of ``flat``, as a position in GROUPS."""
        group = {id(p): GROUPS.index(g["name"]) for g in param_groups(self.module, 0.0) for p in g["params"]}
        return torch.cat([torch.full((p.numel(),), group[id(p)], device="cpu") for p in self.trained.values()])

    def unflatten(self, row: Tensor) -> dict[str, Tensor]:
        """(P,) -> the parameters of one replica by name. By ``split``, whose derivative is a single concatenation."""
        parts = row.split(self.sizes)
        return {
            name: part.view(p.shape).to(p.dtype) for (name, p), part in zip(self.trained.items(), parts, strict=True)
        }

    def state_dict(self, row: Tensor, constants: dict[str, Tensor]) -> dict[str, Tensor]:
        """One replica's row and constants -> a state dict of the module, on the CPU and independent of the stack."""
        state = {**self.unflatten(row.detach().cpu()), **{name: value.cpu() for name, value in constants.items()}}
        return {name: state[one_name].clone() for name, one_name in self.names.items()}


def begun(make_model: Callable[[], torch.nn.Module], seed: int, start: str | None) -> torch.nn.Module:
    """A module initialised with ``seed``, its GNPs at ``start``, if there is one."""
    module = seeded(make_model, seed)
    if start is not None:
        set_starts(module, start)
    return module


def seeded(make_model: Callable[[], M], seed: int) -> M:
    """A module initialised with ``seed``, even while other threads make modules, if they also use this function.

    Use it for modules whose weights are replaced at once, too: initialising them draws from torch's only generator.

    Example:
        >>> import torch
        >>> from gnpool.training import seeded
        >>> first, again = seeded(lambda: torch.nn.Linear(2, 1), 7), seeded(lambda: torch.nn.Linear(2, 1), 7)
        >>> torch.equal(first.weight, again.weight)
        True
    """
    with _SEEDING, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = make_model()
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"fit_many: 'make_model' must return a torch.nn.Module, got {type(module).__name__}")
    for name, p in module.named_parameters():
        if isinstance(p, torch.nn.UninitializedParameter):
            raise ValueError(f"fit_many: parameter '{name}' is not initialised; run the module once in 'make_model'")
    return module


def _named(module: torch.nn.Module) -> list[tuple[str, Tensor]]:
    """Parameters and buffers; a tensor that several parts share comes once."""
    return [*module.named_parameters(), *module.named_buffers()]


def _state(module: torch.nn.Module) -> dict[str, Tensor]:
    """Its parameters and buffers, on the CPU."""
    return {name: value.detach().cpu() for name, value in _named(module)}


def _shapes(state: dict[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in state.items()}
