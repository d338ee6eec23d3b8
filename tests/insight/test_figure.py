"""The plane as a picture."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from gnpool import GNPAggregation, Setting, fit_many, read
from gnpool.display.poolings import NAMES, across
from gnpool.models import SetNet

PNG = b"\x89PNG"


@pytest.mark.parametrize(("pooling", "count"), [("gnp", 4), ("gnpg", 2)])
def test_with_the_way_taken_in_training(tmp_path, pooling, count):
    pytest.importorskip("matplotlib")
    sets = [Data(x=torch.rand(4, 1), y=torch.ones(1)) for _ in range(8)]

    def loss(prediction, batch):
        return (prediction.view_as(batch.y) - batch.y).square()

    fit = fit_many(lambda: SetNet(1, pooling, hidden=4), sets, loss, Setting(lr=1e-2), seeds=2, epochs=3)
    curves = fit.exponents(fit.best())
    assert list(curves) == ["pool"]
    assert [len(values) for values in curves["pool"].values()] == [4] * count
    reading = read(fit.model(fit.best()))
    plain = reading.draw(tmp_path / "plain.png")
    drawn = reading.draw(tmp_path / "new" / "plane.png", curves)
    assert drawn.read_bytes()[:4] == PNG
    assert len(drawn.read_bytes()) > 10_000
    assert drawn.read_bytes() != plain.read_bytes()


def test_names_and_branches_stand_at_p_and_the_growth(monkeypatch, tmp_path):
    pytest.importorskip("matplotlib")
    kind, made = pytest.importorskip("matplotlib.figure").Figure, []
    monkeypatch.setattr("matplotlib.figure.Figure", lambda **options: made.append(kind(**options)) or made[-1])
    model = torch.nn.ModuleList([GNPAggregation(2), GNPAggregation(2, coordinates="published", branches="negative")])
    model[0].p, model[0].growth, model[1].p_neg, model[1].q_neg = -0.5, 0.25, 2.0, -1.0
    curves = {
        "0": {"p": [1.0, 0.0, -0.5], "growth": [1.0, 0.5, 0.25]},
        "1": {"p_neg": [4.0, 2.0], "q_neg": [0.0, -1.0]},
    }
    read(model).draw(tmp_path / "plane.png", curves)
    (figure,) = made
    (axes,) = figure.axes
    drawn = [list(zip(*line.get_data(), strict=True)) for line in axes.lines]
    assert all([(across(named.p), named.growth)] in drawn for named in NAMES)
    assert [(1.0, 1.0), (0.0, 0.5), (-0.5, 0.25)] in drawn  # the way of the growth, as it is
    assert [(-1.75, -0.25), (-1.5, 0.5)] in drawn  # and that of q, at 1/p - q
    assert [(-0.5, 0.25)] in drawn
    assert [(-1.5, 0.5)] in drawn
    renderer = pytest.importorskip("matplotlib.backends.backend_agg").FigureCanvasAgg(figure).get_renderer()
    boxes = [text.get_window_extent(renderer) for text in axes.texts]
    assert len(boxes) == len(NAMES)
    assert not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k])


def test_without_matplotlib(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match="pip install 'gnpool\\[report\\]'"):
        read(SetNet(1)).draw(tmp_path / "plane.png")
