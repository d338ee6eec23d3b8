"""Both forms of a graph network are trained, and validation chooses."""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gnpool.lab import PRESETS, TABLES, Cell, Preset, Scope, Table, table_results
from gnpool.lab.plan import needed_megabytes
from gnpool.lab.recipes import Exam, Recipe
from gnpool.lab.recipes.cost import training_megabytes
from gnpool.lab.recipes.crystallized import crystallized, validation_of
from gnpool.lab.recipes.forms import candidates, chosen, form_of, in_form, trained
from gnpool.lab.recipes.grids import GRIDS, Grid
from gnpool.lab.recipes.models import graph_fixed, graph_gnp, graph_other, node, set_model
from gnpool.lab.recipes.stored import models_of, read_stored, stored
from gnpool.models import GraphNet
from gnpool.store import Record, Store
from gnpool.training import Setting
from tests.lab.shared import estimate, run_tables

PAPER = PRESETS["paper"]
TINY = replace(PRESETS["smoke"], whole_grid=True)  # it searches, among one setting
EXAMS = (Exam(), Exam(structure="tree"))
GNP = replace(graph_gnp("harmonic"), grid="one")  # a grid of this file


@pytest.mark.parametrize(
    ("recipe", "forms"),
    [
        (GNP, ["message", "gin"]),
        (crystallized(GNP), ["message", "gin"]),
        (graph_fixed("invsize", "mean", "max"), ["message", "gin"]),
        (graph_other("maxdegree", "Set2Set"), ["message", "gin"]),
        (in_form(GNP, "gin"), ["gin"]),
        (in_form(GNP, "message"), ["message"]),
        (graph_other("harmonic", "SAGPool"), ["message"]),
        (node("bfs", "gnp"), ["message"]),
        (set_model("mu_post", "basic/gnp"), ["message"]),
    ],
    ids=lambda value: value.model if isinstance(value, Recipe) else "",
)
def test_graph_networks_have_two_forms(recipe: Recipe, forms: list[str]) -> None:
    found = candidates(recipe, PAPER)
    assert found[0] == recipe  # under the name that it has always had
    assert [form_of(one) for one in found] == forms
    assert {one.crystallized for one in found} == {recipe.crystallized}
    assert len({str(one.key(PAPER, "all")) for one in found}) == len(forms)
    for one in found:
        assert len(one.variants) == len(recipe.variants)
        nets = [one.build(variant) for variant in one.variants]
        assert all(net.form == form_of(one) for net in nets if isinstance(net, GraphNet))
    assert [one.base for one in found] == list(candidates(recipe.base, PAPER))


@pytest.mark.parametrize("preset", ["smoke", "quick"])
def test_a_preset_without_a_search_has_one_form(preset: str) -> None:
    assert candidates(GNP, PRESETS[preset]) == (GNP,)


def test_cost_counts_both_forms() -> None:
    graphs, nodes = (estimate(TABLES[name], PAPER, "cpu") for name in ("exp_graph_harmonic", "node_a"))
    assert graphs.trainings == 2 * 19 + 1  # SAGPool has one form
    assert (
        graphs.runs == 2 * (17 * 24 + 2 * 24 + 24) * 5 + 24 * 5
    )  # Set2Set has two variants; fixed and GNP 24 settings
    assert graphs.exams == 2 * 20 + 1
    assert nodes.trainings == 10


def table(*recipes: Recipe) -> Table:
    return Table("forms", "", "MAPE", tuple(Cell(r.model, str(e.structure), r, e) for r in recipes for e in EXAMS))


def run(store: Store, *recipes: Recipe, preset: Preset = TINY, **options: Any) -> dict[str, Any]:
    run_tables(store, preset, [table(*recipes)], jobs=1, **options)
    return table_results(table(*recipes), store, preset)


@pytest.fixture(scope="module", autouse=True)
def _grid() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(GRIDS, "one", Grid((Setting(lr=3e-3, lr_p=1e-2, clip=1e2),), Setting(lr=1e-3)))
        yield


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    made = Store(tmp_path_factory.mktemp("forms"))
    run(made, GNP, crystallized(GNP))
    return made


def test_validation_chooses_the_form(store: Store) -> None:
    found = trained(GNP, store, TINY)
    losses = {form_of(one.recipe): one.record.scores["chosen"]["loss"]["validation"] for one in found}
    assert set(losses) == {"message", "gin"}
    best = min(losses, key=lambda form: losses[form])
    assert form_of(chosen(found).recipe) == best
    for cell in table_results(table(GNP), store, TINY)["cells"]:
        assert cell["form"] == best
        assert cell["validation"] == losses[best]
        assert {form: told["validation"] for form, told in cell["forms"].items()} == losses
        assert cell["ours"] == cell["forms"][best]["ours"] != cell["forms"][({*losses} - {best}).pop()]["ours"]
    assert {model.form for model in models_of(stored(store, GNP, TINY)).values()} == {best}


def test_each_criterion_chooses_for_itself(store: Store) -> None:
    found = trained(GNP, store, TINY)
    for criterion in ("loss", "metric"):
        lowest = min(one.record.scores["chosen"][criterion]["validation"] for one in found)
        assert chosen(found, criterion).validation(criterion) == lowest
    (cell, _) = table_results(table(GNP), store, TINY)["cells"]
    by_metric = chosen(found, "metric").score(EXAMS[0], store, TINY)
    assert by_metric is not None
    assert cell["by_metric"]["runs"] == [run["mean"] for run in by_metric.scores["metric"]]


def test_the_lower_loss_wins_whichever_form_has_it(store: Store, tmp_path: Path) -> None:
    other = Store(tmp_path)
    for one in trained(GNP, store, TINY):
        loss = 1.0 if form_of(one.recipe) == "gin" else 2.0
        scores = {**one.record.scores, "chosen": {"loss": {**one.record.scores["chosen"]["loss"], "validation": loss}}}
        other.put(one.key, scores=scores, tensors=one.record.tensors, meta=one.record.meta)
    assert form_of(chosen(trained(GNP, other, TINY)).recipe) == "gin"


def test_crystallized_models_are_chosen_by_their_own_loss(store: Store) -> None:
    found = trained(crystallized(GNP), store, TINY)
    assert [form_of(one.recipe) for one in found] == ["message", "gin"]
    assert chosen(found) is min(found, key=lambda one: validation_of(one.record))
    cell, _ = table_results(table(crystallized(GNP)), store, TINY)["cells"]
    assert cell["validation"] == min(validation_of(one.record) for one in found)
    model = models_of(stored(store, crystallized(GNP), TINY))[0]
    assert model.form == cell["form"]


def test_loss_of_crystallized_models() -> None:
    tried = [
        {"text": "learned", "stage": "given", "loss": 4.0},
        {"text": "sum", "stage": "refitted", "loss": 1.0},
        {"text": "learned", "stage": "refitted", "loss": 2.0},
        {"text": "max", "stage": "screened", "loss": 0.5},
    ]
    crystals = [{"seed": 0, "text": "sum", "tried": tried}, {"seed": 1, "text": "learned", "tried": tried}]
    assert validation_of(Record({}, {"crystals": crystals}, {}, None)) == (1.0 + 4.0) / 2  # one stayed as given
    exact = [{**tried[0]}, {**tried[1], "loss": 0.001}]  # of 4.0: rounding, and another machine rounds otherwise
    assert validation_of(Record({}, {"crystals": [{"seed": 0, "text": "sum", "tried": exact}]}, {}, None)) == 0.0
    failed = {"seed": 2, "poolings": {}, "biases": True, "reason": "diverged"}
    assert validation_of(Record({}, {"crystals": [*crystals, failed]}, {}, None)) == math.inf


def test_a_cell_waits_for_the_test_of_what_validation_chooses(store: Store, tmp_path: Path) -> None:
    other = Store(tmp_path)
    first, second = trained(GNP, store, TINY)
    scores = {form_of(one.recipe): one.score(EXAMS[0], store, TINY) for one in (first, second)}

    def put(record: Record | None) -> None:
        assert record is not None
        other.put(record.key, scores=record.scores, tensors=record.tensors, meta=record.meta)

    def cell() -> dict[str, Any]:
        return table_results(table(GNP), other, TINY)["cells"][0]

    put(first.record)
    assert cell()["ours"] is None
    put(scores["message"])
    assert (cell()["form"], list(cell()["forms"])) == ("message", ["message"])
    assert cell()["ours"] is not None
    put(second.record)
    best = {form_of(chosen(trained(GNP, other, TINY), criterion).recipe) for criterion in ("loss", "metric")}
    waits = best != {"message"}  # what validation chooses is not tested yet
    assert (cell()["ours"] is None) == (cell()["verdict"] == "not run") == waits
    put(scores["gin"])
    assert list(cell()["forms"]) == ["message", "gin"]


def test_only_what_is_stored_is_tested(store: Store, tmp_path: Path) -> None:
    other = Store(tmp_path)
    first, _ = trained(GNP, store, TINY)
    other.put(first.key, scores=first.record.scores, tensors=first.record.tensors, meta=first.record.meta)
    found = run(other, GNP, train=False)
    assert [list(cell["forms"]) for cell in found["cells"]] == [["message"]] * len(EXAMS)
    assert len(list(other.records("training"))) == 1


def test_a_cell_is_done_when_both_forms_are(store: Store, tmp_path: Path) -> None:
    half = Store(tmp_path)
    first, _ = trained(GNP, store, TINY)
    half.put(first.key, scores=first.record.scores, tensors=first.record.tensors, meta=first.record.meta)
    run(half, GNP, train=False)
    for held, trainings, cells in ((half, 1, 0), (store, 2, len(EXAMS))):
        found = estimate(table(GNP), TINY, "cpu", store=held)
        assert (found.done, found.cells_done) == (trainings, cells)
        assert (found.minutes_left == 0) == (held is store)


def test_reading_of_crystallized_models_is_that_of_what_they_were_made_from(store: Store) -> None:
    made = stored(store, crystallized(GNP), TINY)
    learned = made.learned(store, TINY)
    assert learned.recipe == made.recipe.base
    assert learned.key == made.recipe.base.key(TINY, "all")
    assert learned.learned(store, TINY).recipe == learned.recipe
    reading, curves = read_stored(store, crystallized(GNP), 0, TINY)
    assert set(curves) == {"aggr", "readout"}
    layers = dict(models_of(learned)[0].named_modules())
    for branch in reading.branches:
        gnp = layers[branch.layer]
        assert branch.p == pytest.approx(gnp.p_pos.item() if branch.branch == "positive" else -gnp.p_neg.item())


def test_memory_counts_both_forms() -> None:
    recipes = candidates(GNP, TINY)
    two = [training_megabytes(one, TINY) for one in recipes]
    alone, both, more = (needed_megabytes(two, jobs) for jobs in (1, 2, 3))
    assert both == pytest.approx(2 * alone)
    assert more == both  # there are no more trainings
    assert len(table(GNP).megabytes(Scope("paper"))) == 2
    assert len(table(GNP).megabytes(Scope("quick"))) == 1


def test_forms_that_were_searched_in_different_ways(store: Store, tmp_path: Path) -> None:
    mixed = Store(tmp_path)
    first, second = trained(GNP, store, TINY)
    message, gin = first.record, second.record
    mixed.put(first.key, scores=message.scores, tensors=message.tensors, meta=message.meta)
    key = second.recipe.key(TINY, "point")
    lower = first.validation() / 2
    better = {name: {**one, "validation": lower} for name, one in gin.scores["chosen"].items()}
    mixed.put(key, scores={**gin.scores, "chosen": better}, tensors=gin.tensors, meta=gin.meta)
    for one, where in ((first, first.key), (second, key)):
        record = one.score(EXAMS[0], store, TINY)
        assert record is not None
        exam = EXAMS[0].key(where, TINY, GNP.spec)
        mixed.put(exam, scores=record.scores, meta=record.meta)
    cell = table_results(table(GNP), mixed, TINY, "all", "point")["cells"][0]
    assert (cell["form"], cell["search"], cell["validation"]) == ("gin", "point", lower)
    assert {form: told.get("search") for form, told in cell["forms"].items()} == {"message": None, "gin": "point"}
    assert stored(mixed, GNP, TINY).recipe == second.recipe  # as the table has it
    assert stored(mixed, GNP, TINY, "all").recipe == first.recipe
    only = table_results(table(GNP), mixed, TINY)["cells"][0]
    assert (only["form"], list(only["forms"])) == ("message", ["message"])


def test_runs_that_diverged_in_both_forms_are_those_of_the_first(store: Store, tmp_path: Path) -> None:
    other = Store(tmp_path)
    for one in trained(GNP, store, TINY):
        lost = {name: {**told, "validation": math.inf} for name, told in one.record.scores["chosen"].items()}
        scores = {**one.record.scores, "chosen": lost}
        other.put(one.key, scores=scores, tensors=one.record.tensors, meta=one.record.meta)
        record = one.score(EXAMS[0], store, TINY)
        assert record is not None
        other.put(record.key, scores=record.scores, meta=record.meta)
    cell = table_results(table(GNP), other, TINY)["cells"][0]
    assert (cell["form"], cell["validation"]) == ("message", None)


def test_a_recipe_that_names_forms_is_left_alone() -> None:
    named = replace(GNP, variants=({**GNP.variants[0], "form": "gin"}, GNP.variants[0]))
    assert candidates(named, PAPER) == (named,)
