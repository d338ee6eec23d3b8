from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from gnpool.theory import run_study, study, study_steps
from tests.theory import oracle
from tests.theory.small import STEPS, small_study


def test_steps_are_told() -> None:
    small_study()
    assert len(STEPS) == study_steps()


def test_gnp_learns_the_task_and_the_others_do_not() -> None:
    found = small_study()
    assert found.holds
    errors = {(row.setting, row.readout): row.test for row in found.regression}
    assert max(errors["linear head", "GNP (-1, 0)"].values()) < 1e-9
    for readout in ("sum", "mean", "max", "min"):
        for setting in ("linear head", "MLP head"):
            assert all(errors[setting, readout][name] > 20 for name in study.LARGER)
    bent = errors["MLP head", "GNP (-1, 0)"]
    assert bent["ER 50-99"] < 1 < 10 < bent["ladder"] < bent["tree"]


def test_linear_head_of_scalar_features_is_a_fit_of_one_factor() -> None:
    train, tests = study.harmonic_graphs(18, 9, seed=3)
    rows = {row.readout: row for row in small_study().regression if row.setting == "linear head"}
    for name in ("sum", "mean", "max", "min"):
        pool = oracle.plain(name)
        x = np.array([pool(h[:, 0]) for h in oracle.split(train)])
        factor = (x @ train.y.numpy()) / (x @ x)
        for place, graphs in tests.items():
            y = graphs.y.numpy()
            off = np.abs(factor * np.array([pool(h[:, 0]) for h in oracle.split(graphs)]) - y) / y
            assert rows[name].test[place] == pytest.approx(100 * off.mean(), rel=1e-9)


def test_max_without_relu_sees_max_and_min() -> None:
    train, tests = study.harmonic_graphs(18, 9, seed=3)
    (row,) = (row for row in small_study().regression if row.setting == "linear head, no ReLU")

    def features(graphs: study.NeighborSums) -> np.ndarray:
        return np.array([[h.max(), h.min()] for h in oracle.split(graphs)])

    weights, *_ = np.linalg.lstsq(features(train), train.y.numpy(), rcond=None)
    y = tests["tree"].y.numpy()
    expected = 100 * np.abs(features(tests["tree"]) @ weights / y - 1).mean()
    assert row.test["tree"] == pytest.approx(expected, rel=1e-8)


def test_named_poolings_learn_themselves() -> None:
    for pooling, errors in small_study().named.items():
        assert errors[pooling] < 1e-9
        assert min(error for target, error in errors.items() if target != pooling) > 1


def test_json() -> None:
    found = json.loads(json.dumps(small_study().to_dict(), allow_nan=False))
    assert list(found) == ["schema", "regression", "widths", "poolings", "maps", "checks", "seconds"]
    assert {check["holds"] for check in found["checks"]} == {True}
    by_target = {item["target"]: item for item in found["maps"]}
    assert by_target["max"]["a"] == "inf"
    harmonic = by_target["harmonic sum"]
    assert harmonic["error"][harmonic["q"].index(0.0)][harmonic["p"].index(-1.0)] < 1e-9


def test_a_failed_check_shows() -> None:
    rows = [row for row in small_study().regression if row.setting in ("linear head", "MLP head")]
    worse = [study.RegressionRow(row.setting, row.readout, row.train, dict.fromkeys(row.test, 15.0)) for row in rows]
    assert [check.holds for check in study.claims(worse)] == [False, False, False]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"graphs": 0}, "'graphs' must be a positive number, got 0"),
        ({"widths": ()}, r"'widths' must be positive numbers, one at least, got \[\]"),
        ({"widths": (4, 0)}, r"'widths' must be positive numbers, one at least, got \[4, 0\]"),
    ],
)
def test_bad_arguments(options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run_study(**options)


def test_threads_are_restored() -> None:
    before = torch.get_num_threads()
    small_study()
    assert torch.get_num_threads() == before


def test_figures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="figures are an extra")
    from gnpool.theory.figures import save_figures

    paths = save_figures(small_study(), tmp_path / "new" / "folder")
    assert [path.name for path in paths] == ["theory_regression.png", "theory_widths.png", "theory_map.png"]
    for path in paths:
        assert path.read_bytes().startswith(b"\x89PNG")
    again = save_figures(small_study(), tmp_path)
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in paths]


def test_figures_show_the_numbers() -> None:
    pytest.importorskip("matplotlib", reason="figures are an extra")
    from gnpool.theory import figures

    found = small_study()
    drawn = figures.widths_figure(found.widths).axes[1].lines[0]
    case = found.widths[0].case
    expected = [(row.width, np.mean(row.function)) for row in found.widths if row.case == case]
    assert list(zip(drawn.get_xdata(), drawn.get_ydata(), strict=True)) == expected
    panel = figures.map_figure(found.maps).axes[5]
    star = panel.lines[-1]
    harmonic = found.maps[5]
    assert (harmonic.p[star.get_xdata()[0]], star.get_ydata()[0]) == (-1.0, 0.0)
    picture = panel.images[0].get_array()
    np.testing.assert_allclose(picture, np.clip(harmonic.error.numpy(), figures.FLOOR, figures.CEILING))


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    from gnpool.theory import figures

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"figures need matplotlib; install it with: pip install 'gnpool\[report\]'"):
        figures.new_figure(1.0, 1.0)
