"""``gnpool fit``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from gnpool.cli.inputs import (
    Address,
    Categorical,
    DeviceName,
    Directed,
    EngineName,
    Ignore,
    Json,
    Seed,
    before_writing,
    progress,
)
from gnpool.cli.output import say, show_json, show_table

EPILOG = "Example: gnpool fit my-graphs --out my-fit"
LevelName = Literal["graph", "node"]
MetricName = Literal["error", "mae", "r2", "accuracy", "balanced-accuracy", "mcc", "roc-auc"]


def fit(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A folder or zip of graphs.csv, nodes.csv, edges.csv (or .parquet; sets have no edges), a folder or "
            "zip with a TUDataset, a .pt list of PyG's Data, or package.module:function.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the model, fit.json and the picture.")],
    force: Annotated[bool, typer.Option("--force", help="Replace a fit of other data that is in --out.")] = False,
    target: Annotated[LevelName, typer.Option(help="Predict targets of graphs or of nodes.")] = "graph",
    task: Annotated[
        Literal["regression", "classification"] | None,
        typer.Option(help="Predict numbers or classes.  [default: decided by the target]"),
    ] = None,
    split: Annotated[Literal["size", "random"], typer.Option(help="Test on the largest graphs, or on any.")] = "size",
    train_up_to: Annotated[
        int | None, typer.Option(min=1, help="Train on graphs with at most this many nodes.  [default: from the data]")
    ] = None,
    test_from: Annotated[
        int | None,
        typer.Option(min=1, help="Test on graphs with at least this many nodes.  [default: all larger ones]"),
    ] = None,
    part: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Split by this column, which says train, validation or test for each graph or node."
        ),
    ] = None,
    y: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="The column with the target. Repeat it for several targets.  [default: y]"),
    ] = None,
    metric: Annotated[MetricName, typer.Option(help="Report this measure first; fit.json has all of them.")] = "error",
    class_weights: Annotated[
        Literal["balanced"] | None,
        typer.Option(help="Make all classes count alike in training.  [default: no weights]"),
    ] = None,
    categorical: Categorical = None,
    ignore: Ignore = None,
    directed: Directed = False,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Number of epochs of each training.  [default: from the number of graphs]")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Number of networks of each kind.  [default: 3, or 1 for large data]")
    ] = None,
    seed: Seed = 0,
    dropout: Annotated[float, typer.Option(min=0.0, max=0.99, help="Dropout of the deeper networks.")] = 0.0,
    weight_decay: Annotated[float, typer.Option(min=0.0, help="L2 penalty of all weights.")] = 0.0,
    device: DeviceName = "auto",
    engine: EngineName = "local",
    address: Address = None,
    cache: Annotated[
        Path | None, typer.Option(help="Keep trained networks in this folder, so that an interrupted fit can resume.")
    ] = None,
    json: Json = False,
) -> None:
    """Find the law or the pooling behind your own data.

    The saved model should keep working on larger graphs. The command searches for a formula, trains GNP beside the
    fixed poolings on the smaller graphs, replaces learned poolings by exact ones if validation agrees, and tests on the
    largest graphs. It writes nothing before it has finished, except to --cache.
    """
    if address is not None and engine != "ray":
        raise typer.BadParameter("this is the address of a Ray cluster; add --engine ray", param_hint="'--address'")
    with before_writing(out):
        from gnpool.fit.result import check_out, check_same_data, write_result

        check_out(out)
        from gnpool.data import read_graphs
        from gnpool.engine import choose_device, open_engine
        from gnpool.fit import Options, answer, run_study

        if engine == "local":
            choose_device(device)
        with progress() as show:
            show("reading", 0.0)
            table = read_graphs(
                data,
                target,
                y=y or ["y"],
                directed=directed,
                categorical=categorical or (),
                ignore=ignore or (),
                part=part,
            )
            if not force:
                check_same_data(out, table)
            with open_engine(engine, address, device=device) as where:
                options = Options(
                    task=task,
                    split=split,
                    epochs=epochs,
                    seeds=seeds,
                    seed=seed,
                    device=where.device.type,
                    metric=metric,
                    class_weights=class_weights,
                    train_up_to=train_up_to,
                    test_from=test_from,
                    dropout=dropout,
                    weight_decay=weight_decay,
                )
                study = run_study(table, options, show, engine=where, checkpoint=cache)
        found = answer(study)
    result = write_result(out, study, found)
    if json:
        show_json(result)
    else:
        _show(result, study, out)


def _show(result: dict[str, Any], study: Any, out: Path) -> None:
    from gnpool.display.measures import METRICS, percent
    from gnpool.fit import histogram
    from gnpool.fit.answer import size_range
    from gnpool.fit.result import table_rows
    from gnpool.fit.words import between, counted

    problem, data = result["problem"], result["data"]
    kind = "set" if data["edges"] is None else "graph"
    what = f"{problem['task']} of {problem['level']}s, {problem['reason']}"
    say(f"{counted(data['graphs'], kind)}, {counted(data['nodes'], 'node')}: {what}.")
    for line in data["columns"]:
        say(f"  {line}")
    say(histogram(study.split))
    epochs, seconds = counted(result["meta"]["epochs"], "epoch"), result["meta"]["seconds"]
    say(f"Network: {result['network']['chosen']}. {epochs}, {seconds:.0f} s.")
    metric, thing = METRICS[result["metric"]], study.split.measure.removesuffix("s")
    head = ["poolings", "validation loss"]
    head += [f"{metric.words}, {between(*size_range(study, part), thing)}" for part in ("inside", "larger")]
    title = "Tests; the validation loss chooses"
    if metric.key == "error":
        regression = problem["task"] == "regression"
        title = "Errors are relative, in percent" if regression else "Errors: share of wrong classes"
    show_table(title, head, table_rows(result))
    if result["class_shares"]:
        rows = [
            [name, *(percent(shares[name]) for shares in result["class_shares"].values())]
            for name in problem["classes"]
        ]
        show_table("Share of each class", ["class", *result["class_shares"]], rows)
    for note in result["notes"]:
        say(f"Note: {note}")
    say(result["answer"]["text"])
    say(
        f"wrote {out}: model, learned, fit.json"
        + (", fit.png" if (out / "fit.png").exists() else "; no picture without matplotlib")
    )
