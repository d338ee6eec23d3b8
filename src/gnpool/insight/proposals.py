"""Proposes combinations of named poolings over the layers, those that the reading finds nearest first."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from gnpool.display.poolings import JOINED, adjacent, in_branch, of_branch
from gnpool.insight.crystal import names_in, together
from gnpool.insight.reading import BranchReading, Reading

Option = tuple[float, dict[str, str]]  # the distance of an option of a layer, and the name of each branch
Poolings = dict[str, dict[str, str]]  # by layer, the name of each branch that is kept; empty if the layer stays learned
SAME = 1e-6  # names whose distances differ by less pool these rows alike, and only the simplest is proposed
# Penalties that are added to distances, so that simpler options come first.
MISSING = 0.5  # times the share of a dropped branch; refitting makes up for much of the loss
PAIR = 0.2  # for two branches instead of one
JOIN = 0.05  # for a pooling with an added element instead of the plain one
LEARNED = 0.4  # for a layer that stays learned
STACK = 3  # this many layers count as a stack of equal layers, which usually need the same pooling
WIDEST = {1: 40, 2: 12}  # options of a layer by the number of layers; 5 where there are more


def combinations(reading: Reading) -> Iterator[Poolings]:
    """Combinations of poolings, each once, nearest first, and never all layers learned.

    With three layers or more, every other combination has the same pooling in all of them, since layers of one kind
    usually need the same pooling, whatever the reading of a single layer.
    """
    layers = reading.layers
    options = [_options(reading.layer(layer)) for layer in layers]
    mixed = itertools.product(*(found[: WIDEST.get(len(layers), 5)] for found in options))
    alike = _alike(options) if len(layers) >= STACK else []
    seen: list[Poolings] = []
    for pair in itertools.zip_longest(*(sorted(choices, key=_distance) for choices in (alike, mixed))):
        for choice in pair:
            poolings = dict(zip(layers, (names for _, names in choice), strict=True)) if choice else {}
            if any(poolings.values()) and poolings not in seen:
                seen.append(poolings)
                yield poolings


def neighbours(poolings: Poolings, branches: Mapping[str, Sequence[str]]) -> Iterator[Poolings]:
    """The combinations one step away: one pooling is added, moved on the lattice, exchanged, or dropped beside another.

    ``branches`` names the branches of each layer. Layers that stay learned are not changed.
    """
    places = [(layer, branch) for layer, names in poolings.items() if names for branch in branches[layer]]
    for layer, branch in places:  # a second one
        here = names_in(poolings[layer][branch]) if branch in poolings[layer] else ()
        if sum(len(names_in(text)) for text in poolings[layer].values()) == 1:
            yield from (_with(poolings, layer, branch, (*here, name)) for name in _possible(branch) if name not in here)
    for others in (_steps, lambda branch, _: _possible(branch)):
        for layer, branch in places:
            here = names_in(poolings[layer][branch]) if branch in poolings[layer] else ()
            for old in here:
                for name in others(branch, old):
                    if name not in here:
                        yield _with(poolings, layer, branch, tuple(name if one == old else one for one in here))
    for layer, branch in places:
        here = names_in(poolings[layer][branch]) if branch in poolings[layer] else ()
        if sum(len(names_in(text)) for text in poolings[layer].values()) == 2:
            yield from (_with(poolings, layer, branch, tuple(one for one in here if one != old)) for old in here)


def is_part(one: Poolings, other: Poolings) -> bool:
    """Whether ``other`` has all poolings of ``one`` at the same places, and both have the same learned layers."""
    return all(
        bool(one[layer]) == bool(names)
        and all(set(names_in(text)) <= set(names_in(names.get(branch, ""))) for branch, text in one[layer].items())
        for layer, names in other.items()
    )


def _with(poolings: Poolings, layer: str, branch: str, names: tuple[str, ...]) -> Poolings:
    """The combination with other names in one branch; without names the branch is dropped."""
    there = {one: text for one, text in poolings[layer].items() if one != branch}
    order = {**there, branch: together(*names)} if names else there
    return {**poolings, layer: dict(sorted(order.items(), key=lambda pair: pair[0] != "positive"))}


def _possible(branch: str) -> list[str]:
    """The names that a branch can get, including those that add an element."""
    known = of_branch(branch)
    return [named.name for named in (*known, *(JOINED[one.name] for one in known if one.name in JOINED))]


def _steps(branch: str, name: str) -> list[str]:
    """The points of the lattice beside a pooling that have no name of their own."""
    named = _possible(branch)
    return [one.name for one in adjacent(name) if one.name not in named and in_branch(one.p, branch)]


def _alike(options: list[list[Option]]) -> list[tuple[Option, ...]]:
    """Options with the same names in all layers."""
    distances = [{str(names): (distance, names) for distance, names in found} for found in options]
    return [tuple(d[name] for d in distances) for name in distances[0] if all(name in d for d in distances)]


def _distance(choice: Sequence[Option]) -> float:
    return sum(distance for distance, _ in choice)


def _options(branches: list[BranchReading]) -> list[Option]:
    """The options of a layer with their distances: one branch alone, both branches, or the learned layer."""
    found: list[Option] = [(LEARNED, {})]
    for branch in branches:
        rest = sum(other.share or 0.0 for other in branches if other is not branch)
        found += [(distance + MISSING * rest, {branch.branch: name}) for name, distance in _names(branch)]
    used = [branch for branch in branches if branch.used]
    if len(used) == 2:
        for (a, far_a), (b, far_b) in itertools.product(*(_names(branch)[:3] for branch in used)):
            found.append((far_a + far_b + PAIR, {used[0].branch: a, used[1].branch: b}))
    return sorted(found, key=lambda option: option[0])


def _names(branch: BranchReading) -> list[tuple[str, float]]:
    """The names of a branch that differ on these rows, nearest first, each also with an added element if possible."""
    found: list[tuple[str, float]] = []
    for name, distance in branch.ranking:
        if all(abs(distance - other) > SAME for _, other in found):
            found.append((name, distance))
    joined = [(JOINED[name].name, distance + JOIN) for name, distance in found if name in JOINED]
    return sorted([*found, *joined], key=lambda pair: pair[1])
