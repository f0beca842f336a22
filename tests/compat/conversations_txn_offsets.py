"""Conversations about the offsets of groups inside transactions."""

from __future__ import annotations

from .conversations_data import ranged
from .transaction_talk import TxnTalk, offsets, stable
from .wire import Fields


def say_offsets(talk: TxnTalk) -> None:
    for version in ranged("txn_offset_commit", 5):
        group = talk.raw.name(f"group{version}")
        me = talk.init(talk.raw.name(f"id{version}"))
        ask = offsets(talk, me, group, version)
        if version < 5:
            talk("not added", "txn_offset_commit", version, **ask)
            for old in ranged("add_offsets_to_txn", 4):
                talk(f"empty group {version}", "add_offsets_to_txn", old, **me, group_id="")
            talk(f"added {version}", "add_offsets_to_txn", 3, **me, group_id=group)
        talk("simple", "txn_offset_commit", version, **ask)
        talk("unknown topic", "txn_offset_commit", version, **offsets(talk, me, group, version, topic="never"))
        talk("unknown partition", "txn_offset_commit", version, **offsets(talk, me, group, version, index=9))
        talk("negative", "txn_offset_commit", version, **offsets(talk, me, group, version, offset=-2))
        talk("much metadata", "txn_offset_commit", version, **offsets(talk, me, group, version, metadata="x" * 4097))
        talk("no topics", "txn_offset_commit", version, **{**ask, "topics": []})
        talk("empty group", "txn_offset_commit", version, **{**ask, "group_id": ""})
        if version >= 3:
            talk("stranger", "txn_offset_commit", version, **{**ask, "member_id": "x", "generation_id": 1})
            talk("no member", "txn_offset_commit", version, **{**ask, "generation_id": 1})
            talk("no generation", "txn_offset_commit", version, **{**ask, "member_id": "x"})
            talk("instance", "txn_offset_commit", version, **{**ask, "group_instance_id": "x", "member_id": "x"})
        talk(f"before the end {version}", "offset_fetch", 9, **stable(group, talk, 9))
        talk(f"ordinary commit {version}", "offset_commit", 7, **committing(talk, group))
        talk(f"beside an ordinary one {version}", "offset_fetch", 9, **stable(group, talk, 9))
        talk(f"beside an ordinary one, any {version}", "offset_fetch", 9, **stable(group, talk, 9, False))
        talk.end(me, True, "commits", 5 if version >= 5 else 4)
        talk(f"after the end {version}", "offset_fetch", 9, **stable(group, talk, 9))


def everything(group: str, is_stable: bool) -> Fields:
    return {
        "groups": [{"group_id": group, "member_id": None, "member_epoch": -1, "topics": None}],
        "require_stable": is_stable,
    }


def say_groups(talk: TxnTalk) -> None:
    """What can be done with a group while offsets of it are in a transaction."""
    for case, has_own in (("pending alone", False), ("beside its own", True)):
        for deed in ("nothing", "offset_delete", "delete_groups", "ordinary commit"):
            group = talk.raw.name(f"{case}-{deed}".replace(" ", "-"))
            me = talk.init(talk.raw.name(f"id-{case}-{deed}"))
            if has_own:
                talk(f"{group} commits", "offset_commit", 7, **committing(talk, group))
            talk(f"{group} offsets", "txn_offset_commit", 5, **offsets(talk, me, group, 5))
            if deed == "offset_delete":
                topics = [{"name": talk.topic, "partitions": [{"partition_index": 0}]}]
                talk(f"{group} does", deed, 0, group_id=group, topics=topics)
            elif deed == "delete_groups":
                talk(f"{group} does", deed, 2, groups_names=[group])
            elif deed == "ordinary commit":
                talk(f"{group} does", "offset_commit", 7, **committing(talk, group))
            for moment in ("open", "over"):
                if deed != "offset_delete":  # Apache Kafka keeps an empty name in memory
                    talk(f"{group} {moment}", "describe_groups", 5, groups=[group])
                for is_stable in (True, False):
                    talk(f"{group} {moment} all {is_stable}", "offset_fetch", 9, **everything(group, is_stable))
                    talk(f"{group} {moment} one {is_stable}", "offset_fetch", 9, **stable(group, talk, 9, is_stable))
                if moment == "open":
                    talk.end(me, True, "commits", 5)


def say_two_transactions(talk: TxnTalk) -> None:
    """Two producers, one group: of offsets that were decided the one that was sent last counts."""
    for order in ("ab", "ba"):
        group = talk.raw.name(f"group{order}")
        them = {which: talk.init(talk.raw.name(f"id{order}{which}")) for which in "ab"}
        for at, which in enumerate("ab"):
            ask = offsets(talk, them[which], group, 5, offset=10 + at)
            talk(f"{group} offsets of {which}", "txn_offset_commit", 5, **ask)
        for which in order:
            talk.end(them[which], True, "commits", 5)
            talk(f"{group} after {which}", "offset_fetch", 9, **stable(group, talk, 9))


def say_members(talk: TxnTalk) -> None:
    """KIP-447: whose generation is gone cannot commit inside its transaction."""
    group = talk.raw.name("classic")
    joining: Fields = {"session_timeout": 10_000, "rebalance_timeout": 10_000, "protocol_type": "consumer"}
    joining |= {"group_id": group, "protocols": [{"name": "range", "metadata": b""}]}
    member = talk.raw.ask("join_group", 5, **joining)["member_id"]
    joined = talk.raw.ask("join_group", 5, **joining, member_id=member)
    mine = {"member_id": member, "generation_id": joined["generation_id"]}
    assigned = [{"member_id": member, "assignment": b""}]
    for moment in ("waiting", "stable"):
        hold_generations(talk, group, mine, moment)
        if moment == "waiting":
            talk.raw.ask("sync_group", 3, group_id=group, **mine, assignments=assigned)
    new_group, member = talk.raw.name("consumer"), "5b9a7d5e00004000800000"
    beat = {"group_id": new_group, "member_id": member, "member_epoch": 0, "rebalance_timeout": 10_000}
    beat |= {"subscribed_topic_names": [talk.topic], "topic_partitions": []}
    epoch = talk.raw.ask("consumer_group_heartbeat", 1, **beat)["member_epoch"]
    hold_generations(talk, new_group, {"member_id": member, "generation_id": epoch}, "new protocol")


def hold_generations(talk: TxnTalk, group: str, mine: Fields, moment: str) -> None:
    generation = mine["generation_id"]
    for version in ranged("txn_offset_commit", 5):
        me = talk.init(talk.raw.name(f"id {moment} {version}"))
        if version < 5:
            talk(f"{moment} added {version}", "add_offsets_to_txn", 3, **me, group_id=group)
        ask = offsets(talk, me, group, version)
        talk(f"{moment}, nobody", "txn_offset_commit", version, **ask)
        cases: tuple[tuple[str, Fields], ...] = (
            ("itself", mine),
            ("later", {**mine, "generation_id": generation + 1}),
            ("earlier", {**mine, "generation_id": generation - 1}),
            ("no generation", {**mine, "generation_id": -1}),
            ("another", {**mine, "member_id": "another"}),
            ("no member", {**mine, "member_id": ""}),
            ("instance", {**mine, "group_instance_id": "instance"}),
        )
        for who, changes in cases if version >= 3 else ():
            talk(f"{moment}, {who}", "txn_offset_commit", version, **{**ask, **changes})
        talk.end(me, False, "aborts", 5 if version >= 5 else 4)


def committing(talk: TxnTalk, group: str) -> Fields:
    wanted = {"partition_index": 0, "committed_offset": 99, "committed_leader_epoch": -1, "committed_metadata": "own"}
    member = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    return {"group_id": group, **member, "topics": [{"name": talk.topic, "partitions": [wanted]}]}
