"""Who decides about a batch, and what is known about its sources."""

import json
import logging

from ottla.base.types import TopicPartition
from ottla.client.cluster import Cluster
from ottla.client.group_commit import supports_group_commit
from ottla.spark import connections, internals
from ottla.spark.not_ready import NotReady
from ottla.spark.sink.exactly_once import Decisions, GroupDecisions, GroupOffsets, digest_of, group_offsets_of
from ottla.spark.sink.manifests import ManifestDecisions
from ottla.spark.sink.options import SinkOptions
from ottla.spark.source.progress import ARCHIVE, Progress

log = logging.getLogger("ottla.spark")


def decisions_at(cluster: Cluster, options: SinkOptions) -> Decisions:
    """By one request where the cluster has it, and elsewhere by a topic of manifests."""
    if options.protocol != "manifest":
        if connections.run(supports_group_commit(cluster)):
            return GroupDecisions(cluster)
        if options.protocol == "group":
            raise NotReady("this cluster has no group commits; Ottla has. Leave out the option 'commitProtocol'")
    return ManifestDecisions(cluster, options.manifest_topic)


def sources_for(checkpoint: str | None, number: int, brokers: str) -> tuple[bytes, GroupOffsets]:
    """The digest of a batch and the group offsets that belong to it. Without a checkpoint neither is known."""
    if checkpoint is None:
        return b"", {}
    if not internals.is_readable(checkpoint):
        log.warning(
            "the checkpoint %s cannot be read from Python: if it is set back, that may not be noticed", checkpoint
        )
        return b"", {}
    sources = internals.sources_of_batch(checkpoint, number)
    before = internals.sources_of_batch(checkpoint, number - 1) if number else []
    return digest_of(sources, before), group_offsets_of(_progress(sources), brokers)


def ends_moved_by(checkpoint: str | None, number: int) -> dict[TopicPartition, int]:
    """How far each partition is read with this batch, where that has changed with it. Without a checkpoint: nothing."""
    if checkpoint is None or not internals.is_readable(checkpoint):
        return {}
    before = _ends(internals.sources_of_batch(checkpoint, number - 1) if number else [])
    after = _ends(internals.sources_of_batch(checkpoint, number))
    return {place: end for place, end in after.items() if before.get(place) != end}


def _ends(sources: list[str]) -> dict[TopicPartition, int]:
    """Where one source is behind another it is the one that counts: the rest has not been read by both.

    A source that is still amid its own archive has not come to its log yet, whatever it says of that.
    """
    ends: dict[TopicPartition, int] = {}
    for one in _progress([line for line in sources if f'"{ARCHIVE}"' not in line]):
        for place, end in one.ends.items():
            ends[place] = min(end, ends.get(place, end))
    return ends


def _progress(sources: list[str]) -> list[Progress]:
    """Of the sources that are ours: others write what they like, a dash for nothing among it."""
    found = []
    for line in sources:
        if line.startswith("{") and Progress.is_ours(offsets := json.loads(line)):
            found.append(Progress.from_json(offsets))
    return found
