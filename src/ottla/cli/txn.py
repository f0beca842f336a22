"""`ottla txn …`"""

import time
from typing import Annotated, Any

import typer

from ottla.cli.brokers import Brokers
from ottla.cli.connection import Target
from ottla.cli.failure import Misused
from ottla.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandConfig, Json, Timeout
from ottla.cli.output import print_json, print_table
from ottla.cli.places import Place, chosen, parse_wanted
from ottla.cli.times import duration_text, parse_duration, time_text
from ottla.cli.transactions import STATES, ActiveProducer, Transaction, Wanted, described, hanging, listed, producers
from ottla.cli.txn_end import abort, commit

_PRODUCER_COLUMNS = [
    "TOPIC",
    "PARTITION",
    "PRODUCER",
    "EPOCH",
    "SEQUENCE",
    "LAST WRITE",
    "COORDINATOR EPOCH",
    "OPEN AT",
]


def register(app: typer.Typer) -> None:
    txns = typer.Typer(
        help="List and describe transactions; find those that hang; end what its producer cannot.", no_args_is_help=True
    )
    for command in (list_, describe, commit, abort):
        txns.command(name=command.__name__.strip("_"))(command)
    app.add_typer(txns, name="txn")


def list_(
    states: Annotated[list[str] | None, typer.Option("--state", help=f"{', '.join(STATES)}. Repeatable.")] = None,
    longer_than: Annotated[
        str | None, typer.Option("--longer-than", metavar="TIME", help="Begun longer ago: 5m, 1h30m.")
    ] = None,
    producer_ids: Annotated[list[int] | None, typer.Option("--producer-id", metavar="N", help="Repeatable.")] = None,
    pattern: Annotated[
        str | None, typer.Option("--pattern", metavar="REGEX", help="Of the whole transactional id.")
    ] = None,
    hanging_only: Annotated[
        bool, typer.Option("--hanging", help="Open in a partition, and unknown to every coordinator.")
    ] = False,
    topics: Annotated[
        list[str] | None, typer.Option("--topic", metavar="TOPIC[:0,1…]", help="With --hanging: where. Repeatable.")
    ] = None,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """List the transactional ids and the states of their transactions."""
    target = Target(bootstrap, command_config, timeout)
    longer_than_ms = None if longer_than is None else parse_duration(longer_than, "--longer-than")
    if hanging_only:
        if states or producer_ids or pattern:
            raise Misused("--hanging goes with --topic and --longer-than")
        _list_hanging(target, topics, longer_than_ms or 0, as_json)
        return
    if topics:
        raise Misused("--topic goes with --hanging")
    wanted = Wanted(
        tuple(_kafka_name(state) for state in states or ()), tuple(producer_ids or ()), longer_than_ms, pattern
    )
    with Brokers(target) as brokers:
        rows = [_row(one) for one in listed(brokers, wanted)]
    if as_json:
        print_json(rows)
        return
    columns = ["ID", "STATE", "PRODUCER", "EPOCH", "COORDINATOR", "AGE"]
    print_table(columns, [[*list(row.values())[:-1], _age_text(row["age_ms"])] for row in rows])


def describe(
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID…", show_default=False)] = None,
    topics: Annotated[
        list[str] | None,
        typer.Option("--producers", metavar="TOPIC[:0,1…]", help="The producers of partitions instead. Repeatable."),
    ] = None,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Show a transaction's state, its producer, and the partitions it has written to."""
    if bool(ids) == bool(topics):
        raise Misused("give transactional ids or --producers TOPIC")
    with Brokers(Target(bootstrap, command_config, timeout)) as brokers:
        if topics:
            found = producers(brokers, _places(brokers, topics, "--producers"))
            _print_producers(found, as_json)
            return
        shown = [_shown(described(brokers, one)) for one in dict.fromkeys(ids or ())]
    if as_json:
        print_json(shown)
        return
    for one in shown:
        timeout_text = "none (two-phase commit)" if one["timeout_ms"] is None else duration_text(one["timeout_ms"])
        began = "-" if one["started_ms"] is None else time_text(one["started_ms"])
        print(f"{one['id']}  {one['state']}  coordinator {one['coordinator']}")
        print(f"producer {one['producer_id']}, epoch {one['producer_epoch']}; timeout {timeout_text}; began {began}")
        rows = [list(place.values()) for place in one["partitions"]]
        if rows:
            print_table(["TOPIC", "PARTITION"], rows)


def _list_hanging(target: Target, topics: list[str] | None, longer_than_ms: int, as_json: bool) -> None:
    with Brokers(target) as brokers:
        places = _places(brokers, topics, "--topic") if topics else sorted(brokers.leaders())
        found = hanging(brokers, places)
    before_ms = _now_ms() - longer_than_ms
    found = [one for one in found if one.last_timestamp_ms <= before_ms]
    _print_producers(found, as_json)
    if found and not as_json:
        (topic, partition), offset = found[0].place, found[0].open_since_offset
        hint = f"ottla txn abort --partition {topic}:{partition} --start-offset {offset}"
        typer.echo(f"nobody ends these by themselves; the first one: {hint}", err=True)


def _print_producers(found: list[ActiveProducer], as_json: bool) -> None:
    rows = [_producer_row(one) for one in found]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        row["last_timestamp_ms"] = row["last_timestamp_ms"] and time_text(row["last_timestamp_ms"])
    print_table(_PRODUCER_COLUMNS, [["-" if cell is None else cell for cell in row.values()] for row in rows])


def _producer_row(one: ActiveProducer) -> dict[str, Any]:
    return {
        "topic": one.place[0],
        "partition": one.place[1],
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "last_sequence": _known(one.last_sequence),
        "last_timestamp_ms": _known(one.last_timestamp_ms),
        "coordinator_epoch": _known(one.coordinator_epoch),
        "open_since_offset": _known(one.open_since_offset),
    }


def _row(one: Transaction) -> dict[str, Any]:
    """Only a transaction that is open has an age."""
    return {
        "id": one.id,
        "state": one.word,
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "coordinator": one.coordinator,
        "age_ms": max(_now_ms() - one.started_ms, 0) if one.is_open and one.started_ms >= 0 else None,
    }


def _shown(one: Transaction) -> dict[str, Any]:
    return {
        "id": one.id,
        "state": one.word,
        "coordinator": one.coordinator,
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "timeout_ms": None if one.is_two_phase else one.timeout_ms,
        "started_ms": _known(one.started_ms),
        "partitions": [{"topic": topic, "partition": index} for topic, index in one.places],
    }


def _places(brokers: Brokers, topics: list[str], option: str) -> list[Place]:
    there = set(brokers.leaders())
    wanted = [parse_wanted(topic, option) for topic in topics]
    return sorted({place for one in wanted for place in chosen(one, there)})


def _kafka_name(state: str) -> str:
    if state.lower() not in STATES:
        raise Misused(f"--state takes {', '.join(STATES)}, not {state!r}")
    return STATES[state.lower()]


def _known(number: int) -> int | None:
    return number if number >= 0 else None


def _age_text(age_ms: int | None) -> str:
    return "-" if age_ms is None else duration_text(age_ms)


def _now_ms() -> int:
    return int(time.time() * 1000)
