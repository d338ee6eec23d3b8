"""The graphs of MONSTOR's study, from an archive that the user has."""

from __future__ import annotations

import functools
import os
import zipfile
from pathlib import Path

import numpy as np

from gnpool.data import parse_edge_list
from gnpool.influence.graph import CascadeGraph

VARIABLE = "GNPOOL_DATA"  # a folder with monstor/graphs.zip


def graphs_zip() -> Path | None:
    """The archive of the graphs, if the user has named its folder."""
    folder = os.environ.get(VARIABLE)
    path = Path(folder) / "monstor" / "graphs.zip" if folder else None
    return path if path is not None and path.is_file() else None


@functools.lru_cache(maxsize=32)
def read_graph(name: str, split: str, probability: str, nodes: int | None = None) -> CascadeGraph:
    """A graph of MONSTOR's study, or what its busiest nodes make of it."""
    archive = graphs_zip()
    if archive is None:
        raise OSError(
            "the graphs of the influence study are not at hand; put graphs.zip, with the files graphs/*.txt of "
            f"github.com/jihoonko/asonam20-monstor, into a folder 'monstor' and set {VARIABLE} to the folder above it"
        )
    member = f"graphs/{name}_{split}_{probability}.txt"
    with zipfile.ZipFile(archive) as content:
        try:
            data = content.read(member)
        except KeyError:
            raise OSError(f"{archive}: there is no {member} in it") from None
    graph = CascadeGraph.from_edge_list(parse_edge_list(data, f"{archive}:{member}"))
    if nodes is None or nodes >= graph.nodes:
        return graph
    degree = graph.out_degree + np.diff(graph.in_ptr)
    place = np.full(graph.nodes, -1)
    place[np.argsort(-degree, kind="stable")[:nodes]] = np.arange(nodes)
    source, target = place[graph.source], place[graph.target]
    kept = (source >= 0) & (target >= 0)
    return CascadeGraph(nodes, source[kept], target[kept], graph.probability[kept])
