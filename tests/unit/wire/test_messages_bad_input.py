"""Broken bytes give Malformed or a value: never another exception, never memory for what they claim to hold."""

import tracemalloc
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from ottla.wire.messages.fetch import FetchRequest, FetchTopic
from ottla.wire.primitives import REQUEST_ELEMENTS_MAX, Malformed, Message, write_uvarint
from tests.unit.wire.message_values import (
    kio_bytes,
    kio_messages,
    kio_values,
    our_bytes,
    own_api_messages,
    record_values,
    schema_records,
)

ABSURD_LENGTHS = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\x7f", b"\x7f\xff", b"\x80\x00\x00\x00")
BYTES_PER_FRAME_BYTE_MAX = 400
"""An empty nested message takes one to three bytes on the wire and a few hundred in memory."""
BYTES_MAX = 400_000


class Sample:
    """One message class in one version, and a strategy for bytes that are right."""

    def __init__(self, cls: type[Message], version: int, encoded: st.SearchStrategy[bytes]) -> None:
        self.cls = cls
        self.version = version
        self.encoded = encoded

    def __str__(self) -> str:
        return f"{self.cls.__name__}-v{self.version}"

    def decode(self, data: bytes) -> None:
        """Anything but a value inside the bytes or Malformed flies."""
        try:
            _, end = self.cls.decode(memoryview(data), 0, self.version)
        except Malformed:
            return
        assert 0 <= end <= len(data)


def samples() -> list[Sample]:
    found = [Sample(m.our_class, m.version, kio_values(m.kio_class).map(kio_bytes)) for m in kio_messages()]
    for message, cls, version in [*schema_records(), *own_api_messages()]:
        found.append(Sample(cls, version, record_values(message, cls, version).map(_encoder(version))))
    return found


def _encoder(version: int) -> Any:
    return lambda record: our_bytes(record, version)


every_message = pytest.mark.parametrize("sample", samples(), ids=str)
few_examples = settings(max_examples=5, phases=[Phase.explicit, Phase.reuse, Phase.generate])


@few_examples
@given(data=st.data())
@every_message
def test_a_message_cut_anywhere_is_malformed(sample: Sample, data: Any) -> None:
    encoded = data.draw(sample.encoded)
    _, end = sample.cls.decode(memoryview(encoded), 0, sample.version)
    assert end == len(encoded)
    for size in range(len(encoded)):
        with pytest.raises(Malformed):
            sample.cls.decode(memoryview(encoded)[:size], 0, sample.version)


@few_examples
@given(data=st.data(), random=st.integers(0, 2**32).map(Random))
@every_message
def test_a_message_with_changed_bytes_is_malformed_or_another_message(
    sample: Sample, data: Any, random: Random
) -> None:
    encoded = data.draw(sample.encoded)
    for _ in range(20):
        changed = bytearray(encoded)
        for _ in range(random.randint(1, 4)):
            if changed:
                changed[random.randrange(len(changed))] = random.randrange(256)
        sample.decode(bytes(changed))


@seed(0)
@settings(max_examples=1, phases=[Phase.generate])
@given(data=st.data())
@every_message
def test_an_absurd_length_anywhere_costs_no_memory(sample: Sample, data: Any) -> None:
    encoded = data.draw(sample.encoded.filter(lambda raw: len(raw) < 600))
    tracemalloc.start()
    try:
        for at in range(len(encoded)):
            for length in ABSURD_LENGTHS:
                sample.decode(encoded[:at] + length + encoded[at + len(length) :])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < BYTES_MAX + len(encoded) * BYTES_PER_FRAME_BYTE_MAX


@few_examples
@given(noise=st.binary(max_size=60))
@every_message
def test_noise_is_malformed_or_a_message(sample: Sample, noise: bytes) -> None:
    sample.decode(noise)


def dense_fetch_request(topics: int) -> bytes:
    """The most objects that a frame can be made to hold: three bytes each."""
    one = our_bytes(FetchRequest(topics=[FetchTopic()]), 12)
    at = one.index(b"\x02\x01\x01\x00")
    count = bytearray()
    write_uvarint(count, topics + 1)
    return one[:at] + bytes(count) + b"\x01\x01\x00" * topics + one[at + 4 :]


def test_a_frame_packed_with_empty_elements_is_refused_before_it_fills_the_memory() -> None:
    many = dense_fetch_request(REQUEST_ELEMENTS_MAX + 1)
    tracemalloc.start()
    try:
        with pytest.raises(Malformed, match="array elements"):
            FetchRequest.decode(memoryview(many), 0, 12)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < BYTES_MAX


def test_each_message_has_an_allowance_of_elements_of_its_own() -> None:
    some = dense_fetch_request(3_000)
    for _ in range(REQUEST_ELEMENTS_MAX // 3_000 + 1):
        request, _ = FetchRequest.decode(memoryview(some), 0, 12)
    assert len(request.topics) == 3_000


def test_a_version_nobody_knows_is_malformed() -> None:
    for sample in samples():
        with pytest.raises(Malformed, match="no version"):
            sample.cls.decode(memoryview(bytes(100)), 0, 99)
