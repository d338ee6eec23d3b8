"""``gnpool read``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnpool.cli.inputs import Json, output_file
from gnpool.cli.output import say, show_json
from gnpool.cli.reproduce import PresetName

if TYPE_CHECKING:
    from gnpool.insight import Reading

EPILOG = "Example: gnpool read results/paper --table exp_graph_harmonic --figure plane.png"
Curves = dict[str, dict[str, list[float]]]


def read(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            exists=True,
            file_okay=False,
            help="A folder of 'gnpool fit', whose learned GNP is read, a saved model, or a folder of 'gnpool "
            "reproduce'.",
        ),
    ],
    table: Annotated[
        str | None, typer.Option("--table", "-t", help="In a folder of 'gnpool reproduce': the table of the model.")
    ] = None,
    row: Annotated[str, typer.Option(help="Its row; GNP* shows what it was crystallised to.")] = "GNP",
    column: Annotated[str | None, typer.Option(help="Its column.  [default: the first that the row has]")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the run.")] = 0,
    preset: Annotated[PresetName, typer.Option(help="Preset that it was trained with.")] = "paper",
    figure: Annotated[
        Path | None, typer.Option(help="Draw the plane of poolings into this file (.png, .svg, .pdf).")
    ] = None,
    json: Json = False,
) -> None:
    """Say which pooling a trained model has learned.

    MODEL is a folder with model.json and model.safetensors, whose exponents are compared with the named poolings in
    the plane of p and the growth; or a folder that 'gnpool reproduce' wrote, where --table and --row name the model.
    Then the comparison is made on its validation data, value by value, and a figure shows the way taken in training.
    """
    learned = model / "learned"  # in a folder of 'gnpool fit'
    if (model / "fit.json").exists() and learned.is_dir():
        model = learned
    saved = (model / "model.json").exists()
    if saved and table is not None:
        raise typer.BadParameter("a saved model stands in no table", param_hint="'--table'")
    if not saved and table is None:
        known = (model / "units").is_dir()
        hint = "say which model of these results" if known else f"{model} holds neither a model.json nor results"
        raise typer.BadParameter(hint, param_hint="'--table'" if known else "'MODEL'")
    if figure is not None:
        figure = output_file(figure, "--figure", makes_folder=True)
        _check_drawing()
    crystal: dict[str, Any] | None = None
    form: str | None = None
    if table is None:
        from gnpool.insight import read as read_model
        from gnpool.insight.exact import exact_poolings
        from gnpool.models import load_model
        from gnpool.nn import GNPAggregation

        network = load_model(model)
        if not any(isinstance(module, GNPAggregation) for module in network.modules()):
            if figure is not None:
                raise typer.BadParameter(
                    "the poolings of this model are exact: no point to draw", param_hint="'--figure'"
                )
            _show_exact(exact_poolings(network), json)
            return
        reading, curves = read_model(network), None
    else:
        reading, curves, crystal, form = _read_cell(model, table, row, column, seed, preset)
    if figure is not None:
        reading.draw(figure, curves)
    if json:
        found = {"form": form, "crystal": crystal, "figure": None if figure is None else str(figure)}
        show_json({**reading.to_dict(), **found})
        return
    say(str(reading))
    if form is not None:
        say(f"Of both forms of the network validation chose {form!r}.")
    if not reading.with_data:
        say("Distances are those in the plane of p and the growth, since a saved model has no data with it.")
    if crystal is not None:
        say(f"Crystallised to {crystal['text']}: {crystal['reason']}.")
    if figure is not None:
        say(f"wrote {figure}")


def _show_exact(poolings: dict[str, str], json: bool) -> None:
    if json:
        show_json({"exact": poolings})
        return
    say("Nothing is learned here; the poolings are exact:")
    for path, name in poolings.items():
        say(f"  {path}: {name}")


def _read_cell(
    folder: Path, table: str, row: str, column: str | None, seed: int, preset: str
) -> tuple[Reading, Curves, dict[str, Any] | None, str | None]:
    from gnpool.lab import get_preset
    from gnpool.lab.recipes.forms import form_of, trained
    from gnpool.lab.recipes.stored import find_cell, read_stored, stored
    from gnpool.lab.table import SEARCHES
    from gnpool.store import Store

    store, amount = Store(folder, create=False), get_preset(preset)
    recipe = find_cell(table, row, column).recipe
    reading, curves = read_stored(store, recipe, seed, amount)
    one, crystal = stored(store, recipe, amount), None
    if recipe.crystallized:
        (crystal,) = [found for found in one.record.scores["crystals"] if found["seed"] == seed]
    chose = len(trained(recipe, store, amount, SEARCHES)) > 1
    return reading, curves, crystal, form_of(one.recipe) if chose else None


def _check_drawing() -> None:
    """A missing matplotlib shows now, and not after the reading."""
    from gnpool.report.figures import new_figure

    new_figure(1.0, 1.0)
