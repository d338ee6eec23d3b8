"""``gnpool fit``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from gnpool.cli.inputs import Address, EngineName, bad_input, before_writing, progress
from gnpool.cli.output import say, show_json, show_table

EPILOG = "Example: gnpool fit my-graphs --out my-fit"
LevelName = Literal["graph", "node"]
MetricName = Literal["error", "mae", "r2", "accuracy", "balanced-accuracy", "mcc", "roc-auc"]
DeviceName = Literal["auto", "cpu", "cuda"]


def fit(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A folder or zip of graphs.csv, nodes.csv, edges.csv (or .parquet; sets have no edges), a folder or "
            "zip with a TUDataset, a .pt list of PyG's Data, or package.module:function.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the model, fit.json and the picture.")],
    target: Annotated[LevelName, typer.Option(help="Whether graphs or nodes have a target.")] = "graph",
    task: Annotated[
        Literal["regression", "classification"] | None,
        typer.Option(help="What to do.  [default: seen from the target]"),
    ] = None,
    split: Annotated[Literal["size", "random"], typer.Option(help="Test on the largest graphs, or on any.")] = "size",
    train_up_to: Annotated[
        int | None, typer.Option(min=1, help="Train on graphs of at most so many nodes.  [default: from the data]")
    ] = None,
    test_from: Annotated[
        int | None, typer.Option(min=1, help="Test on graphs of at least so many nodes.  [default: all larger ones]")
    ] = None,
    part: Annotated[
        str | None,
        typer.Option(help="Column that says train, validation or test for each graph or node; it is the split."),
    ] = None,
    y: Annotated[
        list[str] | None, typer.Option(help="Column with the target; repeat it for several targets.  [default: y]")
    ] = None,
    metric: Annotated[MetricName, typer.Option(help="What is reported first; fit.json has all of them.")] = "error",
    class_weights: Annotated[
        Literal["balanced"] | None,
        typer.Option(help="Let all classes count alike in training.  [default: as they are]"),
    ] = None,
    categorical: Annotated[
        list[str] | None, typer.Option(help="Column whose numbers are categories; repeat it.")
    ] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="Column to leave out; repeat it.")] = None,
    directed: Annotated[bool, typer.Option("--directed", help="Edges of the tables go one way.")] = False,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Length of each training.  [default: from the number of graphs]")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Networks of each kind.  [default: 3, or 1 for much data]")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Another number, another split and other networks.")] = 0,
    dropout: Annotated[float, typer.Option(min=0.0, max=0.99, help="Dropout of the deeper networks.")] = 0.0,
    weight_decay: Annotated[float, typer.Option(min=0.0, help="L2 penalty of all weights.")] = 0.0,
    device: Annotated[DeviceName, typer.Option(help="Where to train; auto is a GPU if there is one.")] = "auto",
    engine: EngineName = "local",
    address: Address = None,
    cache: Annotated[
        Path | None, typer.Option(help="Folder that keeps what is trained, so that it can be interrupted.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a fit of other data in --out.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print what fit.json holds.")] = False,
) -> None:
    """Find the law or the pooling behind your own data, and a model that keeps working on larger graphs.

    Looks for a formula, trains GNP beside the fixed poolings on the smaller graphs, replaces what GNP learned by exact
    poolings where validation agrees, and tests on the largest graphs. Nothing is written before all is done, except to
    --cache.
    """
    if address is not None and engine != "ray":
        raise typer.BadParameter("it is that of a Ray cluster; use it with --engine ray", param_hint="'--address'")
    with bad_input(), before_writing(out):
        _check_out(out)
        if engine == "local":
            device = choose_device(device)
        from gnpool.data import read_graphs
        from gnpool.engine import open_engine
        from gnpool.fit import Options, answer, run_study
        from gnpool.fit.result import check_same_data, write_result

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
            check_same_data(out, table, force)
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
    with bad_input():
        result = write_result(out, study, found)
    if json:
        show_json(result)
    else:
        _show(result, study, out)


def choose_device(name: DeviceName) -> DeviceName:
    """``auto`` is a GPU if there is one."""
    from gnpool.engine import choose_device as choose

    try:
        return "cuda" if choose(name).type == "cuda" else "cpu"
    except ValueError:
        raise typer.BadParameter("torch finds no GPU here; use cpu", param_hint="'--device'") from None


def _check_out(out: Path) -> None:
    from gnpool.fit.result import check_out

    check_out(out)


def _show(result: dict[str, Any], study: Any, out: Path) -> None:
    from gnpool.fit import histogram
    from gnpool.fit.answer import size_range
    from gnpool.fit.measures import METRICS, percent
    from gnpool.fit.result import table_rows

    problem, data = result["problem"], result["data"]
    kind = "sets" if data["edges"] is None else "graphs"
    what = f"{problem['task']} of {problem['level']}s, {problem['reason']}"
    say(f"{data['graphs']:,} {kind}, {data['nodes']:,} nodes: {what}.")
    for line in data["columns"]:
        say(f"  {line}")
    say(histogram(study.split))
    say(
        f"Network: {result['network']['chosen']}. {result['meta']['epochs']} epochs, {result['meta']['seconds']:.0f} s."
    )
    metric = METRICS[result["metric"]]
    head = ["poolings", "validation loss"]
    head += [f"{metric.words}, {size_range(study, part)} {study.split.measure}" for part in ("inside", "larger")]
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
