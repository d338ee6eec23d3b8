"""The Delaunay triangulation of points in the plane, point by point (Bowyer and Watson), compiled by Numba."""

from __future__ import annotations

import numba
import numpy as np

from gnpool.tasks.streams import Floats, Ints


def delaunay_edges(points: Floats) -> Ints:
    """(E, 2) edges of the triangulation of (n, 2) points in general position, n at least 3, each edge once.

    The first number of an edge is the smaller one.
    """
    triangles = _triangulate(np.ascontiguousarray(points, dtype=np.float64))
    nodes = len(points)
    ends = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]])
    ends = ends[(ends < nodes).all(axis=1)]
    keys = np.unique(ends.min(axis=1) * nodes + ends.max(axis=1))
    return np.stack((keys // nodes, keys % nodes), axis=1)


@numba.njit(cache=True)
def _left(points, a, b, c):  # type: ignore[no-untyped-def]
    """Twice the area of the triangle a, b, c; it is positive if c lies to the left of the line from a to b."""
    return (points[b, 0] - points[a, 0]) * (points[c, 1] - points[a, 1]) - (points[b, 1] - points[a, 1]) * (
        points[c, 0] - points[a, 0]
    )


@numba.njit(cache=True)
def _conflicts(points, triangle, p):  # type: ignore[no-untyped-def]
    """Whether point p lies within the circle through a triangle. Node n is at infinity: its circles are half planes."""
    nodes = len(points)
    for k in range(3):
        if triangle[k] == nodes:
            return _left(points, triangle[(k + 1) % 3], triangle[(k + 2) % 3], p) > 0.0
    lift = np.empty((3, 3))
    for k in range(3):
        lift[k, 0] = points[triangle[k], 0] - points[p, 0]
        lift[k, 1] = points[triangle[k], 1] - points[p, 1]
        lift[k, 2] = lift[k, 0] ** 2 + lift[k, 1] ** 2
    determinant = (
        lift[0, 0] * (lift[1, 1] * lift[2, 2] - lift[1, 2] * lift[2, 1])
        - lift[0, 1] * (lift[1, 0] * lift[2, 2] - lift[1, 2] * lift[2, 0])
        + lift[0, 2] * (lift[1, 0] * lift[2, 1] - lift[1, 1] * lift[2, 0])
    )
    return determinant > 0.0


@numba.njit(cache=True)
def _locate(points, triangles, beside, start, p):  # type: ignore[no-untyped-def]
    """A triangle that conflicts with p, found by walking towards it."""
    nodes, here = len(points), start
    moving = True
    while moving:
        moving = False
        for k in range(3):
            a, b = triangles[here, (k + 1) % 3], triangles[here, (k + 2) % 3]
            if a < nodes and b < nodes and triangles[here, k] < nodes and _left(points, a, b, p) < 0.0:
                here = beside[here, k]
                moving = True
                break
    return here


@numba.njit(cache=True)
def _triangulate(points):  # type: ignore[no-untyped-def]
    """(T, 3) all triangles counterclockwise, also those of two points of the hull and node n at infinity.

    ``beside[t, k]`` is the triangle across the edge of t that lies opposite its corner k.
    """
    nodes = len(points)
    triangles = np.empty((2 * nodes - 2, 3), dtype=np.int64)
    beside = np.empty((2 * nodes - 2, 3), dtype=np.int64)
    first = (0, 1, 2) if _left(points, 0, 1, 2) > 0.0 else (0, 2, 1)
    for k in range(3):
        triangles[0, k] = first[k]
        beside[0, k] = k + 1
        triangles[k + 1] = (first[(k + 2) % 3], first[(k + 1) % 3], nodes)  # across the edge opposite corner k
        beside[k + 1] = ((k + 2) % 3 + 1, (k + 1) % 3 + 1, 0)
    count, last = 4, 0
    leads_from, leads_to = np.empty(nodes + 1, dtype=np.int64), np.empty(nodes + 1, dtype=np.int64)
    in_cavity = np.zeros(2 * nodes - 2, dtype=np.bool_)
    cavity = np.empty(2 * nodes - 2, dtype=np.int64)
    rim = np.empty((2 * nodes, 4), dtype=np.int64)  # edge u, v, the triangle outside and its corner there
    for p in range(3, nodes):
        cavity[0] = _locate(points, triangles, beside, last, p)
        in_cavity[cavity[0]] = True
        size, done, edges = 1, 0, 0
        while done < size:
            here = cavity[done]
            done += 1
            for k in range(3):
                other = beside[here, k]
                if in_cavity[other]:
                    continue
                if _conflicts(points, triangles[other], p):
                    in_cavity[other] = True
                    cavity[size] = other
                    size += 1
        for place in range(size):
            here = cavity[place]
            for k in range(3):
                other = beside[here, k]
                if not in_cavity[other]:
                    rim[edges, 0], rim[edges, 1] = triangles[here, (k + 1) % 3], triangles[here, (k + 2) % 3]
                    rim[edges, 2], rim[edges, 3] = other, 0
                    for j in range(3):
                        if beside[other, j] == here:
                            rim[edges, 3] = j
                    edges += 1
        for place in range(size):
            in_cavity[cavity[place]] = False
        for edge in range(edges):  # one new triangle for each; two more than went
            new = cavity[edge] if edge < size else count + edge - size
            triangles[new] = (rim[edge, 0], rim[edge, 1], p)
            beside[new, 2] = rim[edge, 2]
            leads_from[rim[edge, 0]], leads_to[rim[edge, 1]] = new, new
        for edge in range(edges):
            new = cavity[edge] if edge < size else count + edge - size
            beside[rim[edge, 2], rim[edge, 3]] = new
            beside[new, 0], beside[new, 1] = leads_from[rim[edge, 1]], leads_to[rim[edge, 0]]
            if rim[edge, 0] < nodes and rim[edge, 1] < nodes:
                last = new
        count += edges - size
    return triangles[:count]
