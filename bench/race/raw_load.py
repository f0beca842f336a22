"""Loads on plain sockets: frames encoded once, answers only counted, so that many connections cost little."""

import selectors
import socket
import time
from collections.abc import Mapping, Sequence
from struct import Struct

from bench.race.apart import Load, Stopwatch
from bench.rawclient import PRODUCE_VERSION, RawClient, produce_frame, request_frame
from ottla.base.errors import ErrorCode
from ottla.wire.batch import encode_batch, new_records
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.messages.index import RESPONSES, ApiKey
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

_SIZE = Struct(">i")
_PATIENCE_SECONDS = 600.0
_PAUSE_SECONDS_PER_PARTITION = 50e-6
_LATEST, _LIST_OFFSETS_VERSION, _CREATE_VERSION = -1, 5, 4
_READ_BYTES = 64 * 1024
_TOPICS_PER_REQUEST = 10
"""Kafka takes fewer than 10,000 partitions at once."""
_NOT_YET = {
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.BROKER_NOT_AVAILABLE,
    ErrorCode.INVALID_REPLICATION_FACTOR,  # no broker is unfenced yet
    ErrorCode.UNKNOWN_SERVER_ERROR,
}


class NotReady(RuntimeError):
    """The broker did not get there in time."""


def connected(port: int) -> RawClient:
    """A connection, as soon as there is one to be had."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return RawClient(port)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.002)


def create_topics(
    client: RawClient, topics: Mapping[str, int], configs: Mapping[str, str] | None = None, pause_seconds: float = 0.05
) -> None:
    """As few requests as Kafka takes; asked again while the broker is still about to become one."""
    settings = [CreatableTopicConfig(name, value) for name, value in (configs or {}).items()]
    every = [CreatableTopic(name, partitions, 1, configs=settings) for name, partitions in topics.items()]
    for first in range(0, len(every), _TOPICS_PER_REQUEST):
        _create(client, every[first : first + _TOPICS_PER_REQUEST], pause_seconds)


def _create(client: RawClient, wanted: list[CreatableTopic], pause_seconds: float) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        frame = request_frame(ApiKey.CREATE_TOPICS, _CREATE_VERSION, CreateTopicsRequest(wanted, 120_000), False)
        answer, _ = RESPONSES[int(ApiKey.CREATE_TOPICS)].decode(client.ask(frame), 0, _CREATE_VERSION)
        refused = {topic.name: topic.error_code for topic in answer.topics if topic.error_code}
        refused = {name: code for name, code in refused.items() if code != ErrorCode.TOPIC_ALREADY_EXISTS}
        if not refused:
            return
        if time.monotonic() > deadline or not set(refused.values()) <= _NOT_YET:
            raise NotReady(f"topics are refused: {refused}")
        wanted = [topic for topic in wanted if topic.name in refused]
        time.sleep(pause_seconds)


def produce_everywhere(client: RawClient, topics: Mapping[str, int], pause_seconds: float = 0.02) -> None:
    """One record into each partition, in one request; those that are not led yet are asked again."""
    left = {(topic, number) for topic, partitions in topics.items() for number in range(partitions)}
    batch = memoryview(encode_batch(new_records([(None, b"x" * 100)], int(time.time() * 1000))))
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while left:
        data = [
            TopicProduceData(name, partition_data=[PartitionProduceData(number, batch) for number in sorted(numbers)])
            for name, numbers in _by_topic(left).items()
        ]
        frame = request_frame(ApiKey.PRODUCE, PRODUCE_VERSION, ProduceRequest(None, -1, 60_000, data), True)
        answer, _ = ProduceResponse.decode(client.ask(frame)[1:], 0, PRODUCE_VERSION)
        codes = set()
        for topic in answer.responses:
            for one in topic.partition_responses:
                if one.error_code == 0:
                    left.discard((topic.name, one.index))
                else:
                    codes.add(ErrorCode(one.error_code).name)
        if left and time.monotonic() > deadline:
            raise NotReady(f"{len(left)} partitions do not take records: {codes}")
        if left:
            # Who asks for thousands of partitions without a pause takes the processor from what brings them about.
            time.sleep(max(pause_seconds, len(left) * _PAUSE_SECONDS_PER_PARTITION))


def _by_topic(places: set[tuple[str, int]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, number in places:
        found.setdefault(topic, []).append(number)
    return found


def end_offsets(client: RawClient, topic: str, partitions: int) -> int:
    """The sum of where the partitions end: how many records have really arrived."""
    places = [ListOffsetsPartition(number, -1, _LATEST) for number in range(partitions)]
    ask = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(topic, places)])
    frame = request_frame(ApiKey.LIST_OFFSETS, _LIST_OFFSETS_VERSION, ask, False)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        answer, _ = RESPONSES[int(ApiKey.LIST_OFFSETS)].decode(client.ask(frame), 0, _LIST_OFFSETS_VERSION)
        found = answer.topics[0].partitions
        # Kafka answers for a topic's creation before all of its partitions are led.
        if not any(place.error_code for place in found):
            return sum(place.offset for place in found)
        if time.monotonic() > deadline:
            raise NotReady(f"partitions of {topic} do not say where they end")
        time.sleep(0.02)


class _Line:
    """One connection on which `window` requests are always under way; all answers have the same size."""

    def __init__(self, port: int, frame: bytes, window: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._frame = frame
        self._window = window
        self.answer_bytes = 0
        self._part = 0

    def begin(self) -> None:
        self.sock.sendall(self._frame * self._window)

    def learn_answer(self) -> None:
        """What one answer looks like, and that it is no refusal."""
        self.sock.sendall(self._frame)
        (size,) = _SIZE.unpack(self.sock.recv(4, socket.MSG_WAITALL))
        body = self.sock.recv(size, socket.MSG_WAITALL)
        answer, _ = ProduceResponse.decode(memoryview(body)[5:], 0, PRODUCE_VERSION)
        code = answer.responses[0].partition_responses[0].error_code
        if code:
            raise NotReady(f"records are refused: {ErrorCode(code).name}")
        self.answer_bytes = size + 4

    def receive(self) -> int:
        data = self.sock.recv(_READ_BYTES)
        if not data:
            raise ConnectionError("the broker has closed the connection")
        finished, self._part = divmod(self._part + len(data), self.answer_bytes)
        return finished

    def more(self, count: int) -> None:
        if count:
            self.sock.sendall(self._frame * count)


def drive(port: int, topic: str, connections: int, window: int, seconds: float) -> Load:
    """Produce requests of one record on many connections at once, for a while; only answered ones count."""
    frame = produce_frame(topic, b"x" * 100, int(time.time() * 1000))
    opening = time.monotonic()
    lines = [_Line(port, frame, window) for _ in range(connections)]
    opened = time.monotonic() - opening
    lines[0].learn_answer()
    for line in lines:
        line.answer_bytes = lines[0].answer_bytes
    with selectors.DefaultSelector() as selector:
        for line in lines:
            selector.register(line.sock, selectors.EVENT_READ, line)
        watch = Stopwatch()
        answered = _keep_going(selector, lines, window, seconds)
        load = watch.load(answered, opened=opened, produced=answered + 1)
    for line in lines:
        line.sock.close()
    return load


def _keep_going(selector: selectors.BaseSelector, lines: Sequence[_Line], window: int, seconds: float) -> int:
    until = time.monotonic() + seconds
    for line in lines:
        line.begin()
    answered, under_way = 0, window * len(lines)
    while under_way:
        ready = selector.select(_PATIENCE_SECONDS)
        if not ready:
            raise NotReady("no answer came")
        is_over = time.monotonic() > until
        for key, _ in ready:
            line: _Line = key.data
            finished = line.receive()
            answered += finished
            if is_over:
                under_way -= finished
            else:
                line.more(finished)
    return answered
