import dataclasses
import math

import numpy as np
import pytest
import torch

from gnpool.influence import CascadeGraph, Part, fit_monstor, load_monstor, make_labels, model_influence, save_monstor
from gnpool.influence import train as module
from gnpool.influence.train import rate, step_loss
from gnpool.models import MONSTOR
from gnpool.training.checkpoint import read_checkpoint, write_checkpoint


@pytest.fixture(scope="module")
def part() -> Part:
    rng = np.random.default_rng(0)
    pairs = np.unique(rng.integers(0, 120, (600, 2)), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    graph = CascadeGraph(120, *pairs.T, rng.random(len(pairs)) * 0.3)
    return Part.split("graph", "all", graph, make_labels(graph, sets=15, runs=500))


def test_loss():
    target = torch.tensor([[1.0, 1.0], [0.5, 0.0]])
    prediction = torch.tensor([[1.0, 1.0], [0.25, 0.5]])
    nodes = 0.25 / 2 + 0.5 / 2
    influence = 0.25 / 1.5 + 0.5 / 1.0
    assert step_loss(prediction, target).item() == pytest.approx(nodes + 0.3 * influence)


def test_schedule():
    assert [rate(epoch) for epoch in (1, 10, 20, 100)] == pytest.approx([1e-4, 1e-3, 5e-4, 1e-4])


def test_split_by_kind(part):
    kinds = [part.labels.kinds[i] for i in part.validation]
    assert (len(part.training), kinds) == (24, ["uniform"] * 3 + ["degree"] * 3)
    assert not set(part.training) & set(part.validation)


@pytest.mark.parametrize("aggr", ["gnp", "max", "sum"])
def test_training_lowers_the_error(part, aggr):
    seen = []
    found = fit_monstor([part], aggr, epochs=6, batch_size=5, progress=lambda *state: seen.append(state))["all"]
    assert [state[:2] for state in seen] == [(epoch, 6) for epoch in range(1, 7)]
    assert found.curve == [state[2] for state in seen]
    assert found.relative == min(found.curve) == found.curve[found.epoch - 1]
    truth = part.labels.influence()[list(part.validation)]
    nothing = part.labels.table[part.labels.first[list(part.validation)]].sum(1) / part.labels.runs - truth
    assert found.relative < 0.5 * (nothing.square().sum() / truth.square().sum()).sqrt()  # of the seeds alone

    seeds = [part.labels.table[int(part.labels.first[i])].nonzero().flatten().tolist() for i in part.validation]
    estimate = torch.tensor(model_influence(found.model, part.graph, seeds, found.stacked), dtype=torch.float64)
    assert found.error == pytest.approx((estimate - truth).square().mean().sqrt().item(), rel=1e-4)


def test_two_optimizers_for_gnp(part):
    run = module._Run([part], "gnp", 0, 1, 20, None, None, torch.device("cpu"))
    groups = {group["lr"]: len(group["params"]) for group in run.others.param_groups}
    assert (type(run.others), groups) == (torch.optim.RMSprop, {3e-2: 6, 3e-3: 6})
    assert isinstance(run.adam, torch.optim.Adam)
    everything = sum(len(group["params"]) for o in (run.adam, run.others) for group in o.param_groups)
    assert everything == len(list(run.model.parameters()))
    assert module._Run([part], "max", 0, 1, 20, None, None, torch.device("cpu")).others is None


def test_an_interrupted_training_goes_on_as_if_nothing_had_happened(part, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SAVE_SECONDS", 0.0)
    whole = fit_monstor([part], "gnp", epochs=4, seed=3)["all"]

    def stop(epoch: int, epochs: int, error: float) -> None:
        if epoch == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_monstor([part], "gnp", epochs=4, seed=3, checkpoint=tmp_path, progress=stop)
    again = fit_monstor([part], "gnp", epochs=4, seed=3, checkpoint=tmp_path)["all"]
    assert (again.curve, again.epoch, again.stacked) == (whole.curve, whole.epoch, whole.stacked)
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, again.model.state_dict()[name]), name


HARMS = {
    "epoch beyond the end": lambda found: found["epoch"].fill_(9),
    "no epoch": lambda found: found.pop("epoch"),
    "another shape": lambda found: found.update({"model/" + name: torch.zeros(1) for name in _names(found)[:1]}),
    "no state of the optimiser": lambda found: found.pop("optimizer/0/0/exp_avg"),
    "a start that is none": lambda found: found["start"].fill_(-1),
    "applied 10^9 times": lambda found: found["best/0"][1].fill_(1e9),
    "best in an epoch to come": lambda found: found["best/0"][2].fill_(4),
}


def _names(found):
    return [name.removeprefix("model/") for name in found if name.startswith("model/")]


@pytest.mark.parametrize("harm", HARMS)
def test_a_checkpoint_that_cannot_be_is_set_aside(part, tmp_path, harm):
    run = module._Run([part], "max", 0, 5, 20, None, None, torch.device("cpu"))
    run.train_epoch(None)
    run.validate(None)
    good = {name: value.clone() for name, value in run.state().items()}
    run.check(good)
    path = tmp_path / "monstor.safetensors"
    HARMS[harm](good)
    write_checkpoint(path, good, "study")
    with pytest.warns(UserWarning, match=r"is damaged .*monstor.safetensors.damaged"):
        assert read_checkpoint(path, "study", run.check) is None


def test_another_graph_is_another_checkpoint(part, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SAVE_SECONDS", 0.0)
    other = dataclasses.replace(part, validation=part.validation[:-1])
    for one in (part, other):
        fit_monstor([one], "max", epochs=2, checkpoint=tmp_path)
    assert len(list(tmp_path.glob("monstor-*.safetensors"))) == 2


def test_number_of_stacked_models_is_given_or_searched(part):
    given = fit_monstor([part], "max", epochs=1, stacked={"all": 2})["all"]
    searched = fit_monstor([part], "max", epochs=1)["all"]
    assert given.stacked == 2
    assert searched.error <= given.error


def test_dead_starts_are_drawn_again(part, monkeypatch):
    made = []
    original = module.seeded

    def seeded(make, seed):
        model = original(make, seed)
        made.append(seed)
        if seed == 0:
            with torch.no_grad():
                model.layers[-1].fc_neigh.bias.fill_(-1e6)
        return model

    monkeypatch.setattr(module, "seeded", seeded)
    found = fit_monstor([part], "gnp", epochs=1)["all"]
    assert found.start >= 1
    assert made[:2] == [0, 100_003]
    assert math.isfinite(found.error)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parts": []}, "'parts' must not be empty"),
        ({"epochs": 0}, "'epochs' and 'batch_size' must be at least 1, got 0 and 20"),
        ({"batch_size": 10_000}, "no graph has a whole batch of 10000 steps"),
        ({"stacked": {"other": 3}}, "'stacked' has no number for the group 'all'"),
        ({"aggr": "median"}, "'aggr' must be one of sum, mean, max, min, gnp, gnp+, got 'median'"),
    ],
)
def test_bad_arguments(part, change, message):
    arguments = {"parts": [part], "epochs": 1, **change}
    with pytest.raises(ValueError, match=message.replace("+", r"\+")):
        fit_monstor(arguments.pop("parts"), **arguments)


def test_saved_models_come_back(tmp_path):
    model = MONSTOR("gnp", hidden=8, layers=2, aggr_options={"branches": "positive"})
    path = save_monstor(tmp_path / "model.safetensors", model, 4, {"graphs": ["a.txt"]})
    saved = load_monstor(path)
    assert (repr(saved.model), saved.stacked, saved.about) == (repr(model), 4, {"graphs": ["a.txt"]})
    for name, value in model.state_dict().items():
        assert torch.equal(value, saved.model.state_dict()[name])


@pytest.mark.parametrize("content", [b"", b"nothing", b"\x02\x00\x00\x00\x00\x00\x00\x00{}"])
def test_files_that_are_no_models(tmp_path, content):
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="this is not a model that 'gnpool influence train' has written"):
        load_monstor(path)
