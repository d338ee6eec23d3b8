"""A saved network comes back as it was, bad folders are refused, and nothing is left half written."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor

from gnpool import models
from gnpool.insight import CrystalAggregation
from gnpool.models import SavedModelError, load_model, load_saved, save_model
from gnpool.models import folder as folders
from gnpool.models.hub import hub_files
from gnpool.nn import set_sizes

X = torch.tensor([[1.0, -2.0], [0.5, 3.0], [2.0, 1.0], [0.0, 4.0], [1.5, 1.5]])
EDGES = torch.tensor([[1, 0, 2, 1, 4, 3], [0, 1, 1, 2, 3, 4]])
PTR = torch.tensor([0, 3, 5])
NETWORKS: list[tuple[str, dict[str, Any]]] = [
    ("GraphNet", {"in_channels": 2}),
    ("GraphNet", {"in_channels": 2, "aggr": "sum", "readout": "max", "form": "gin", "out_channels": 3}),
    ("GraphNet", {"in_channels": 2, "aggr": "gnp+", "readout": "sort", "readout_options": {"k": 2}, "hidden": 4}),
    ("SetNet", {"in_channels": 2, "pool": "set2set", "depth": 2, "hidden": 4}),
    ("SetNet", {"in_channels": 2, "pool": "gnp", "t0": -1.0, "out_bias": True, "hidden": 4}),
    ("NodeNet", {"in_channels": 2, "aggr": "gnp", "layers": 2, "hidden": 4}),
    ("NodeNet", {"in_channels": 2, "aggr": "gnp", "layers": 2, "hidden": 4, "form": "gin"}),
    ("GraphNet", {"in_channels": 2, "aggr": "gnpg", "readout": "gnpg", "readout_options": {"start": "min"}}),
    ("SetTransformer", {"in_channels": 2, "hidden": 8, "encoder": "isab"}),
    ("SAGPoolNet", {"in_channels": 2, "hidden": 4}),
]


def run(model: torch.nn.Module) -> Tensor:
    name = type(model).__name__
    if name == "NodeNet":
        return model(X, EDGES)
    return model(X, ptr=PTR) if name in ("SetNet", "SetTransformer") else model(X, EDGES, ptr=PTR)


def make(name: str, arguments: dict[str, Any]) -> torch.nn.Module:
    model: torch.nn.Module = getattr(models, name)(**arguments)
    return model.eval()


@pytest.mark.parametrize(("name", "arguments"), NETWORKS, ids=[f"{n}-{len(a)}" for n, a in NETWORKS])
def test_a_network_comes_back(name: str, arguments: dict[str, Any], tmp_path: Path) -> None:
    model = make(name, arguments)
    extra = {"classes": ["a", "<b>"], "scale": 0.25}
    folder = save_model(tmp_path / "model", model, {"class": name, "arguments": arguments}, extra)
    assert sorted(path.name for path in folder.iterdir()) == ["model.json", "model.safetensors"]
    again = load_saved(folder)
    assert repr(again.model) == repr(model)
    assert torch.equal(run(again.model), run(model))
    assert again.extra == extra
    assert (again.spec["class"], again.spec["arguments"], again.spec["replaced"]) == (name, arguments, {})
    assert not again.model.training
    assert all(parameter.requires_grad and parameter.device.type == "cpu" for parameter in again.model.parameters())


def test_crystallized_layers_come_back(tmp_path: Path) -> None:
    arguments = {"in_channels": 2, "layers": 2, "hidden": 4}
    model: Any = make("NodeNet", arguments)
    model.layers[0].aggr = CrystalAggregation.from_gnp(model.layers[0].aggr, {"positive": "sum"})
    model.layers[1].aggr = CrystalAggregation.from_gnp(
        model.layers[1].aggr, {"positive": "max", "negative": "harmonic sum"}
    )
    model.layers[0].lin1.register_parameter("bias", None)
    folder = save_model(tmp_path / "model", model, {"class": "NodeNet", "arguments": arguments})
    again: Any = load_model(folder)
    assert torch.equal(run(again), run(model))
    assert again.layers[0].lin1.bias is None
    assert repr(again.layers[1].aggr) == repr(model.layers[1].aggr)


def as_on_the_hub(folder: Path, place: Path) -> Path:
    place.mkdir()
    for name, data in hub_files(folder).items():
        (place / name).write_bytes(data)
    return place


@pytest.mark.parametrize(("name", "arguments"), NETWORKS, ids=[f"{n}-{len(a)}" for n, a in NETWORKS])
def test_to_the_hub_and_back(name: str, arguments: dict[str, Any], tmp_path: Path) -> None:
    model = make(name, arguments)
    folder = save_model(tmp_path / "model", model, {"class": name, "arguments": arguments}, {"classes": ["<b>"]})
    hub = as_on_the_hub(folder, tmp_path / "hub")
    config = json.loads((hub / "config.json").read_text())
    assert (config["model_type"], config["architectures"]) == ("gnpool", [name])
    assert safetensors.torch.load_file(hub / "model.safetensors").keys() == model.state_dict().keys()
    assert (hub / "README.md").read_text().startswith("---\nlibrary_name: gnpool\n")
    again = load_saved(hub)
    assert torch.equal(run(again.model), run(model))
    assert again.extra == {"classes": ["<b>"]}
    assert hub_files(hub) == hub_files(folder)


def test_a_damaged_folder_of_the_hub_is_refused(tmp_path: Path) -> None:
    arguments = {"in_channels": 2, "pool": "sum", "hidden": 4}
    folder = save_model(tmp_path / "model", make("SetNet", arguments), {"class": "SetNet", "arguments": arguments})
    hub = as_on_the_hub(folder, tmp_path / "hub")
    config = json.loads((hub / "config.json").read_text())
    for kind in ("bert", None):
        (hub / "config.json").write_text(json.dumps({**config, "model_type": kind}))
        with pytest.raises(SavedModelError, match=r"config\.json: it describes a model of another library"):
            load_model(hub)
    (hub / "config.json").write_text("[]")
    with pytest.raises(SavedModelError, match=r"config\.json: it describes a model of another library"):
        load_model(hub)
    (hub / "config.json").write_text(json.dumps(config))
    (hub / "model.safetensors").write_bytes(b"")
    with pytest.raises(SavedModelError, match=r"model.safetensors: it has 0 bytes"):
        load_model(hub)


def test_a_saved_model_is_replaced_and_other_files_are_not(tmp_path: Path) -> None:
    spec = {"class": "SetNet", "arguments": {"in_channels": 2, "pool": "sum"}}
    first, second = make("SetNet", spec["arguments"]), make("SetNet", spec["arguments"])
    folder = tmp_path / "model"
    folder.mkdir()
    for model in (first, second):
        save_model(folder, model, spec)
    assert torch.equal(run(load_model(folder)), run(second))
    (folder / "thesis.txt").write_text("years of work")
    with pytest.raises(FileExistsError, match="holds other files"):
        save_model(folder, first, spec)
    with pytest.raises(FileExistsError, match="it is a file"):
        save_model(folder / "thesis.txt", first, spec)
    assert (folder / "thesis.txt").read_text() == "years of work"
    assert torch.equal(run(load_model(folder)), run(second))


@pytest.mark.parametrize("moment", ["fsync", "rename"])
def test_a_failing_write_leaves_what_was_there(moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = {"class": "SetNet", "arguments": {"in_channels": 2, "pool": "sum"}}
    model = make("SetNet", spec["arguments"])
    folder = save_model(tmp_path / "model", model, spec)

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    if moment == "fsync":
        monkeypatch.setattr(folders.os, "fsync", stop)
    else:
        rename = Path.rename
        monkeypatch.setattr(Path, "rename", lambda self, to: stop() if self.suffix == ".tmp" else rename(self, to))
    with pytest.raises(KeyboardInterrupt):
        save_model(folder, make("SetNet", spec["arguments"]), spec)
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert torch.equal(run(load_model(folder)), run(model))


def edit(folder: Path, change: Any) -> None:
    path = folder / "model.json"
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))


DAMAGE = {
    "no linear layer": (
        lambda f: edit(f, lambda d: d["spec"].update(unbiased=["pool"])),
        "'pool' is not a linear layer",
    ),
    "no value of its own": (
        lambda f: edit(f, lambda d: d["spec"].update(selfless=["pool"])),
        "'pool' does not add the value of the node itself",
    ),
    "no folder": (lambda f: [p.unlink() for p in f.iterdir()] and f.rmdir(), "there is no such folder"),
    "no description": (lambda f: (f / "model.json").unlink(), "there is no saved model, that is, no model.json"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), r"model.safetensors: it cannot be read"),
    "no JSON": (lambda f: (f / "model.json").write_text("{"), "it is not JSON"),
    "deep JSON": (lambda f: (f / "model.json").write_text("[" * 100_000), "it is not JSON"),
    "a list": (lambda f: (f / "model.json").write_text("[]"), "expected a model of format 1, got 'list'"),
    "later format": (lambda f: edit(f, lambda d: d.update(format=2)), "expected a model of format 1, got 2"),
    "no spec": (lambda f: edit(f, lambda d: d.pop("spec")), "'spec' is missing"),
    "short weights": (
        lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:-8]),
        r"it has \d+ bytes, but should have \d+",
    ),
    "other weights": (
        lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:-4] + b"abcd"),
        "it is damaged, or belongs to another",
    ),
    "foreign class": (lambda f: edit(f, lambda d: d["spec"].update({"class": "os.system"})), "got 'os.system'"),
    "no argument": (
        lambda f: edit(f, lambda d: d["spec"].update(arguments={})),
        "SetNet cannot be built .*in_channels",
    ),
    "absurd size": (
        lambda f: edit(f, lambda d: d["spec"]["arguments"].update(hidden=2**20)),
        r"the weights do not fit the description: 'mlp.layers.0.bias' has shape \(32,\)",
    ),
    "foreign layer": (
        lambda f: edit(f, lambda d: d["spec"].update(replaced={"pool": {"class": "subprocess.Popen"}})),
        "a layer must be one of CrystalAggregation, got 'subprocess.Popen'",
    ),
    "no such layer": (
        lambda f: edit(f, lambda d: d["spec"].update(replaced={"pool.x": {}})),
        "SetNet cannot be built",
    ),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGE.values(), ids=DAMAGE)
def test_damage_is_named(damage: Any, message: str, tmp_path: Path) -> None:
    spec = {"class": "SetNet", "arguments": {"in_channels": 2}}
    folder = save_model(tmp_path / "model", make("SetNet", spec["arguments"]), spec)
    damage(folder)
    with pytest.raises(SavedModelError, match=message):
        load_model(folder)


PART = {"class": "CrystalAggregation", "channels": 4, "parts": [[0, 4, "sum"]], "nonneg": "relu", "mix": [4, 4, False]}
LIES: dict[str, tuple[dict[str, Any], str]] = {
    "beyond its channels": ({"parts": [[0, 5, "sum"]]}, "a part must lie among 4 channels"),
    "backwards": ({"parts": [[3, 1, "sum"]]}, "a part must lie among 4 channels"),
    "fractions": ({"parts": [[0.0, 4, "sum"]]}, "a part must be two channels and a name"),
    "no name": ({"parts": [[0, 4, None]]}, "a part must lie among"),
    "a name that is none": ({"parts": [[0, 4, "product"]]}, "NamedPooling: 'name' must be one of"),
    "no parts": ({"parts": []}, "a layer must have channels and parts"),
    "parts by name": ({"parts": {"a": 1}}, "a layer must have channels and parts"),
    "channels": ({"channels": True}, "a layer must have channels and parts"),
    "nonneg": ({"nonneg": "square"}, "'nonneg' must be one of"),
    "mix": ({"mix": [3, 4, False]}, "the mixing layer does not fit the parts"),
    "mix of words": ({"mix": "44n"}, "the mixing layer does not fit the parts"),
    "nothing there": ({"parts": None}, "a layer must have channels and parts"),
}


def crystal(tmp_path: Path) -> Path:
    arguments = {"in_channels": 2, "aggr": "sum", "readout": "sum", "hidden": 4}
    model: Any = make("GraphNet", arguments)
    model.aggr = CrystalAggregation(4, [(0, 4, "sum")], "relu", torch.nn.Linear(4, 4, bias=False))
    return save_model(tmp_path / "model", model, {"class": "GraphNet", "arguments": arguments})


@pytest.mark.parametrize(("change", "message"), LIES.values(), ids=LIES)
def test_layers_that_cannot_be(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    folder = crystal(tmp_path)
    load_model(folder)
    edit(folder, lambda d: d["spec"]["replaced"].update(aggr={**PART, **change}))
    with pytest.raises(SavedModelError, match=message) as caught:
        load_model(folder)
    assert "\n" not in str(caught.value)


ARGUMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "layers for ever": ({"depth": 10**9}, "'depth' must be at most 1000"),
    "a number as a word": ({"hidden": "32"}, "'hidden' must not have the value '32'"),
    "a word as a number": ({"activation": 3}, "'activation' must not have the value 3"),
    "an option of no use": ({"colour": 1}, "there is no argument 'colour'"),
    "options in a list": ({"pool_options": [1]}, "'pool_options' must be options by name"),
    "an option that is a list": ({"pool": "sort", "pool_options": {"k": [3]}}, "'k' must be at most"),
    "steps for ever": (
        {"pool": "set2set", "pool_options": {"processing_steps": 10**9}},
        "'processing_steps' must be at",
    ),
    "infinite": ({"t0": float("inf")}, "'t0' must not have the value inf"),
    "truth as a number": ({"out_channels": True}, "'out_channels' must not have the value True"),
}


@pytest.mark.parametrize(("change", "message"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_arguments_that_cannot_be(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    spec = {"class": "SetNet", "arguments": {"in_channels": 2}}
    folder = save_model(tmp_path / "model", make("SetNet", spec["arguments"]), spec)
    edit(folder, lambda d: d["spec"]["arguments"].update(change))
    with pytest.raises(SavedModelError, match=message):
        load_model(folder)


@pytest.mark.parametrize("kind", [torch.int64, torch.complex64, torch.float8_e5m2])
def test_weights_that_are_no_floats(kind: torch.dtype, tmp_path: Path) -> None:
    spec = {"class": "SetNet", "arguments": {"in_channels": 2}}
    folder = save_model(tmp_path / "model", make("SetNet", spec["arguments"]), spec)
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    tensors["out.weight"] = tensors["out.weight"].to(kind)
    try:
        weights = safetensors.torch.save(tensors)
    except KeyError:
        pytest.skip(f"this version of safetensors cannot write {kind}")
    (folder / "model.safetensors").write_bytes(weights)
    about = {"bytes": len(weights), "sha256": hashlib.sha256(weights).hexdigest()}
    edit(folder, lambda d: d.update(weights=about))
    with pytest.raises(SavedModelError, match=r"the weights must be floats of one type|it is not a safetensors file"):
        load_model(folder)


@pytest.mark.parametrize("claimed", [None, -1, True, "8", 2**70])
def test_a_number_of_bytes_that_is_none(claimed: Any, tmp_path: Path) -> None:
    folder = crystal(tmp_path)
    edit(folder, lambda d: d["weights"].update(bytes=claimed))
    with pytest.raises(SavedModelError, match="'weights' does not say how many bytes they have"):
        load_model(folder)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"class": "Module"}, "'spec' must have as 'class' one of GraphNet"),
        ({"class": "SetNet", "arguments": {"in_channels": 3}}, "'mlp.layers.0.weight' has shape"),
        ({"class": "SetNet", "arguments": []}, "must have 'arguments' by name"),
    ],
)
def test_a_description_that_does_not_fit_is_not_written(spec: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(SavedModelError, match=message):
        save_model(tmp_path / "model", make("SetNet", {"in_channels": 2}), spec)
    assert list(tmp_path.iterdir()) == []


def test_measured_sizes_come_back(tmp_path: Path) -> None:
    arguments = {"in_channels": 2, "pool": "gnpg", "pool_options": {"start": "sum"}, "hidden": 4}
    model = make("SetNet", arguments)
    assert set_sizes(model, X, ptr=PTR) == {"pool": 2.5}
    folder = save_model(tmp_path / "model", model, {"class": "SetNet", "arguments": arguments})
    again = load_saved(folder)
    assert torch.equal(run(again.model), run(model))
    assert torch.equal(run(load_model(save_model(tmp_path / "twice", again.model, again.spec))), run(model))
    description = json.loads((folder / "model.json").read_text())
    for wrong in ({"pool": -1.0}, {"pool": True}, {"pool": "2"}, {"out": 2.0}, {"nowhere": 2.0}, [2.0]):
        description["spec"]["sizes"] = wrong
        (folder / "model.json").write_text(json.dumps(description))
        with pytest.raises(SavedModelError):
            load_model(folder)
    del description["spec"]["sizes"]  # as in older folders
    (folder / "model.json").write_text(json.dumps(description))
    assert load_model(folder).pool.size == 16.0
