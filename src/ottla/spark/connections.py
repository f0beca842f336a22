"""Connections to clusters, kept with the process: a planner lives as long as its query, a worker for many tasks."""

import os
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from ottla.client.blocking import LoopThread
from ottla.client.cluster import Cluster
from ottla.client.settings import ClientSettings
from ottla.spark import internals

T = TypeVar("T")
CLUSTERS_MAX = 16
"""Connections to that many different clusters, or with so many different settings, stay open."""

_loop = LoopThread()
_clusters: dict[tuple[tuple[str, str], ...], Cluster] = {}
_pid = os.getpid()


def run(work: Coroutine[Any, Any, T]) -> T:
    """Until it is done, on the event loop of this process."""
    return _loop.run(work)


def cluster_at(kafka: Mapping[str, str]) -> Cluster:
    """The cluster with these settings; the same one for all who ask in this process."""
    global _pid
    internals.settle_in_worker()
    if _pid != os.getpid():  # what a forked worker finds here is its parent's
        _clusters.clear()
        _pid = os.getpid()
    key = tuple(sorted(kafka.items()))
    cluster = _clusters.pop(key, None)
    if cluster is None:
        while len(_clusters) >= CLUSTERS_MAX:
            run(_clusters.pop(next(iter(_clusters))).close())
        cluster = run(_made(kafka))
    _clusters[key] = cluster
    return cluster


async def _made(kafka: Mapping[str, str]) -> Cluster:
    return Cluster(ClientSettings.from_kafka({"client.id": "ottla-spark", **kafka}))
