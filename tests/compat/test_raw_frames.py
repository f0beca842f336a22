"""Frames, headers and versions: what closes a connection and what is answered."""

from __future__ import annotations

import socket
import struct

import pytest

from .raw import Raw
from .wire import KEYS, Closed, Wire, decode_answer, encode_header, encode_request, versions

UNSUPPORTED_VERSION, INVALID_REQUEST = 35, 42

# What the newest clients may ask of a node; more may be advertised.
ADVERTISED = {
    "produce": (0, 13),
    "fetch": (4, 18),
    "list_offsets": (1, 11),
    "metadata": (0, 13),
    "api_versions": (0, 4),
    "create_topics": (2, 7),
    "delete_topics": (1, 6),
    "delete_records": (0, 2),
    "init_producer_id": (0, 5),
    "offset_for_leader_epoch": (2, 4),
    "describe_configs": (1, 4),
    "alter_configs": (0, 2),
    "describe_log_dirs": (1, 5),
    "create_partitions": (0, 3),
    "incremental_alter_configs": (0, 1),
    "describe_quorum": (0, 2),
    "describe_cluster": (0, 2),
    "describe_producers": (0, 0),
    "describe_topic_partitions": (0, 0),
}
BETWEEN_NODES = (4, 5, 6, 7, 52, 53, 54, 56, 58, 59, 62, 63, 67)


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def header(key: int, version: int, flexible: bool = False, correlation_id: int = 1) -> bytes:
    return encode_header(key, version, correlation_id, "x", flexible)


METADATA = KEYS["metadata"]
CLOSING: dict[str, bytes] = {
    "size 0": struct.pack(">i", 0),
    "size -1": struct.pack(">i", -1),
    "size 2^31-1": struct.pack(">i", 2**31 - 1),
    "size above the limit": struct.pack(">i", 104_857_601),
    "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    "half a header": frame(b"\x00\x12\x00\x00"),
    "a header without client id": frame(struct.pack(">hhi", 18, 0, 1)),
    "a client id longer than the frame": frame(struct.pack(">hhih", 18, 0, 1, 100)),
    "api key -1": frame(header(-1, 0)),
    "api key 9999": frame(header(9999, 0)),
    "Metadata v99": frame(header(METADATA, 99)),
    "Metadata v-1": frame(header(METADATA, -1)),
    "Fetch v0": frame(header(1, 0) + bytes(20)),
    "Produce v0": frame(header(0, 0) + struct.pack(">hii", 1, 100, 0)),
    "Produce v2": frame(header(0, 2) + struct.pack(">hii", 1, 100, 0)),
    "an array of 2^31-1": frame(header(METADATA, 1) + struct.pack(">i", 2**31 - 1)),
    "an array of more than is there": frame(header(METADATA, 1) + struct.pack(">i", 3) + b"\x00\x01a"),
    "a compact array of 2^32-2": frame(header(METADATA, 9, flexible=True) + b"\xff\xff\xff\xff\x0f"),
    "a varint of six bytes": frame(header(METADATA, 9, flexible=True) + b"\xff\xff\xff\xff\xff\x01"),
    "a string of length -2": frame(header(METADATA, 1) + struct.pack(">ih", 1, -2)),
    "a null string": frame(header(METADATA, 1) + struct.pack(">ih", 1, -1)),
    **{
        f"api key {key} of the inner protocol": frame(header(key, 0, flexible=True) + bytes(30))
        for key in BETWEEN_NODES
    },
}


@pytest.mark.parametrize("what", CLOSING)
def test_frame_closes_the_connection_and_hurts_nobody_else(raw: Raw, what: str) -> None:
    with Wire(*raw.address) as bad:
        bad.socket.sendall(CLOSING[what])
        with pytest.raises(Closed):
            bad.receive_frame()
    assert raw.ask("api_versions", 0)["error_code"] == 0


def test_half_a_frame_and_a_goodbye_hurt_nobody(raw: Raw) -> None:
    with Wire(*raw.address) as bad:
        bad.socket.sendall(struct.pack(">i", 100) + b"abc")
        bad.socket.shutdown(socket.SHUT_WR)
        with pytest.raises(Closed):
            bad.receive_frame()
    assert raw.ask("api_versions", 0)["error_code"] == 0


@pytest.mark.parametrize("api", ADVERTISED)
def test_versions_of_the_api_are_advertised(raw: Raw, api: str) -> None:
    keys = {entry["api_key"]: entry for entry in raw.ask("api_versions", 3, **CLIENT)["api_keys"]}
    entry = keys[KEYS[api]]
    first, last = ADVERTISED[api]
    assert (entry["min_version"], min(entry["max_version"], versions(api)[-1])) == (first, last)


CLIENT = {"client_software_name": "raw", "client_software_version": "1.0"}


def test_api_versions_is_answered_in_every_version(raw: Raw) -> None:
    answers = [raw.ask("api_versions", version, **CLIENT) for version in versions("api_versions")]
    assert all(answer["error_code"] == 0 for answer in answers)
    assert all(answer["api_keys"] == answers[0]["api_keys"] for answer in answers)


@pytest.mark.parametrize("version", [-1, 99, 32767])
def test_unknown_version_of_api_versions_is_answered_in_version_0(raw: Raw, version: int) -> None:
    raw.send_frame(header(18, version, flexible=True, correlation_id=7) + b"\x02a\x02b\x00")
    correlation_id, answer = decode_answer("api_versions", 0, raw.receive_frame())
    assert (correlation_id, answer["error_code"]) == (7, UNSUPPORTED_VERSION)
    [entry] = [entry for entry in answer["api_keys"] if entry["api_key"] == 18]
    assert entry["min_version"] == 0
    assert raw.ask("api_versions", entry["max_version"], **CLIENT)["error_code"] == 0


def test_client_name_with_odd_letters_is_refused(raw: Raw) -> None:
    for name in ("", "-a-", "a b"):
        answer = raw.ask("api_versions", 3, client_software_name=name, client_software_version="1")
        assert answer["error_code"] == INVALID_REQUEST


def test_client_id_may_be_null_or_any_text(raw: Raw) -> None:
    for client_id in (None, "", "ä", "x" * 10_000):
        name = b"\xff\xff" if client_id is None else struct.pack(">h", len(client_id.encode())) + client_id.encode()
        raw.send_frame(struct.pack(">hhi", 18, 0, 9) + name)
        assert decode_answer("api_versions", 0, raw.receive_frame())[0] == 9


def test_correlation_ids_come_back_whatever_they_are(raw: Raw) -> None:
    ids = [5, -7, 5, 0, 2**31 - 1, -(2**31)]
    for correlation_id in ids:
        raw.send_frame(encode_request("metadata", 1, {"topics": []}, correlation_id))
    assert [decode_answer("metadata", 1, raw.receive_frame())[0] for _ in ids] == ids


def test_frame_may_arrive_byte_by_byte(raw: Raw) -> None:
    raw.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in frame(encode_request("metadata", 9, {"topics": [{"name": "x"}]}, 3)):
        raw.socket.sendall(bytes([byte]))
    assert decode_answer("metadata", 9, raw.receive_frame())[0] == 3


def test_bytes_after_the_request_are_ignored(raw: Raw) -> None:
    raw.send_frame(encode_request("metadata", 1, {"topics": []}, 3) + b"zzz")
    assert decode_answer("metadata", 1, raw.receive_frame())[0] == 3


def test_unknown_tagged_fields_are_skipped(raw: Raw) -> None:
    body = encode_request("metadata", 9, {"topics": []}, 3)
    assert body[-1] == 0
    raw.send_frame(body[:-1] + b"\x02\xfa\x01\x03abc\xfb\x01\x00")
    assert decode_answer("metadata", 9, raw.receive_frame())[0] == 3


def test_features_are_told(raw: Raw) -> None:
    answer = raw.ask("api_versions", 4, **CLIENT)
    finalized = {feature["name"]: feature["max_version_level"] for feature in answer["finalized_features"]}
    supported = {feature["name"]: feature for feature in answer["supported_features"]}
    assert finalized.get("metadata.version", 0) >= 7
    for name, level in finalized.items():
        assert supported[name]["min_version"] <= level <= supported[name]["max_version"]
    assert answer["finalized_features_epoch"] >= 0
    assert all(feature["min_version"] > 0 for feature in raw.ask("api_versions", 3, **CLIENT)["supported_features"])
