"""Cycles of dependency between operations: information that has gone round in a circle."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from enum import IntFlag
from itertools import pairwise
from typing import Any

from tools.chaos.evidence import Evidence
from tools.chaos.history import Key, Op, Outcome, Value

ROUTES_MAX = 64
"""Of a tangle of operations so many ways round are tried, to show a short one."""
Finding = tuple[str, dict[str, Any]]


class Edge(IntFlag):
    WW = 1
    """Wrote the value before that of the other."""
    WR = 2
    """Wrote what the other has read."""
    PROCESS = 4
    """Did it before the other, in one process."""
    REALTIME = 8
    """Was over when the other began."""


Graph = dict[int, dict[int, Edge]]


def find_cycles(evidence: Evidence) -> Iterator[Finding]:
    graph = dependencies(evidence)
    yield from _search(graph, "G0", "", Edge.WW, Edge.WW)
    yield from _search(graph, "G1c", "", Edge.WW | Edge.WR, Edge.WR)
    # Without transactions' isolation of writes ww edges may well go round; what was read may not.
    yield from _search(graph, "G1c", " (no ww)", Edge.WR, Edge.WR)


# --- the graph


def dependencies(evidence: Evidence) -> Graph:
    done = [op for op in evidence.ops if op.outcome is not Outcome.FAIL and evidence.is_done(op)]
    graph: Graph = {op.number: {} for op in done}
    edges = [(Edge.WW, _write_order(evidence)), (Edge.WR, _reads_from(evidence))]
    edges += [(Edge.PROCESS, _process_order(done)), (Edge.REALTIME, _realtime_order(done))]
    for kind, found in edges:
        for before, after in found:
            if before != after and before in graph and after in graph:
                graph[before][after] = graph[before].get(after, Edge(0)) | kind
    return graph


def _writer(evidence: Evidence, key: Key, value: Value) -> int:
    found = evidence.writers.get(key, {}).get(value)
    return found[0].number if found else -1


def _write_order(evidence: Evidence) -> Iterator[tuple[int, int]]:
    for key, log in evidence.logs.items():
        for one, two in pairwise(log.order):
            yield _writer(evidence, key, one), _writer(evidence, key, two)


def _reads_from(evidence: Evidence) -> Iterator[tuple[int, int]]:
    for op in evidence.ops:
        for key, seen in op.reads().items():
            for _, value in seen:
                yield _writer(evidence, key, value), op.number


def _process_order(ops: Iterable[Op]) -> Iterator[tuple[int, int]]:
    last: dict[int, int] = {}
    for op in ops:
        if op.process in last:
            yield last[op.process], op.number
        last[op.process] = op.number


def _realtime_order(ops: Iterable[Op]) -> Iterator[tuple[int, int]]:
    """Without what follows from other edges. Nobody knows when an unknown operation ends."""
    # At one instant beginnings come first: such operations overlap.
    moments = [(op.invoked_ns, False, op.number) for op in ops]
    moments += [(op.ended_ns, True, op.number) for op in ops if op.is_ok and op.ended_ns is not None]
    frontier: set[int] = set()
    before: dict[int, set[int]] = {}
    for _, is_end, number in sorted(moments):
        if is_end:
            frontier -= before.pop(number)
            frontier.add(number)
        else:
            before[number] = set(frontier)
            yield from ((earlier, number) for earlier in frontier)


# --- the search


def _search(graph: Graph, name: str, remark: str, kinds: Edge, needed: Edge) -> Iterator[Finding]:
    """With these edges alone, then with the order of processes, then with that of real time."""
    for suffix, more in (("", Edge(0)), ("-process", Edge.PROCESS), ("-realtime", Edge.PROCESS | Edge.REALTIME)):
        for tangle in _tangles(graph, kinds | more):
            route = _short_route(graph, tangle, kinds | more, needed)
            if route and _suffix(graph, route, kinds) == suffix:
                yield f"{name}{suffix}{remark}", _account(graph, route)


def _suffix(graph: Graph, route: list[int], kinds: Edge) -> str:
    edges = [graph[a][b] for a, b in _around(route)]
    if all(edge & kinds for edge in edges):
        return ""
    return "-process" if all(edge & (kinds | Edge.PROCESS) for edge in edges) else "-realtime"


def _around(route: list[int]) -> Iterator[tuple[int, int]]:
    return pairwise([*route, route[0]])


def _account(graph: Graph, route: list[int]) -> dict[str, Any]:
    return {"ops": route, "edges": [str(graph[a][b].name) for a, b in _around(route)]}


def _short_route(graph: Graph, tangle: set[int], kinds: Edge, needed: Edge) -> list[int]:
    """A short way round that has an edge of the kind that is needed."""
    best: list[int] = []
    starts = ((a, b) for a in sorted(tangle) for b, edge in graph[a].items() if b in tangle and edge & needed)
    for (a, b), _ in zip(starts, range(ROUTES_MAX), strict=False):
        route = _way(graph, b, a, tangle, kinds)
        if route and (not best or len(route) < len(best)):
            best = route
    return best


def _way(graph: Graph, start: int, goal: int, inside: set[int], kinds: Edge) -> list[int]:
    came_from = {start: start}
    queue = deque([start])
    while queue:
        here = queue.popleft()
        if here == goal:
            route = [here]
            while route[-1] != start:
                route.append(came_from[route[-1]])
            return route[::-1]
        for there, edge in graph[here].items():
            if edge & kinds and there in inside and there not in came_from:
                came_from[there] = here
                queue.append(there)
    return []


def _tangles(graph: Graph, kinds: Edge) -> Iterator[set[int]]:
    """Strongly connected components of more than one operation."""
    search = _Tarjan(graph, kinds)
    for root in graph:
        if root not in search.index:
            yield from search.explore(root)


class _Tarjan:
    """Without recursion: histories are longer than Python's stack."""

    def __init__(self, graph: Graph, kinds: Edge) -> None:
        self._graph = graph
        self._kinds = kinds
        self.index: dict[int, int] = {}
        self._low: dict[int, int] = {}
        self._stack: list[int] = []
        self._on_stack: set[int] = set()

    def explore(self, root: int) -> Iterator[set[int]]:
        work = [(root, self._enter(root))]
        while work:
            here, following = work[-1]
            there = next(following, None)
            if there is None:
                work.pop()
                if work:
                    parent = work[-1][0]
                    self._low[parent] = min(self._low[parent], self._low[here])
                tangle = self._leave(here)
                if len(tangle) > 1:
                    yield tangle
            elif there not in self.index:
                work.append((there, self._enter(there)))
            elif there in self._on_stack:
                self._low[here] = min(self._low[here], self.index[there])

    def _enter(self, here: int) -> Iterator[int]:
        self.index[here] = self._low[here] = len(self.index)
        self._stack.append(here)
        self._on_stack.add(here)
        return (there for there, edge in self._graph[here].items() if edge & self._kinds)

    def _leave(self, here: int) -> set[int]:
        tangle: set[int] = set()
        if self._low[here] == self.index[here]:
            while here not in tangle:
                tangle.add(self._stack.pop())
            self._on_stack -= tangle
        return tangle
