"""A client that hides nothing: one request, one answer, no retries, no cache."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from struct import Struct
from typing import Any

from ottla.base.errors import ErrorCode
from ottla.wire.batch import crc_ok, iter_headers
from ottla.wire.frame import RequestHeader, decode_response_header, encode_request_header, finish_request
from ottla.wire.messages import create_topics as ct
from ottla.wire.messages import delete_records as dr
from ottla.wire.messages import describe_configs as dc
from ottla.wire.messages import fetch as fe
from ottla.wire.messages import incremental_alter_configs as ic
from ottla.wire.messages import list_offsets as lo
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.index import RESPONSES
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.primitives import Buffer

_SIZE = Struct(">i")
_VERSIONS = {0: 11, 1: 12, 2: 7, 3: 9, 8: 8, 9: 8, 10: 4, 19: 5, 20: 4, 21: 1, 22: 4, 32: 3, 42: 2, 44: 0}
"""By API key. Names, not ids; flexible ones and classic ones."""
TOPIC = 2
LATEST, EARLIEST = -1, -2
ANSWER_SECONDS_MAX = 30.0


class Answered(Exception):
    """The node answered with an error code."""

    def __init__(self, code: int, why: str = "") -> None:
        super().__init__(f"{ErrorCode(code).name} {why}")
        self.code = ErrorCode(code)


class Client:
    def __init__(self, port: int, seconds_max: float = ANSWER_SECONDS_MAX) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=seconds_max)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.sock.close()

    # --- frames

    def send(self, request: Any) -> None:
        key = request.API_KEY
        version, is_flexible = _VERSIONS[key], _VERSIONS[key] >= request.FLEXIBLE_FROM
        out = Buffer()
        encode_request_header(out, RequestHeader(key, version, 7, "crash"), is_flexible)
        request.encode(out, version)
        finish_request(out)
        self.sock.sendall(out)

    def receive(self, key: int) -> Any:
        answer: Any = RESPONSES[key]
        frame = memoryview(self._read(_SIZE.unpack(self._read(4))[0]))
        version = _VERSIONS[key]
        _, at = decode_response_header(frame, 0, version >= answer.FLEXIBLE_FROM)
        return answer.decode(frame, at, version)[0]

    def ask(self, request: Any) -> Any:
        self.send(request)
        return self.receive(request.API_KEY)

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self.sock.recv(size - len(data))
            if not piece:
                raise ConnectionResetError("the node has closed the connection")
            data += piece
        return bytes(data)

    # --- topics

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        settings = [ct.CreatableTopicConfig(key, value) for key, value in (configs or {}).items()]
        topic = ct.CreatableTopic(name, partitions, 1, configs=settings)
        result = self.ask(ct.CreateTopicsRequest([topic], 20_000)).topics[0]
        _check(result.error_code, result.error_message)

    def delete_topic(self, name: str) -> None:
        _check(self.ask(DeleteTopicsRequest(topic_names=[name], timeout_ms=20_000)).responses[0].error_code)

    def topics(self) -> dict[str, int]:
        """Names and partition counts of all topics."""
        found = self.ask(MetadataRequest(topics=None)).topics
        return {topic.name: len(topic.partitions) for topic in found}

    def set_config(self, topic: str, name: str, value: str) -> None:
        resource = ic.AlterConfigsResource(TOPIC, topic, [ic.AlterableConfig(name, 0, value)])
        result = self.ask(ic.IncrementalAlterConfigsRequest([resource])).responses[0]
        _check(result.error_code, result.error_message)

    def config(self, topic: str, name: str) -> str | None:
        result = self.ask(dc.DescribeConfigsRequest([dc.DescribeConfigsResource(TOPIC, topic, [name])])).results[0]
        _check(result.error_code, result.error_message)
        value: str | None = result.configs[0].value
        return value

    # --- records

    def new_producer_id(self) -> int:
        answer = self.ask(InitProducerIdRequest(transaction_timeout_ms=60_000))
        _check(answer.error_code)
        return int(answer.producer_id)

    def send_produce(self, topic: str, partition: int, batch: bytes, acks: int) -> None:
        data = [TopicProduceData(topic, partition_data=[PartitionProduceData(partition, memoryview(batch))])]
        self.send(ProduceRequest(None, acks, 20_000, data))

    def receive_produce(self) -> int:
        """The base offset."""
        result = self.receive(ProduceRequest.API_KEY).responses[0].partition_responses[0]
        _check(result.error_code, result.error_message)
        return int(result.base_offset)

    def produce(self, topic: str, partition: int, batch: bytes, acks: int = -1) -> int:
        self.send_produce(topic, partition, batch, acks)
        return self.receive_produce()

    def fetch(self, topic: str, partition: int, offset: int, max_wait_ms: int = 0) -> fe.PartitionData:
        """The partition's answer: `records`, `high_watermark`, `log_start_offset`."""
        wanted = fe.FetchPartition(partition, fetch_offset=offset, partition_max_bytes=4 << 20)
        topics = [fe.FetchTopic(topic, partitions=[wanted])]
        answer = self.ask(fe.FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=8 << 20, topics=topics))
        _check(answer.error_code)
        result: fe.PartitionData = answer.responses[0].partitions[0]
        _check(result.error_code)
        return result

    def batches(self, topic: str, partition: int, offset: int = 0) -> Iterator[memoryview]:
        """Every batch from `offset` to the end of the log, checksums checked."""
        while True:
            answer = self.fetch(topic, partition, offset)
            data = memoryview(answer.records or b"")  # type: ignore[arg-type]
            before = offset
            for at, header in iter_headers(data):
                assert crc_ok(data, at, header), f"{topic}-{partition}: wrong checksum at {header.base_offset}"
                yield data[at : at + header.size]
                offset = header.next_offset
            if offset >= answer.high_watermark:
                return
            assert offset > before, f"{topic}-{partition}: nothing at {offset}, high watermark {answer.high_watermark}"

    def list_offset(self, topic: str, partition: int, timestamp: int) -> int:
        wanted = lo.ListOffsetsTopic(topic, [lo.ListOffsetsPartition(partition, -1, timestamp)])
        result = self.ask(lo.ListOffsetsRequest(-1, 0, [wanted])).topics[0].partitions[0]
        _check(result.error_code)
        return int(result.offset)

    def delete_records(self, topic: str, partition: int, offset: int) -> int:
        """The log start afterwards."""
        wanted = dr.DeleteRecordsTopic(topic, [dr.DeleteRecordsPartition(partition, offset)])
        result = self.ask(dr.DeleteRecordsRequest([wanted], 20_000)).topics[0].partitions[0]
        _check(result.error_code)
        return int(result.low_watermark)


def _check(code: int, why: str | None = None) -> None:
    if code:
        raise Answered(code, why or "")
