"""Turns features of edges into features of nodes: their sums over the edges into each node."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gnpool.data import Column, GraphTable
from gnpool.data.table import Floats, Ints


def with_edge_sums(table: GraphTable) -> GraphTable:
    """The table with a column ``edges.NAME`` of the nodes for each feature of the edges.

    It holds the sum over the edges into the node. For categories there is a column ``edges.NAME=CATEGORY`` for each,
    which counts the edges. Missing values count as 0. With these columns formulas can use the features of edges.
    """
    if table.edge_index is None or not table.edge_attr:
        return table
    target, nodes = table.edge_index[1], int(table.sizes.sum())
    found: list[Column] = []
    for column in table.edge_attr:
        if column.categories is None:
            found.append(Column(f"edges.{column.name}", _sums(target, np.nan_to_num(column.values), nodes)))
        else:
            found += [
                Column(f"edges.{column.name}={name}", _sums(target, (column.values == code).astype(np.float64), nodes))
                for code, name in enumerate(column.categories)
            ]
    return replace(table, features=(*table.features, *found))


def _sums(target: Ints, values: Floats, nodes: int) -> Floats:
    found: Floats = np.bincount(target, weights=values, minlength=nodes).astype(np.float64)
    return found
