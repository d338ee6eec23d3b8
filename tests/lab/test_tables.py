"""Every table and figure runs, and its results have the promised form."""

from __future__ import annotations

import math
from typing import Any

import pytest

from gnpool.lab import PRESETS, TABLES, Table, at_hand_tables, find_table, register_table, registry
from gnpool.lab.paper import paper_cells, paper_tables
from gnpool.lab.recipes import Recipe
from gnpool.lab.recipes.forms import candidates
from gnpool.nn import GNPAggregation
from gnpool.store import Store
from tests.lab.shared import read, smoke_folder, smoke_results

SYNTHETIC = [name for name in paper_tables() if not name.startswith(("graphcl", "im_", "real_"))]
FIGURES = ["fig_size", "fig_pq"]


def test_every_synthetic_table_and_figure_has_a_spec() -> None:
    assert set(TABLES) == {*SYNTHETIC, *FIGURES, "demo"}


@pytest.mark.parametrize("name", SYNTHETIC)
def test_every_published_cell_is_there(name: str) -> None:
    places = [(cell.row, cell.column) for cell in TABLES[name].cells]
    assert len(places) == len(set(places))
    assert set(paper_cells(name)) <= set(places)


@pytest.mark.parametrize("name", TABLES)
def test_every_gnp_of_the_record_is_the_published_one(name: str) -> None:
    """Exponents, cap and rates are those of the paper, whatever the defaults of the layer are."""
    for recipe in TABLES[name].recipes:
        for one in candidates(recipe, PRESETS["paper"]):
            layers = [
                module
                for variant in one.variants
                for module in one.build(variant).modules()
                if isinstance(module, GNPAggregation)
            ]
            assert {(layer.coordinates, layer.p_max) for layer in layers} <= {("published", 50.0)}
            if layers:
                settings = [*one.space.settings, one.space.quick]
                assert all(setting.lr_p is not None and setting.start is None for setting in settings)
                assert all(setting.rates["q"] == (setting.lr_q or setting.lr) for setting in settings)


def test_demo_shows_the_published_numbers_of_its_tasks() -> None:
    for cell in TABLES["demo"].cells:
        if cell.row == "GNP*":  # ours alone
            assert cell.published is None
            continue
        assert cell.published is not None
        table, row, column = cell.published
        assert table == f"exp_graph_{cell.column}"
        assert (row, column) in paper_cells(table)
        assert cell.recipe in TABLES[table].recipes


def test_all_stands_for_what_is_of_the_paper() -> None:
    assert set(TABLES) <= set(at_hand_tables())


@pytest.mark.parametrize("name", TABLES)
def test_smoke(name: str) -> None:
    found, spec = smoke_results()[name], TABLES[name]
    about = {"table", "title", "metric", "higher_is_better", "rows_are", "columns_are"}
    assert set(found) == about | {"cells", "meta"}
    assert [(cell["row"], cell["column"]) for cell in found["cells"]] == [(c.row, c.column) for c in spec.cells]
    published = paper_cells(name)
    for cell, planned in zip(found["cells"], spec.cells, strict=True):
        if planned.published is None:
            assert cell["paper"] == published.get((cell["row"], cell["column"]))
        else:
            assert cell["paper"] == paper_cells(planned.published[0])[planned.published[1:]]
        for ours in (cell["ours"], cell["by_metric"]):
            check_summary(ours, PRESETS["smoke"].seeds)
        assert cell["metric"] == ("MAE" if planned.recipe.task in ("bfs", "shortest") else "MAPE")
        assert cell["setting"]["lr"] > 0
    check_meta(found["meta"])


def check_summary(ours: dict[str, Any], seeds: int) -> None:
    runs = ours["runs"]
    assert len(runs) == seeds
    assert ours["failed"] == 0
    assert all(isinstance(run, float) and math.isfinite(run) and run >= 0 for run in runs)
    assert ours["mean"] == pytest.approx(sum(runs) / seeds)
    variance = sum((run - ours["mean"]) ** 2 for run in runs) / (seeds - 1)
    assert ours["std"] == pytest.approx(math.sqrt(variance))


def check_meta(meta: dict[str, Any]) -> None:
    assert meta["preset"] == "smoke"
    assert meta["notes"] == PRESETS["smoke"].notes
    assert meta["seeds"] == [0, 1]
    assert meta["seed"] == 0
    assert meta["seconds"] > 0
    assert meta["device"].startswith("cpu: ")
    assert {"torch", "torch-geometric", "numpy"} <= set(meta["versions"])


def test_results_file() -> None:
    results = read(smoke_folder())
    assert set(results) == {"schema", "tables"}
    assert results["schema"] == 1
    assert [table["table"] for table in results["tables"]] == list(TABLES)


def test_curves_of_the_exponents() -> None:
    for cell in smoke_results()["fig_pq"]["cells"]:
        assert set(cell["curves"]) == {"p_pos", "q_pos", "p_neg", "q_neg"}
        for name, curve in cell["curves"].items():
            assert len(curve) >= 2  # the start, and every epoch
            start = 1 + math.log(2) if name.startswith("p") else 0.0
            assert curve[0] == pytest.approx([start, start], abs=1e-6)


def test_curves_of_a_deep_network_are_those_of_its_last_layer() -> None:
    cell = TABLES["fig_pq"].cells[-1]
    record = Store(smoke_folder()).get(cell.recipe.key(PRESETS["smoke"], "all"))
    assert record is not None
    assert record.tensors is not None
    curves = smoke_results()["fig_pq"]["cells"][-1]["curves"]
    for name, curve in curves.items():
        assert curve == record.tensors[f"curve/layers.2.aggr.{name}"].tolist()


def test_masking_changes_the_score() -> None:
    cells = {(c["row"], c["column"]): c["ours"]["mean"] for c in smoke_results()["behavior_app"]["cells"]}
    assert cells["harmonic", "no_masking"] != cells["harmonic", "mask_GNP_plus"]
    exp = {(c["row"], c["column"]): c["ours"]["mean"] for c in smoke_results()["exp_graph_harmonic"]["cells"]}
    assert cells["harmonic", "no_masking"] == exp["GNP", "model"]  # one training serves both


@pytest.mark.parametrize("preset", ["quick", "paper"])
def test_no_two_recipes_share_a_place_in_the_store(preset: str) -> None:
    recipes: list[Recipe] = []
    for table in TABLES.values():
        recipes += [recipe for recipe in table.recipes if recipe not in recipes]
    keys = [str(recipe.key(PRESETS[preset], "all")) for recipe in recipes]
    assert len(set(keys)) == len(recipes)


def test_grids_have_the_published_number_of_settings() -> None:
    gnp, *_ = [cell.recipe for cell in TABLES["exp_graph_harmonic"].cells if cell.row == "GNP"]
    assert len(PRESETS["paper"].settings(gnp.space)) == 24
    assert len(PRESETS["quick"].settings(gnp.space)) == 1


def test_unknown_table() -> None:
    with pytest.raises(ValueError, match=r"no table 'nope'.* exp_graph_invsize, "):
        find_table("nope")


def test_register(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_OWN", {})
    with pytest.raises(ValueError, match="there is a table 'graphcl_a' already"):
        register_table(Table("graphcl_a", "", "MAPE", ()))
    mine = register_table(Table("other", "", "MAPE", ()))
    assert find_table("other") is mine
    with pytest.raises(ValueError, match="there is a table 'other' already"):
        register_table(Table("other", "", "MAPE", ()))
