"""Ten thousand groups with committed offsets: what they cost in memory, and how long a coordinator takes to load them.

`python -m bench.groups`; it needs no node, the coordinator's core is fed the log's own bytes.
"""

import gc
import time
from pathlib import Path
from random import Random

from ottla.core.groups import codec
from ottla.core.groups.asks import ConsumerHeartbeat, Topic
from ottla.core.groups.placement import partition_for
from ottla.core.groups.records import CommittedOffset, Generation, GroupRecord, OffsetRecord
from ottla.core.groups.settings import GroupSettings
from ottla.core.groups.shard import GroupShard

GROUPS, PARTITIONS, SHARDS, MEMBERS = 10_000, 10, 50, 200
TOPIC = {"orders": Topic(b"t" * 16, PARTITIONS)}
Row = tuple[bytes, bytes | None]


def log_of_groups() -> list[list[Row]]:
    shards: list[list[Row]] = [[] for _ in range(SHARDS)]
    for number in range(GROUPS):
        group_id = f"group-{number:05}"
        rows = shards[partition_for(group_id, SHARDS)]
        for partition in range(PARTITIONS):
            committed = CommittedOffset(2**33 + number, 3, "", 1_700_000_000_000 + number, -1, b"t" * 16)
            rows.append(codec.encode(OffsetRecord(group_id, "orders", partition, committed)))
        rows.append(codec.encode(GroupRecord(group_id, Generation("consumer", 5, None, None, 1, ()))))
    return shards


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 1e6


def load(rows: list[Row]) -> GroupShard:
    shard = GroupShard(GroupSettings(), Random(1))
    shard.on_topics(TOPIC, 0)
    for key, value in rows:
        shard.load(key, value, 1)
    shard.loaded(1)
    return shard


def join_many() -> float:
    """Seconds of CPU until a consumer group of many members has come to rest."""
    shard = GroupShard(GroupSettings(), Random(1))
    shard.on_topics({"orders": Topic(b"t" * 16, 2 * MEMBERS)}, 0)
    begun, now_ms = time.process_time(), 1_000_000
    known: dict[str, tuple[int, tuple[tuple[bytes, tuple[int, ...]], ...]]] = {}
    while True:
        for number in range(MEMBERS):
            name = f"m{number}"
            epoch, owned = known.get(name, (0, ()))
            first = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ("orders",)} if epoch == 0 else {}
            ask = ConsumerHeartbeat(group_id="g", member_id=name, member_epoch=epoch, topic_partitions=owned, **first)  # type: ignore[arg-type]
            decision = shard.consumer_heartbeat(ask, now_ms)
            for record in decision.records:
                shard.apply(record, now_ms)  # type: ignore[arg-type]
            reply = decision.reply
            known[name] = reply.member_epoch, owned if reply.assignment is None else reply.assignment  # type: ignore[attr-defined]
        now_ms += 1_000
        if shard.describe_consumer_group("g", now_ms).reply.state == "Stable":  # type: ignore[attr-defined]
            return time.process_time() - begun


def main() -> None:
    logs = log_of_groups()
    gc.collect()
    before_mb, begun = resident_mb(), time.process_time()
    shards = [load(rows) for rows in logs]
    seconds, megabytes = time.process_time() - begun, resident_mb() - before_mb
    count = sum(len(rows) for rows in logs)
    print(f"{GROUPS} groups, {count} records: {seconds:.2f} s, {megabytes:.0f} MB in {len(shards)} shards")
    print(f"{MEMBERS} members of a consumer group at rest after {join_many():.2f} s of CPU")


if __name__ == "__main__":
    main()
