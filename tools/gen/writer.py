"""Emits straight-line encode functions, the mirror of reader.py."""

from __future__ import annotations

from tools.gen.layout import ClassField, Layout
from tools.gen.model import Field
from tools.gen.source import Source, default_text, local

_ARRAY_CODES = {"int8": "b", "int16": "h", "int32": "i", "int64": "q"}


class Writer:
    def __init__(self, source: Source, layout: Layout) -> None:
        self._source = source
        self._layout = layout
        self._flexible = layout.shape.flexible
        self._run: list[tuple[str, str]] = []
        self._out = "out"

    def emit(self) -> None:
        source, layout = self._source, self._layout
        with source.block(f"def _write_{layout.suffix}(m: {layout.of.name}, out: Buffer) -> None:"):
            before = len(source.lines)
            for f in layout.shape.regular:
                self._field(f)
            if self._flexible and layout.shape.tagged:
                self._flush()
                with source.block(f"if {self._any_tag()}:"):
                    source.add(f"_write_tags_of_{layout.suffix}(m, out)")
                with source.block("else:"):
                    source.add("out.append(0)")
            elif self._flexible:
                self._run.append(("x", ""))
            self._flush()
            if len(source.lines) == before:
                source.add("pass")
        source.add()
        source.add()
        if self._flexible and layout.shape.tagged:
            self._tags()

    # Tagged fields (KIP-482) are rare: one test says that all have their defaults.

    def _any_tag(self) -> str:
        return " or ".join(self._differs(f) for f in self._layout.shape.tagged)

    def _differs(self, f: Field) -> str:
        c = self._layout.of.field(f.name)
        value, default = f"m.{f.name}", default_text(c)
        if default == "NEW":
            return value if c.array and not c.nullable else f"{value} is None or {value}"
        if default == "None":
            return f"{value} is not None"
        if c.shared_default:
            return f"({value} is not {default} and {value} != {default})"
        if c.kind == "bool":
            return f"not {value}" if default == "True" else value
        return f"{value} != {default}"

    def _tags(self) -> None:
        source, layout = self._source, self._layout
        with source.block(f"def _write_tags_of_{layout.suffix}(m: {layout.of.name}, out: Buffer) -> None:"):
            source.add("count = 0")
            source.add("tags = Buffer()")
            for f in layout.shape.tagged:
                with source.block(f"if {self._differs(f)}:"):
                    source.add("count += 1")
                    source.add("part = Buffer()")
                    self._out = "part"
                    self._field(f)
                    self._flush()
                    self._out = "out"
                    source.add(f"{source.use('write_tag')}(tags, {f.tag}, part)")
            source.add(f"{source.use('write_uvarint')}(out, count)")
            source.add("out += tags")
        source.add()
        source.add()

    def _field(self, f: Field) -> None:
        if f.fixed_format:
            self._run.append((f.fixed_format, f"m.{f.name}"))
        elif f.array:
            self._array(f)
        elif f.kind == "struct":
            self._struct(f)
        elif f.kind == "records":
            self._flush()
            function = "write_compact_records" if self._flexible else "write_records"
            self._source.add(f"{self._source.use(function)}({self._out}, m.{f.name})")
        else:
            self._bytes(f)

    def _flush(self) -> None:
        if not self._run:
            return
        formats = [item[0] for item in self._run]
        values = [item[1] for item in self._run if item[1]]
        self._run = []
        if formats == ["x"]:
            self._source.add(f"{self._out}.append(0)")
        else:
            self._source.add(f"{self._out} += {self._source.packer(formats)}({', '.join(values)})")

    def _length(self, classic_format: str) -> None:
        """Write `n`: the length with the fixed-size fields before it, or a varint behind them."""
        if not self._flexible:
            self._run.append((classic_format, "n"))
            self._flush()
            return
        self._flush()
        with self._source.block("if n < 0x80:"):
            self._source.add(f"{self._out}.append(n)")
        with self._source.block("else:"):
            self._source.add(f"{self._source.use('write_uvarint')}({self._out}, n)")

    def _count(self, f: Field, value: str, empty: str) -> None:
        """Set `value` and `n`. None where this version has no null becomes the empty value."""
        source, c = self._source, self._layout.of.field(f.name)
        encoded = f"m.{f.name}" + (".encode()" if f.kind == "string" and not f.array else "")
        one_more = " + 1" if self._flexible else ""
        if c.nullable:
            null = int(self._flexible) - 1 if f.nullable else int(self._flexible)
            with source.block(f"if m.{f.name} is None:"):
                source.add(f"{value} = {empty}")
                source.add(f"n = {null}")
            with source.block("else:"):
                source.add(f"{value} = {encoded}")
                source.add(f"n = len({value}){one_more}")
            return
        source.add(f"{value} = {encoded}")
        source.add(f"n = len({value}){one_more}")

    def _bytes(self, f: Field) -> None:
        self._count(f, "raw", 'b""')
        self._length("h" if f.kind == "string" else "i")
        self._source.add(f"{self._out} += raw")

    def _struct(self, f: Field) -> None:
        source, nested, name = self._source, self._layout.nested[f.name], local(f.name)
        c: ClassField = self._layout.of.field(f.name)
        if not c.nullable:
            self._flush()
            source.add(f"_write_{nested.suffix}(m.{f.name}, {self._out})")
            return
        self._flush()
        source.add(f"{name} = m.{f.name}")
        if not f.nullable:
            source.add(f"_write_{nested.suffix}({f.struct}() if {name} is None else {name}, {self._out})")
            return
        with source.block(f"if {name} is None:"):
            source.add(f"{self._out}.append({'0xFF' if f.tag is None else '0'})")
        with source.block("else:"):
            source.add(f"{self._out}.append(1)")
            source.add(f"_write_{nested.suffix}({name}, {self._out})")

    def _array(self, f: Field) -> None:
        source, name = self._source, local(f.name)
        self._count(f, name, "[]")
        self._length("i")
        code = _ARRAY_CODES.get(f.kind)
        if code:
            source.add(f'{self._out} += {source.use("pack")}(f">{{len({name})}}{code}", *{name})')
        elif f.kind == "uuid":
            source.add(f'{self._out} += b"".join({name})')
        elif f.kind == "string":
            function = "write_compact_strings" if self._flexible else "write_strings"
            source.add(f"{source.use(function)}({self._out}, {name})")
        elif f.kind == "struct":
            with source.block(f"for {name}_item in {name}:"):
                source.add(f"_write_{self._layout.nested[f.name].suffix}({name}_item, {self._out})")
        else:
            raise NotImplementedError(f"an array of {f.kind}")
