"""Groups in numbers: very many small ones, and one with very many members, on plain sockets."""

import asyncio
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Any

from bench.node import NodeProcess, running
from bench.rawclient import RawClient, request_frame
from ottla.base.errors import ErrorCode
from ottla.wire.messages import offset_commit as oc
from ottla.wire.messages import offset_fetch as of
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.index import RESPONSES, ApiKey
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

Figures = dict[str, float]
TOPIC, PARTITIONS = "orders", 10
LOADING = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
SESSION_MS, REBALANCE_MS = 45_000, 60_000
_SIZE = Struct(">i")


def many_groups(count: int) -> Figures:
    """Offsets of many groups: what they cost in memory, and how long they take to be there again after a restart."""
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as directory:
        node = NodeProcess(Path(directory))
        groups = [f"group-{number:05}" for number in range(count)]
        _start(node)
        try:
            client = RawClient(node.port)
            client.create_topic(TOPIC, PARTITIONS)
            find_coordinator(client, groups[0])
            begun = time.monotonic()
            commit_all(client, groups)
            committed = time.monotonic() - begun
            client.close()
            node.stop()
            _start(node)
            begun = time.monotonic()
            client = RawClient(node.port)
            wait_loaded(client, groups)
            loaded = time.monotonic() - begun
            client.close()
            with_groups_mb = node.memory_mb
        finally:
            node.kill()
        with running() as empty:
            idle_mb = empty.memory_mb
        return {
            f"{count} groups: commits/s": count / committed,
            f"{count} groups: load s": loaded,
            f"{count} groups: memory MB": with_groups_mb - idle_mb,
        }


def _start(node: NodeProcess) -> None:
    node.launch()
    node.wait_until_it_listens()


def find_coordinator(client: RawClient, name: str, kind: int = 0) -> None:
    """Of a group, or (1) of a transactional id."""
    frame = request_frame(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(name, kind), True)
    while FindCoordinatorResponse.decode(client.ask(frame)[1:], 0, 3)[0].error_code:
        time.sleep(0.01)


def commit_all(client: RawClient, groups: list[str]) -> None:
    places = [oc.OffsetCommitRequestPartition(at, 2**33 + at, committed_metadata="") for at in range(PARTITIONS)]
    topics = [oc.OffsetCommitRequestTopic(TOPIC, partitions=places)]
    for group in groups:
        frame = request_frame(ApiKey.OFFSET_COMMIT, 8, oc.OffsetCommitRequest(group, topics=topics), True)
        answer, _ = oc.OffsetCommitResponse.decode(client.ask(frame)[1:], 0, 8)
        codes = {place.error_code for topic in answer.topics for place in topic.partitions}
        if codes != {0}:
            raise RuntimeError(f"{group} cannot commit: {codes}")


def wait_loaded(client: RawClient, groups: list[str]) -> None:
    """Until all offsets of all groups are there."""
    waiting = groups
    while waiting:
        asked = [of.OffsetFetchRequestGroup(group, topics=None) for group in waiting[:1000]]
        frame = request_frame(ApiKey.OFFSET_FETCH, 8, of.OffsetFetchRequest(groups=asked), True)
        answer, _ = of.OffsetFetchResponse.decode(client.ask(frame)[1:], 0, 8)
        late = [one.group_id for one in answer.groups if one.error_code in LOADING]
        for one in answer.groups:
            found = sum(len(topic.partitions) for topic in one.topics)
            if one.error_code not in LOADING and found != PARTITIONS:
                raise RuntimeError(f"{one.group_id} has {found} offsets, error {one.error_code}")
        waiting = late + waiting[1000:]


@dataclass(frozen=True)
class Joined:
    generation: int
    assignment: bytes


class AsyncClient:
    """One connection; one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @staticmethod
    async def connect(port: int) -> "AsyncClient":
        return AsyncClient(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self, key: ApiKey, version: int, request: Any) -> Any:
        is_flexible = version >= request.FLEXIBLE_FROM
        self._writer.write(request_frame(key, version, request, is_flexible))
        (size,) = _SIZE.unpack(await self._reader.readexactly(4))
        body = memoryview(await self._reader.readexactly(size))[4 + is_flexible :]
        return RESPONSES[int(key)].decode(body, 0, version)[0]

    def close(self) -> None:
        self._writer.close()


async def join(client: AsyncClient, group: str) -> Joined:
    """As a classic client does it: a member id, the join, and for the leader an assignment for everybody."""
    ask = JoinGroupRequest(
        group, SESSION_MS, REBALANCE_MS, "", None, "consumer", [JoinGroupRequestProtocol("range", b"subscription")]
    )
    answer = await client.ask(ApiKey.JOIN_GROUP, 7, ask)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        ask.member_id = answer.member_id
        answer = await client.ask(ApiKey.JOIN_GROUP, 7, ask)
    if answer.error_code:
        raise RuntimeError(f"join refused: {ErrorCode(answer.error_code).name}")
    sync = SyncGroupRequest(group, answer.generation_id, answer.member_id, None, "consumer", "range")
    if answer.leader == answer.member_id:
        ids = [one.member_id for one in answer.members]
        sync.assignments = [SyncGroupRequestAssignment(member_id, member_id.encode()) for member_id in ids]
    synced = await client.ask(ApiKey.SYNC_GROUP, 5, sync)
    if synced.error_code:
        raise RuntimeError(f"sync refused: {ErrorCode(synced.error_code).name}")
    if bytes(synced.assignment) != answer.member_id.encode():
        raise RuntimeError("somebody else's assignment")
    return Joined(answer.generation_id, bytes(synced.assignment))


async def gather_members(port: int, group: str, count: int) -> tuple[float, list[Joined]]:
    """All at once; the seconds until the last one has its assignment."""
    clients = [await AsyncClient.connect(port) for _ in range(count)]
    try:
        await clients[0].ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(group))
        begun = time.monotonic()
        joined = await asyncio.gather(*(join(client, group) for client in clients))
        return time.monotonic() - begun, list(joined)
    finally:
        for client in clients:
            client.close()


def big_group(members: int, delay_ms: int = 1_000) -> Figures:
    """Members that all come at once share one rebalance."""
    with running(f"group.initial.rebalance.delay.ms={delay_ms}") as node:
        before = node.cpu_seconds
        seconds, joined = asyncio.run(gather_members(node.port, "big", members))
        generations = {one.generation for one in joined}
        return {
            f"{members} members: assigned after s": seconds,
            f"{members} members: rebalances": float(max(generations)),
            f"{members} members: cpu s": node.cpu_seconds - before,
        }


def main() -> None:
    for figures in (many_groups(10_000), big_group(200)):
        for name, value in figures.items():
            print(f"{name:38} {value:10.2f}")


if __name__ == "__main__":
    main()
