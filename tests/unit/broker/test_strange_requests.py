"""Every admin API under arbitrary requests: it answers, or refuses with a code, whatever the fields say."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.base.errors import Refused
from ottla.broker.api.api_versions import ApiVersionsApi
from ottla.broker.api.configs import ConfigsApi
from ottla.broker.api.log_dirs import LogDirsApi
from ottla.broker.api.metadata import MetadataApi
from ottla.broker.api.producers import ProducersApi
from ottla.broker.api.quorum import QuorumApi
from ottla.broker.api.reassignments import ReassignmentsApi
from ottla.broker.api.topic_partitions import TopicPartitionsApi
from ottla.broker.api.topics import TopicsApi
from ottla.broker.api.transaction_admin import TransactionAdminApi
from ottla.broker.api.transactions import TransactionsApi
from ottla.broker.route import Api, Call, Route
from ottla.core.metadata.asks import NewTopic
from ottla.runtime.controller import QuorumStatus, ReplicaStatus
from ottla.wire.messages.index import RESPONSES, ApiKey
from ottla.wire.primitives import Message
from tests.unit.broker.cluster import CLUSTER_ID, PEER, FakeReplicas, FakeTransactions, one_node, told
from tests.unit.wire.message_values import kio_bytes, kio_messages, kio_values

TOPIC_ID = b"\x05" * 16
NAMES = ["one", "two", "new", "", ".", "a b", "x" * 250, "é", "1", "2", "-1", "9" * 30, "\x00", "__cluster_metadata"]
SETTINGS = ["none", "compact", "retention.ms", "cleanup.policy", "log.retention.ms", "log.dirs", "metadata.version"]
TEXTS = st.sampled_from([*NAMES, *SETTINGS])
NUMBERS = st.sampled_from([-2, -1, 0, 1, 2, 3, 4, 8, 16, 32, 99])
"""They fit in one byte: what does not fit in its field cannot arrive. Large ones come with the arbitrary values."""

BYTES_OF_REQUESTS = {
    (message.our_class.API_KEY, message.version): message
    for message in kio_messages()
    if message.our_class.__name__.endswith("Request")
}


@dataclass(frozen=True)
class FakeDirectory:
    path: Path
    is_online: bool


def apis() -> tuple[Any, tuple[Api, ...]]:
    controller, config = one_node()
    topics = [NewTopic("one", 2, 1), NewTopic("two", 1, 1), NewTopic("__consumer_offsets", 2, 1)]
    asyncio.run(controller.create_topics(topics))
    status = QuorumStatus(1, 3, 29, (ReplicaStatus(1, 30, -1, -1, True),))
    controller.quorum_status = lambda: status  # type: ignore[attr-defined]
    replicas: Any = FakeReplicas(directories=[FakeDirectory(Path("/"), True)])
    core: Any = controller
    transactions: Any = FakeTransactions(controller)
    served: tuple[Api, ...] = (
        MetadataApi(core, replicas, config, CLUSTER_ID),
        TopicPartitionsApi(core, config),
        TopicsApi(core, replicas, config),
        ReassignmentsApi(core),
        ConfigsApi(core, config),
        ProducersApi(replicas, transactions),
        TransactionsApi(transactions, transactions, core),
        TransactionAdminApi(transactions),
        LogDirsApi(replicas),
        QuorumApi(core, config),
    )
    return controller, (*served, ApiVersionsApi(core, served))


ROUTES = {route.key: route for api in apis()[1] for route in api.routes()}


def strange(message: Any, data: st.DataObject, known_ids: list[bytes]) -> None:
    """Put names and numbers that mean something into a message of arbitrary values."""
    for name in message.__slots__:
        value = getattr(message, name)
        if isinstance(value, bool) or value is None:
            continue
        if isinstance(value, str):
            setattr(message, name, data.draw(TEXTS))
        elif isinstance(value, int):
            setattr(message, name, data.draw(NUMBERS))
        elif isinstance(value, bytes):
            setattr(message, name, data.draw(st.sampled_from(known_ids)))
        elif isinstance(value, list):
            setattr(message, name, [_strange_item(item, data, known_ids) for item in value])


def _strange_item(item: Any, data: st.DataObject, known_ids: list[bytes]) -> Any:
    if isinstance(item, Message):
        strange(item, data, known_ids)
        return item
    if isinstance(item, str):
        return data.draw(TEXTS)
    return data.draw(NUMBERS) if isinstance(item, int) else item


def versions_of(route: Route) -> Iterator[int]:
    return iter(range(route.versions.first, route.versions.last + 1))


@pytest.mark.parametrize("key", sorted(ROUTES), ids=lambda key: key.name)
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_it_answers_or_refuses_whatever_is_asked(key: ApiKey, data: st.DataObject) -> None:
    controller, served = apis()
    route = next(route for api in served for route in api.routes() if route.key == key)
    version = data.draw(st.sampled_from(list(versions_of(route))))
    message = BYTES_OF_REQUESTS[int(key), version]
    raw = memoryview(kio_bytes(data.draw(kio_values(message.kio_class))))
    request, _ = message.our_class.decode(raw, 0, version)
    if data.draw(st.booleans()):
        strange(request, data, [bytes(16), TOPIC_ID, *controller.image.topics_by_id])
    call: Call[Any] = Call(request, version, None, PEER)
    try:
        response: Any = asyncio.run(route.serve(call))  # type: ignore[arg-type]
    except Refused as refusal:
        assert "error_code" in RESPONSES[int(key)].__slots__, "there is no place for the code"
        assert int(refusal.code) != 0
        return
    told(response, version)
    partitions = (entry for topic in controller.image.topics_by_id.values() for entry in topic.partitions)
    assert all(entry.leader == 1 and entry.replicas == (1,) for entry in partitions)
    assert "__cluster_metadata" not in controller.image.topics_by_name
