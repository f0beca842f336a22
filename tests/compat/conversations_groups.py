"""Conversations about groups, as members and administrators hold them, good ones and bad ones.

`python -m tests.compat.conversations_groups` holds them with Apache Kafka and writes down what it answers.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from .brokers import KafkaBroker, discard
from .conversations import ANSWERS, STRANGER, Conversation, Talk
from .conversations_data import ranged
from .group_node import QUICK
from .raw import Raw
from .wire import Fields

MEMBER_ID = re.compile(r"^(.*-)?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$|^[A-Za-z0-9_-]{22}$")
OPAQUE = frozenset({"metadata", "member_metadata", "assignment", "member_assignment"})
UNORDERED = frozenset({"members", "groups", "topic_partitions"})
JOIN: Fields = {
    "session_timeout": 10_000,
    "rebalance_timeout": 10_000,
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": b"mine"}, {"name": "roundrobin", "metadata": b"other"}],
}
RANGE: Fields = {"protocol_type": "consumer", "protocol_name": "range"}
KNOWN_UNKNOWN = "somebody-5b9a7d5e-0000-4000-8000-000000000001"
CLIENT_MEMBER = "AAAAAAAAAAAAAAAAAAAAAA"
ASSIGNMENT_SECONDS = 1.2
"""A little more than a target is kept before the next is computed (KIP-1263)."""


class GroupTalk(Talk):
    """Gives member ids names in the order of their appearance."""

    def __init__(self, raw: Raw) -> None:
        super().__init__(raw)
        self._members: dict[str, str] = {KNOWN_UNKNOWN: "stranger"}

    def __call__(self, step: str, api: str, version: int, **fields: Any) -> Fields:
        return super().__call__(step.replace(f"{self.raw.token}-", ""), api, version, **fields)

    def normal(self, value: Any, field: str = "") -> Any:
        if field in OPAQUE and isinstance(value, bytes):
            return value.replace(self.raw.token.encode(), b"TOKEN").hex()
        if field in ("member_id", "leader") and isinstance(value, str) and MEMBER_ID.match(value):
            return self._members.setdefault(value, f"member {len(self._members)}")
        if isinstance(value, list) and field in UNORDERED:
            return sorted((self.normal(item, field) for item in value), key=json.dumps)
        return super().normal(value, field)

    def group(self, suffix: object) -> str:
        return self.raw.name(f"group{suffix}")

    def joined(self, group: str, version: int = 9, **changes: Any) -> Fields:
        """A member, alone in its group, with its assignment; its id and generation as fields of the next request."""
        ask = {**JOIN, "group_id": group, **changes}
        if version < 1:
            ask.pop("rebalance_timeout")
        answer = self(f"join {group}", "join_group", version, **ask)
        if answer["error_code"] == 79:
            ask["member_id"] = answer["member_id"]
            answer = self(f"join {group} with id", "join_group", version, **ask)
        me = {"group_id": group, "member_id": answer["member_id"], "generation_id": answer["generation_id"]}
        if "group_instance_id" in changes:
            me["group_instance_id"] = changes["group_instance_id"]
        return me

    def settled(self, group: str, version: int = 9, **changes: Any) -> Fields:
        me = self.joined(group, version, **changes)
        mine = [{"member_id": me["member_id"], "assignment": b"all"}]
        sync_version = min(version, 5)
        names = RANGE if sync_version >= 5 else {}
        self(f"sync {group}", "sync_group", sync_version, **me, **names, assignments=mine)
        return me


def say_group_life(talk: GroupTalk) -> None:
    topic = talk.raw.create()
    for version in ranged("join_group", 9):
        group = talk.group(version)
        me = talk.settled(group, version)
        talk(f"beat {group}", "heartbeat", min(version, 4), **me)
        talk(f"describe {group}", "describe_groups", min(version, 6), groups=[group])
        at = {"group_id": group, "member_id": me["member_id"], "generation_id_or_member_epoch": me["generation_id"]}
        talk(f"commit {group}", "offset_commit", max(version, 2), **at, topics=committing(talk, topic, max(version, 2)))
        again = {**JOIN, "group_id": group, "member_id": me["member_id"]}
        if version < 1:
            again.pop("rebalance_timeout")
        talk(f"again {group}", "join_group", version, **again)
        talk(f"describe joining {group}", "describe_groups", min(version, 6), groups=[group])
        leaving = {"members": [{"member_id": me["member_id"]}]} if version >= 3 else {"member_id": me["member_id"]}
        talk(f"leave {group}", "leave_group", min(version, 5), group_id=group, **leaving)
        talk(f"leave again {group}", "leave_group", min(version, 5), group_id=group, **leaving)
        talk(f"describe empty {group}", "describe_groups", min(version, 6), groups=[group])


def committing(talk: GroupTalk, topic: str, version: int = 9, **changes: Any) -> list[Fields]:
    wanted = {"partition_index": 0, "committed_offset": 7, "committed_metadata": "note", **changes}
    if version >= 10:
        return [{"topic_id": talk.raw.topic_id(topic), "partitions": [wanted]}]
    return [{"name": topic, "partitions": [wanted]}]


def say_bad_joins(talk: GroupTalk) -> None:
    live = talk.settled(talk.group("live"))
    other = [{"name": "sticky", "metadata": b"?"}]
    cases: dict[str, Fields] = {
        "no group": {"group_id": ""},
        "NUL in group": {"group_id": talk.group("a\0b")},
        "session 0": {"session_timeout": 0},
        "session short": {"session_timeout": 999},
        "session long": {"session_timeout": 2**31 - 1},
        "rebalance timeout -1": {"rebalance_timeout": -1, "group_id": talk.group("minus")},
        "no protocols": {"protocols": []},
        "no protocol type": {"protocol_type": ""},
        "unknown member": {"member_id": KNOWN_UNKNOWN},
        "unknown member of live": {"group_id": live["group_id"], "member_id": KNOWN_UNKNOWN},
        "no common protocol": {"group_id": live["group_id"], "protocols": other},
        "other protocol type": {"group_id": live["group_id"], "protocol_type": "connect"},
        "empty instance": {"group_instance_id": "", "group_id": talk.group("empty")},
        "unknown member with instance": {"member_id": KNOWN_UNKNOWN, "group_instance_id": "me"},
    }
    for version in (2, 5, 9):
        for step, changes in cases.items():
            if version < 5 and "instance" in step:
                continue
            talk(step, "join_group", version, **{**JOIN, "group_id": talk.group("bad"), **changes})
    talk("still there", "heartbeat", 4, **live)


def say_bad_syncs(talk: GroupTalk) -> None:
    me = talk.joined(talk.group("sync"))
    unknown = {**me, "member_id": KNOWN_UNKNOWN}
    cases: dict[str, Fields] = {
        "no group": {**me, "group_id": ""},
        "unknown group": {**me, "group_id": talk.group("none")},
        "unknown member": unknown,
        "generation before": {**me, "generation_id": 0},
        "generation ahead": {**me, "generation_id": 2},
        "unknown instance": {**me, "group_instance_id": "nobody"},
        "other protocol": {**me, **RANGE, "protocol_name": "roundrobin"},
        "other protocol type": {**me, **RANGE, "protocol_type": "connect"},
        "no protocol": me,
    }
    for version in ranged("sync_group", 5):
        for step, ask in cases.items():
            if (version < 3 and "instance" in step) or (version < 5 and ("protocol" in step)):
                continue
            names = {**RANGE, **{k: v for k, v in ask.items() if k in RANGE}} if version >= 5 else {}
            if step == "no protocol":
                names = {"protocol_type": None, "protocol_name": None}
            talk(step, "sync_group", version, **{**ask, **names})
    strangers = [{"member_id": KNOWN_UNKNOWN, "assignment": b"?"}]
    talk("for strangers", "sync_group", 5, **me, **RANGE, assignments=strangers)
    talk("again", "sync_group", 5, **me, **RANGE)
    talk("beat", "heartbeat", 4, **me)


def say_bad_heartbeats(talk: GroupTalk) -> None:
    me = talk.settled(talk.group("beat"))
    static = talk.settled(talk.group("static"), group_instance_id="mine")
    cases: dict[str, Fields] = {
        "no group": {**me, "group_id": ""},
        "unknown group": {**me, "group_id": talk.group("none")},
        "unknown member": {**me, "member_id": KNOWN_UNKNOWN},
        "no member": {**me, "member_id": ""},
        "generation before": {**me, "generation_id": 0},
        "generation ahead": {**me, "generation_id": 2},
        "unknown instance": {**me, "group_instance_id": "nobody"},
        "fenced": {**static, "member_id": KNOWN_UNKNOWN},
        "static": static,
    }
    for version in ranged("heartbeat", 4):
        for step, ask in cases.items():
            if version < 3 and "group_instance_id" in ask:
                continue
            talk(step, "heartbeat", version, **ask)


def say_leaving(talk: GroupTalk) -> None:
    for version in ranged("leave_group", 5):
        group = talk.group(f"leave{version}")
        me = talk.settled(group, 5)
        mine, strange = {"member_id": me["member_id"]}, {"member_id": KNOWN_UNKNOWN}

        def leave(step: str, *members: Fields, of: str = group, at: int = version) -> None:
            fields = {"members": list(members)} if at >= 3 else members[0]
            talk(f"{step} {of}", "leave_group", at, group_id=of, **fields)

        leave("no group", mine, of="")
        leave("unknown group", mine, of=talk.group("none"))
        leave("unknown member", strange)
        if version >= 3:
            leave("nobody")
            leave("unknown instance", {"member_id": "", "group_instance_id": "nobody"})
            leave("several", strange, mine, mine)
        static = talk.settled(talk.group(f"static{version}"), 5, group_instance_id="mine")
        if version >= 3:
            leave("fenced", {"member_id": KNOWN_UNKNOWN, "group_instance_id": "mine"}, of=static["group_id"])
            leave("by instance", {"member_id": "", "group_instance_id": "mine"}, of=static["group_id"])
        else:
            leave("static by member", {"member_id": static["member_id"]}, of=static["group_id"])


def say_static_members(talk: GroupTalk) -> None:
    group = talk.group("static")
    old = talk.settled(group, group_instance_id="mine")
    again = talk("return", "join_group", 9, **JOIN, group_id=group, group_instance_id="mine")
    me = {**old, "member_id": again["member_id"], "generation_id": again["generation_id"]}
    talk("old beats", "heartbeat", 4, **old)
    talk("old syncs", "sync_group", 5, **old, **RANGE)
    talk("new syncs", "sync_group", 5, **me, **RANGE)
    talk("new beats", "heartbeat", 4, **me)
    topic = talk.raw.create()
    for who, member in (("old", old), ("new", me)):
        ask = {key: value for key, value in member.items() if key != "generation_id"}
        for version in (7, 9):
            topics = committing(talk, topic, version)
            epoch = me["generation_id"]
            talk(f"{who} commits", "offset_commit", version, **ask, generation_id_or_member_epoch=epoch, topics=topics)
    talk("describe", "describe_groups", 6, groups=[group])
    talk("old protocol", "join_group", 9, **{**JOIN, "protocols": [{"name": "x", "metadata": b""}]}, group_id=group)


def say_offset_commits(talk: GroupTalk) -> None:
    topic = talk.raw.create(partitions=2)
    live = talk.settled(talk.group("live"))
    member = {"group_id": live["group_id"], "member_id": live["member_id"]}
    for version in ranged("offset_commit", 10):
        simple = {"group_id": talk.group(f"simple{version}"), "generation_id_or_member_epoch": -1}
        for step, changes in {
            "plain": {},
            "again": {"committed_offset": 9},
            "no metadata": {"committed_metadata": None, "partition_index": 1},
            "much metadata": {"committed_metadata": "m" * 4096},
            "too much metadata": {"committed_metadata": "m" * 4097},
            "offset -1": {"committed_offset": -1},
            "offset -2": {"committed_offset": -2},
            "largest offset": {"committed_offset": 2**63 - 1},
            "partition 2": {"partition_index": 2},
            "partition -1": {"partition_index": -1},
        }.items():
            talk(step, "offset_commit", version, **simple, topics=committing(talk, topic, version, **changes))
        talk("nothing", "offset_commit", version, **simple, topics=[])
        mixed = committing(talk, topic, version)
        unknown = {"topic_id": STRANGER} if version >= 10 else {"name": talk.raw.name("no")}
        mixed.append({**mixed[0], **unknown})
        talk("unknown topic beside", "offset_commit", version, **simple, topics=mixed)
        for step, who in {
            "no group": {"group_id": ""},
            "generation of nobody": {"group_id": talk.group("none"), "generation_id_or_member_epoch": 5},
            "member of nobody": {"group_id": talk.group("none"), "member_id": KNOWN_UNKNOWN},
            "stranger in live": {"group_id": live["group_id"], "member_id": ""},
            "unknown in live": {**member, "member_id": KNOWN_UNKNOWN, "generation_id_or_member_epoch": 1},
            "generation before": {**member, "generation_id_or_member_epoch": 0},
            "generation ahead": {**member, "generation_id_or_member_epoch": 2},
            "member": {**member, "generation_id_or_member_epoch": 1},
        }.items():
            ask = {"generation_id_or_member_epoch": -1, **who}
            talk(step, "offset_commit", version, **ask, topics=committing(talk, topic, version))


def say_offset_fetches(talk: GroupTalk) -> None:
    talk.raw.ask("delete_groups", 2, groups_names=[""])  # Another conversation may have left it.
    topic = talk.raw.create(partitions=2)
    group, nobody = talk.group("has"), talk.group("nobody")
    live = talk.settled(talk.group("live"))
    simple = {"group_id": group, "generation_id_or_member_epoch": -1}
    talk("commit", "offset_commit", 9, **simple, topics=committing(talk, topic, committed_leader_epoch=3))
    for version in ranged("offset_fetch", 10):

        def named(name: str, at: int = version) -> Fields:
            if at < 10:
                return {"name": name}
            return {"topic_id": talk.raw.topic_id(name) if name == topic else STRANGER}

        wanted: dict[str, Any] = {
            "both": [{**named(topic), "partition_indexes": [0, 1]}],
            "none there": [{**named(topic), "partition_indexes": [2, -1]}],
            "twice": [{**named(topic), "partition_indexes": [0, 0]}],
            "unknown": [{**named(talk.raw.name("no")), "partition_indexes": [0]}],
            "nothing": [],
        }
        if version >= 2:
            wanted["all"] = None
        for step, topics in wanted.items():
            for who, of in (("has", group), ("nobody", nobody), ("empty", ""), ("live", live["group_id"])):
                ask = {"group_id": of, "topics": topics}
                fields = {"groups": [ask]} if version >= 8 else ask
                talk(f"{step} {who}", "offset_fetch", version, **fields)
        if version >= 7:
            ask = {"group_id": group, "topics": wanted["both"]}
            stable = {"groups": [ask]} if version >= 8 else ask
            talk("stable", "offset_fetch", version, **stable, require_stable=True)
        if version >= 8:
            asks = [{"group_id": of, "topics": wanted["both"]} for of in (group, nobody, live["group_id"])]
            talk("three groups", "offset_fetch", version, groups=asks)
            talk("no groups", "offset_fetch", version, groups=[])
        if version >= 9:
            for step, who in {
                "member": {"member_id": live["member_id"], "member_epoch": 1},
                "stale": {"member_id": live["member_id"], "member_epoch": 0},
                "stranger": {"member_id": KNOWN_UNKNOWN, "member_epoch": 1},
            }.items():
                ask = {"group_id": live["group_id"], "topics": wanted["both"], **who}
                talk(step, "offset_fetch", version, groups=[ask])


def say_offset_deletes(talk: GroupTalk) -> None:
    topic, other = talk.raw.create(), talk.raw.create()
    subscribed = b"\0\0" + b"\0\0\0\1" + len(topic).to_bytes(2, "big") + topic.encode() + b"\xff\xff\xff\xff"
    live = talk.settled(talk.group("live"), protocols=[{"name": "range", "metadata": subscribed}])
    who = {"group_id": live["group_id"], "member_id": live["member_id"], "generation_id_or_member_epoch": 1}
    for name in (topic, other):
        talk(f"commit {name}", "offset_commit", 9, **who, topics=committing(talk, name))

    def delete(step: str, group: str, *names: str, partition: int = 0) -> None:
        topics = [{"name": name, "partitions": [{"partition_index": partition}]} for name in names]
        talk(step, "offset_delete", 0, group_id=group, topics=topics)

    delete("no group", "", topic)
    delete("unknown group", talk.group("none"), topic)
    delete("subscribed and not", live["group_id"], topic, other)
    delete("again", live["group_id"], other)
    delete("unknown topic", live["group_id"], talk.raw.name("no"))
    delete("unknown partition", live["group_id"], other, partition=1)
    delete("nothing", live["group_id"])
    talk("what is left", "offset_fetch", 8, groups=[{"group_id": live["group_id"], "topics": None}])
    talk("leave", "leave_group", 5, group_id=live["group_id"], members=[{"member_id": live["member_id"]}])
    delete("empty group", live["group_id"], topic)
    talk("nothing is left", "offset_fetch", 8, groups=[{"group_id": live["group_id"], "topics": None}])


def say_find_coordinator(talk: GroupTalk) -> None:
    group = talk.group("any")
    talk("first", "find_coordinator", 0, key=group)
    for version in ranged("find_coordinator", 6):
        kinds = {} if version == 0 else {"key_type": 0}
        if version < 4:
            talk("group", "find_coordinator", version, key=group, **kinds)
            talk("empty", "find_coordinator", version, key="", **kinds)
            if version:
                talk("strange type", "find_coordinator", version, key=group, key_type=9)
        else:
            talk("groups", "find_coordinator", version, coordinator_keys=[group, talk.group("b")], **kinds)
            talk("empty", "find_coordinator", version, coordinator_keys=[""], **kinds)
            talk("none", "find_coordinator", version, coordinator_keys=[], **kinds)
            talk("strange type", "find_coordinator", version, coordinator_keys=[group], key_type=9)


def say_administration(talk: GroupTalk) -> None:
    talk.raw.ask("delete_groups", 2, groups_names=[""])  # Another conversation may have left it.
    topic = talk.raw.create()
    live, empty, simple = talk.settled(talk.group("live")), talk.settled(talk.group("empty")), talk.group("simple")
    talk("leave", "leave_group", 5, group_id=empty["group_id"], members=[{"member_id": empty["member_id"]}])
    wanted = committing(talk, topic)
    talk("commit", "offset_commit", 9, group_id=simple, generation_id_or_member_epoch=-1, topics=wanted)
    consumer = talk.group("consumer")
    heartbeat(talk, "join consumer", consumer, subscribed_topic_names=[topic])
    names = [live["group_id"], empty["group_id"], simple, consumer, talk.group("none"), ""]
    listing(talk)
    for version in ranged("describe_groups", 6):
        talk("all", "describe_groups", version, groups=names)
        talk("none", "describe_groups", version, groups=[])
        if version >= 3:
            talk("rights", "describe_groups", version, groups=names[:1], include_authorized_operations=True)
    for version in ranged("consumer_group_describe", 1):
        talk("all", "consumer_group_describe", version, group_ids=names)
    for version in ranged("delete_groups", 2):
        talk("live and none", "delete_groups", version, groups_names=[names[0], names[3], names[4], ""])
        talk("nothing", "delete_groups", version, groups_names=[])
    talk("empty and simple", "delete_groups", 2, groups_names=[names[1], simple, simple])
    talk("what is left", "offset_fetch", 8, groups=[{"group_id": simple, "topics": None}])
    heartbeat(talk, "leave consumer", consumer, member_epoch=-1)
    talk("consumer", "delete_groups", 2, groups_names=[consumer])
    listing(talk, "at the end")


def listing(talk: GroupTalk, prefix: str = "list") -> None:
    """Only this conversation's groups count."""

    def ask(step: str, version: int, **filters: Any) -> None:
        answer = talk.raw.ask("list_groups", version, **filters)
        mine = [one for one in answer["groups"] if one["group_id"].startswith(talk.raw.token)]
        talk.answers[f"{prefix} {step} (list_groups v{version})"] = talk.normal({**answer, "groups": mine})

    for version in ranged("list_groups", 5):
        ask("all", version)
        for state in ("Stable", "EMPTY", "empty", "Dead", "nonsense", "Reconciling") if version >= 4 else ():
            ask(state, version, states_filter=[state])
        for kind in ("classic", "Consumer", "share", "nonsense") if version >= 5 else ():
            ask(kind, version, types_filter=[kind])
    ask("both", 5, states_filter=["Stable", "Empty"], types_filter=["consumer"])


def heartbeat(talk: GroupTalk, step: str, group: str, version: int = 1, **changes: Any) -> Fields:
    ask: Fields = {"group_id": group, "member_id": CLIENT_MEMBER, "member_epoch": 0, **changes}
    if ask["member_epoch"] == 0:
        ask = {"rebalance_timeout": 10_000, "subscribed_topic_names": [], "topic_partitions": [], **ask}
    ask = {"rebalance_timeout": -1, "subscribed_topic_names": None, "topic_partitions": None, **ask}
    return talk(step, "consumer_group_heartbeat", version, **ask)


def created(talk: GroupTalk, partitions: int = 1) -> str:
    """A topic that the coordinator assigns, which Apache Kafka does a moment after it has created it."""
    topic = talk.raw.create(partitions=partitions)
    probe = {"member_epoch": 0, "rebalance_timeout": 1000, "subscribed_topic_names": [topic], "topic_partitions": []}
    for at in range(100):
        ask = {"group_id": talk.raw.name(f"probe{at}-{topic}"), "member_id": CLIENT_MEMBER, **probe}
        if talk.raw.ask("consumer_group_heartbeat", 1, **ask)["assignment"]["topic_partitions"]:
            break
        talk.raw.wait_ready(topic)
    return topic


def say_bad_consumer_heartbeats(talk: GroupTalk) -> None:
    topic = created(talk)
    topic_id = talk.raw.topic_id(topic)
    cases: dict[str, Fields] = {
        "no group": {"group_id": ""},
        "blank group": {"group_id": "  "},
        "no member": {"member_id": ""},
        "no timeout": {"rebalance_timeout": -1},
        "timeout 0": {"rebalance_timeout": 0},
        "no topics": {"subscribed_topic_names": None},
        "null partitions": {"topic_partitions": None},
        "owns at once": {"topic_partitions": [{"topic_id": topic_id, "partitions": [0]}]},
        "epoch -3": {"member_epoch": -3},
        "leaves unknown": {"member_epoch": -1},
        "leaves unknown static": {"member_epoch": -2},
        "leaves unknown static instance": {"member_epoch": -2, "instance_id": "me"},
        "beats unknown": {"member_epoch": 1},
        "empty instance": {"instance_id": ""},
        "empty rack": {"rack_id": ""},
        "no such assignor": {"server_assignor": "best"},
        "empty assignor": {"server_assignor": ""},
        "a topic twice": {"subscribed_topic_names": [topic, topic]},
    }
    regexes = {"bad pattern": "(", "empty pattern": "", "look ahead": "a(?=b)", "back reference": r"(a)\1"}
    for version in ranged("consumer_group_heartbeat", 1):
        for step, changes in cases.items():
            if version == 0 and step == "no member":
                continue
            ask = {"group_id": talk.group(f"bad {step} {version}"), "subscribed_topic_names": [topic], **changes}
            heartbeat(talk, step, ask.pop("group_id"), version, **ask)
    for step, pattern in regexes.items():
        changes = {"subscribed_topic_regex": pattern, "subscribed_topic_names": None}
        heartbeat(talk, step, talk.group(f"bad {step}"), 1, **changes)


def say_consumer_life(talk: GroupTalk) -> None:
    topic = created(talk, partitions=2)
    owned = [{"topic_id": talk.raw.topic_id(topic), "partitions": [0, 1]}]
    for version in ranged("consumer_group_heartbeat", 1):
        group = talk.group(f"consumer{version}")
        wanted = {"subscribed_topic_names": [topic], "member_id": CLIENT_MEMBER if version else ""}
        me = heartbeat(talk, "join", group, version, **wanted)
        member, epoch = me["member_id"], me["member_epoch"]
        heartbeat(talk, "own", group, version, member_id=member, member_epoch=epoch, topic_partitions=owned)
        heartbeat(talk, "beat", group, version, member_id=member, member_epoch=epoch)
        heartbeat(talk, "stale", group, version, member_id=member, member_epoch=epoch - 1 or 99)
        heartbeat(talk, "ahead", group, version, member_id=member, member_epoch=epoch + 1)
        heartbeat(talk, "stranger", group, version, member_id=KNOWN_UNKNOWN, member_epoch=epoch)
        talk(f"describe {version}", "consumer_group_describe", version, group_ids=[group])
        who = {"group_id": group, "member_id": member}
        for step, at in (("member", epoch), ("stale", epoch - 1), ("ahead", epoch + 1), ("no", -1)):
            for commit in (8, 9):
                topics = committing(talk, topic, commit)
                epochs = {"generation_id_or_member_epoch": at}
                talk(f"{step} commits {version}", "offset_commit", commit, **who, **epochs, topics=topics)
            ask = {**who, "member_epoch": at, "topics": [{"name": topic, "partition_indexes": [0]}]}
            talk(f"{step} fetches {version}", "offset_fetch", 9, groups=[ask])
        classic = {**JOIN, "group_id": group, "protocols": [{"name": "range", "metadata": b"?"}]}
        talk(f"classic with nonsense {version}", "join_group", 9, **classic)
        talk(f"connect worker {version}", "join_group", 9, **{**classic, "protocol_type": "connect"})
        talk(f"classic beats {version}", "heartbeat", 4, group_id=group, member_id=member, generation_id=epoch)
        heartbeat(talk, "leave", group, version, member_id=member, member_epoch=-1)
        heartbeat(talk, "leave again", group, version, member_id=member, member_epoch=-1)
        talk(f"describe empty {version}", "consumer_group_describe", version, group_ids=[group])


def say_static_consumers(talk: GroupTalk) -> None:
    topic, group = created(talk), talk.group("static")
    first, second = (str(uuid.UUID(int=at)) for at in (1, 2))
    mine = {"instance_id": "mine", "subscribed_topic_names": [topic]}
    old = heartbeat(talk, "join", group, member_id=first, **mine)
    heartbeat(talk, "twin", group, member_id=second, **mine)
    heartbeat(talk, "other instance", group, member_id=first, member_epoch=old["member_epoch"], instance_id="x")
    heartbeat(talk, "go for a while", group, member_id=first, member_epoch=-2, instance_id="mine")
    talk("describe away", "consumer_group_describe", 1, group_ids=[group])
    new = heartbeat(talk, "return", group, member_id=second, **mine)
    heartbeat(talk, "old beats", group, member_id=first, member_epoch=old["member_epoch"], instance_id="mine")
    heartbeat(talk, "new beats", group, member_id=second, member_epoch=new["member_epoch"], instance_id="mine")
    talk("describe back", "consumer_group_describe", 1, group_ids=[group])
    heartbeat(talk, "leave", group, member_id=second, member_epoch=-1, instance_id="mine")


def say_handing_over(talk: GroupTalk) -> None:
    """Who has what, as an administrator sees it, while partitions go from one member to the next."""
    topic = created(talk, partitions=4)
    topic_id = talk.raw.topic_id(topic)
    group, first, second = talk.group("over"), CLIENT_MEMBER, CLIENT_MEMBER.replace("A", "B")

    def shares(step: str) -> None:
        answer = talk.raw.ask("consumer_group_describe", 1, group_ids=[group])["groups"][0]
        talk.answers[f"shares {step}"] = {
            one["member_id"]: [one["member_epoch"], held(one["assignment"]), held(one["target_assignment"])]
            for one in answer["members"]
        }

    def own(*partitions: int) -> dict[str, Any]:
        return {"topic_partitions": [{"topic_id": topic_id, "partitions": list(partitions)}]}

    heartbeat(talk, "first joins", group, subscribed_topic_names=[topic])
    shares("of one")
    time.sleep(ASSIGNMENT_SECONDS)
    heartbeat(talk, "second joins", group, member_id=second, subscribed_topic_names=[topic])
    shares("of two")
    heartbeat(talk, "first hears", group, member_id=first, member_epoch=2)
    shares("while the first lets go")
    heartbeat(talk, "second waits", group, member_id=second, member_epoch=3)
    heartbeat(talk, "first has let go", group, member_id=first, member_epoch=2, **own(0, 1))
    shares("when the first has let go")
    heartbeat(talk, "second takes", group, member_id=second, member_epoch=3)
    shares("in the end")


def held(assignment: Fields) -> list[int]:
    return [partition for topic in assignment["topic_partitions"] for partition in topic["partitions"]]


def group_conversations() -> dict[str, Conversation]:
    return {f"groups_{name[4:]}": say for name, say in globals().items() if name.startswith("say_")}


def hold(conversation: Any, host: str, port: int) -> dict[str, Any]:
    with Raw(host, port) as raw:
        talk = GroupTalk(raw)
        raw.ask("find_coordinator", 0, key=raw.token)
        wait_for_coordinators(raw)
        conversation(talk)
        return talk.answers


def wait_for_coordinators(raw: Raw) -> None:
    """Apache Kafka creates the topic of the offsets when it is first asked, and loads it afterwards."""
    while raw.ask("find_coordinator", 0, key=raw.token)["error_code"]:
        raw.ask("metadata", 1, topics=[])
    for at in range(200):
        while raw.ask("delete_groups", 2, groups_names=[f"{raw.token}-{at}"])["results"][0]["error_code"] in (
            14,
            15,
            16,
        ):
            raw.ask("metadata", 1, topics=[])


def record() -> None:
    broker = KafkaBroker(Path(tempfile.mkdtemp(prefix="answers-")), QUICK)
    broker.start()
    try:
        for name, conversation in group_conversations().items():
            answers = hold(conversation, broker.host, broker.port)
            lines = [f"{json.dumps(step)}: {json.dumps(answer, sort_keys=True)}" for step, answer in answers.items()]
            (ANSWERS / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
            print(f"{name}: {len(answers)} answers")
    finally:
        discard(broker)


if __name__ == "__main__":
    record()
