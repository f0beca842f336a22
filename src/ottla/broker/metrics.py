"""Prometheus metrics of the node, over HTTP on a listener of their own: `GET /metrics`.

The text is written in small steps with the event loop in between: ten thousand partitions and as many groups must not
hold up a single request. Group lag is among the metrics, because the broker is the one who knows both of its ends.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator

import structlog

import ottla
from ottla.base.broker_settings import Listener as Address
from ottla.broker.router import Router
from ottla.net.listener import Listener
from ottla.runtime.group_coordinator import GroupCoordinator
from ottla.runtime.replicas import Replicas

log = structlog.get_logger(__name__)

_LINES_PER_STEP = 500
_REQUEST_BYTES_MAX = 8192
_REQUEST_SECONDS_MAX = 5.0
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Sample = tuple[str, float]
"""Labels as they stand between the braces, and the value."""


class Metrics:
    def __init__(
        self, router: Router, replicas: Replicas, groups: GroupCoordinator, listeners: Iterable[Listener]
    ) -> None:
        self._router = router
        self._replicas = replicas
        self._groups = groups
        self._listeners = tuple(listeners)

    async def text(self) -> AsyncIterator[str]:
        """The whole exposition, in pieces."""
        lines: list[str] = []
        for name, kind, help_text, samples in self._families():
            lines += [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"]
            for labels, value in samples():
                lines.append(f"{name}{{{labels}}} {value:g}" if labels else f"{name} {value:g}")
                if len(lines) >= _LINES_PER_STEP:
                    yield "\n".join(lines) + "\n"
                    lines.clear()
                    await asyncio.sleep(0)
        yield "\n".join(lines) + "\n"

    def _families(self) -> tuple[tuple[str, str, str, Callable[[], Iterator[Sample]]], ...]:
        return (
            ("ottla_info", "gauge", "The version that runs.", self._info),
            ("ottla_connections", "gauge", "Open connections.", self._connections),
            ("ottla_requests_total", "counter", "Requests that were started, by API.", self._requests),
            ("ottla_log_directory_online", "gauge", "1 while the log directory works.", self._directories),
            ("ottla_partition_log_start_offset", "gauge", "The first offset that can be read.", self._starts),
            ("ottla_partition_high_watermark", "gauge", "The offset up to which is committed.", self._high_watermarks),
            ("ottla_partition_log_end_offset", "gauge", "The next offset to be written.", self._ends),
            ("ottla_partition_log_bytes", "gauge", "Size of the partition's log.", self._sizes),
            ("ottla_group_committed_offset", "gauge", "The offset a group has committed.", self._committed),
            ("ottla_group_lag", "gauge", "Records between a group's committed offset and the end.", self._lags),
        )

    def _info(self) -> Iterator[Sample]:
        yield _labels(version=ottla.__version__), 1

    def _connections(self) -> Iterator[Sample]:
        for listener in self._listeners:
            yield _labels(listener=listener.name), listener.connection_count

    def _requests(self) -> Iterator[Sample]:
        for api, count in self._router.request_counts():
            yield _labels(api=api), count

    def _directories(self) -> Iterator[Sample]:
        for directory in self._replicas.directories:
            yield _labels(path=str(directory.path)), directory.is_online
        for path in self._replicas.lost_directories:
            yield _labels(path=str(path)), 0

    def _starts(self) -> Iterator[Sample]:
        for partition in self._replicas:
            yield _labels(topic=partition.key.topic, partition=partition.key.partition), partition.log.start_offset

    def _high_watermarks(self) -> Iterator[Sample]:
        for partition in self._replicas:
            yield _labels(topic=partition.key.topic, partition=partition.key.partition), partition.high_watermark

    def _ends(self) -> Iterator[Sample]:
        for partition in self._replicas:
            yield _labels(topic=partition.key.topic, partition=partition.key.partition), partition.log.end_offset

    def _sizes(self) -> Iterator[Sample]:
        for partition in self._replicas:
            yield _labels(topic=partition.key.topic, partition=partition.key.partition), partition.log.size

    def _committed(self) -> Iterator[Sample]:
        for group, topic, index, offset in self._groups.committed_offsets():
            yield _labels(group=group, topic=topic, partition=index), offset

    def _lags(self) -> Iterator[Sample]:
        for group, topic, index, offset in self._groups.committed_offsets():
            high_watermark = self._replicas.high_watermark(topic, index)
            if high_watermark is not None:
                yield _labels(group=group, topic=topic, partition=index), max(high_watermark - offset, 0)


def _labels(**labels: object) -> str:
    return ",".join(f'{name}="{str(value).translate(_ESCAPES)}"' for name, value in labels.items())


class MetricsServer:
    """As much of HTTP as a scraper needs: one GET a connection."""

    def __init__(self, address: Address, metrics: Metrics) -> None:
        self._address = address
        self._metrics = metrics
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Raises OSError when the address is taken."""
        self._server = await asyncio.start_server(
            self._serve, self._address.host, self._address.port, limit=_REQUEST_BYTES_MAX
        )

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_SECONDS_MAX):
                head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"GET /metrics"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n")
                writer.write(b"Connection: close\r\n\r\n")
                async for piece in self._metrics.text():
                    writer.write(piece.encode())
                    await writer.drain()
            else:
                writer.write(b"HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            log.debug("metrics not served")
        finally:
            writer.close()
