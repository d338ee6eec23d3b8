"""Rules for every aggregation of the package; the classes are discovered, so a new one is tested, too."""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import inspect
import pickle
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch_geometric.nn.aggr import Aggregation

import gnpool.nn
from gnpool.insight.crystal import CrystalAggregation, NamedPooling

CHANNELS = 4
ROOMS = ("nn", "models", "insight")  # those that hold aggregations
# How to make those with arguments of their own; a class that is not here is made with its number of channels.
MADE: dict[str, Callable[[], Aggregation]] = {
    "CrystalAggregation": lambda: CrystalAggregation(CHANNELS, [(0, 2, "max"), (2, 4, "harmonic sum")]),
    "NamedPooling": lambda: NamedPooling("geometric mean"),
}
INDEX = torch.tensor([3, 0, 0, 3, 1, 0])


def found(cls: type[Aggregation] = Aggregation) -> Iterator[type[Aggregation]]:
    """Every class of the package that pools."""
    for below in cls.__subclasses__():
        mine = below.__module__.startswith("gnpool.") and below.forward is not Aggregation.forward
        if mine and not below.__name__.startswith("_"):
            yield below
        yield from found(below)


for room in ROOMS:
    package = importlib.import_module(f"gnpool.{room}")
    for module in pkgutil.walk_packages(package.__path__, f"gnpool.{room}."):
        with contextlib.suppress(ImportError):  # of Triton or matplotlib, which hold no aggregation
            importlib.import_module(module.name)
EVERY = sorted(set(found()), key=lambda cls: cls.__name__)
CLASSES = [cls for cls in EVERY if cls.__name__ in gnpool.nn.__all__]  # the public ones


def options_of(cls: type[Aggregation]) -> list[dict[str, str]]:
    return [{}, {"coordinates": "published"}] if "coordinates" in inspect.signature(cls).parameters else [{}]


Make = Callable[[], Aggregation]
every_class = pytest.mark.parametrize("cls", CLASSES)
SORTED = ("Set2Set", "SortPooling")  # of rows that stand together by segment, as in PyG
every_aggregation = pytest.mark.parametrize(
    "make",
    [
        pytest.param(
            functools.partial(MADE.get(cls.__name__, functools.partial(cls, CHANNELS)), **options),
            id="-".join([cls.__name__, *options.values()]),
        )
        for cls in EVERY
        if cls.__name__ not in SORTED
        for options in (options_of(cls) if cls in CLASSES else [{}])
    ],
)


def test_discovery_finds_every_aggregation() -> None:
    names = {cls.__name__ for cls in EVERY}
    assert names >= {"GNPAggregation", "StudyGNPAggregation", "SortPooling", "Set2Set", *MADE}
    assert [gnpool.nn.GNPAggregation] == CLASSES


@pytest.mark.parametrize("cls", [cls for cls in EVERY if cls.__name__ in SORTED])
def test_those_of_sorted_rows_refuse_others(cls: type[Aggregation]) -> None:
    layer, x, index = cls(CHANNELS), torch.rand(6, CHANNELS), INDEX.sort().values
    with pytest.raises(ValueError, match="sort"):
        layer(x, INDEX)
    out = layer(x, index)
    assert len(out) == 4
    assert torch.equal(layer(x=x, index=index, dim_size=4, dim=0), out)
    assert torch.equal(copy.deepcopy(layer)(x, index), out)
    assert torch.equal(pickle.loads(pickle.dumps(layer))(x, index), out)  # noqa: S301 - our own bytes
    other = cls(CHANNELS)
    assert other.load_state_dict(layer.state_dict()) == ([], [])
    assert torch.equal(other(x, index), out)
    torch.testing.assert_close(layer(x[[2, 1, 0, 3, 5, 4]], index), out, rtol=1e-6, atol=1e-6)  # within segments


@pytest.mark.parametrize("cls", EVERY)
def test_forward_has_the_arguments_of_pyg(cls: type[Aggregation]) -> None:
    assert list(inspect.signature(cls.forward).parameters)[:6] == ["self", "x", "index", "ptr", "dim_size", "dim"]
    assert (inspect.getdoc(cls) or "").strip()


@every_class
def test_public_name(cls: type[Aggregation]) -> None:
    assert cls.__name__.endswith("Aggregation")
    assert getattr(gnpool, cls.__name__) is cls


@every_class
def test_signature(cls: type[Aggregation]) -> None:
    parameters = inspect.signature(cls.forward).parameters
    positional = [name for name, parameter in parameters.items() if parameter.kind is not parameter.KEYWORD_ONLY]
    assert positional == ["self", "x", "index", "ptr", "dim_size", "dim"]
    defaults = {name: parameter.default for name, parameter in parameters.items()}
    assert (defaults["index"], defaults["ptr"], defaults["dim_size"], defaults["dim"]) == (None, None, None, -2)
    first, *options = list(inspect.signature(cls).parameters.values())
    assert first.name == "channels"
    assert all(option.kind is inspect.Parameter.KEYWORD_ONLY for option in options)


@every_aggregation
def test_positional_and_keyword_calls_agree(make: Make) -> None:
    layer = make()
    x = torch.rand(6, CHANNELS)
    assert torch.equal(layer(x, INDEX, None, 5, 0), layer(x=x, index=INDEX, ptr=None, dim_size=5, dim=0))


@every_class
def test_documented(cls: type[Aggregation]) -> None:
    text = inspect.getdoc(cls) or ""
    for option in inspect.signature(cls).parameters:
        assert f"{option} (" in text, f"{cls.__name__} does not document '{option}'"
    assert "Shapes:" in text
    assert "Example:" in text
    assert ">>> " in text


@every_aggregation
def test_reset(make: Make) -> None:
    torch.manual_seed(7)
    layer = make()
    initial = copy.deepcopy(layer.state_dict())
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.mul_(-0.5).add_(0.7)
    torch.manual_seed(7)
    layer.reset_parameters()
    for name, value in layer.state_dict().items():
        assert torch.equal(value, initial[name]), name


@every_class
def test_repr(cls: type[Aggregation]) -> None:
    assert repr(cls(CHANNELS)) == f"{cls.__name__}({CHANNELS})"

    class Named(cls):
        pass

    assert repr(Named(CHANNELS)) == f"Named({CHANNELS})"
    for options in options_of(cls)[1:]:
        text = ", ".join(f"{name}={value!r}" for name, value in options.items())
        assert repr(cls(CHANNELS, **options)) == f"{cls.__name__}({CHANNELS}, {text})"


@every_aggregation
@pytest.mark.parametrize(
    "copied",
    [
        pytest.param(copy.deepcopy, id="deepcopy"),
        pytest.param(copy.copy, id="copy"),
        pytest.param(lambda layer: pickle.loads(pickle.dumps(layer)), id="pickle"),  # noqa: S301 - our own bytes
    ],
)
def test_copies(make: Make, copied: Callable[[Any], Any]) -> None:
    layer = make()
    x = torch.rand(6, CHANNELS)
    assert torch.equal(copied(layer)(x, INDEX), layer(x, INDEX))


@every_aggregation
def test_state_dict(make: Make) -> None:
    layer, other = make(), make()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.3)
    assert other.load_state_dict(layer.state_dict()) == ([], [])
    x = torch.rand(6, CHANNELS)
    assert torch.equal(other(x, INDEX), layer(x, INDEX))


@every_aggregation
def test_dim_size(make: Make) -> None:
    layer = make()
    x = torch.rand(6, CHANNELS)
    out = layer(x, INDEX)
    longer = layer(x, INDEX, dim_size=6)
    assert (len(out), len(longer)) == (4, 6)
    assert torch.equal(longer[:4], out)
    assert torch.equal(longer[4:], out[2].expand(2, -1))  # segment 2 is empty as well
    with pytest.raises(ValueError, match=r"Encountered invalid 'dim_size' \(got '3' but expected >= '4'\)"):
        layer(x, INDEX, dim_size=3)


@every_aggregation
def test_empty_input(make: Make) -> None:
    layer = make()
    nothing, none = torch.rand(0, CHANNELS, requires_grad=True), torch.zeros(0, dtype=torch.long)
    empty = layer(torch.rand(6, CHANNELS), INDEX)[2]
    assert torch.equal(layer(nothing, none), empty.expand(0, -1))
    out = layer(nothing, none, dim_size=3)
    assert torch.equal(out, empty.expand(3, -1))
    assert torch.equal(layer(nothing, ptr=torch.tensor([0, 0, 0])), empty.expand(2, -1))
    out.sum().backward()
    assert nothing.grad.shape == (0, CHANNELS)
    weights = [p for name, p in layer.named_parameters() if not name.endswith("bias")]  # an empty set gives the bias
    assert all(p.grad is None or p.grad.eq(0).all() for p in weights)


@every_aggregation
def test_permutation_invariance(make: Make) -> None:
    layer = make()
    x = torch.rand(6, CHANNELS)
    out = layer(x, INDEX)
    for _ in range(5):
        perm = torch.randperm(6)
        torch.testing.assert_close(layer(x[perm], INDEX[perm]), out, rtol=1e-6, atol=1e-6)
    names = torch.tensor([2, 3, 1, 0])  # and segments may be renamed
    torch.testing.assert_close(layer(x, names[INDEX])[names], out, rtol=1e-6, atol=1e-6)


@every_aggregation
def test_index_equals_ptr(make: Make) -> None:
    layer = make()
    x, ptr = torch.rand(6, CHANNELS), torch.tensor([0, 3, 4, 4, 6])
    torch.testing.assert_close(layer(x, ptr=ptr), layer(x, torch.tensor([0, 0, 0, 1, 3, 3])), rtol=1e-6, atol=1e-6)


@every_aggregation
def test_padding_with_another_segment_changes_nothing(make: Make) -> None:
    layer = make()
    x = torch.rand(6, CHANNELS)
    padded = layer(torch.cat([x, 1e6 * torch.rand(3, CHANNELS)]), torch.cat([INDEX, torch.full((3,), 4)]))
    torch.testing.assert_close(padded[:4], layer(x, INDEX), rtol=1e-6, atol=1e-6)


@every_aggregation
def test_device_move(make: Make) -> None:
    layer = make().to("meta")
    assert {parameter.device.type for parameter in layer.parameters()} == (
        {"meta"} if [*make().parameters()] else set()
    )
    back = layer.to_empty(device="cpu")
    back.reset_parameters()
    assert {name: value.shape for name, value in back.state_dict().items()} == {
        name: value.shape for name, value in make().state_dict().items()
    }
