"""Kernels read no byte behind the last: memory is closed there, and a process that touches it is killed."""

import ctypes
import mmap
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.spark.formats.avro_format import Avro
from ottla.spark.formats.json_format import Json
from ottla.spark.formats.proto_format import Protobuf
from ottla.spark.formats.spark_types import arrow_type
from tests.unit.spark.formats.test_avro_reading import NESTED
from tests.unit.spark.formats.test_protobuf import PROTO

COLUMNS = (
    "id bigint, name string, share double, ok boolean, price decimal(8,2), day date, at timestamp, raw binary, "
    "tags array<string>, who struct<a: int, b: struct<c: string>>, deep map<string, array<int>>"
)
DOCUMENT = (
    rb' {"id": -12, "name": "a\u00e9\ud83d\ude00\n", "share": 1.5e-3, "ok": true, "price": "12.50",'
    rb' "day": "2024-02-29",'
    rb' "at": "2024-02-29T01:02:03.5Z", "raw": "YWI=", "tags": ["x", null], "who": {"a": 1, "b": {"c": "d"}},'
    rb' "deep": {"k": [1, 2], "l": null}, "other": [{"x": [false, -0.5]}]} '
)
_PROT_NONE = 0
_CHANGES = 1500


def readers(directory: Path) -> Iterator[tuple[Any, bytes]]:
    """Each with a record that is whole."""
    yield Json(arrow_type(COLUMNS)), DOCUMENT
    avro = Avro(NESTED)
    row = {
        "tags": ["a", None],
        "grid": [[1, 2], []],
        "counts": [("a", [1])],
        "notes": [("n", {"text": "ab"})],
        "wide": 7,
        "any": {"member0": "some text"},
        "big": 5,
        "at": [1, 2],
    }
    yield (
        avro,
        avro.encode(pa.array([row], avro._schema.bare).cast(avro._schema.stored).cast(avro.type)).results[0].as_py(),
    )
    (directory / "shop.proto").write_text(PROTO)
    order = Protobuf.from_file(directory / "shop.proto", "Order")
    values: dict[str, Any] = dict.fromkeys(part.name for part in order.type)
    values |= {"id": 2**40, "name": "a name of some length", "others": [{"name": "b", "age": 1}], "numbers": [1, 300]}
    values |= {"counts": [("a", 5)], "at": 1, "share": 1.5, "card": "c"}
    yield order, order.encode(pa.array([values], order.bare).cast(order.type)).results[0].as_py()


class Edge:
    """A page of memory, and behind it one that is closed."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 2 * mmap.PAGESIZE)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        libc = ctypes.CDLL(None, use_errno=True)
        closed = ctypes.c_void_p(self._address + mmap.PAGESIZE)
        assert libc.mprotect(closed, ctypes.c_size_t(mmap.PAGESIZE), _PROT_NONE) == 0

    def column(self, record: bytes) -> pa.Array:
        """The record, ending where the closed page begins."""
        start = mmap.PAGESIZE - len(record)
        self._memory[start : mmap.PAGESIZE] = record
        bounds = pa.py_buffer(np.array([0, len(record)], np.int32))
        data = pa.foreign_buffer(self._address + start, len(record))
        return pa.Array.from_buffers(pa.binary(), 1, [None, bounds, data])

    def touch(self) -> int:
        """What a kernel must not do."""
        return ctypes.c_char.from_address(self._address + mmap.PAGESIZE).value[0]


def damaged(record: bytes) -> Iterator[bytes]:
    source = Random(1)
    yield from (record[:end] for end in range(1, len(record) + 1))
    for _ in range(_CHANGES):
        changed = bytearray(record[: source.randrange(1, len(record) + 1)])
        for _ in range(source.randrange(1, 4)):
            changed[source.randrange(len(changed))] = source.choice(
                [0, 1, 2, 34, 92, 123, 127, 128, 255, source.randrange(256)]
            )
        yield bytes(changed)


def read_at_the_edge(directory: Path) -> None:
    edge = Edge()
    for format_, record in readers(directory):
        reader = format_._reader
        assert not len(reader.read(edge.column(record))[1]), "the whole record has to be one for the kernel"
        for each in damaged(record):
            reader.read(edge.column(each))


def child(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.unit.spark.formats.test_bounds", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


def test_no_kernel_reads_beyond_the_last_byte(tmp_path: Path) -> None:
    done = child(str(tmp_path))
    assert (done.returncode, done.stdout) == (0, "all read\n"), done.stderr


def test_whoever_does_is_killed() -> None:
    assert child("touch").returncode < 0


if __name__ == "__main__":
    if sys.argv[1] == "touch":
        Edge().touch()
    else:
        read_at_the_edge(Path(sys.argv[1]))
    print("all read")
