"""`ottla log …`: looks at log files on disk, without a node. Reads what Apache Kafka wrote just as well."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import IntEnum
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from ottla.cli.failure import Failed, Misused
from ottla.cli.internal_records import plain, spelt_out
from ottla.cli.options import Json
from ottla.cli.output import count_of
from ottla.cli.segment_check import Batch, Fault, SegmentCheck, index_entries
from ottla.storage.index import OFFSET_ENTRY, TIME_ENTRY
from ottla.storage.snapshot import BadSnapshot, decode_snapshot
from ottla.wire.batch import Codec, Record, decode_records
from ottla.wire.control import ControlType, decode_control_records
from ottla.wire.malformed import Malformed

Line = dict[str, Any]
LINES_PER_WRITE = 1000
_DUMPED = (".log", ".index", ".timeindex", ".snapshot", ".checkpoint")


def register(app: typer.Typer) -> None:
    logs = typer.Typer(help="Look at log files on disk, without a node.", no_args_is_help=True)

    # A callback keeps `dump` a subcommand although it is the only one.
    @logs.callback()
    def log() -> None: ...

    logs.command()(dump)
    app.add_typer(logs, name="log")


def dump(
    path: Annotated[Path, typer.Argument(exists=True, help="A partition's directory, or one file of it.")],
    records: Annotated[bool, typer.Option("--records", "-r", help="Also the records of each batch.")] = False,
    from_offset: Annotated[int, typer.Option("--from", metavar="OFFSET", help="Leave out what ends before it.")] = 0,
    as_json: Json = False,
) -> None:
    """Print the batches of a log, and check their checksums, their order and their indexes.

    With --json one object a line. Exits with 1 if anything is wrong.
    """
    text_of = _json_of if as_json else _text_of
    faults: list[Fault] = []
    try:
        lines = map(text_of, _lines(path, records, from_offset, faults))
        while some := list(islice(lines, LINES_PER_WRITE)):
            print("\n".join(some))
    except BrokenPipeError:
        raise
    except OSError as failure:
        if failure.filename is None:
            raise  # not the file that is read, but what is written to
        raise Failed(f"cannot read {failure.filename}: {failure.strerror}") from None
    for fault in faults:
        print(text_of({"kind": "fault", "file": str(fault.file), "position": fault.position, "what": fault.what}))
    if faults:
        raise Failed(f"{count_of(len(faults), 'fault')} in {path}")


def _lines(path: Path, records: bool, from_offset: int, faults: list[Fault]) -> Iterator[Line]:
    if path.is_dir():
        segments = sorted(path.glob("*.log")) + sorted(path.glob("*.checkpoint"))
        if not segments:
            raise Failed(f"{path} has no .log files")
        for segment in segments:
            yield from _segment_lines(segment, records, from_offset, faults)
    elif path.suffix in (".log", ".checkpoint"):
        yield from _segment_lines(path, records, from_offset, faults)
    elif path.suffix == ".index":
        for offset, position in index_entries(path, OFFSET_ENTRY, faults):
            yield {"kind": "entry", "offset": _base(path) + offset, "position": position}
    elif path.suffix == ".timeindex":
        for timestamp, offset in index_entries(path, TIME_ENTRY, faults):
            yield {"kind": "entry", "timestamp": timestamp, "offset": _base(path) + offset}
    elif path.suffix == ".snapshot":
        yield from _producer_lines(path, faults)
    else:
        raise Misused(f"{path.name}: only {', '.join(_DUMPED)} files can be dumped")


def _producer_lines(path: Path, faults: list[Fault]) -> Iterator[Line]:
    """What was known of the producers when the segment of that offset began."""
    try:
        for producer in decode_snapshot(path.read_bytes()):
            yield {"kind": "producer"} | plain(producer)
    except BadSnapshot as bad:
        faults.append(Fault(path, 0, str(bad)))


def _base(path: Path) -> int:
    return int(path.stem) if path.stem.isdecimal() else 0


def _segment_lines(path: Path, records: bool, from_offset: int, faults: list[Fault]) -> Iterator[Line]:
    check = SegmentCheck(path)
    yield {"kind": "segment", "file": str(path)}
    for batch in check.batches():
        if batch.header.last_offset < from_offset:
            continue
        yield _batch_line(batch)
        if records:
            yield from _record_lines(path, batch, check.faults)
    yield {
        "kind": "end",
        "batches": check.batch_count,
        "records": check.record_count,
        "next_offset": check.end_offset,
        "faults": len(check.faults),
    }
    faults += check.faults


def _batch_line(batch: Batch) -> Line:
    header = batch.header
    line: Line = {
        "kind": "batch",
        "first_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "position": batch.position,
        "size": header.size,
        "codec": _name(Codec, header.codec).lower(),
        "leader_epoch": header.leader_epoch,
        "max_timestamp": header.max_timestamp,
        "timestamp_type": "LogAppendTime" if header.is_log_append_time else "CreateTime",
        "crc": header.crc,
    }
    if header.has_producer_id:
        line |= {
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "first_sequence": header.base_sequence,
            "last_sequence": header.last_sequence,
        }
    if header.has_delete_horizon:
        line["delete_horizon_ms"] = header.delete_horizon_ms
    return line | {name: True for name in ("is_transactional", "is_control") if getattr(header, name)}


def _record_lines(path: Path, batch: Batch, faults: list[Fault]) -> Iterator[Line]:
    try:
        if batch.header.is_control:
            for control in decode_control_records(batch.data):
                yield {
                    "kind": "control",
                    "offset": control.offset,
                    "timestamp": control.timestamp,
                    "type": _name(ControlType, control.type),
                }
            return
        topic = path.resolve().parent.name.rpartition("-")[0]
        for record in decode_records(batch.data):
            yield spelt_out(topic, record) or _record_line(record)
    except Malformed as broken:
        faults.append(Fault(path, batch.position, f"the records cannot be read: {broken}"))


def _record_line(record: Record) -> Line:
    return {
        "kind": "record",
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _readable(record.key),
        "value": _readable(record.value),
        "headers": [[name, _readable(value)] for name, value in record.headers],
    }


def _name(kinds: type[IntEnum], number: int) -> str:
    try:
        return kinds(number).name
    except ValueError:
        return str(number)  # of a newer writer


def _readable(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "backslashreplace")


def _json_of(line: Line) -> str:
    return json.dumps(line, ensure_ascii=False, separators=(",", ":"))


def _text_of(line: Line) -> str:
    kind = str(line["kind"])
    rest = {name: value for name, value in line.items() if name != "kind"}
    if kind == "segment":
        return str(rest["file"])
    if kind == "fault":
        return f"  FAULT in {rest['file']} at {rest['position']}: {rest['what']}"
    if kind == "end":
        batches = "1 batch" if rest["batches"] == 1 else f"{rest['batches']:,} batches"
        return f"  {count_of(rest['records'], 'record')} in {batches}, next offset {rest['next_offset']}"
    indent = "    " if kind in ("record", "control", "metadata", "state") else "  "
    return indent + kind + " " + " ".join(f"{name}={_text(name, value)}" for name, value in rest.items())


def _text(name: str, value: Any) -> str:
    if "timestamp" in name and isinstance(value, int) and 0 <= value < 253_402_300_800_000:
        return datetime.fromtimestamp(value / 1000, UTC).isoformat(timespec="milliseconds")
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | list) and name in _QUOTED else str(value)


_QUOTED = {"key", "value", "headers"}
