"""Members that mean harm, or are cut off at a bad moment: the coordinator lives, and nobody else notices."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .brokers import Broker
from .conversations_groups import JOIN, GroupTalk
from .group_ledger import wait_until
from .raw import Raw
from .wire import Closed, Fields

GROUP_TIMEOUT_MS = 1_000


@pytest.fixture
def raw(group_broker: Broker) -> Iterator[Raw]:
    with Raw(group_broker.host, group_broker.port) as connection:
        while connection.ask("find_coordinator", 0, key=connection.token)["error_code"]:
            connection.ask("metadata", 1, topics=[])
        yield connection


@pytest.fixture
def talk(raw: Raw) -> GroupTalk:
    return GroupTalk(raw)


def rss_bytes(broker: Broker) -> int:
    return int(Path(f"/proc/{broker.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def describe(raw: Raw, group: str) -> Fields:
    found: Fields = raw.ask("describe_groups", 5, groups=[group])["groups"][0]
    return found


def test_large_subscriptions_are_carried_and_forgotten(group_broker: Broker, raw: Raw, talk: GroupTalk) -> None:
    """A subscription may be large, but nothing of it stays when its member has left."""
    before = rss_bytes(group_broker)
    for number in range(8):
        group = talk.group(number)
        blob = [{"name": "range", "metadata": os.urandom(500_000)}]
        me = talk.joined(group, protocols=blob)
        raw.ask("leave_group", 5, group_id=group, members=[{"member_id": me["member_id"]}])
        raw.ask("delete_groups", 2, groups_names=[group])
    assert rss_bytes(group_broker) - before < 100_000_000


def test_subscription_larger_than_a_record_may_be_is_refused(raw: Raw, talk: GroupTalk) -> None:
    group = talk.group("blob")
    me = talk.joined(group, protocols=[{"name": "range", "metadata": bytes(10_000_000)}])
    assert me["generation_id"] == 1
    sync = raw.ask("sync_group", 3, **me, assignments=[{"member_id": me["member_id"], "assignment": b"all"}])
    assert sync["error_code"] != 0
    assert raw.ask("find_coordinator", 0, key=group)["error_code"] == 0


def test_ten_thousand_protocols_are_no_more_work_than_their_bytes(raw: Raw, talk: GroupTalk) -> None:
    protocols = [{"name": f"p{number}", "metadata": b""} for number in range(10_000)]
    assert talk.joined(talk.group("many"), protocols=protocols)["generation_id"] == 1
    other = talk.joined(talk.group("one"))
    assert raw.ask("heartbeat", 4, **{**other, "generation_id": 1})["error_code"] in (0, 27)


def test_longest_group_id_is_served(raw: Raw) -> None:
    group = raw.token + "g" * (32_767 - len(raw.token))
    answer = raw.ask("join_group", 5, **JOIN, group_id=group)
    assert answer["error_code"] == 79
    assert describe(raw, group)["error_code"] == 0


def test_group_id_longer_than_a_string_may_be_leaves_the_others_alone(group_broker: Broker, raw: Raw) -> None:
    with Raw(group_broker.host, group_broker.port) as hostile, contextlib.suppress(Closed):
        assert hostile.ask("join_group", 6, **JOIN, group_id="g" * 65_536)["error_code"] != 0
    assert raw.ask("find_coordinator", 0, key="any")["error_code"] == 0


@pytest.mark.parametrize(
    "pattern", ["(a*)*b", "(a|aa)+$", "((a{0,100}){0,100}){0,100}", "(x+x+)+y", "[" * 1000, "a" * 30_000]
)
def test_hostile_pattern_does_not_hold_the_node_up(raw: Raw, talk: GroupTalk, pattern: str) -> None:
    """Bounded by the machine's noise, not by the pattern: backtracking would take years."""
    raw.create("a" * 60)
    begun = time.monotonic()
    ask = {"group_id": talk.group("pattern"), "member_id": "m", "member_epoch": 0, "rebalance_timeout": 10_000}
    answer = raw.ask("consumer_group_heartbeat", 1, **ask, subscribed_topic_regex=pattern, topic_partitions=[])
    assert answer["error_code"] in (0, 128)
    assert raw.ask("find_coordinator", 0, key="any")["error_code"] == 0
    assert time.monotonic() - begun < 10


def test_member_cut_off_in_its_join_is_missed_and_the_others_go_on(
    group_broker: Broker, raw: Raw, talk: GroupTalk
) -> None:
    group = talk.group("cut")
    short: dict[str, Any] = {"session_timeout": GROUP_TIMEOUT_MS, "rebalance_timeout": GROUP_TIMEOUT_MS}
    stable = talk.settled(group, **short)
    with Raw(group_broker.host, group_broker.port) as dying:
        ask = {**JOIN, **short, "group_id": group}
        ask["member_id"] = dying.ask("join_group", 5, **ask)["member_id"]
        dying.send("join_group", 5, ask)
        wait_until(lambda: raw.ask("heartbeat", 4, **stable)["error_code"] == 27, "no rebalance begins")
        # A reset, not an orderly end.
        dying.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    again = {**JOIN, **short, "group_id": group, "member_id": stable["member_id"]}
    joined = raw.ask("join_group", 5, **again)
    assert (joined["error_code"], len(joined["members"])) == (0, 2)
    me = {**stable, "generation_id": joined["generation_id"]}
    mine = [{"member_id": me["member_id"], "assignment": b"all"}]
    assert raw.ask("sync_group", 3, **me, assignments=mine)["error_code"] == 0
    wait_until(lambda: raw.ask("heartbeat", 3, **me)["error_code"] == 27, "the dead member is never missed")
    alone = raw.ask("join_group", 5, **again)
    assert (alone["error_code"], len(alone["members"])) == (0, 1)


def test_leader_that_never_syncs_is_replaced(group_broker: Broker, raw: Raw, talk: GroupTalk) -> None:
    group = talk.group("leader")
    short: dict[str, Any] = {"session_timeout": 10_000, "rebalance_timeout": GROUP_TIMEOUT_MS}
    leader = talk.joined(group, **short)
    with Raw(group_broker.host, group_broker.port) as follower:
        ask = {**JOIN, **short, "group_id": group}
        ask["member_id"] = follower.ask("join_group", 5, **ask)["member_id"]
        follower.send("join_group", 5, ask)
        wait_until(lambda: len(describe(raw, group)["members"]) == 2, "the follower is not there")
        again = {**ask, "member_id": leader["member_id"]}
        assert raw.ask("join_group", 5, **again)["leader"] == leader["member_id"]
        joined = follower.receive("join_group", 5)
        me = {"group_id": group, "member_id": ask["member_id"], "generation_id": joined["generation_id"]}
        assert joined["leader"] == leader["member_id"]
        # The leader says nothing more: the follower's wait for an assignment ends all the same.
        assert follower.ask("sync_group", 3, **me)["error_code"] in (25, 27)
        alone = follower.ask("join_group", 5, **ask)
        assert (alone["error_code"], alone["leader"]) == (0, ask["member_id"])


def test_hundreds_of_joins_that_nobody_finishes_leave_no_members(
    group_broker: Broker, raw: Raw, talk: GroupTalk
) -> None:
    group = talk.group("flood")
    for _ in range(500):
        assert (
            raw.ask("join_group", 5, **{**JOIN, "session_timeout": GROUP_TIMEOUT_MS}, group_id=group)["error_code"]
            == 79
        )
    me = talk.settled(group, version=5)
    assert [one["member_id"] for one in describe(raw, group)["members"]] == [me["member_id"]]
