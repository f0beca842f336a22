"""DescribeLogDirs: what lies in which log directory, and how much room is left."""

import os
from pathlib import Path

from ottla.base.errors import ErrorCode
from ottla.broker.route import Call, Route, versions
from ottla.runtime.replicas import Replicas
from ottla.storage.directory import LogDirectory
from ottla.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from ottla.wire.messages.index import ApiKey

Asked = dict[str, frozenset[int]] | None


class LogDirsApi:
    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    def routes(self) -> tuple[Route, ...]:
        return (Route(ApiKey.DESCRIBE_LOG_DIRS, versions(1, 5), self.describe),)

    async def describe(self, call: Call[DescribeLogDirsRequest]) -> DescribeLogDirsResponse:
        """DescribeLogDirs. v3 adds an error for the whole, v4 the size of the disk (KIP-827), v5 cordoning."""
        asked: Asked = None
        if call.request.topics is not None:
            asked = {topic.topic: frozenset(topic.partitions) for topic in call.request.topics}
        held = self._held(asked)
        results = [_described(directory, held.get(directory, {})) for directory in self._replicas.directories]
        offline = int(ErrorCode.KAFKA_STORAGE_ERROR)
        results += [DescribeLogDirsResult(offline, str(path)) for path in self._replicas.lost_directories]
        return DescribeLogDirsResponse(results=results)

    def _held(self, asked: Asked) -> dict[LogDirectory, dict[str, DescribeLogDirsTopic]]:
        held: dict[LogDirectory, dict[str, DescribeLogDirsTopic]] = {}
        for partition in sorted(self._replicas, key=lambda each: each.key):
            topic, index = partition.key
            if asked is not None and index not in asked.get(topic, ()):
                continue
            topics = held.setdefault(self._replicas.home_of(partition), {})
            answer = topics.setdefault(topic, DescribeLogDirsTopic(topic))
            answer.partitions.append(DescribeLogDirsPartition(index, partition.log.size))
        return held


def _described(directory: LogDirectory, topics: dict[str, DescribeLogDirsTopic]) -> DescribeLogDirsResult:
    result = DescribeLogDirsResult(0, str(directory.path), list(topics.values()))
    if not directory.is_online:
        result.error_code = int(ErrorCode.KAFKA_STORAGE_ERROR)
        return result
    result.total_bytes, result.usable_bytes = _room(directory.path)
    return result


def _room(path: Path) -> tuple[int, int]:
    try:
        disk = os.statvfs(path)
    except OSError:
        return -1, -1  # the next write will tell whether the directory has failed
    return disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize
