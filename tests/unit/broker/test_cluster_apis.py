"""ApiVersions, DescribeLogDirs, DescribeQuorum, UpdateFeatures, UnregisterBroker, and that no API is forgotten."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.base.errors import ErrorCode, Refused
from ottla.base.types import TopicName, TopicPartition
from ottla.broker.api.api_versions import ApiVersionsApi
from ottla.broker.api.log_dirs import LogDirsApi
from ottla.broker.api.metadata import MetadataApi
from ottla.broker.api.quorum import QuorumApi
from ottla.broker.route import Route, private, versions
from ottla.core.metadata import records as r
from ottla.runtime.controller import QuorumStatus, ReplicaStatus
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from ottla.wire.messages.index import ApiKey
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.unit.broker.cluster import CLUSTER_ID, FakeReplicas, call, one_node, told


async def _serve(_: Any) -> None:
    return None


class _Produce:
    def routes(self) -> tuple[Route, ...]:
        return (
            Route(ApiKey.PRODUCE, versions(3, 13, advertised_first=0), _serve),
            Route(ApiKey.INIT_PRODUCER_ID, versions(0, 6, advertised_last=5), _serve),
            Route(ApiKey.COMMIT_GROUP, private(0, 0), _serve),
        )


def api_versions(**features: int) -> ApiVersionsApi:
    controller, config = one_node()
    controller.apply(*(r.FeatureLevelRecord(name=n.replace("_", "."), feature_level=at) for n, at in features.items()))
    metadata = MetadataApi(controller, FakeReplicas(), config, CLUSTER_ID)  # type: ignore[arg-type]
    return ApiVersionsApi(controller, [_Produce(), metadata])  # type: ignore[arg-type]


def ask_versions(api: ApiVersionsApi, version: int, *names: str) -> Any:
    request = ApiVersionsRequest(*(names or ("lib-rdkafka", "2.1.0")))
    return told(asyncio.run(api.answer(call(request, version))), version)


@pytest.mark.parametrize("version", range(5))
def test_what_is_routed_is_advertised_and_nothing_else(version: int) -> None:
    answer = ask_versions(api_versions(), version)
    ranges = [(one.api_key, one.min_version, one.max_version) for one in answer.api_keys]
    assert ranges == [(0, 0, 13), (3, 0, 13), (18, 0, 4), (22, 0, 5), (60, 0, 2)]
    assert answer.error_code == 0


@pytest.mark.parametrize(("version", "is_told"), [(2, False), (3, True), (4, True)])
def test_only_our_own_client_is_told_of_private_apis_and_unsettled_versions(version: int, is_told: bool) -> None:
    answer = ask_versions(api_versions(), version, "ottla", "1")
    ranges = {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
    assert ranges[22] == ((0, 6) if is_told else (0, 5))
    assert (ApiKey.COMMIT_GROUP in ranges) == is_told
    assert ranges[0] == (0, 13)


def test_features_without_apis_behind_them_are_not_told() -> None:
    api = api_versions(metadata_version=25, transaction_version=2, group_version=1, share_version=1)
    for version, supported in (
        (3, {"metadata.version"}),
        (
            4,
            {"metadata.version", "eligible.leader.replicas.version", "group.version", "transaction.version"},
        ),
    ):
        answer = ask_versions(api, version)
        assert {one.name for one in answer.supported_features} == supported
        finalized = [(one.name, one.min_version_level, one.max_version_level) for one in answer.finalized_features]
        assert finalized == [("metadata.version", 25, 25), ("transaction.version", 2, 2), ("group.version", 1, 1)]
        assert answer.finalized_features_epoch == 42


@pytest.mark.parametrize("names", [("", "1"), ("a", ""), ("-a", "1"), ("a b", "1"), ("a", "1.")])
def test_a_client_with_an_illegal_name_is_refused(names: tuple[str, str]) -> None:
    api = api_versions()
    assert ask_versions(api, 3, *names).error_code == ErrorCode.INVALID_REQUEST
    assert ask_versions(api, 2, *names).error_code == 0


# ------------------------------------------------------------------------ DescribeLogDirs


@dataclass(frozen=True)
class FakeDirectory:
    path: Path
    is_online: bool


def log_dirs(topics: list[DescribableLogDirTopic] | None, version: int, path: Path) -> Any:
    working, broken = FakeDirectory(path, True), FakeDirectory(Path("/broken"), False)
    replicas = FakeReplicas(directories=[working, broken], lost_directories=(Path("/lost"),))
    for index, size in enumerate((10, 20)):
        key = TopicPartition(TopicName("one"), index)
        replicas.partitions["one", index] = SimpleNamespace(key=key, home=working, log=SimpleNamespace(size=size))
    answer = asyncio.run(LogDirsApi(replicas).describe(call(DescribeLogDirsRequest(topics), version)))  # type: ignore[arg-type]
    return told(answer, version).results


@pytest.mark.parametrize("version", range(1, 6))
def test_every_directory_is_described_even_if_it_has_failed(version: int, tmp_path: Path) -> None:
    good, broken, lost = log_dirs(None, version, tmp_path)
    assert (good.error_code, good.log_dir) == (0, str(tmp_path))
    assert [(one.partition_index, one.partition_size) for one in good.topics[0].partitions] == [(0, 10), (1, 20)]
    assert (good.total_bytes >= good.usable_bytes > 0) == (version >= 4)
    assert (broken.error_code, lost.error_code, lost.log_dir) == (56, 56, "/lost")


def test_only_the_partitions_that_are_asked_for_are_described(tmp_path: Path) -> None:
    asked = [DescribableLogDirTopic("one", [1]), DescribableLogDirTopic("nosuch", [0])]
    (topic,) = log_dirs(asked, 5, tmp_path)[0].topics
    assert [one.partition_index for one in topic.partitions] == [1]
    assert log_dirs([], 5, tmp_path)[0].topics == []


# ------------------------------------------------------------------------ the quorum


def quorum_api() -> tuple[Any, QuorumApi]:
    controller, config = one_node()
    voter = ReplicaStatus(1, 30, -1, -1, True, b"\x09" * 16)
    observer = ReplicaStatus(2, 20, 0, 0, False)
    controller.quorum_status = lambda: QuorumStatus(1, 3, 29, (voter, observer))  # type: ignore[attr-defined]
    return controller, QuorumApi(controller, config)  # type: ignore[arg-type]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_quorum_is_described_in_every_version(version: int) -> None:
    _, api = quorum_api()
    request = DescribeQuorumRequest([RequestTopicData("__cluster_metadata", [RequestPartitionData(0)])])
    answer = told(asyncio.run(api.describe(call(request, version))), version)
    partition = answer.topics[0].partitions[0]
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, 1, 3)
    assert partition.high_watermark == 29
    assert [(one.replica_id, one.log_end_offset) for one in partition.current_voters] == [(1, 30)]
    assert [(one.replica_id, one.log_end_offset) for one in partition.observers] == [(2, 20)]
    if version >= 1:
        assert partition.current_voters[0].last_fetch_timestamp >= partition.observers[0].last_fetch_timestamp > 0
    if version >= 2:
        assert partition.current_voters[0].replica_directory_id == b"\x09" * 16
        assert [(node.node_id, node.listeners[0].port) for node in answer.nodes] == [(1, 9092)]


@pytest.mark.parametrize(("topic", "index"), [("x", 0), ("__cluster_metadata", 3)])
def test_only_the_metadata_log_has_a_quorum(topic: str, index: int) -> None:
    _, api = quorum_api()
    request = DescribeQuorumRequest([RequestTopicData(topic, [RequestPartitionData(index)])])
    answer = told(asyncio.run(api.describe(call(request, 2))), 2)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer.nodes == []


@pytest.mark.parametrize("version", [0, 1, 2])
def test_features_are_updated_or_refused_in_every_version(version: int) -> None:
    controller, api = quorum_api()

    def update(feature: str, level: int) -> Any:
        request = UpdateFeaturesRequest(10_000, [FeatureUpdateKey(feature, level)], False)
        return told(asyncio.run(api.update_features(call(request, version))), version)

    good, bad = update("eligible.leader.replicas.version", 1), update("nosuch", 1)
    assert controller.image.features == {"eligible.leader.replicas.version": 1}
    assert good.error_code == 0 and bad.error_code != 0 and bad.error_message and bad.results == []
    if version < 2:
        assert good.results[0].error_code == 0


def test_a_broker_that_is_gone_is_unregistered_and_the_answering_one_is_not() -> None:
    controller, api = quorum_api()
    controller.add_broker(2, 9093, fenced=True)
    asyncio.run(api.unregister(call(UnregisterBrokerRequest(2), 0)))
    assert set(controller.image.brokers) == {1}
    for broker_id, code in ((1, ErrorCode.INVALID_REQUEST), (7, ErrorCode.BROKER_ID_NOT_REGISTERED)):
        with pytest.raises(Refused) as refusal:
            asyncio.run(api.unregister(call(UnregisterBrokerRequest(broker_id), 0)))
        assert refusal.value.code == code
