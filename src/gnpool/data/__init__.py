"""Readers for the formats users have, with errors that name the line."""

from gnpool.data.edge_list import EdgeList, EdgeListError, parse_edge_list, read_edge_list
from gnpool.data.errors import DataError
from gnpool.data.networkx_list import from_networkx
from gnpool.data.pyg_list import from_list
from gnpool.data.read import read_graphs
from gnpool.data.table import Column, GraphTable

__all__ = [
    "Column",
    "DataError",
    "EdgeList",
    "EdgeListError",
    "GraphTable",
    "from_list",
    "from_networkx",
    "parse_edge_list",
    "read_edge_list",
    "read_graphs",
]
