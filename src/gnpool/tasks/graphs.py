"""Graphs as sorted edge lists, and the distances in them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gnpool.tasks.streams import Floats, Ints


@dataclass(frozen=True, eq=False)
class Graph:
    r"""An undirected graph.

    Args:
        nodes (int): The number n of nodes.
        edges (ndarray): (2, E) sources and destinations; both directions of every edge, sorted by destination, then by
            source.

    Example:
        >>> import numpy as np
        >>> from gnpool.tasks import Graph
        >>> path = Graph.from_pairs(3, np.array([0, 1]), np.array([1, 2]))
        >>> path.degree.tolist(), path.hops(0).tolist(), path.is_connected()
        ([1, 2, 1], [0, 1, 2], True)
    """

    nodes: int
    edges: Ints

    @classmethod
    def from_pairs(cls, nodes: int, first: Ints, second: Ints) -> Graph:
        """The graph whose edges join ``first[k]`` and ``second[k]``; each edge is given once."""
        keys = np.concatenate((first * nodes + second, second * nodes + first))
        return cls._from_keys(nodes, keys)

    @classmethod
    def _from_keys(cls, nodes: int, keys: Ints) -> Graph:
        keys.sort()
        destination = keys // nodes
        return cls(nodes, np.stack((keys - destination * nodes, destination)))

    @cached_property
    def degree(self) -> Ints:
        """(n,) number of edges that arrive at each node."""
        return np.bincount(self.edges[1], minlength=self.nodes)

    @cached_property
    def starts(self) -> Ints:
        """(n + 1,) edges ``starts[v]`` to ``starts[v + 1] - 1`` arrive at node v."""
        return np.concatenate(([0], np.cumsum(self.degree)))

    def with_self_loops(self) -> Graph:
        """The same graph with one self-loop on every node."""
        loops = np.arange(self.nodes) * (self.nodes + 1)
        return self._from_keys(self.nodes, np.concatenate((self.edges[1] * self.nodes + self.edges[0], loops)))

    def is_connected(self) -> bool:
        """Whether a path joins any two nodes."""
        if self.nodes < 2:
            return True
        if self.degree.min() == 0:
            return False
        reached = np.zeros(self.nodes, dtype=bool)
        reached[0] = True
        while not reached.all():
            before = reached
            reached = before | np.logical_or.reduceat(before[self.edges[0]], self.starts[:-1])
            if np.array_equal(reached, before):
                return False
        return True

    def hops(self, source: int, limit: int | None = None) -> Ints:
        """(n,) number of edges of the shortest path from ``source``; -1 if there is none of at most ``limit``."""
        hops = np.full(self.nodes, -1)
        hops[source] = 0
        frontier, distance = np.array([source]), 0
        while frontier.size and distance != limit:
            distance += 1
            first, length = self.starts[frontier], self.degree[frontier]
            # The edges of all frontier nodes, one range after the other.
            offset = np.repeat(first - np.concatenate(([0], np.cumsum(length)[:-1])), length)
            # the graph is undirected, so sources are neighbours too
            reached = self.edges[0, offset + np.arange(offset.size)]
            hops[reached[hops[reached] < 0]] = distance
            frontier = np.flatnonzero(hops == distance)
        return hops

    def distances(self, source: int, lengths: Floats, limit: int | None = None) -> Floats:
        """(n,) length of the shortest path from ``source`` by rounds of Bellman and Ford; inf if there is none.

        Every node needs a self-loop of length 0.

        Args:
            source (int): The node where all paths start.
            lengths (ndarray): (E,) non-negative length of each edge.
            limit (int, optional): Only paths of at most this many edges count. (default: ``None``, all)
        """
        distance = np.full(self.nodes, np.inf)
        distance[source] = 0.0
        for _ in range(self.nodes if limit is None else limit):
            before = distance
            distance = np.minimum.reduceat(before[self.edges[0]] + lengths, self.starts[:-1])
            if np.array_equal(distance, before):
                break
        return distance
