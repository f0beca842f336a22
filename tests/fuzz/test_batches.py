"""Record batches with bytes changed anywhere: what gets in must be served whole and survive a crash."""

from __future__ import annotations

import gzip
import random
import struct
from collections.abc import Callable

import crc32c
import lz4.frame
import pytest
import zstandard

from tests.compat.batches import Batch, batch, records, zigzag
from tests.compat.raw import EARLIEST, LATEST, Raw
from tests.compat.wire import Closed

from .siege import ROUNDS, Siege

MUTANTS = 1200
BOMB_BYTES = 200 << 20
CODECS: dict[int, Callable[[bytes], bytes]] = {1: gzip.compress, 3: lz4.frame.compress, 4: zstandard.compress}


def with_crc(data: bytes) -> bytes:
    """The batch with a CRC that fits, so that the change is not found out at once."""
    return data[:17] + struct.pack(">I", crc32c.crc32c(data[21:])) + data[21:] if len(data) > 21 else data


def mutate(chance: random.Random, good: bytes) -> bytes:
    bytes_ = bytearray(good)
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = chance.randrange(len(bytes_))
        match chance.randrange(4):
            case 0:
                bytes_[at] ^= 1 << chance.randrange(8)
            case 1:
                bytes_[at : at + 4] = chance.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", bytes(4)))
            case 2:
                del bytes_[at : at + chance.randrange(1, 20)]
            case 3:
                bytes_[at:at] = chance.randbytes(chance.randrange(1, 20))
        if not bytes_:
            break
    return bytes(bytes_)


def goods() -> list[bytes]:
    payload = records(*[b"v" * 30] * 5)
    plain = batch(*[b"v" * 30] * 5)
    numbered = batch(b"v", producer_id=4711, producer_epoch=0, base_sequence=0)
    packed = [Batch(payload=pack(payload), count=5, attributes=codec).encode() for codec, pack in CODECS.items()]
    return [plain, numbered, *packed]


def read_whole(raw: Raw, topic: str) -> int:
    """Read the partition from start to end as a consumer would; the offset after the last batch."""
    offset: int = raw.list_offset(topic, EARLIEST)["offset"]
    end = raw.list_offset(topic, LATEST)["offset"]
    while offset < end:
        got = raw.batches(topic, offset)
        assert got, f"nothing at {offset} of {end}"
        for header in got:
            assert header.base_offset <= offset <= header.last_offset
            offset = header.last_offset + 1
    return offset


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_changed_batches_never_spoil_the_partition(siege: Siege, policy: str) -> None:
    chance = random.Random(f"batches, {policy}")
    raw = siege.honest
    topic = raw.create(configs={"cleanup.policy": policy})
    for number in range(MUTANTS * ROUNDS):
        mutant = mutate(chance, chance.choice(goods()))
        if chance.random() < 0.8:
            mutant = with_crc(mutant)
        answer = raw.produce(topic, mutant)
        if number % 10 == 0:
            assert raw.produce(topic, batch(b"honest"))["error_code"] == 0
        assert answer["error_code"] != 0 or answer["base_offset"] >= 0
    assert read_whole(raw, topic) == raw.list_offset(topic, LATEST)["offset"] > 0
    assert raw.list_offset(topic, 0)["error_code"] == 0
    siege.check()


@pytest.mark.parametrize("codec", CODECS)
def test_compression_bomb_does_not_blow_the_memory(siege: Siege, codec: int) -> None:
    """A compacted topic needs keys, so the node has to look inside."""
    raw = siege.honest
    topic = raw.create(configs={"cleanup.policy": "compact"})
    value = bytes(BOMB_BYTES)
    body = b"\x00" + zigzag(0) + zigzag(0) + zigzag(1) + b"k" + zigzag(len(value)) + value + b"\x00"
    packed = CODECS[codec](zigzag(len(body)) + body)
    if len(packed) > 1_000_000:
        pytest.skip("this codec cannot pack it below max.message.bytes")
    raw.produce(topic, Batch(payload=packed, attributes=codec).encode())
    siege.check()


def test_what_got_in_survives_a_crash(siege: Siege) -> None:
    chance = random.Random("crash")
    broker = siege.broker
    topic = siege.honest.create("survives")
    for _ in range(400):
        try:
            siege.honest.produce(topic, with_crc(mutate(chance, chance.choice(goods()))))
        except Closed:
            siege.honest.reconnect()
    end = siege.honest.list_offset(topic, LATEST)["offset"]
    broker.kill()
    broker.start()
    with Raw(broker.host, broker.port) as raw:
        raw.wait_ready(topic)
        assert read_whole(raw, topic) == end
        assert raw.append(topic, b"goes on") == end
    assert "Traceback" not in broker.log_text()
