"""Frames and their headers."""

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as KioRequestHeader1
from kio.schema.request_header.v2.header import RequestHeader as KioRequestHeader2
from kio.serial import entity_writer

from ottla.wire.frame import (
    RequestHeader,
    begin_response,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    finish_request,
    finish_response,
)
from ottla.wire.messages.index import FLEXIBLE_FROM, ApiKey
from ottla.wire.primitives import Buffer, Malformed

headers = st.builds(
    RequestHeader,
    st.integers(-(2**15), 2**15 - 1),
    st.integers(-(2**15), 2**15 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.none() | st.text(max_size=20),
)


class Slices:
    size = 1000


@pytest.mark.parametrize("flexible", [False, True])
@given(header=headers)
def test_a_request_header_is_what_kio_writes(flexible: bool, header: RequestHeader) -> None:
    kio_class: Any = KioRequestHeader2 if flexible else KioRequestHeader1
    expected = io.BytesIO()
    theirs = kio_class(
        request_api_key=header.api_key,
        request_api_version=header.api_version,
        correlation_id=header.correlation_id,
        client_id=header.client_id,
    )
    entity_writer(kio_class)(expected, theirs)
    out = Buffer()
    encode_request_header(out, header, flexible)
    finish_request(out)
    assert out[4:] == expected.getvalue()
    assert int.from_bytes(out[:4], "big") == len(out) - 4
    flexible_from = {header.api_key: header.api_version} if flexible else {}
    assert decode_request_header(memoryview(out), 4, flexible_from) == (header, len(out))


@given(header=headers, data=st.data())
def test_a_request_header_cut_short_is_malformed(header: RequestHeader, data: Any) -> None:
    out = Buffer()
    encode_request_header(out, header, flexible=True)
    whole = out[4:]
    size = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(Malformed):
        decode_request_header(memoryview(whole)[:size], 0, {header.api_key: header.api_version})


@given(st.binary(max_size=40))
def test_noise_is_malformed_or_a_header(noise: bytes) -> None:
    try:
        _, end = decode_request_header(memoryview(noise), 0, FLEXIBLE_FROM)
    except Malformed:
        return
    assert end <= len(noise)


def test_a_header_of_an_unknown_api_is_read_as_classic() -> None:
    """The router must get to see the key that it refuses."""
    out = Buffer()
    encode_request_header(out, RequestHeader(999, 0, 1, "c"), flexible=False)
    assert decode_request_header(memoryview(out), 4, FLEXIBLE_FROM)[0].api_key == 999


def test_api_versions_from_the_future_have_a_flexible_header() -> None:
    out = Buffer()
    header = RequestHeader(ApiKey.API_VERSIONS, 99, 1, "c")
    encode_request_header(out, header, flexible=True)
    assert decode_request_header(memoryview(out), 4, FLEXIBLE_FROM) == (header, len(out))


@pytest.mark.parametrize("length", [b"\xff\xfe", b"\x7f\xff"])
def test_a_client_id_of_absurd_length_is_malformed(length: bytes) -> None:
    with pytest.raises(Malformed):
        decode_request_header(memoryview(b"\x00\x12\x00\x00\x00\x00\x00\x01" + length + b"abc"), 0, FLEXIBLE_FROM)


@pytest.mark.parametrize("flexible, head", [(False, "0000000a 00000007"), (True, "0000000b 00000007 00")])
def test_a_response_knows_its_size(flexible: bool, head: str) -> None:
    out = begin_response(7, flexible)
    out += b"abcdef"
    finish_response(out)
    assert bytes(out) == bytes.fromhex(head) + b"abcdef"
    assert decode_response_header(memoryview(out), 4, flexible) == (7, len(out) - 6)


def test_a_response_counts_the_bytes_that_its_holes_stand_for() -> None:
    out = begin_response(7, flexible=False)
    out.holes.append((8, Slices()))
    finish_response(out)
    assert int.from_bytes(out[:4], "big") == 4 + 1000


def test_a_response_header_cut_short_is_malformed() -> None:
    for size in range(5):
        with pytest.raises(Malformed):
            decode_response_header(memoryview(b"\x00\x00\x00\x07\x00")[:size], 0, flexible=True)
