"""Every message in every version against kio, whose codecs were generated from Kafka's definitions independently."""

import dataclasses
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.index import api_key_map

from ottla.wire.messages.index import APIS, FLEXIBLE_FROM, REQUESTS, RESPONSES, ApiKey
from ottla.wire.primitives import NEVER_FLEXIBLE
from tests.unit.wire.message_values import (
    KioMessage,
    kio_bytes,
    kio_messages,
    kio_values,
    our_bytes,
    ours_from_kio,
    own_messages,
)

MESSAGES = kio_messages()


@settings(max_examples=15)
@given(data=st.data())
@pytest.mark.parametrize("message", MESSAGES, ids=str)
def test_kio_and_we_read_and_write_the_same_bytes(message: KioMessage, data: Any) -> None:
    theirs = data.draw(kio_values(message.kio_class))
    ours = ours_from_kio(theirs, message.our_class)
    encoded = kio_bytes(theirs)
    assert our_bytes(ours, message.version) == encoded
    assert message.our_class.decode(memoryview(encoded), 0, message.version) == (ours, len(encoded))


def newest_classes() -> list[tuple[Any, Any]]:
    """Each of kio's classes in its newest version, nested ones too, with ours of the same name."""
    newest = {message.our_class: message for message in MESSAGES}
    found = []
    for our_class, message in newest.items():
        module = import_module(our_class.__module__)
        for kio_class in vars(import_module(message.kio_class.__module__)).values():
            is_its_own = dataclasses.is_dataclass(kio_class) and kio_class.__module__ == message.kio_class.__module__
            if is_its_own and hasattr(module, kio_class.__name__):
                found.append((kio_class, getattr(module, kio_class.__name__)))
    return found


@pytest.mark.parametrize("kio_class, our_class", newest_classes(), ids=lambda c: f"{c.__module__}.{c.__name__}")
def test_fields_default_to_what_kafka_says(kio_class: Any, our_class: Any) -> None:
    explicit = {f.name: f.default for f in dataclasses.fields(kio_class) if f.default is not dataclasses.MISSING}
    needed = {f.name: None for f in dataclasses.fields(kio_class) if f.name not in explicit}
    converted = ours_from_kio(kio_class(**needed), our_class)
    fresh = our_class()
    for name in explicit:
        our_name = name if hasattr(fresh, name) else f"{name}_ms"
        assert getattr(fresh, our_name) == getattr(converted, our_name), name


def test_the_index_names_every_api_with_its_versions() -> None:
    own = {message.key: path.stem for path, message in own_messages()}
    assert {api.key: api.module for api in APIS.values()} == api_key_map | own
    assert set(REQUESTS) == set(RESPONSES) == {int(key) for key in ApiKey} == set(api_key_map | own)
    for key, api in APIS.items():
        request: Any = REQUESTS[key]
        response: Any = RESPONSES[key]
        assert request.API_KEY == response.API_KEY == key
        assert ApiKey(key).name == api.module.upper()
        assert (api.min_version, api.max_version) == (request.MIN_VERSION, request.MAX_VERSION)
        assert (api.min_version, api.max_version) == (response.MIN_VERSION, response.MAX_VERSION)
        assert sorted(request.READERS) == list(range(api.min_version, api.max_version + 1))


@pytest.mark.parametrize("message", [m for m in MESSAGES if m.our_class.API_KEY >= 0], ids=str)
def test_the_header_is_flexible_where_kio_says_so(message: KioMessage) -> None:
    flexible = message.version >= FLEXIBLE_FROM[message.our_class.API_KEY]
    header_version = message.kio_class.__header_schema__.__version__
    if message.our_class.__name__ == "ApiVersionsResponse":
        assert header_version == 0  # KIP-511: the one response whose header stays as it was
    elif message.our_class.__name__.endswith("Response"):
        assert header_version == flexible
    else:
        assert header_version == 1 + flexible


def test_an_api_that_never_became_flexible_says_so() -> None:
    assert {key.name for key in ApiKey if FLEXIBLE_FROM[key] == NEVER_FLEXIBLE} == {"SASL_HANDSHAKE", "OFFSET_DELETE"}
