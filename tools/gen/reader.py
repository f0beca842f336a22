"""Emits straight-line decode functions. Adjacent fixed-size fields, with the length that follows, are one struct."""

from __future__ import annotations

from tools.gen.layout import Layout
from tools.gen.model import Field
from tools.gen.source import Source, fresh_default, local, struct_size

_UNCHARGED_ELEMENTS_MAX = 7
_ARRAY_CODES = {"int8": "b", "int16": "h", "int32": "i", "int64": "q"}


class Reader:
    def __init__(self, source: Source, layout: Layout) -> None:
        self._source = source
        self._layout = layout
        self._flexible = layout.shape.flexible
        self._run: list[tuple[str, str]] = []
        self.dependencies = {nested.suffix for nested in layout.nested.values()}

    def emit(self) -> None:
        source, layout = self._source, self._layout
        name = layout.of.name
        with source.block(f"def _read_{layout.suffix}(buf: memoryview, at: int) -> tuple[{name}, int]:"):
            source.add(f"m = _new({name})")
            for f in layout.shape.regular:
                self._field(f)
            here = {f.name for f in layout.shape.regular}
            defaults = [c for c in layout.of.fields if c.name not in here]
            if self._flexible:
                self._prefix("B")
            else:
                self._flush()
            for c in defaults:
                source.add(f"m.{c.name} = {fresh_default(c)}")
            if self._flexible:
                with source.block("if n:"):
                    if layout.shape.tagged:
                        source.add(f"at = _read_tags_of_{layout.suffix}(m, buf, at, n)")
                    else:
                        source.add(f"at = {source.use('skip_tags')}(buf, at, n)")
            source.add("return m, at")
        source.add()
        source.add()
        if self._flexible and layout.shape.tagged:
            self._tags()

    def _tags(self) -> None:
        source, layout = self._source, self._layout
        head = f"def _read_tags_of_{layout.suffix}(m: {layout.of.name}, buf: memoryview, at: int, count: int) -> int:"
        with source.block(head):
            with source.block("if count > 0x7F:"):
                source.add(f"count, at = {source.use('rest_of_uvarint')}(buf, at, count)")
            with source.block("for _ in range(count):"):
                source.add(f"tag, at = {source.use('read_uvarint')}(buf, at)")
                source.add("size, at = read_uvarint(buf, at)")
                source.add("last = at + size")
                word = "if"
                for f in layout.shape.tagged:
                    with source.block(f"{word} tag == {f.tag}:"):
                        self._field(f)
                        self._flush()
                    word = "elif"
                with source.block("else:"):
                    source.add("at = last")
                with source.block("if at != last:"):
                    self._malformed(f"tag {{tag}} of {layout.of.name} has another size than it says", formatted=True)
            source.add("return at")
        source.add()
        source.add()

    # Fixed-size fields gather in a run until something of variable size follows.

    def _field(self, f: Field) -> None:
        if f.fixed_format:
            self._run.append((f.fixed_format, f"m.{f.name}"))
        elif f.array:
            self._array(f)
        elif f.kind == "struct":
            self._struct(f)
        else:
            self._bytes(f)

    def _flush(self) -> None:
        if not self._run:
            return
        formats = [item[0] for item in self._run]
        targets = [item[1] for item in self._run]
        self._run = []
        if formats == ["B"]:
            self._source.add(f"{targets[0]} = buf[at]")
        else:
            text = ", ".join(targets) if len(targets) > 1 else f"({targets[0]},)"
            self._source.add(f"{text} = {self._source.unpacker(formats)}(buf, at)")
        self._source.add(f"at += {struct_size(formats)}")

    def _prefix(self, classic_format: str) -> None:
        """Read a length into `n`, together with the fixed-size fields before it."""
        self._run.append(("B" if self._flexible else classic_format, "n"))
        self._flush()

    def _length(self, classic_format: str) -> None:
        """Leave in `n` the true length, or -1 for null."""
        self._prefix(classic_format)
        if self._flexible:
            with self._source.block("if n > 0x7F:"):
                self._source.add(f"n, at = {self._source.use('rest_of_uvarint')}(buf, at, n)")
            self._source.add("n -= 1")

    def _null(self, f: Field) -> None:
        """The branches for a length below zero."""
        source = self._source
        text = f"{self._layout.of.name}.{f.name}"
        if f.nullable and self._flexible:
            with source.block("else:"):
                source.add(f"m.{f.name} = None")
            return
        if f.nullable:
            with source.block("elif n == -1:"):
                source.add(f"m.{f.name} = None")
            with source.block("else:"):
                self._malformed(f"{text} has length {{n}}", formatted=True)
            return
        with source.block("else:"):
            self._malformed(f"{text} is null" if self._flexible else f"{text} has length {{n}}", not self._flexible)

    def _malformed(self, text: str, formatted: bool = False) -> None:
        self._source.add(f'raise {self._source.use("Malformed")}({"f" if formatted else ""}"{text}")')

    def _bytes(self, f: Field) -> None:
        source = self._source
        self._length("h" if f.kind == "string" else "i")
        with source.block("if n >= 0:"):
            source.add("end = at + n")
            piece = {"string": ".tobytes().decode()", "bytes": ".tobytes()", "records": ""}[f.kind]
            source.add(f"m.{f.name} = buf[at:end]{piece}")
            source.add("at = end")
        self._null(f)

    def _struct(self, f: Field) -> None:
        source, nested = self._source, self._layout.nested[f.name]
        if not f.nullable:
            self._flush()
            source.add(f"m.{f.name}, at = _read_{nested.suffix}(buf, at)")
            return
        # KIP-893: a nullable nested message begins with one byte, -1 or 1; as a tagged field with a varint, 0 or 1.
        self._run.append(("b" if f.tag is None else "B", "n"))
        self._flush()
        with source.block("if n < 0:" if f.tag is None else "if n == 0:"):
            source.add(f"m.{f.name} = None")
        with source.block("else:"):
            source.add(f"m.{f.name}, at = _read_{nested.suffix}(buf, at)")

    def _array(self, f: Field) -> None:
        source = self._source
        self._length("i")
        size = self._layout.element_size_min(f)
        with source.block("if n >= 0:"):
            product = f"n * {size}" if size > 1 else "n"
            with source.block(f"if {product} > len(buf) - at:"):
                self._malformed(f"{self._layout.of.name}.{f.name} claims {{n}} elements", formatted=True)
            with source.block(f"if n > {_UNCHARGED_ELEMENTS_MAX}:"):
                source.add(f"{source.use('charge')}(n)")
            self._elements(f, size)
        self._null(f)

    def _elements(self, f: Field, size: int) -> None:
        source, name = self._source, local(f.name)
        code = _ARRAY_CODES.get(f.kind)
        if code:
            source.add(f'm.{f.name} = [*{source.use("unpack_from")}(f">{{n}}{code}", buf, at)]')
            source.add(f"at += n * {size}" if size > 1 else "at += n")
        elif f.kind == "uuid":
            source.add(f"m.{f.name} = [buf[end : end + 16].tobytes() for end in range(at, at + n * 16, 16)]")
            source.add("at += n * 16")
        elif f.kind == "string":
            function = "read_compact_strings" if self._flexible else "read_strings"
            source.add(f"m.{f.name}, at = {source.use(function)}(buf, at, n)")
        elif f.kind == "struct":
            source.add(f"{name}: list[{f.struct}] = []")
            with source.block("for _ in range(n):"):
                source.add(f"{name}_item, at = _read_{self._layout.nested[f.name].suffix}(buf, at)")
                source.add(f"{name}.append({name}_item)")
            source.add(f"m.{f.name} = {name}")
        else:
            raise NotImplementedError(f"an array of {f.kind}")
