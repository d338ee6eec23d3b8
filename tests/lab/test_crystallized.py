"""GNP* in the lab has separate units, is rebuilt bit by bit, and shows the right numbers."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from gnpool.display.models import CRYSTAL
from gnpool.engine import StoppedError
from gnpool.lab import PRESETS, TABLES, Cell, Table, find_table, reproduce, table_results
from gnpool.lab.recipes import Exam, Recipe
from gnpool.lab.recipes.crystallized import crystallized
from gnpool.lab.recipes.forms import as_stored
from gnpool.lab.recipes.jobs import RecipeJob
from gnpool.lab.recipes.models import GRAPH_TASKS, SET_TASKS, graph_gnp, node, set_model
from gnpool.lab.recipes.stored import models_of, read_stored, stored, stored_model
from gnpool.lab.running.job import Bench
from gnpool.lab.synthetic.tables import OTHER_STRUCTURES, STRUCTURE_OF
from gnpool.store import Record, Store
from tests.lab.shared import run_tables

ROOT = Path(__file__).parents[2]
SMOKE, PAPER = PRESETS["smoke"], PRESETS["paper"]
HARMONIC = graph_gnp("harmonic")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store with GNP and GNP* of one task, smoke preset."""
    store = Store(tmp_path_factory.mktemp("smoke"))
    run_tables(store, SMOKE, [small()], jobs=1)
    return store


def small() -> Table:
    return Table(
        "small", "", "MAPE", (Cell("GNP", "x", HARMONIC, Exam()), Cell("GNP*", "x", crystallized(HARMONIC), Exam()))
    )


def record_of(store: Store, recipe: Recipe) -> Record:
    record = store.get(recipe.key(SMOKE, "all"))
    assert record is not None
    return record


def test_the_key_says_what_it_was_made_from() -> None:
    learned, star = HARMONIC.key(PAPER, "all"), crystallized(HARMONIC).key(PAPER, "all")
    assert learned["preset"] == "paper-1fe8bd5f"  # of units that exist: it must never change
    assert star == {**learned, "table": "crystal", "model": "gnp*", "method": 4}
    assert crystallized(HARMONIC).base == HARMONIC
    score = Exam().key(star, PAPER, HARMONIC.spec)
    assert score["table"] == "score"
    assert score != Exam().key(learned, PAPER, HARMONIC.spec)


def test_what_earlier_ways_of_crystallizing_made_is_found(tmp_path: Path) -> None:
    store, newest = Store(tmp_path), crystallized(HARMONIC)
    assert as_stored(newest, store, SMOKE, "all") == newest
    for method in (1, 2, 3, 4):
        store.put(newest.key(SMOKE, "all") | {"method": method}, scores={}, tensors={}, meta={})
        found = as_stored(newest, store, SMOKE, "all")
        assert found.method == method
        assert found.key(SMOKE, "all") in store
        assert found.base == HARMONIC
    assert as_stored(HARMONIC, store, SMOKE, "all") == HARMONIC


def test_it_stands_beside_gnp_in_every_synthetic_table() -> None:
    tables = {name for name, table in TABLES.items() if any(cell.recipe.crystallized for cell in table.cells)}
    without = {"ablation_a", "ablation_b", "behavior_app", "act", "fig_pq"}  # about the learned exponents themselves
    assert tables == set(TABLES) - without
    for name in tables:
        made = [cell for cell in TABLES[name].cells if cell.recipe.crystallized]
        assert all(CRYSTAL in f"{cell.row} {cell.column}" for cell in made)
        assert all(cell.recipe.base in TABLES[name].recipes for cell in made)


def test_a_unit_holds_the_choice_of_every_seed_and_its_weights(store: Store) -> None:
    record = record_of(store, crystallized(HARMONIC))
    assert [crystal["seed"] for crystal in record.scores["crystals"]] == [0, 1]
    for crystal in record.scores["crystals"]:
        assert set(crystal["poolings"]) == {"aggr", "readout"}
        assert crystal["tried"][0]["stage"] == "given"
        assert all(trial["loss"] is None or math.isfinite(trial["loss"]) for trial in crystal["tried"])
        assert crystal["reason"]
    models = models_of(stored(store, crystallized(HARMONIC), SMOKE))
    assert list(models) == [0, 1]
    assert not any(model.training for model in models.values())
    names = {f"loss/{seed}/{name}" for seed, model in models.items() for name in model.state_dict()}
    assert record.tensors is not None
    assert set(record.tensors) == names


def test_results_show_it_without_a_published_number(store: Store) -> None:
    learned, star = table_results(small(), store, SMOKE)["cells"]
    assert star["paper"] is None
    assert star["verdict"] == ""
    assert star["by_metric"] == star["ours"]  # made from what the loss chose
    assert star["setting"] == learned["setting"]
    assert len(star["ours"]["runs"]) == 2


def test_a_second_run_has_nothing_to_do(store: Store) -> None:
    before = sorted(store.root.rglob("*.json"))
    events: list[object] = []
    run_tables(store, SMOKE, [small()], jobs=1, on_event=events.append)
    assert events == []
    assert sorted(store.root.rglob("*.json")) == before


def test_without_training_only_what_is_stored_is_done(tmp_path: Path, store: Store) -> None:
    empty = Store(tmp_path)
    run_tables(empty, SMOKE, [small()], jobs=1, train=False)
    assert not list(tmp_path.rglob("*.json"))
    learned = record_of(store, HARMONIC)
    empty.put(learned.key, scores=learned.scores, tensors=learned.tensors, meta=learned.meta)
    run_tables(empty, SMOKE, [small()], jobs=1, train=False)
    assert record_of(empty, crystallized(HARMONIC)).scores == record_of(store, crystallized(HARMONIC)).scores


def test_without_tests_only_trainings_are_done(tmp_path: Path, store: Store) -> None:
    trained = Store(tmp_path)
    run_tables(trained, SMOKE, [small()], jobs=1, test=False)
    assert [key["table"] for table in ("training", "crystal", "score") for key in trained.keys(table)] == ["training"]
    assert record_of(trained, HARMONIC).scores == record_of(store, HARMONIC).scores


def test_nothing_to_do_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing to do"):
        reproduce(["demo"], tmp_path, preset="smoke", train=False, test=False)
    assert not list(tmp_path.iterdir())


class Stop:
    """Asks to stop from its n-th call on."""

    def __init__(self, after: float = math.inf) -> None:
        self.after, self.calls = after, 0

    def __call__(self) -> bool:
        self.calls += 1
        return self.calls >= self.after


def test_stopped_on_the_way_it_goes_on_from_there(tmp_path: Path, store: Store) -> None:
    star, learned = crystallized(HARMONIC), record_of(store, HARMONIC)
    expected = record_of(store, star)

    def study(folder: Path, stop: Stop) -> Store:
        mine = Store(folder)
        mine.put(learned.key, scores=learned.scores, tensors=learned.tensors, meta=learned.meta)
        bench = Bench(mine, torch.device("cpu"), 1, stop, lambda report: None)
        assert RecipeJob(star, (), SMOKE, "all").work(bench)
        return mine

    whole = Stop()
    study(tmp_path / "whole", whole)
    for share in (0.1, 0.4, 0.6, 0.9):  # in the crystal of the first seed, and in that of the second
        folder, first, second = tmp_path / f"{share}", Stop(round(share * whole.calls)), Stop()
        with pytest.raises(StoppedError):
            study(folder, first)
        assert list(folder.glob("checkpoints/*/seed*/*/unit0000.safetensors"))
        found = record_of(study(folder, second), star)
        assert second.calls < whole.calls
        assert found.scores == expected.scores
        assert found.tensors is not None
        assert expected.tensors is not None
        assert found.tensors.keys() == expected.tensors.keys()
        assert all(torch.equal(value, expected.tensors[name]) for name, value in found.tensors.items())
        assert not list(folder.glob("checkpoints/*"))


def test_reading_of_a_stored_model(store: Store) -> None:
    reading, curves = read_stored(store, HARMONIC, 1, SMOKE)
    assert reading.with_data
    assert reading.layers == ["aggr", "readout"] == list(curves)
    assert set(curves["aggr"]) == {"p_pos", "q_pos", "p_neg", "q_neg"}
    assert curves["aggr"]["p_pos"][-1] != curves["aggr"]["p_pos"][0]


def test_models_by_cell(store: Store) -> None:
    found = stored_model(store.root, "exp_graph_harmonic", "GNP", seed=1, preset="smoke")
    (expected,) = [model for seed, model in models_of(stored(store, HARMONIC, SMOKE)).items() if seed == 1]
    assert all(torch.equal(v, expected.state_dict()[n]) for n, v in found.state_dict().items())
    assert find_table("graph_diff").model_cell("Tree", "harmonic/GNP*").exam == Exam(structure="tree")


@pytest.mark.parametrize(
    ("place", "options", "message"),
    [
        (("exp_graph_harmonic", "GNP+"), {}, r"table 'exp_graph_harmonic' has no row 'GNP\+'; its rows are sum, max, "),
        (
            ("exp_graph_harmonic", "GNP", "x"),
            {},
            "row 'GNP' of table 'exp_graph_harmonic' has no column 'x'; its columns",
        ),
        (("exp_graph_harmonic", "GNP"), {"seed": 7}, "'seed' must be one of 0, 1, got 7"),
        (("exp_graph_invsize", "GNP"), {}, r"has no gnp for invsize \(preset smoke\)"),
        (("exp_graph_harmonic", "GNP"), {"search": "point"}, r"has no gnp for harmonic \(preset smoke, search point\)"),
    ],
)
def test_what_is_not_there(store: Store, place: tuple[str, ...], options: dict[str, int | str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        stored_model(store, *place, preset="smoke", **options)  # type: ignore[arg-type]


# What the stored models of the paper preset must show; a unit that is not there is skipped.


def of_paper(recipe: Recipe) -> tuple[Store, Record]:
    folder = ROOT / "results" / "paper"
    if not folder.is_dir():
        pytest.skip("there is no results/paper")
    store = Store(folder, create=False)
    record = store.get(recipe.key(PAPER, "all"))
    if record is None:
        pytest.skip(f"results/paper has no {recipe.model} of {recipe.task}")
    return store, record


def errors(recipe: Recipe, exam: Exam) -> list[float]:
    store, _ = of_paper(recipe)
    record = store.get(exam.key(recipe.key(PAPER, "all"), PAPER, recipe.spec))
    if record is None:
        pytest.skip(f"results/paper has no test of {recipe.model} of {recipe.task} on this data")
    return [run["mean"] for run in record.scores["loss"]]


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


@pytest.mark.parametrize(
    ("recipe", "names"),
    [
        pytest.param(graph_gnp("maxdegree"), {"aggr": "sum", "readout": "max"}, id="maxdegree"),
        pytest.param(graph_gnp("harmonic"), {"aggr": "sum", "readout": "harmonic sum"}, id="harmonic"),
        pytest.param(set_model("mu_post", "basic/gnp"), {"pool": "mean"}, id="mu_post"),
        # The last layer, as in the paper's figure: before it a network may negate, and then max is its min.
        pytest.param(node("shortest", "gnp"), {"layers.2.aggr": "min"}, id="shortest"),
        pytest.param(
            node("shortest", "gnp"),
            {f"layers.{k}.aggr": "min" for k in range(3)},
            id="shortest in every layer",
            marks=pytest.mark.xfail(reason="the second layer of all five networks has learned max"),
        ),
    ],
)
def test_the_reading_names_the_right_pooling_in_four_of_five_seeds(recipe: Recipe, names: dict[str, str]) -> None:
    store, record = of_paper(recipe)
    right = 0
    for seed in record.scores["chosen"]["loss"]["seeds"]:
        reading, _ = read_stored(store, recipe, seed, PAPER)
        found = {layer: reading.layer(layer)[0] for layer in reading.layers}  # the branch with the largest share
        right += all(found[layer].name == name for layer, name in names.items())
    assert right >= 4


@pytest.mark.parametrize("structure", ["ER", *OTHER_STRUCTURES])
@pytest.mark.parametrize("task", GRAPH_TASKS)
def test_graph_tasks_are_exact_on_every_structure(task: str, structure: str) -> None:
    exam = Exam() if structure == "ER" else Exam(structure=STRUCTURE_OF[structure])
    assert mean(errors(crystallized(graph_gnp(task)), exam)) <= (0.1 if structure == "ER" else 0.2)


@pytest.mark.parametrize("cell", [c for c in TABLES["fig_size"].cells if "GNP*, " in c.row], ids=lambda c: c.row)
def test_graphs_of_10000_nodes(cell: Cell) -> None:
    assert mean(errors(cell.recipe, cell.exam)) <= 0.5


UNSURE = pytest.mark.xfail(reason="3.26 against 3.14: for one seed of five validation prefers another pooling")


@pytest.mark.parametrize(
    "task", [pytest.param(task, marks=UNSURE if task == "sigma2_map" else ()) for task in SET_TASKS]
)
def test_sets_are_not_worse_than_learned(task: str) -> None:
    learned = set_model(task, "basic/gnp")
    assert mean(errors(crystallized(learned), Exam())) <= mean(errors(learned, Exam())) + 1e-6


def test_bfs_is_exact() -> None:
    assert mean(errors(crystallized(node("bfs", "gnp")), Exam())) < 5e-4


def test_shortest_is_not_worse_than_the_hand_picked_minimum() -> None:
    star = mean(errors(crystallized(node("shortest", "gnp")), Exam()))
    assert star <= mean(errors(node("shortest", "min"), Exam()))
