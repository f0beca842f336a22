"""A client that costs next to nothing: request frames encoded once and pipelined, answers only counted."""

import socket
from struct import Struct

from ottla.wire.batch import encode_batch, new_records
from ottla.wire.frame import RequestHeader, encode_request_header, finish_request
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.index import ApiKey
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.primitives import Buffer, Message

_SIZE = Struct(">i")
PRODUCE_VERSION = 11


def request_frame(key: ApiKey, version: int, request: Message, is_flexible: bool) -> bytes:
    out = Buffer()
    encode_request_header(out, RequestHeader(int(key), version, 1, "bench"), is_flexible)
    request.encode(out, version)
    finish_request(out)
    return bytes(out)


def produce_frame(topic: str, value: bytes, timestamp_ms: int, acks: int = -1) -> bytes:
    batch = encode_batch(new_records([(None, value)], timestamp_ms))
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, memoryview(batch))])
    request = ProduceRequest(None, acks, 30_000, [data])
    return request_frame(ApiKey.PRODUCE, PRODUCE_VERSION, request, True)


class RawClient:
    def __init__(self, port: int) -> None:
        self._sock = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        self._sock.close()

    def ask(self, frame: bytes) -> memoryview:
        """One request, its whole answer behind the correlation id."""
        self._sock.sendall(frame)
        return memoryview(self._read(_SIZE.unpack(self._read(4))[0]))[4:]

    def create_topic(self, name: str, partitions: int = 1) -> None:
        request = CreateTopicsRequest([CreatableTopic(name, partitions, 1)], 30_000)
        body = self.ask(request_frame(ApiKey.CREATE_TOPICS, 4, request, False))
        answer, _ = CreateTopicsResponse.decode(body, 0, 4)
        assert answer.topics[0].error_code == 0, answer

    def produce(self, frame: bytes) -> int:
        """One produce request; its error code."""
        answer, _ = ProduceResponse.decode(self.ask(frame)[1:], 0, PRODUCE_VERSION)
        return int(answer.responses[0].partition_responses[0].error_code)

    def pipeline(self, frame: bytes, count: int, window: int) -> None:
        """`count` times the same request, `window` of them under way; all answers have the same size."""
        self._sock.sendall(frame * window)
        size = 4 + _SIZE.unpack(self._read(4))[0]
        buffer = memoryview(bytearray(size * window))
        sent, answered, part = window, 0, 4
        while answered < count:
            part += self._sock.recv_into(buffer)
            finished, part = divmod(part, size)
            answered += finished
            more = min(finished, count - sent)
            if more:
                self._sock.sendall(frame * more)
                sent += more

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self._sock.recv(size - len(data))
            if not piece:
                raise ConnectionError("the node has closed the connection")
            data += piece
        return bytes(data)
