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
            help="A folder of 'gnpool fit' (its learned GNP is read), a saved model, or a folder of 'gnpool "
            "reproduce'.",
        ),
    ],
    table: Annotated[
        str | None, typer.Option("--table", "-t", help="The table of the model, in a folder of 'gnpool reproduce'.")
    ] = None,
    row: Annotated[str, typer.Option(help="The row of the model; GNP* shows its exact poolings.")] = "GNP",
    column: Annotated[
        str | None, typer.Option(help="The column of the model.  [default: the first one of the row]")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the run.")] = 0,
    preset: Annotated[PresetName, typer.Option(help="The preset of the training.")] = "paper",
    figure: Annotated[
        Path | None, typer.Option(help="Draw the plane of poolings into this file (.png, .svg, .pdf).")
    ] = None,
    json: Json = False,
) -> None:
    """Say which pooling a trained model has learned.

    MODEL may be a folder with model.json and model.safetensors. Its exponents are then compared with the named poolings
    in the plane of p and the growth. MODEL may also be a folder that 'gnpool reproduce' wrote; --table and --row choose
    the model in it. The poolings are then compared on its validation data, value by value, and a figure shows the path
    of training.
    """
    learned = model / "learned"  # in a folder of 'gnpool fit'
    if (model / "fit.json").exists() and learned.is_dir():
        model = learned
    from gnpool.models.saved import is_saved_model

    saved = is_saved_model(model)
    if saved and table is not None:
        raise typer.BadParameter(
            "this option is for folders of 'gnpool reproduce', and MODEL is a saved model", param_hint="'--table'"
        )
    if not saved and table is None:
        known = (model / "units").is_dir()
        hint = "name a table of these results" if known else f"{model} holds neither a model.json nor results"
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
                    "the poolings of this model are exact, so there is nothing to draw", param_hint="'--figure'"
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
        say(f"Of the two forms of the network, validation chose {form!r}.")
    if not reading.with_data:
        say("Distances are those in the plane of p and the growth, since a saved model comes without data.")
    if crystal is not None:
        say(f"Crystallized to {crystal['text']}: {crystal['reason']}.")
    if figure is not None:
        say(f"wrote {figure}")


def _show_exact(poolings: dict[str, str], json: bool) -> None:
    if json:
        show_json({"exact": poolings})
        return
    say("This model has no learned pooling; its poolings are exact:")
    for path, name in poolings.items():
        say(f"  {path}: {name}")


def _read_cell(
    folder: Path, table: str, row: str, column: str | None, seed: int, preset: str
) -> tuple[Reading, Curves, dict[str, Any] | None, str | None]:
    from gnpool.lab import get_preset
    from gnpool.lab.recipes.forms import form_of, trained
    from gnpool.lab.recipes.stored import read_stored, stored
    from gnpool.lab.registry import find_table
    from gnpool.lab.table import SEARCHES
    from gnpool.store import Store

    store, amount = Store(folder, create=False), get_preset(preset)
    recipe = find_table(table).model_cell(row, column).recipe
    reading, curves = read_stored(store, recipe, seed, amount)
    one, crystal = stored(store, recipe, amount), None
    if recipe.crystallized:
        (crystal,) = [found for found in one.record.scores["crystals"] if found["seed"] == seed]
    chose = len(trained(recipe, store, amount, SEARCHES)) > 1
    return reading, curves, crystal, form_of(one.recipe) if chose else None


def _check_drawing() -> None:
    """Raise an error now, and not after the reading, if matplotlib is missing."""
    from gnpool.report.figures import new_figure

    new_figure(1.0, 1.0)
