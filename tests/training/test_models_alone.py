"""Every network of gnpool.models trains in a unit as it does alone, under each optimiser."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
import torch

from gnpool import Batches, Setting, fit_many
from gnpool.models import GraphNet, NodeNet, SAGPoolNet, SetNet, SetTransformer
from gnpool.tasks import get_task
from gnpool.training.program import by_name
from tests.training.alone import train_alone

KEEPING = ("sum", "max", "mean", "min", "gnp", "gnp+", "gnpg")  # poolings that keep the number of channels
WIDENING = {"sort": {"k": 3}, "set2set": {"processing_steps": 2}}
POOLINGS = (*KEEPING, *WIDENING)
SETTINGS = (
    Setting(lr=1e-3, lr_p=1e-2, lr_q=2e-3, clip=1.0),
    Setting(lr=1e-3, lr_p=1e-2, clip=1e4, optimizer="adam"),
    Setting(lr=1e-3, lr_p=1e-2, optimizer="adam", betas=(0.5, 0.999)),
)
STEPS, SIZE = 4, 3  # batches in an epoch, graphs in a batch
SEED, HIDDEN = 3, 6  # a seed with which no network of this width is dead from the start


class Case(NamedTuple):
    """A network and the task it is trained on."""

    make: Callable[[], torch.nn.Module]
    task: str
    options: dict[str, Any] = {}  # noqa: RUF012, of the data; never changed


def graph_nets() -> dict[str, Case]:
    """Each pooling once as aggregation, once as readout, the two of a network different."""
    found = {}
    for aggr, readout in zip(POOLINGS, [*POOLINGS[3:], *POOLINGS[:3]], strict=True):
        options = {"aggr_options": WIDENING.get(aggr), "readout_options": WIDENING.get(readout)}
        make = functools.partial(GraphNet, 1, aggr, readout, hidden=HIDDEN, **options)
        found[f"graph-{aggr}-{readout}"] = Case(make, "harmonic")
    for aggr in ("sum", "min", "gnp", "gnpg"):
        found[f"gin-{aggr}"] = Case(functools.partial(GraphNet, 1, aggr, aggr, hidden=HIDDEN, form="gin"), "maxdegree")
    return found


def node_nets() -> dict[str, Case]:
    found = {}
    for aggr in KEEPING:
        make = functools.partial(NodeNet, 1, aggr, hidden=HIDDEN, layers=2 if aggr == "gnp" else 1)
        found[f"node-{aggr}"] = Case(make, "bfs")
        found[f"node-weighted-{aggr}"] = Case(functools.partial(make, edge_weights=True), "shortest")
    return found


def set_nets() -> dict[str, Case]:
    return {
        f"set{depth}-{pool}": Case(
            functools.partial(SetNet, 1, pool, depth=depth, hidden=HIDDEN, pool_options=WIDENING.get(pool)),
            "sigma2_post",
        )
        for pool in POOLINGS
        for depth in (1, 2)
    }


CASES = {
    **graph_nets(),
    **node_nets(),
    **set_nets(),
    "transformer-sab": Case(functools.partial(SetTransformer, 1, hidden=HIDDEN, heads=2), "mu_post"),
    "transformer-isab": Case(
        functools.partial(SetTransformer, 1, encoder="isab", hidden=HIDDEN, heads=2, points=3), "mu_post"
    ),
    # With the features 1, nodes that look alike have scores that rounding alone tells apart, and so which of them stay.
    "sagpool": Case(functools.partial(SAGPoolNet, 2, hidden=HIDDEN, blocks=2), "maxdegree", {"features": (2, 1.0)}),
}


FAMILIES = ("graph-gnp-set2set", "gin-gnp", "node-weighted-gnp", "set2-gnp", "transformer-sab", "sagpool")


@pytest.mark.parametrize("name", CASES)
def test_float64_runs_of_200_steps(name):
    """A unit has a run of each setting. All of them are compared in each family, one in turn in the other networks.

    One network takes 100 steps: in 200 it makes 1e-8 of a difference in the last bit of its first weights, alone too.
    """
    compared = SETTINGS if name in FAMILIES else [SETTINGS[list(CASES).index(name) % len(SETTINGS)]]
    steps = 100 if name == "node-weighted-gnpg" else 200
    assert_equal_alone(CASES[name], torch.float64, steps, compared, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("set1")])
def test_float32_runs_of_50_steps(name):
    """Without the biases of attention's keys: they add the same to all scores of a query, and softmax does not see it.

    Their gradient is 0, rounding apart, and both optimisers divide rounding of 1e-8 by their epsilon of 1e-8. The same
    happens to p of gin-gnpg, whose means of equal features are equal rows for the readout.
    """
    leave_out = ("key.bias", "raw_p") if name == "gin-gnpg" else ("key.bias",)
    compared = [SETTINGS[(list(CASES).index(name) + 1) % len(SETTINGS)]]
    assert_equal_alone(CASES[name], torch.float32, 50, compared, rtol=1e-3, atol=1e-4, leave_out=leave_out)


def assert_equal_alone(
    case: Case,
    dtype: torch.dtype,
    steps: int,
    compared: Sequence[Setting],
    rtol: float,
    atol: float,
    leave_out: tuple[str, ...] = (),
) -> None:
    """The runs of a unit end with the weights of runs trained alone."""
    make = lambda: case.make().to(dtype)  # noqa: E731
    task = get_task(case.task)
    data = task.dataset("train", count=STEPS * SIZE, sizes=(6, 10), **case.options)
    for item in data:
        for field in ("x", "edge_weight"):
            if field in item:
                item[field] = item[field].to(dtype)
    batches, epochs = Batches(data, SIZE, seed=2), steps // STEPS
    fit = fit_many(make, batches, task.loss, SETTINGS, seeds=[SEED], epochs=epochs, vectorize=True)
    torch.manual_seed(SEED)
    start = make().state_dict()
    for setting in compared:
        (run,) = fit.runs_of(setting)
        alone = train_alone(make, batches, task.loss, setting, SEED, epochs, by_name(make())).state_dict()
        assert (alone["out.weight"] - start["out.weight"]).abs().max() > setting.lr * steps / 20  # it is not dead
        for name, value in fit.state_dict(run).items():
            if name.endswith(leave_out):
                continue
            where = f"{setting}, {name}"
            torch.testing.assert_close(
                value, alone[name], rtol=rtol, atol=atol, msg=lambda text, where=where: f"{where}: {text}"
            )
