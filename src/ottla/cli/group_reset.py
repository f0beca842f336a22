"""`ottla group reset`: where a group is to go on, shown first and done when asked to."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from confluent_kafka import ConsumerGroupState
from confluent_kafka.admin import AdminClient, OffsetSpec

from ottla.cli.connection import Target, explained, reason
from ottla.cli.failure import Failed, Misused
from ottla.cli.group_offsets import alter_offsets, committed_offsets, existing, offsets_at
from ottla.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandConfig, Json, Timeout
from ottla.cli.output import count_of, print_json, print_table
from ottla.cli.places import Place, Wanted, chosen, parse_wanted, place_name
from ottla.cli.times import parse_duration, parse_time


@dataclass(frozen=True)
class Span:
    """A partition's first offset and the one behind its last."""

    start: int
    end: int

    def clamp(self, offset: int) -> int:
        return min(max(offset, self.start), self.end)


@dataclass(frozen=True)
class Move:
    place: Place
    before: int | None
    after: int

    def shown(self) -> dict[str, Any]:
        topic, partition = self.place
        return {"topic": topic, "partition": partition, "from": self.before, "to": self.after}


def reset(
    group: Annotated[str, typer.Argument(metavar="GROUP", show_default=False)],
    topics: Annotated[
        list[str] | None, typer.Option("--topic", metavar="TOPIC[:0,1…]", help="Which partitions. Repeatable.")
    ] = None,
    all_topics: Annotated[bool, typer.Option("--all-topics", help="All that the group has offsets of.")] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the first record.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Behind the last record.")] = False,
    to_offset: Annotated[int | None, typer.Option("--to-offset", metavar="N", min=0)] = None,
    shift_by: Annotated[int | None, typer.Option("--shift-by", metavar="N", help="Forwards, or back if < 0.")] = None,
    to_datetime: Annotated[
        str | None, typer.Option("--to-datetime", metavar="TIME", help="Milliseconds, or 2026-01-31T12:00.")
    ] = None,
    by_duration: Annotated[
        str | None, typer.Option("--by-duration", metavar="TIME", help="So long ago: 90m, 1d12h, PT1H30M.")
    ] = None,
    execute: Annotated[bool, typer.Option("--execute/--dry-run", help="Do it, or only show it.")] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Move a group's offsets. Shows what would change; --execute does it. The group must have no members."""
    if (topics is not None) == all_topics:
        raise Misused("give --topic TOPIC or --all-topics")
    goals: list[Goal] = [
        *([to_spec(OffsetSpec.earliest())] if to_earliest else []),
        *([to_spec(OffsetSpec.latest())] if to_latest else []),
        *([to_fixed(to_offset)] if to_offset is not None else []),
        *([shifted(shift_by)] if shift_by is not None else []),
        *([to_time(parse_time(to_datetime, "--to-datetime"))] if to_datetime is not None else []),
        *([to_time(_ago_ms(by_duration))] if by_duration is not None else []),
    ]
    if len(goals) != 1:
        raise Misused(
            "give one of --to-earliest, --to-latest, --to-offset, --shift-by, --to-datetime and --by-duration"
        )
    wanted = None if topics is None else [parse_wanted(topic, "--topic") for topic in topics]
    target = Target(bootstrap, command_config, timeout)
    plan = Plan(target, target.admin(), group)
    plan.check_idle()
    moves = plan.moves(wanted, goals[0])
    if execute:
        plan.carry_out(moves)
    _report(group, moves, execute, as_json)


def _report(group: str, moves: list[Move], is_done: bool, as_json: bool) -> None:
    if as_json:
        print_json({"group": group, "executed": is_done, "partitions": [move.shown() for move in moves]})
        return
    rows = [["-" if cell is None else cell for cell in move.shown().values()] for move in moves]
    print_table(["TOPIC", "PARTITION", "FROM", "TO"], rows)
    if not is_done:
        typer.echo(f"nothing has changed yet; --execute moves {count_of(len(moves), 'partition')}", err=True)


class Plan:
    def __init__(self, target: Target, admin: AdminClient, group: str) -> None:
        self.target, self.admin, self.group = target, admin, group

    def check_idle(self) -> None:
        """A group that was never there is idle, too: its offsets can be set before it begins."""
        with explained(self.target):
            [future] = self.admin.describe_consumer_groups([self.group]).values()
        found = self.target.outcome(future, self.admin, self.group)
        if found.state not in (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD):
            members = count_of(len(found.members), "member")
            raise Failed(f"{self.group} has {members}; offsets can be moved when they have stopped")

    def moves(self, wanted: list[Wanted] | None, goal: "Goal") -> list[Move]:
        committed = committed_offsets(self.target, self.admin, self.group)
        there = existing(self.target, self.admin)
        if wanted is None:
            places = sorted(committed.keys() & there)
            if not places:
                raise Failed(f"{self.group} has no offsets")
        else:
            places = sorted({place for one in wanted for place in chosen(one, there)})
        after = goal(self, places, committed)
        return [Move(place, committed.get(place), after[place]) for place in places]

    def at(self, places: Iterable[Place], spec: OffsetSpec) -> dict[Place, int]:
        return offsets_at(self.target, self.admin, places, spec)

    def spans(self, places: list[Place]) -> dict[Place, Span]:
        starts, ends = self.at(places, OffsetSpec.earliest()), self.at(places, OffsetSpec.latest())
        return {place: Span(starts[place], ends[place]) for place in places}

    def carry_out(self, moves: list[Move]) -> None:
        refused = alter_offsets(self.target, self.admin, self.group, {move.place: move.after for move in moves})
        if refused:
            raise Failed("; ".join(f"{place_name(place)}: {reason(error)}" for place, error in refused.items()))


Goal = Callable[[Plan, list[Place], dict[Place, int]], dict[Place, int]]
"""Where each partition's offset is to be."""


def to_spec(spec: OffsetSpec) -> Goal:
    return lambda plan, places, committed: plan.at(places, spec)


def to_fixed(offset: int) -> Goal:
    """The offset itself, or the nearest that the partition has."""
    return lambda plan, places, committed: {place: span.clamp(offset) for place, span in plan.spans(places).items()}


def shifted(by: int) -> Goal:
    def goal(plan: Plan, places: list[Place], committed: dict[Place, int]) -> dict[Place, int]:
        unknown = [place_name(place) for place in places if place not in committed]
        if unknown:
            raise Failed(f"{plan.group} has no offset to shift in {', '.join(unknown)}")
        return {place: span.clamp(committed[place] + by) for place, span in plan.spans(places).items()}

    return goal


def to_time(timestamp_ms: int) -> Goal:
    """The first record that is not older, or the end when all are."""

    def goal(plan: Plan, places: list[Place], committed: dict[Place, int]) -> dict[Place, int]:
        found = plan.at(places, OffsetSpec.for_timestamp(timestamp_ms))
        ends = plan.at(places, OffsetSpec.latest())
        return {place: found[place] if found[place] >= 0 else ends[place] for place in places}

    return goal


def _ago_ms(text: str) -> int:
    return max(int(time.time() * 1000) - parse_duration(text, "--by-duration"), 0)
