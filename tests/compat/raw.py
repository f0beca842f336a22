"""What a raw test does all day: make a topic, produce a batch, fetch, ask for an offset."""

from __future__ import annotations

import functools
import itertools
import secrets
import time
import uuid
from typing import Any

from .batches import BatchHeader, batch, headers
from .wire import Fields, Wire

READY_SECONDS_MAX = 20.0
NOBODY = -1
# A record of 2023 is older than the default retention: the next check may delete it.
FOREVER = {"retention.ms": "-1"}
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3


class Raw(Wire):
    """A connection with shorthands; topic names carry a token so that tests do not meet."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port)
        self.address = (host, port)
        self.token = secrets.token_hex(4)
        self._numbers = itertools.count()

    def reconnect(self) -> None:
        self.socket.close()
        Wire.__init__(self, *self.address)

    @functools.cached_property
    def node_id(self) -> int:
        return int(self.ask("metadata", 1, topics=[])["brokers"][0]["node_id"])

    def name(self, suffix: str = "") -> str:
        return f"{self.token}-{suffix or next(self._numbers)}"

    def create(self, suffix: str = "", partitions: int = 1, configs: dict[str, str] | None = None) -> str:
        """A topic whose partitions have leaders and answer."""
        name = self.name(suffix)
        entries = [{"name": key, "value": value} for key, value in (configs or {}).items()]
        wanted = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": entries}
        answer = self.ask("create_topics", 5, timeout=20_000, topics=[wanted])["topics"][0]
        assert answer["error_code"] == 0, answer
        self.wait_ready(name, partitions)
        return name

    def wait_ready(self, name: str, partitions: int = 1) -> None:
        """Apache Kafka answers CreateTopics before its broker half has opened the partitions."""
        deadline = time.monotonic() + READY_SECONDS_MAX
        while any(self.list_offset(name, LATEST, partition=p)["error_code"] for p in range(partitions)):
            assert time.monotonic() < deadline, f"{name} has no leader"
            time.sleep(0.01)

    def topic_id(self, name: str) -> uuid.UUID:
        found = self.ask("metadata", 12, topics=[{"name": name}])["topics"][0]["topic_id"]
        assert isinstance(found, uuid.UUID)
        return found

    def produce(
        self, topic: str, records: bytes | None, version: int = 11, acks: int = -1, partition: int = 0
    ) -> Fields:
        """The partition's answer."""
        data = [{"name": topic, "partition_data": [{"index": partition, "records": records}]}]
        answer = self.ask("produce", version, acks=acks, timeout=10_000, topic_data=data)
        found: Fields = answer["responses"][0]["partition_responses"][0]
        return found

    def append(self, topic: str, *values: bytes | None, partition: int = 0, **changes: int) -> int:
        """One good batch; its base offset."""
        answer = self.produce(topic, batch(*values, **changes), partition=partition)
        assert answer["error_code"] == 0, answer
        return int(answer["base_offset"])

    def fetch_request(self, topic: str, offset: int, partition: int = 0, **changes: Any) -> Fields:
        wanted = {
            "partition": partition,
            "fetch_offset": offset,
            "partition_max_bytes": changes.pop("partition_max_bytes", 1 << 20),
            "current_leader_epoch": changes.pop("current_leader_epoch", -1),
            "last_fetched_epoch": changes.pop("last_fetched_epoch", -1),
        }
        topics = [{"topic": topic, "topic_id": changes.pop("topic_id", None), "partitions": [wanted]}]
        return {"replica_id": NOBODY, "max_wait": 0, "min_bytes": 1, "topics": topics, **changes}

    def fetch(self, topic: str, offset: int, version: int = 12, **changes: Any) -> Fields:
        """The partition's answer, its records as batch headers."""
        answer = self.ask("fetch", version, **self.fetch_request(topic, offset, **changes))
        found: Fields = answer["responses"][0]["partitions"][0]
        found["batches"] = headers(found["records"] or b"")
        return found

    def batches(self, topic: str, offset: int = 0, **changes: Any) -> list[BatchHeader]:
        answer = self.fetch(topic, offset, **changes)
        assert answer["error_code"] == 0, answer
        found: list[BatchHeader] = answer["batches"]
        return found

    def list_offset(self, topic: str, timestamp: int, version: int = 7, partition: int = 0, **changes: Any) -> Fields:
        epoch = changes.pop("current_leader_epoch", -1)
        wanted = {"partition_index": partition, "timestamp": timestamp, "current_leader_epoch": epoch}
        topics = [{"name": topic, "partitions": [wanted]}]
        answer = self.ask("list_offsets", version, **{"replica_id": NOBODY, "topics": topics, **changes})
        found: Fields = answer["topics"][0]["partitions"][0]
        return found

    def new_producer_id(self) -> int:
        """A fresh producer id; a cold node may still be fetching its first block of them."""
        ask = {"transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
        deadline = time.monotonic() + READY_SECONDS_MAX
        while (answer := self.ask("init_producer_id", 4, **ask))["error_code"] == 14:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert answer["error_code"] == 0, answer
        return int(answer["producer_id"])
