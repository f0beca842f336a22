"""Conversations about transactions, in both protocols, good ones and bad ones.

`python -m tests.compat.conversations_transactions` holds them with Apache Kafka and writes down what it answers.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from . import conversations_txn_offsets
from .brokers import KafkaBroker, discard
from .conversations import ANSWERS, Conversation
from .conversations_data import listed, ranged
from .raw import FOREVER
from .transaction_talk import NOBODY, PROMPT, SECONDS_MAX, TRANSACTIONAL, TxnTalk, added, hold, offsets, stable, writing
from .wire import Fields


def say_classic_life(talk: TxnTalk) -> None:
    for version in range(5):
        group = talk.raw.name(f"group{version}")
        me = talk.init(talk.raw.name(f"id{version}"), version)
        add, old = min(version, 3), min(version, 3)
        talk.add(me, "adds", add, 0, 1)
        talk.write(me, version=3 + 2 * version, index=version % 2)
        asking = {**me, "group_id": group}
        talk(f"{group} is added", "add_offsets_to_txn", old, **asking)
        talk(f"{group} offsets", "txn_offset_commit", version, **offsets(talk, me, group, version))
        talk.describe(me, "is open")
        for fetch in (6, 7, 9):
            talk(f"{group} open", "offset_fetch", fetch, **stable(group, talk, fetch))
            talk(f"{group} open, any", "offset_fetch", fetch, **stable(group, talk, fetch, False))
        for isolation in (0, 1):
            ask = talk.raw.fetch_request(talk.topic, 0, version % 2, isolation_level=isolation)
            talk(f"{version} reads while open, isolation {isolation}", "fetch", 4 + 2 * version, **ask)
        talk.end(me, version % 2 == 0, version=old)
        talk.describe(me, "is over")
        talk(f"{group} after the end", "offset_fetch", 9, **stable(group, talk, 9))
        for isolation in (0, 1):
            ask = talk.raw.fetch_request(talk.topic, 0, version % 2, isolation_level=isolation)
            talk(f"{version} reads after the end, isolation {isolation}", "fetch", 4 + 2 * version, **ask)
        talk.end(me, version % 2 == 0, "ends again", old)
        talk.end(me, version % 2 == 1, "ends otherwise", old)
        talk.write(me, "writes too late", 11, version % 2, sequence=1)
        asked = [{"name": talk.topic, "partition_indexes": [0, 1, 2]}]
        talk(f"after {version}", "describe_producers", 0, topics=asked)


def say_second_life(talk: TxnTalk) -> None:
    for version in (12, 13):
        group = talk.raw.name(f"group{version}")
        me = talk.init(talk.raw.name(f"id{version}"))
        talk.end(me, True, "commits nothing", 5)
        talk.write(me, version=version)
        talk.write(me, "writes on", version, sequence=1)
        talk.write(me, "writes twice", version, sequence=1)
        talk.write(me, "leaves a gap", version, sequence=7)
        talk.write(me, "begins in the middle", version, 1, sequence=7)
        talk(f"{group} offsets", "txn_offset_commit", 5, **offsets(talk, me, group, 5))
        talk(f"{group} open", "offset_fetch", 9, **stable(group, talk, 9))
        talk.describe(me, "is open")
        answer = talk.end(me, True, "commits", 5)
        talk(f"{group} committed", "offset_fetch", 9, **stable(group, talk, 9))
        talk.describe(me, "is over")
        talk.end(me, True, "commits again", 5)
        talk.end(me, False, "aborts what it committed", 5)
        talk.write(me, "writes too late", version, sequence=2)
        talk.write(me, "writes elsewhere too late", version, 2)
        talk("offsets too late", "txn_offset_commit", 5, **offsets(talk, me, group + str(version), 5))
        nxt = {**me, **{key: answer[key] for key in ("producer_id", "producer_epoch")}}
        talk.write(nxt, "writes in the middle", version, sequence=3)
        talk.write(nxt, "writes again", version)
        answer = talk.end(nxt, False, "aborts", 5)
        talk.end(nxt, False, "aborts again", 5)
        talk.end(nxt, True, "commits what it aborted", 5)
        talk.end(me, True, "comes back", 5)
        third = {**me, **{key: answer[key] for key in ("producer_id", "producer_epoch")}}
        answer = talk.end(third, False, "aborts nothing", 5)
        talk.end(third, False, "aborts nothing again", 5)
        fourth = {**me, **{key: answer[key] for key in ("producer_id", "producer_epoch")}}
        talk.end(fourth, True, "commits nothing after all", 5)
        talk.end({**fourth, "producer_epoch": fourth["producer_epoch"] + 1}, True, "runs ahead", 5)
        talk.describe(me, "at last")
        for isolation in (0, 1):
            ask = talk.raw.fetch_request(talk.topic, 0, 0, isolation_level=isolation)
            talk(f"{version} read, isolation {isolation}", "fetch", 12, **ask)
        asked = [{"name": talk.topic, "partition_indexes": [0, 1, 2]}]
        talk(f"after {version}", "describe_producers", 0, topics=asked)
        talk.init(talk.raw.name(f"id{version}"), 5, "begins anew")


LAST_EPOCH = 2**15 - 2
INTERNAL = {"name": "__transaction_state", "partitions": [0]}


def wrong(me: Fields, epoch: int) -> list[tuple[str, Fields]]:
    """The ways in which a producer can be somebody else."""
    return [
        ("other id", {**me, "producer_id": me["producer_id"] + 1_000_000}),
        ("later epoch", {**me, "producer_epoch": epoch + 1}),
        ("earlier epoch", {**me, "producer_epoch": epoch - 1}),
        ("unknown name", {**me, "transactional_id": me["transactional_id"] + "-never"}),
        ("empty name", {**me, "transactional_id": ""}),
    ]


def say_strangers(talk: TxnTalk) -> None:
    group = talk.raw.name("group")
    name = talk.raw.name("id")
    talk.init(name)
    me = talk.init(name, step="begins again")
    for state in ("Empty", "Ongoing", "CompleteCommit"):
        if state == "Ongoing":
            talk.add(me, "opens", 3, 0)
        elif state == "CompleteCommit":
            talk.end(me, True, "commits", 4)
        for who, someone in wrong(me, me["producer_epoch"]):
            label = f"{state}, {who}"
            for version in ranged("add_partitions_to_txn", 5):
                ask = added(someone, {"name": talk.topic, "partitions": [1]}, version=version)
                talk(label, "add_partitions_to_txn", version, **ask)
                if version >= 4:
                    ask = added(someone, {"name": talk.topic, "partitions": [0]}, version=version, verify=True)
                    talk(f"{label}, verify", "add_partitions_to_txn", version, **ask)
            for version in ranged("add_offsets_to_txn", 4):
                talk(label, "add_offsets_to_txn", version, **someone, group_id=group)
            for version in ranged("end_txn", 5):
                talk(label, "end_txn", version, **someone, committed=True)
            for version in ranged("txn_offset_commit", 5):
                talk(label, "txn_offset_commit", version, **offsets(talk, someone, group, version))
            for version in (3, 9, 11, 12):
                talk(label, "produce", version, **writing(talk, someone, version, 2))
        for version in ranged("txn_offset_commit", 5):
            ask = offsets(talk, {**me, **NOBODY}, group, version)
            talk(f"{state}, nobody", "txn_offset_commit", version, **ask)
        if state != "Ongoing":
            talk.end(me, True, f"commits in {state}", 4)
            talk.end(me, False, f"aborts in {state}", 4)
        talk.describe(me, f"in {state}")


def say_init_again(talk: TxnTalk) -> None:
    for version in ranged("init_producer_id", 5):
        name = talk.raw.name(f"id{version}")
        talk.init(name, version)
        me = talk.init(name, version, "begins again")
        if version >= 3:
            given(talk, me, version, "Empty")
        me = talk.init(name, version, "for Ongoing")
        talk.add(me, "opens", 3)
        fresh = {"transactional_id": name, "transaction_timeout": 60_000, **NOBODY}
        if version >= 3:
            older = {**fresh, "producer_id": me["producer_id"] + 1_000_000, "producer_epoch": 0}
            talk(f"{name} is another", "init_producer_id", version, **older)
        talk(f"{name} interrupts", "init_producer_id", version, **fresh)
        talk.settle(name)
        talk.describe(me, "was interrupted")
        talk.end(me, True, "was interrupted and commits", min(version, 4))
        talk.write(me, "was interrupted and writes", 11)
        if version >= 3:
            after = {**fresh, "producer_id": me["producer_id"], "producer_epoch": me["producer_epoch"]}
            talk(f"{name} was interrupted and asks", "init_producer_id", version, **after)
        me = talk.init(name, version, "goes on")
        if version >= 3:
            talk.add(me, "opens for itself", 3)
            own = {**fresh, "producer_id": me["producer_id"], "producer_epoch": me["producer_epoch"]}
            talk(f"{name} interrupts itself", "init_producer_id", version, **own)
            talk.settle(name)
            talk(f"{name} goes on itself", "init_producer_id", version, **own)
            talk.describe(me, "has interrupted itself")
        for timeout in (0, -1, 1, 900_000, 900_001, 2**31 - 1, -(2**31)):
            ask = {**fresh, "transactional_id": f"{name}-t{timeout}", "transaction_timeout": timeout}
            talk(f"timeout {timeout}", "init_producer_id", version, **ask)
            talk(f"timeout {timeout} without name", "init_producer_id", version, **{**ask, "transactional_id": None})
        if version >= 3:
            ask = {**fresh, "transactional_id": f"{name}-new", "producer_id": 77, "producer_epoch": 3}
            talk("unknown name with an id", "init_producer_id", version, **ask)
            talk("no name with an id", "init_producer_id", version, **{**ask, "transactional_id": None})


def given(talk: TxnTalk, me: Fields, version: int, state: str) -> None:
    """KIP-360: the producer says who it was."""
    name = me["transactional_id"]
    ask = {"transactional_id": name, "transaction_timeout": 60_000, "producer_id": me["producer_id"]}
    epoch = me["producer_epoch"]
    for step, changes in (
        ("later", {"producer_epoch": epoch + 5}),
        ("earlier", {"producer_epoch": epoch - 1}),
        ("other", {"producer_epoch": epoch, "producer_id": me["producer_id"] + 1_000_000}),
        ("id alone", {"producer_epoch": -1}),
        ("epoch alone", {"producer_epoch": epoch, "producer_id": -1}),
        ("itself", {"producer_epoch": epoch}),
        ("itself once more", {"producer_epoch": epoch}),
        ("next", {"producer_epoch": epoch + 1}),
        ("before the next", {"producer_epoch": epoch}),
        ("long gone", {"producer_epoch": epoch - 1}),
    ):
        talk(f"{name} {state}, given {step}", "init_producer_id", version, **{**ask, **changes})


def say_adding(talk: TxnTalk) -> None:
    for version in ranged("add_partitions_to_txn", 5):
        me = talk.init(talk.raw.name(f"id{version}"))
        unknown = talk.raw.name("never")
        cases: list[tuple[str, list[Fields]]] = [
            ("no topics", []),
            ("no partitions", [{"name": talk.topic, "partitions": []}]),
            ("unknown topic", [{"name": unknown, "partitions": [0, 1]}]),
            ("unknown partition", [{"name": talk.topic, "partitions": [9]}]),
            ("negative", [{"name": talk.topic, "partitions": [-1]}]),
            ("one of two", [{"name": talk.topic, "partitions": [0, 9]}]),
            ("one topic of two", [{"name": talk.topic, "partitions": [0]}, {"name": unknown, "partitions": [0]}]),
            ("empty name", [{"name": "", "partitions": [0]}]),
            ("bad name", [{"name": "a b", "partitions": [0]}]),
            ("twice", [{"name": talk.topic, "partitions": [0, 0]}]),
            ("topic twice", [{"name": talk.topic, "partitions": [0]}, {"name": talk.topic, "partitions": [0, 1]}]),
            ("again", [{"name": talk.topic, "partitions": [0]}]),
            ("offsets", [{"name": "__consumer_offsets", "partitions": [0]}]),
        ]
        for step, topics in cases:
            talk(step, "add_partitions_to_txn", version, **added(me, *topics, version=version))
            if version >= 4:
                ask = added(me, *topics, version=version, verify=True)
                talk(f"{step}, verify", "add_partitions_to_txn", version, **ask)
        if version < 4:  # later versions are for brokers, which Apache Kafka trusts
            talk("internal", "add_partitions_to_txn", version, **added(me, INTERNAL, version=version))
            both = INTERNAL, {"name": talk.topic, "partitions": [0]}
            talk("internal of two", "add_partitions_to_txn", version, **added(me, *both, version=version))
        talk.describe(me, "has added")
        if version >= 4:
            hold_batches(talk, me, version)


def hold_batches(talk: TxnTalk, me: Fields, version: int) -> None:
    other = talk.init(talk.raw.name(f"other{version}"))
    one = [{"name": talk.topic, "partitions": [2]}]
    stranger = {**me, "transactional_id": talk.raw.name("never"), "verify_only": True, "topics": one}
    both = [
        {**me, "verify_only": True, "topics": [{"name": talk.topic, "partitions": [0, 2]}]},
        {**other, "verify_only": False, "topics": one},
        stranger,
    ]
    talk("several", "add_partitions_to_txn", version, transactions=both)
    talk("the same twice", "add_partitions_to_txn", version, transactions=[both[0], both[0]])
    talk.describe(other, "was added")


def say_writing(talk: TxnTalk) -> None:
    for version in ranged("produce", 13):
        topic = talk.topic = talk.raw.create(f"v{version}", 3, FOREVER)
        me = talk.init(talk.raw.name(f"id{version}"))
        talk("not added", "produce", version, **writing(talk, me, version))
        talk("not added, in the middle", "produce", version, **writing(talk, me, version, 1, sequence=5))
        talk.add(me, "adds", 3, 0)
        talk("no name", "produce", version, **writing(talk, me, version, transactional_id=None))
        talk("other name", "produce", version, **writing(talk, me, version, transactional_id=topic))
        talk("not of a transaction", "produce", version, **writing(talk, me, version, attributes=0))
        talk("first", "produce", version, **writing(talk, me, version, sequence=1))
        talk("again", "produce", version, **writing(talk, me, version, sequence=1))
        talk("gap", "produce", version, **writing(talk, me, version, sequence=3))
        talk("not of the open transaction", "produce", version, **writing(talk, me, version, attributes=0, sequence=2))
        ask = writing(talk, me, version, sequence=2)
        for index in (9, 2):
            more = writing(talk, me, version, index)["topic_data"][0]["partition_data"]
            ask["topic_data"][0]["partition_data"] += more
        talk("three partitions", "produce", version, **ask)
        later = {**me, "producer_epoch": me["producer_epoch"] + 1}
        talk("later epoch", "produce", version, **writing(talk, later, version))
        talk("control", "produce", version, **writing(talk, me, version, attributes=TRANSACTIONAL | 0x20))
        talk.describe(me, f"has written v{version}")
        asked = [{"name": topic, "partition_indexes": [0, 1, 2]}]
        talk(f"after v{version}", "describe_producers", 0, topics=asked)
        talk.end(me, False, "aborts", 5)
        ask = talk.raw.fetch_request(topic, 0, 0, isolation_level=1)
        talk(f"read v{version}", "fetch", 12, **ask)


def say_reading(talk: TxnTalk) -> None:
    """Three transactions that overlap, aborted, committed and open, and what is readable after each step."""
    one, two, three = (talk.init(talk.raw.name(name)) for name in ("one", "two", "three"))
    steps = [
        *((f"writes {at}", who, at) for at, who in ((0, one), (0, two), (1, one))),
        ("aborts", one, -1),
        ("writes 2", two, 1),
        ("opens", three, 0),
        ("commits", two, -1),
        ("goes on", three, 1),
    ]
    for step, who, sequence in steps:
        if sequence >= 0:
            talk.write(who, step, 12, sequence=sequence)
        else:
            talk.end(who, step == "commits", step, 5)
        label = f"after {who['transactional_id']} {step}"
        for isolation in (0, 1):
            for offset in range(10):
                ask = talk.raw.fetch_request(talk.topic, offset, 0, isolation_level=isolation)
                talk(f"{label}: from {offset}, isolation {isolation}", "fetch", 12, **ask)
            for timestamp in (-1, -2, -3, 0, 2**62):
                ask = listed(talk.topic, timestamp)
                talk(
                    f"{label}: {timestamp}, isolation {isolation}", "list_offsets", 7, **ask, isolation_level=isolation
                )
    for version in ranged("fetch", 18):
        ask = talk.raw.fetch_request(talk.topic, 0, isolation_level=1, topic_id=talk.raw.topic_id(talk.topic))
        talk("at last", "fetch", version, **ask)
        ask["topics"][0]["partitions"][0]["partition_max_bytes"] = 80
        talk("at last, a little", "fetch", version, **ask)
    for version in range(2, 12):
        for timestamp in (-1, -2, -3, -4, -5) if version >= 9 else (-1, -2):
            talk(f"at last {timestamp}", "list_offsets", version, **listed(talk.topic, timestamp), isolation_level=1)


def say_markers(talk: TxnTalk) -> None:
    for version in (1, 2):
        me = talk.init(talk.raw.name(f"id{version}"))
        talk.add(me, "adds", 3, 0, 1)
        talk.write(me, "writes", 11, 0)
        who = {"producer_id": me["producer_id"], "producer_epoch": me["producer_epoch"]}
        later, newer = {"coordinator_epoch": 5}, {"transaction_version": 2} if version >= 2 else {}
        here, there = ([{"name": talk.topic, "partition_indexes": [index]}] for index in (0, 2))
        cases: list[tuple[str, Fields, list[Fields]]] = [
            ("unknown topic", {}, [{"name": talk.raw.name("never"), "partition_indexes": [0]}]),
            ("unknown partition", {}, [{"name": talk.topic, "partition_indexes": [9]}]),
            ("no topics", {}, []),
            ("same epoch, second version", newer, here),
            ("abort", later, [{"name": talk.topic, "partition_indexes": [0, 9]}]),
            ("again", later, here),
            ("commit", {**later, "transaction_result": True}, here),
            ("earlier coordinator", {"coordinator_epoch": 4}, here),
            ("later epoch", {**later, "producer_epoch": 9}, here),
            ("unknown producer", {"producer_id": 9_000_001 + version}, there),
            ("offsets", {**later, "producer_epoch": 9}, [{"name": "__consumer_offsets", "partition_indexes": [0]}]),
        ]
        for step, changes, topics in cases:
            marker = {**who, "transaction_result": False, "coordinator_epoch": 0, "topics": topics, **changes}
            talk(step, "write_txn_markers", version, markers=[marker])
        talk("none", "write_txn_markers", version, markers=[])
        asked = [{"name": talk.topic, "partition_indexes": [0, 1, 2]}]
        talk(f"after v{version}", "describe_producers", 0, topics=asked)
        talk(f"read v{version}", "fetch", 12, **talk.raw.fetch_request(talk.topic, 0, 0, isolation_level=1))
        talk.write(me, "writes after the marker", 11, 0, sequence=1)


def say_looking(talk: TxnTalk) -> None:
    ids = [talk.raw.name(f"id{at}") for at in range(4)]
    them = [talk.init(name) for name in ids]
    for me in them[1:]:
        talk.add(me, "adds", 3, 0)
    talk.end(them[2], True)
    talk.end(them[3], False)
    never = talk.raw.name("never")
    for step, names in (
        ("all", ids),
        ("unknown", [never]),
        ("some", [never, ids[1], ""]),
        ("none", []),
    ):
        talk(step, "describe_transactions", 0, transactional_ids=names)
    for step, asked in (
        ("negative", [{"name": talk.topic, "partition_indexes": [-1]}]),
        ("no partitions", [{"name": talk.topic, "partition_indexes": []}]),
        ("no name", [{"name": "", "partition_indexes": [0]}]),
        ("internal", [{"name": "__consumer_offsets", "partition_indexes": [77]}]),
    ):
        talk(step, "describe_producers", 0, topics=asked)
    mine = [me["producer_id"] for me in them]
    begun = mine[1:]  # Apache Kafka takes what has never begun for something that has lasted since 1969
    for version in ranged("list_transactions", 2):
        for step, filters in (
            ("mine", {}),
            ("open", {"state_filters": ["Ongoing"]}),
            ("over", {"state_filters": ["CompleteCommit", "CompleteAbort"]}),
            ("empty", {"state_filters": ["Empty"]}),
            ("dead", {"state_filters": ["Dead", "PrepareEpochFence", "PrepareCommit", "PrepareAbort"]}),
            ("unknown state", {"state_filters": ["Ongoing", "ongoing", "Never"]}),
            ("unknown state alone", {"state_filters": ["Never"]}),
            ("unknown producer", {"producer_id_filters": [77_000_000]}),
            ("no producer", {"producer_id_filters": [-1]}),
        ):
            talk(step, "list_transactions", version, **{"producer_id_filters": mine, **NEVER_MIND(version), **filters})
        for duration in (-1, 0, 3_600_000, -5) if version >= 1 else ():
            ask = {"producer_id_filters": begun, **NEVER_MIND(version), "duration_filter": duration}
            talk(f"longer than {duration}", "list_transactions", version, **ask)
        for pattern in (
            (None, "", f"{talk.raw.token}-id[12]", "id1", ".*-id1", "(", "a{", "(?<n>a)\\k<n>") if version >= 2 else ()
        ):
            ask = {"producer_id_filters": mine, **NEVER_MIND(version), "transactional_id_pattern": pattern}
            talk(f"pattern {pattern}", "list_transactions", version, **ask)


def NEVER_MIND(version: int) -> Fields:
    return {"duration_filter": -1} if version >= 1 else {}


def say_timeouts(talk: TxnTalk) -> None:
    for version in (3, 4, 5):
        name = talk.raw.name(f"id{version}")
        me = talk.init(name, version, transaction_timeout=100)
        talk.add(me, "opens", 3)
        talk.write(me, "writes", 11)
        wait_until(talk, name, "CompleteAbort")
        talk.describe(me, "is timed out")
        talk.write(me, "writes on", 11, sequence=1)
        talk.write(me, "writes elsewhere", 11, 1)
        if version >= 5:
            talk.write(me, "writes elsewhere at v12", 12, 1)
            talk("offsets at v5", "txn_offset_commit", 5, **offsets(talk, me, talk.raw.name("g"), 5))
        talk.add(me, "adds")
        for end in ranged("end_txn", 5):
            talk.end(me, True, f"{name} commits", end)
            talk.end(me, False, f"{name} aborts", end)
        ask = {"transactional_id": name, "transaction_timeout": 60_000, **me}
        talk(f"{name} asks who it is", "init_producer_id", version, **ask)
        talk.init(name, version, "begins anew")
        talk.describe(me, "begins anew")


def say_earlier_features(talk: TxnTalk) -> None:
    """The same requests while the cluster has agreed on less than the second version."""
    for level in (1, 0):
        agree(talk, level)
        try:
            name = talk.raw.name(f"level{level}")
            me = talk.init(name)
            # Apache Kafka cannot write what the latest requests ask for while the level is 0, and gets stuck.
            write, end, commit = (12, 5, 5) if level else (11, 4, 4)
            talk.write(me, "writes without adding", write)
            talk(f"{name} offsets without adding", "txn_offset_commit", commit, **offsets(talk, me, name, commit))
            talk.add(me, "adds", 3)
            talk.write(me, "writes", 11)
            talk.write(me, "writes on", write, sequence=1)
            talk.describe(me, "is open")
            talk.end(me, True, "commits", end)
            talk.describe(me, "is over")
            talk.end(me, True, "commits again", end)
            talk.end(me, True, "commits again with the old request", 4)
            talk.write(me, "writes after the end", write, sequence=2)
            talk.add(me, "adds once more", 3)
            talk.write(me, "writes once more", 11, sequence=2)
            talk.end(me, False, "aborts", 4)
            talk.describe(me, "is aborted")
            for step in ("begins anew", "goes on"):
                me = talk.init(name, step=step)
            talk.add(me, "adds for long", 3)
            for step in ("waits", "begins at last"):
                talk.init(name, step=step)
            talk.describe(me, "at last")
        finally:
            agree(talk, 2)
    me = talk.init(name, step="begins when all is new")
    talk.write(me, "writes when all is new", 12)
    talk.end(me, True, "commits when all is new", 5)


def say_last_epochs(talk: TxnTalk) -> None:
    """A producer id has 32767 epochs; the last one is for fencing."""
    me = talk.init(talk.raw.name("v5"))
    name = me["transactional_id"]
    use_up(talk, me)
    talk.write(me, "writes in the last epoch but one", 12)
    answer = talk.end(me, True, "commits", 5)
    last = {**me, "producer_epoch": answer["producer_epoch"]}
    talk.write(last, "writes in the last epoch", 12)
    answer = talk.end(last, True, "commits last", 5)
    talk.describe(last, "moved on")
    talk.end(last, True, "commits last again", 5)
    talk.end(last, False, "aborts what it committed", 5)
    talk.end(me, True, "commits what it was long ago", 5)
    talk.write(last, "writes too late", 12, sequence=1)
    asking = {"transactional_id": name, "transaction_timeout": 60_000}
    talk(f"{name} asks who it was", "init_producer_id", 5, **{**last, **asking})
    talk(f"{name} asks who it was long ago", "init_producer_id", 5, **{**me, **asking})
    nxt = {**me, **{key: answer[key] for key in ("producer_id", "producer_epoch")}}
    talk.write(nxt, "writes on", 12)
    talk.end(nxt, False, "aborts", 5)
    talk.init(name, step="begins anew")
    asked = [{"name": talk.topic, "partition_indexes": [0]}]
    talk("after all", "describe_producers", 0, topics=asked)
    talk("read", "fetch", 12, **talk.raw.fetch_request(talk.topic, 0, 0, isolation_level=1))


def say_last_epochs_of_old(talk: TxnTalk) -> None:
    for case in ("asked", "given"):
        me = talk.init(talk.raw.name(case), 4)
        name = me["transactional_id"]
        use_up(talk, me)
        me = talk.init(name, 4, "takes the last epoch")
        asking = {"transactional_id": name, "transaction_timeout": 60_000}
        if case == "given":
            talk(f"{name} asks as itself", "init_producer_id", 4, **{**me, **asking})
            talk(f"{name} asks again", "init_producer_id", 4, **{**me, **asking})
            earlier = {**me, "producer_epoch": me["producer_epoch"] - 1}
            talk(f"{name} asks as before", "init_producer_id", 4, **{**earlier, **asking})
        talk.init(name, 4, "begins anew")
        talk.init(name, 4, "begins once more")
        talk.describe(me, "at last")


def use_up(talk: TxnTalk, me: Fields) -> None:
    """Epochs until the last one but one."""
    ask = {"transactional_id": me["transactional_id"], "transaction_timeout": 60_000, **NOBODY}
    sent = me["producer_epoch"]
    while me["producer_epoch"] < LAST_EPOCH - 1:
        while sent < min(LAST_EPOCH - 1, me["producer_epoch"] + 50):
            talk.raw.send("init_producer_id", 4, ask)
            sent += 1
        answer = talk.raw.receive("init_producer_id", 4)
        assert answer["error_code"] == 0, answer
        me["producer_epoch"] = answer["producer_epoch"]


def agree(talk: TxnTalk, level: int) -> None:
    kind = {"upgrade_type": 1 if level == 2 else 2}
    wanted = [{"feature": "transaction.version", "max_version_level": level, **kind}]
    talk(f"level {level}", "update_features", 1, timeout=10_000, feature_updates=wanted)
    time.sleep(0.5)  # until every half of the node has heard of it


def wait_until(talk: TxnTalk, name: str, state: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        [found] = talk.raw.ask("describe_transactions", 0, transactional_ids=[name])["transaction_states"]
        if found["transaction_state"] == state:
            return
        assert time.monotonic() < deadline, found
        time.sleep(0.02)


def transaction_conversations() -> dict[str, Conversation]:
    found = {**globals(), **vars(conversations_txn_offsets)}
    return {f"transactions_{name[4:]}": say for name, say in found.items() if name.startswith("say_")}


def record(only: str = "") -> None:
    broker = KafkaBroker(Path(tempfile.mkdtemp(prefix="answers-")), PROMPT)
    broker.start()
    try:
        for name, conversation in transaction_conversations().items():
            if only not in name:
                continue
            answers = hold(conversation, broker.host, broker.port)
            lines = [f"{json.dumps(step)}: {json.dumps(answer, sort_keys=True)}" for step, answer in answers.items()]
            (ANSWERS / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
            print(f"{name}: {len(answers)} answers")
    finally:
        discard(broker)


if __name__ == "__main__":
    record(*sys.argv[1:])
