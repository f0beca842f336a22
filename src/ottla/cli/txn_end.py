"""`ottla txn commit` and `ottla txn abort`: ending a transaction in its producer's place.

Who ends a transaction so takes the producer's identity first (InitProducerId), so that the producer, if it is still
there, can neither go on nor decide otherwise.
"""

from typing import Annotated, Any

import typer

from ottla.base.errors import ErrorCode
from ottla.cli.brokers import NOT_YET, Brokers
from ottla.cli.connection import Target
from ottla.cli.exchange import checked
from ottla.cli.failure import Failed, Misused
from ottla.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandConfig, Timeout, Yes, confirm
from ottla.cli.output import count_of
from ottla.cli.places import Place, parse_wanted, place_name
from ottla.cli.transactions import ActiveProducer, Transaction, accounted_for, described, producers
from ottla.client.failures import code_name
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

_KEEPS_PREPARED_VERSION = 6
_TELLS_IDENTITY_VERSION = 5
_FENCING_TIMEOUT_MS = 60_000
"""The timeout that a transactional id has until its next producer comes with its own."""
_BUSY = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS})


def commit(
    transactional_id: Annotated[str, typer.Argument(metavar="ID", show_default=False)],
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Commit a transaction that was left prepared (two-phase commit). Asks first when a person is typing."""
    with Brokers(Target(bootstrap, command_config, timeout)) as brokers:
        found = described(brokers, transactional_id)
        _check_open(found)
        if not found.is_two_phase:
            raise Failed(
                f"{found.id} is no two-phase transaction: only its producer knows whether it is whole, so only the "
                "producer may commit it (`ottla txn abort` aborts it)"
            )
        confirm(f"Commit {found.id} in {_extent(found)}, in the place of its producer?", yes)
        _commit_prepared(brokers, found)
        _report(brokers, found, committed=True)


def abort(
    transactional_id: Annotated[str | None, typer.Argument(metavar="ID", show_default=False)] = None,
    partition: Annotated[
        str | None, typer.Option("--partition", metavar="TOPIC:P", help="Of a hanging transaction.")
    ] = None,
    start_offset: Annotated[
        int | None, typer.Option("--start-offset", metavar="N", min=0, help="Where the hanging transaction begins.")
    ] = None,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Abort an open transaction and fence its producer; or end a hanging one in its partition."""
    place = None if partition is None else _one_place(partition)
    if (transactional_id is None) == (place is None) or (place is None) != (start_offset is None):
        raise Misused("give an ID, or --partition TOPIC:P with --start-offset N")
    with Brokers(Target(bootstrap, command_config, timeout)) as brokers:
        if place is not None and start_offset is not None:
            _abort_hanging(brokers, place, start_offset, yes)
        elif transactional_id is not None:
            found = described(brokers, transactional_id)
            _check_open(found)
            confirm(f"Abort {found.id} in {_extent(found)} and fence its producer?", yes)
            _fence(brokers, found)
            _report(brokers, found, committed=False)


def _commit_prepared(brokers: Brokers, found: Transaction) -> None:
    """Take over without aborting (KIP-939), make sure that it is still the same transaction, and commit it."""
    keep = InitProducerIdRequest(found.id, found.timeout_ms, enable2_pc=True, keep_prepared_txn=True)

    def take_over() -> tuple[int, Any]:
        answer = brokers.coordinator(found.id).ask(keep, at_least=_KEEPS_PREPARED_VERSION)
        return answer.error_code, answer

    kept = brokers.patiently(take_over, found.id, _BUSY)
    if (kept.ongoing_txn_producer_id, kept.ongoing_txn_producer_epoch) != found.identity:
        raise Failed(f"{found.id} has changed meanwhile: look at it again")
    end = EndTxnRequest(found.id, kept.producer_id, kept.producer_epoch, committed=True)

    def decide() -> tuple[int, Any]:
        answer = brokers.coordinator(found.id).ask(end, at_least=_TELLS_IDENTITY_VERSION)
        return answer.error_code, answer

    brokers.patiently(decide, found.id, _BUSY)


def _fence(brokers: Brokers, found: Transaction) -> None:
    """A new producer with the same id: the coordinator aborts what is open, and lets the newcomer wait for it."""
    fence = InitProducerIdRequest(found.id, min(found.timeout_ms, _FENCING_TIMEOUT_MS))
    for _ in brokers.attempts():
        code = brokers.coordinator(found.id).ask(fence).error_code
        if code in NOT_YET:
            continue
        if code != ErrorCode.CONCURRENT_TRANSACTIONS:
            checked(code, about=found.id)
            raise Failed(f"{found.id} had ended before it could be aborted; its producer is fenced")
        now = described(brokers, found.id)
        if now.state != "Ongoing" or now.identity != found.identity:
            return
    checked(code if code in NOT_YET else 0, about=found.id)
    # Its coordinator lets nobody interfere while a group commit is being decided, which is soon.
    raise Failed(f"{found.id} cannot be aborted for now ({code_name(code)}): a commit that it is part of is under way")


def _report(brokers: Brokers, found: Transaction, committed: bool) -> None:
    """The decision stands; wait for the markers, by which readers see it."""
    for _ in brokers.attempts():
        now = described(brokers, found.id)
        if now.state == ("CompleteAbort" if committed else "CompleteCommit"):
            raise Failed(f"{found.id} was ended otherwise meanwhile: its state is {now.word}")
        if now.state not in ("PrepareCommit", "PrepareAbort"):
            print(f"{found.id} {'committed' if committed else 'aborted'} in {_extent(found)}")
            return
    raise Failed(f"{found.id} is decided ({now.word}), but not all partitions have been told yet")


def _abort_hanging(brokers: Brokers, place: Place, start_offset: int, yes: bool) -> None:
    suspect = _open_at(brokers, place, start_offset)
    owner = accounted_for(brokers, [suspect]).get((suspect.producer_id, place))
    if owner is not None:
        raise Failed(f"this transaction does not hang: it is that of {owner.id}, in state {owner.word}")
    who = f"producer {suspect.producer_id} (epoch {suspect.producer_epoch})"
    confirm(f"Abort the transaction of {who} that begins at offset {start_offset} of {place_name(place)}?", yes)
    if _open_at(brokers, place, start_offset) != suspect:
        raise Failed(f"somebody goes on with this transaction: look at {place_name(place)} again")
    topic, index = place
    marker = WritableTxnMarker(
        suspect.producer_id,
        suspect.producer_epoch,
        False,
        [WritableTxnMarkerTopic(topic, [index])],
        # Where no coordinator has ever written, any epoch is new.
        max(suspect.coordinator_epoch, 0),
    )

    def write() -> tuple[int, Any]:
        answer = brokers.leader(place).ask(WriteTxnMarkersRequest([marker]))
        [result] = answer.markers[0].topics[0].partitions
        return result.error_code, result

    brokers.patiently(write, place_name(place))
    print(f"transaction of {who} at offset {start_offset} of {place_name(place)} aborted")


def _open_at(brokers: Brokers, place: Place, start_offset: int) -> ActiveProducer:
    open_ones = [one for one in producers(brokers, [place]) if one.open_since_offset >= 0]
    for one in open_ones:
        if one.open_since_offset == start_offset:
            return one
    others = ", ".join(str(one.open_since_offset) for one in open_ones)
    known = f"those that are open begin at {others}" if others else "none is open there"
    raise Failed(f"no open transaction begins at offset {start_offset} of {place_name(place)}: {known}")


def _check_open(found: Transaction) -> None:
    if found.state != "Ongoing":
        raise Failed(f"{found.id} has no open transaction: its state is {found.word}")


def _extent(found: Transaction) -> str:
    names = " ".join(place_name(place) for place in found.places[:10])
    return f"{count_of(len(found.places), 'partition')} ({names}{' …' if len(found.places) > 10 else ''})"


def _one_place(text: str) -> Place:
    topic, numbers = parse_wanted(text, "--partition")
    if numbers is None or len(numbers) != 1:
        raise Misused(f"--partition takes TOPIC:P, not {text!r}")
    return topic, numbers[0]
