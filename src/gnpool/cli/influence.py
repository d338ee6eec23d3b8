"""``gnpool influence`` simulates cascades, chooses seeds, and trains an estimator."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gnpool.cli.commands import Command
from gnpool.cli.inputs import Address, DeviceName, EngineName, Json, Seed, output_file, progress
from gnpool.cli.output import say, show_json, show_table

if TYPE_CHECKING:
    from gnpool.data import EdgeList
    from gnpool.influence import CascadeGraph

SHOWN = 20  # most seeds or nodes in a printed list
CHECKED = 10_000  # simulations that measure the chosen seeds

app = typer.Typer(
    name="influence",
    help="Estimate how far things spread in a graph, and choose seeds.",
    epilog="GRAPH has lines 'source target probability', plain or gzipped; 'simulate --help' describes the format.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
GraphFile = Annotated[
    Path, typer.Argument(metavar="GRAPH", exists=True, dir_okay=False, help="Lines 'source target probability'.")
]
Duplicates = Annotated[
    Literal["error", "combine"],
    typer.Option(help="Treat a repeated edge as an error, or combine both to probability 1 - (1 - p)(1 - p')."),
]


@app.command(cls=Command, epilog="Example: gnpool influence simulate graph.txt --seeds seeds.txt --runs 100000")
def simulate(
    graph: GraphFile,
    seeds: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="File with one seed per line.")],
    runs: Annotated[int, typer.Option(min=1, help="Number of cascades.")] = 10_000,
    seed: Seed = 0,
    duplicates: Duplicates = "error",
    device: DeviceName = "auto",
    engine: EngineName = "local",
    address: Address = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="CSV file for the probability of each node to become active.")
    ] = None,
    json: Json = False,
) -> None:
    """Estimate how many nodes the seeds activate.

    In the independent cascade model, a node that becomes active tries once to activate each of its out-neighbours, and
    succeeds with the probability of the edge. The graph is a file of lines 'source target probability', separated by
    blanks, tabs or commas, plain or gzipped. Empty lines, lines that begin with #, % or //, and edges from a node to
    itself are left out. After a first line 'nodes edges', nodes are numbers from 0; otherwise they may have any names.
    """
    from gnpool.engine import open_engine
    from gnpool.influence import simulate as run
    from gnpool.store.files import write

    place = None if out is None else output_file(out)
    edges, network = read_graph(graph, duplicates)
    chosen = read_seeds(seeds, edges)
    with _bar("cascades") as tell, open_engine(engine, address, device=device) as where:
        began = time.monotonic()
        found = run(
            network,
            [chosen],
            runs,
            seed=seed,
            record=out is not None,
            device=where.device,
            progress=tell,
            engine=where,
        )
        seconds = time.monotonic() - began
    mean, error = float(found.influence[0]), float(found.standard_error[0])
    if json:
        result = {**_about(edges, network), "seeds": len(chosen), "runs": runs, "influence": mean}
        show_json({**result, "standard_error": None if error != error else error})
    else:
        say(f"{_describe(edges, network)}; {len(chosen)} seeds, {runs:,} cascades in {seconds:.2f} s")
        say(f"influence {mean:.2f}, standard error {error:.2f}")
    if place is not None:
        from gnpool.fit.predict import as_csv

        rows = list(zip(_names(edges), found.probability[0].tolist(), strict=True))
        write(place, as_csv(["node", "probability"], rows).encode())
        if not json:
            say(f"wrote {out}")


@app.command(cls=Command, epilog="Example: gnpool influence maximize graph.txt -k 50 --method celf-mc --out seeds.txt")
def maximize(
    graph: GraphFile,
    k: Annotated[int, typer.Option("-k", min=1, help="How many seeds to choose.")] = 100,
    model: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Choose with this model, which 'influence train' wrote."),
    ] = None,
    method: Annotated[
        Literal["celf-mc", "degree", "random"] | None,
        typer.Option(help="Choose without a model; celf-mc is greedy with simulations.  [default: celf-mc]"),
    ] = None,
    sample: Annotated[int, typer.Option(min=1, help="Number of cascades for each estimate of celf-mc.")] = 1000,
    runs: Annotated[int, typer.Option(min=1, help="Number of cascades that measure the chosen seeds.")] = CHECKED,
    seed: Seed = 0,
    duplicates: Duplicates = "error",
    device: DeviceName = "auto",
    engine: EngineName = "local",
    address: Address = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File for the seeds, one per line, best first.")
    ] = None,
    json: Json = False,
) -> None:
    """Choose the seeds that activate the most nodes.

    Seeds are chosen greedily, one after another. CELF avoids looking at all nodes each time. If the probabilities are
    small, an upper bound of the influence also saves most of the first look (UBLF). A model estimates many candidates
    at once.
    """
    from gnpool.engine import open_engine
    from gnpool.influence import choose_seeds, load_monstor
    from gnpool.influence import simulate as run
    from gnpool.store.files import write

    if model is not None and method is not None:
        raise typer.BadParameter("give --model or --method, not both", param_hint="'--model'")
    place = None if out is None else output_file(out)
    edges, network = read_graph(graph, duplicates)
    saved = None if model is None else load_monstor(model)
    with _bar("seeds") as tell, open_engine(engine, address, device=device) as where:
        began = time.monotonic()
        found = choose_seeds(
            network,
            k,
            model=None if saved is None else (saved.model, saved.stacked),
            method=method or "celf-mc",
            sample=sample,
            seed=seed,
            device=where.here,
            progress=tell,
        )
        seconds = time.monotonic() - began
        spread = run(network, [found.seeds], runs, seed=seed + 1, device=where.device, engine=where)
    mean, error = float(spread.influence[0]), float(spread.standard_error[0])
    names = [edges.name(node) for node in found.seeds]
    way = f"model {model}" if model is not None else method or "celf-mc"
    if json:
        result = {**_about(edges, network), "method": way, "seeds": names, "gains": found.gains, "influence": mean}
        result |= {"standard_error": None if error != error else error, "runs": runs, "seconds": seconds}
        show_json({**result, "evaluations": found.evaluations, "above_bound": found.violations})
    else:
        say(f"{_describe(edges, network)}; {k} seeds by {way} in {seconds:.2f} s, {found.evaluations:,} estimates")
        say(f"influence {mean:.2f}, standard error {error:.2f}, {runs:,} cascades")
    if place is not None:
        try:
            write(place, "".join(f"{name}\n" for name in names).encode())
        except OSError:
            if not json:
                say(f"seeds: {', '.join(names)}")  # the file could not be written
            raise
        if not json:
            say(f"wrote {out}")
    elif not json:
        more = f" and {len(names) - SHOWN} more; --out writes them all" if len(names) > SHOWN else ""
        say(f"seeds: {', '.join(names[:SHOWN])}{more}")


@app.command(
    cls=Command, epilog="Example: gnpool influence train a.txt b.txt --out model.safetensors --sets 100 --epochs 50"
)
def train(
    graphs: Annotated[
        list[Path], typer.Argument(metavar="GRAPH...", exists=True, dir_okay=False, help="The graphs to learn from.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="File for the model.")],
    aggr: Annotated[
        Literal["gnp", "gnp+", "max", "sum", "mean", "min"], typer.Option(help="How a node pools its neighbours.")
    ] = "gnp",
    sets: Annotated[
        int,
        typer.Option(min=2, help="Seed sets of each of the two kinds on each graph; the paper has 2000."),
    ] = 50,
    simulations: Annotated[
        int, typer.Option(min=1, max=32_767, help="Cascades from each seed set; the paper has 10000.")
    ] = 1000,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of training; the paper has 100.")] = 30,
    seed: Seed = 0,
    duplicates: Duplicates = "error",
    device: DeviceName = "auto",
    engine: EngineName = "local",
    address: Address = None,
    cache: Annotated[
        Path | None,
        typer.Option(help="Keep simulations and state in this folder, so that an interrupted training can resume."),
    ] = None,
    json: Json = False,
) -> None:
    """Train MONSTOR, which estimates the influence of seeds.

    The model works on graphs that it has not seen. The command simulates cascades from random seed sets on each graph,
    and learns to predict a step from the steps before. Held-out seed sets choose the epoch, and how often the model is
    applied, by the error of the influence.
    """
    from gnpool.engine import open_engine
    from gnpool.influence import Part, fit_monstor, make_labels, save_monstor

    place = output_file(out)
    parts = []
    with open_engine(engine, address, device=device) as where:
        here = where.here
        for path in graphs:
            _, network = read_graph(path, duplicates)
            with _bar(f"simulating {path.name}") as tell:
                labels = make_labels(
                    network,
                    sets=sets,
                    runs=simulations,
                    seed=seed,
                    device=where.device,
                    folder=cache,
                    progress=tell,
                    engine=where,
                )
            parts.append(Part.split(str(path), "all", network, labels))
    with _bar("epochs") as tell:
        found = fit_monstor(
            parts,
            aggr,
            seed=seed,
            epochs=epochs,
            device=here,
            checkpoint=cache,
            progress=lambda epoch, total, error: tell(epoch, total),
        )["all"]
    about = {"graphs": [str(path) for path in graphs], "sets": sets, "simulations": simulations, "epochs": epochs}
    about |= {"seed": seed, "epoch": found.epoch, "validation_error": found.error, "relative_error": found.relative}
    save_monstor(place, found.model, found.stacked, about)
    if json:
        show_json({**about, "aggr": aggr, "stacked": found.stacked, "out": str(out)})
        return
    show_table(
        "Error of the influence on held-out seed sets",
        ["model", "root mean square", "of the influence", "epoch", "applied"],
        [
            [
                aggr,
                f"{found.error:.2f} nodes",
                f"{found.relative:.1%}",
                f"{found.epoch} of {epochs}",
                f"{found.stacked} x",
            ]
        ],
    )
    say(f"wrote {out}; to choose seeds with it: gnpool influence maximize GRAPH --model {out}")


def read_graph(path: Path, duplicates: str) -> tuple[EdgeList, CascadeGraph]:
    """The edges of a file, and the graph that is simulated."""
    from gnpool.data import DataError, read_edge_list
    from gnpool.influence import CascadeGraph

    edges = read_edge_list(path, duplicates=duplicates)
    if edges.nodes == 0:
        raise DataError("the graph has no nodes", file=str(path))
    return edges, CascadeGraph.from_edge_list(edges)


def read_seeds(path: Path, edges: EdgeList) -> list[int]:
    """The nodes that a file names, one per line; # begins a comment."""
    from gnpool.data import DataError
    from gnpool.store.regular import read_regular

    try:
        text = read_regular(path).decode()
    except UnicodeDecodeError as error:
        raise DataError(f"it is not UTF-8 text ({error.reason})", file=str(path)) from error
    names: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        name = line.strip().rstrip(",").strip('"')
        if name and not name.startswith("#"):
            names.setdefault(name, number)
    if not names:
        raise DataError("the file has no seeds; write one per line", file=str(path))
    try:
        return edges.numbers(list(names))
    except ValueError as error:
        known = set(_names(edges))
        wrong = next(name for name in names if name not in known)
        raise DataError(str(error), file=str(path), line=names[wrong]) from None


def _names(edges: EdgeList) -> list[str]:
    return [str(node) for node in range(edges.nodes)] if edges.names is None else edges.names


def _about(edges: EdgeList, network: CascadeGraph) -> dict[str, Any]:
    counts = {"nodes": network.nodes, "edges": network.edges, "self_loops": edges.self_loops}
    return {**counts, "combined": edges.combined}


def _describe(edges: EdgeList, network: CascadeGraph) -> str:
    text = f"{network.nodes:,} nodes, {network.edges:,} edges"
    if edges.self_loops:
        text += f" ({edges.self_loops:,} from a node to itself left out)"
    return text + (f" ({edges.combined:,} repeated ones combined)" if edges.combined else "")


@contextmanager
def _bar(description: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on stderr; its function takes the amount done and the total."""
    with progress() as show:
        yield lambda done, total: show(f"{description}: {done:,} of {total:,}", done / max(total, 1))
