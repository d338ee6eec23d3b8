"""A law gives the same values as a network, also when it is saved, exported, or has the units of a fit."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data

from gnpool import export_model, load_model, save_model
from gnpool.insight.laws import Law, LawNet, Point, Term

INF = math.inf
SUM, MEAN, MAX, MIN = Point(1.0, 1.0), Point(1.0, 0.0), Point(INF, 0.0), Point(-INF, 0.0)
A_MEAN = r"n^{-1} \sum_{i} x_{i}"
PRIOR = Point(1.0, 0.0, joined=True)
PATH = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
STAR = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])
LAWS = {
    "one term": Law((Term(0, (SUM, MAX)),), (2.0,), 0.5, "graph", ("x",)),
    "closed": Law((Term(0, (SUM, MEAN), closed=True),), (1.0,), 0.0, "graph", ("x",)),
    "degrees": Law((Term(-1, (SUM, Point(-1.0, -1.0))),), (1.0,), 0.0, "graph", ("x",)),
    "two terms": Law((Term(0, (MAX,)), Term(0, (Point(0.0, 0.5),))), (1.0, -3.0), 0.0, "set", ("x",)),
    "fractions": Law((Term(0, (Point(1.5, 0.25),)),), (1.0,), 0.0, "set", ("x",)),
    "joined": Law((Term(0, (PRIOR,)), Term(0, (Point(-1.0, -1.0, True),))), (1.0, 1.0), 0.0, "set", ("x",)),
    "nodes": Law((Term(0, (), readout=False), Term(0, (MIN, SUM), readout=False)), (1.0, 2.0), 0.0, "node", ("x",)),
    "classes": Law((Term(0, (MEAN,)),), (1.0,), 0.0, "set", ("x",), (0.4, 0.6), (2, 0, 1)),
}  # fmt: skip


def batch():
    generator = torch.Generator().manual_seed(0)
    draws = [torch.rand(4, 1, generator=generator) + 0.1 for _ in range(2)]
    return [Data(x=x, edge_index=edges) for x, edges in zip(draws, (PATH, STAR), strict=True)]


def inputs(law):
    both = Batch.from_data_list(batch())
    found = {"x": both.x, "ptr": both.ptr}
    return found if law.level == "set" else {**found, "edge_index": both.edge_index}


@pytest.mark.parametrize("name", LAWS)
def test_the_network_gives_what_the_law_gives(name):
    law = LAWS[name]
    y, wanted = law.model()(**inputs(law)), torch.from_numpy(law.predict(batch()))
    y = y.argmax(dim=1) if law.cuts else y[:, 0]
    torch.testing.assert_close(y.double(), wanted, rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", LAWS)
def test_it_is_the_same_saved(name, tmp_path):
    law = LAWS[name]
    model = law.model()
    save_model(tmp_path / "model", model, {"class": "LawNet", "arguments": model.arguments})
    again = load_model(tmp_path / "model")
    assert torch.equal(again(**inputs(law)), model(**inputs(law)))
    assert again.arguments == model.arguments


@pytest.mark.parametrize("name", ["one term", "fractions", "classes"])
def test_it_is_the_same_exported(name, tmp_path):
    law = LAWS[name]
    model = law.model()
    export_model(model, tmp_path / "plain", inputs(law))
    program = torch.export.load(tmp_path / "plain" / "model.pt2").module()
    torch.testing.assert_close(program(**inputs(law)), model(**inputs(law)))


def test_units_and_loops():
    """Features in tenths, targets in thousands: y = sum of 10 x, over 1000; a node is not its own neighbour."""
    law = Law((Term(0, (SUM,), readout=False),), (1.0,), 0.0, "node", ("x",))
    model = law.model(loops=False)
    model.scales.fill_(10.0)
    model.unit.fill_(1000.0)
    loops = torch.cat([PATH, torch.arange(4).repeat(2, 1)], dim=1)
    y = model(torch.tensor([[1.0], [2.0], [4.0], [8.0]]), loops)
    np.testing.assert_allclose(y[:, 0].numpy(), np.array([20.0, 50.0, 100.0, 40.0]) / 1000, rtol=1e-6)


@pytest.mark.parametrize(("share", "expected"), [(0.1, 0.9), (0.0, 1 - 1e-4), (1.0, 1e-4)])
def test_probabilities_follow_from_the_share_of_wrong_classes(share, expected):
    model = LAWS["classes"].model()
    model.set_error(share)
    probability = model(torch.tensor([[0.1]])).softmax(dim=1)
    assert probability.shape == (1, 3)
    assert probability[0, 2].item() == pytest.approx(expected, rel=1e-6)


REFUSED = {
    "level": ({"level": "edge"}, "'level' must be one of"),
    "feature": ({"terms": [{"feature": 1, "poolings": [], "closed": False, "readout": True}]}, "names feature 1"),
    "exponent": (
        {"terms": [{"feature": 0, "poolings": [["nan", 0, False]], "closed": False, "readout": True}]},
        "must be a number",
    ),
    "cuts": ({"cuts": [math.nan], "order": [0, 1]}, "'cuts' must be numbers"),
    "places": ({"terms": [{"feature": 0, "poolings": [], "closed": False, "readout": True}]}, "got 0"),
    "names": ({"features": ["a", "b"]}, "must hold 1 names, got 2"),
    "order": ({"cuts": [0.5], "order": [0]}, "must hold 2 classes"),
    "classes": ({"cuts": [0.5], "order": [0, 4], "out_channels": 2}, "got 4"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_law_is_refused(name):
    changed, words = REFUSED[name]
    with pytest.raises(ValueError, match=words):
        LawNet(**{"in_channels": 1, "terms": [], "level": "set", **changed})


FORMULAS = {
    "one term": (
        "y = 2 * max_v(sum_u(x_u)) + 1/2",
        r"y = 2 \, \max_{v} \sum_{u \in N(v)} x_{u} + \tfrac{1}{2}",
        "2*max_v(sum_u(x_u)) + 1/2",
    ),
    "degrees": (
        "y = harmonic_sum_v(degree_v)",
        r"y = \Bigl(\sum_{v} {d_{v}}^{-1}\Bigr)^{-1}",
        "harmonic_sum_v(degree_v)",
    ),
    "nodes": (
        "y = x_v + 2 * sum_u(min_t(x_t))",
        r"y = x_{v} + 2 \, \sum_{u \in N(v)} \min_{t \in N(u)} x_{t}",
        "x_v + 2*sum_u(min_t(x_t))",
    ),
    "classes": (
        "y = 2 if mean_i(x_i) <= 0.4, 0 if mean_i(x_i) <= 0.6, else 1",
        rf"y = \begin{{cases}} 2 & {A_MEAN} \le 0.4 \\ 0 & {A_MEAN} \le 0.6 \\ 1 & \text{{else}} \end{{cases}}",
        "mean_i(x_i)",
    ),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas(name):
    law = LAWS[name]
    assert (str(law), law.latex(), str(law.sympy())) == FORMULAS[name]


def test_neighbours_need_edges():
    with pytest.raises(ValueError, match="needs 'edge_index'"):
        LAWS["one term"].model()(torch.ones(3, 1))


def test_the_law_of_a_network_is_the_law():
    for law in LAWS.values():
        assert Law.of(law.model()) == law


def test_a_file_that_asks_for_many_features_costs_nothing(tmp_path):
    """The names of features are made only when they are needed."""
    model = LawNet(2**20, [], "set")
    assert model.features == []
    assert len(str(model.arguments)) < 1000
