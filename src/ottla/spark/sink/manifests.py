"""Deciding about batches on a cluster without group commits, as every Apache Kafka is one.

The decision is a record in a compacted topic, the *manifest*: the members of the batch, by name. When it is committed
the driver ends the members one by one; a driver that dies meanwhile is followed by one that reads the manifest and ends
the others. What the cluster cannot promise is that it keeps their transactions open for so long: one that reaches its
timeout before is aborted, and its rows are lost. That is noticed, and told (`RowsLost`); KIP-939 will end it.

Drivers fence each other by the producer of manifests, so that of two on one checkpoint only the later one decides.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from ottla.base.errors import ErrorCode
from ottla.client.cluster import Cluster
from ottla.client.failures import BrokerRefused
from ottla.client.group_commit import LastCommit, MembersLost
from ottla.client.offsets import commit_offsets
from ottla.client.transactions import Identity
from ottla.spark.register import Register
from ottla.spark.sink.ending import commit_transaction, is_open
from ottla.spark.sink.exactly_once import Batch, BatchKey, Member, WrongBatch

_GONE = {
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
}


class RowsLost(Exception):
    """A batch was decided, and a transaction of it had ended by then."""


@dataclass(frozen=True)
class Manifest:
    batch: int
    digest: bytes
    members: tuple[Member, ...]

    def as_bytes(self) -> bytes:
        members = [[*member.identity, member.is_joined_by_itself] for member in self.members]
        return json.dumps({"batch": self.batch, "digest": self.digest.hex(), "members": members}).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> "Manifest":
        found = json.loads(content)
        members = (Member(Identity(*identity), is_v2) for *identity, is_v2 in found["members"])
        return cls(found["batch"], bytes.fromhex(found["digest"]), tuple(members))


_NONE = Manifest(-1, b"", ())


class ManifestDecisions:
    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._register = Register(cluster, topic)

    async def last(self, key: BatchKey) -> LastCommit:
        manifest = await self._last_manifest(key)
        return LastCommit(manifest.batch, manifest.digest, True)

    async def decide(self, batch: Batch) -> None:
        key = batch.key
        async with self._register.pen(_name(key), f"{key.transactions}.manifest") as pen:
            manifest = await self._last_manifest(key)
            if manifest.batch > key.number or (manifest.batch == key.number and manifest.digest != batch.digest):
                raise WrongBatch(
                    f"batch {key.number} of query {key.query} is refused: {manifest.batch} is written, another one"
                )
            if manifest.batch < key.number:
                await self._check_open(batch.members)
                manifest = Manifest(key.number, batch.digest, tuple(batch.members))
                await pen.write(manifest.as_bytes())
        await self._carry_out(manifest)
        for group, offsets in batch.offsets.items():
            await commit_offsets(self._cluster, group, offsets)

    async def _check_open(self, members: Iterable[Member]) -> None:
        """Another driver, or a timeout, may have ended what these tasks left; then there is nothing to decide about."""
        for member in members:
            if not await is_open(self._cluster, member.identity):
                raise MembersLost(f"the transaction {member.identity.transactional_id} is not open any more")

    async def _carry_out(self, manifest: Manifest) -> None:
        """Again and again, if need be: a transaction that is committed already says so."""
        for identity, is_version_2 in manifest.members:
            try:
                await commit_transaction(self._cluster, identity, is_version_2)
            except BrokerRefused as refused:
                if refused.code not in _GONE:
                    raise
                raise RowsLost(
                    f"batch {manifest.batch} is decided, but its transaction {identity.transactional_id} is not open "
                    f"any more ({refused}): it reached its timeout before a driver ended it, and its rows are lost. "
                    "Write the batch again under another checkpoint; a longer kafka.transaction.timeout.ms helps"
                ) from None

    async def _last_manifest(self, key: BatchKey) -> Manifest:
        content = await self._register.last(_name(key))
        return _NONE if content is None else Manifest.from_bytes(content)


def _name(key: BatchKey) -> bytes:
    return f"{key.sink}\0{key.query}".encode()
