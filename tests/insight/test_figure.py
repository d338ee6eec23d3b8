"""The plane as a picture."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from gnpool import Setting, fit_many, read
from gnpool.models import SetNet

PNG = b"\x89PNG"


def test_with_the_way_taken_in_training(tmp_path):
    pytest.importorskip("matplotlib")
    sets = [Data(x=torch.rand(4, 1), y=torch.ones(1)) for _ in range(8)]

    def loss(prediction, batch):
        return (prediction.view_as(batch.y) - batch.y).square()

    fit = fit_many(lambda: SetNet(1, hidden=4), sets, loss, Setting(lr=1e-2), seeds=2, epochs=3)
    curves = fit.exponents(fit.best())
    assert list(curves) == ["pool"]
    assert [len(values) for values in curves["pool"].values()] == [4, 4, 4, 4]
    reading = read(fit.model(fit.best()))
    plain = reading.draw(tmp_path / "plain.png")
    drawn = reading.draw(tmp_path / "new" / "plane.png", curves)
    assert drawn.read_bytes()[:4] == PNG
    assert len(drawn.read_bytes()) > 10_000
    assert drawn.read_bytes() != plain.read_bytes()


def test_without_matplotlib(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match="pip install 'gnpool\\[report\\]'"):
        read(SetNet(1)).draw(tmp_path / "plane.png")
