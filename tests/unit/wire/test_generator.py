"""The generator itself: what is checked in is what it writes, and it refuses what it does not understand."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools.gen.__main__ import ROOT, generate, stale_files
from tools.gen.layout import merge
from tools.gen.model import Field, Message, Shape
from tools.gen.module import module_text
from tools.gen.schema_source import read_schema


def test_checked_in_code_is_what_the_generator_writes() -> None:
    files = generate()
    assert [str(path) for path, text in files.items() if (ROOT / path).read_text() != text] == []
    assert stale_files(files) == []


def test_reading_the_index_imports_no_message() -> None:
    """A node starts before anybody has asked for most of the APIs."""
    script = (
        "import sys, ottla.wire.messages.index; print([m for m in sys.modules if m.startswith('ottla.wire.messages.')])"
    )
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "['ottla.wire.messages.index']"


@pytest.mark.parametrize(
    "text",
    [
        "record A key=0 versions=0-0 flexible=0+\n  name strin",
        "record A key=0 versions=0-0 flexible=0+\n  name string sinc=2",
        "record A key=0 flexible=0+",
        "record A key=0 versions=0-0 flexible=0+\n  things []Thing",
        "  name string",
    ],
)
def test_a_schema_that_makes_no_sense_is_refused_with_its_place(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken.schema"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"broken\.schema:\d|has no fields"):
        read_schema(path)


def versions(**fields: tuple[Field, ...]) -> Message:
    shapes = {int(v.removeprefix("v")): {"A": Shape("A", False, fs)} for v, fs in fields.items()}
    return Message("A", 1, shapes)


def test_a_field_may_come_and_go_and_come_again() -> None:
    number, name = Field("number", "int32"), Field("name", "string")
    merged = merge(versions(v0=(number, name), v1=(name,), v2=(number, name)))
    assert [f.name for f in merged.classes[-1].fields] == ["number", "name"]
    assert merged.top[0] is merged.top[2] is not merged.top[1]


def test_a_field_that_changes_its_type_is_refused() -> None:
    with pytest.raises(ValueError, match="changes its type"):
        merge(versions(v0=(Field("a", "int32"),), v1=(Field("a", "string"),)))


def test_a_field_that_is_nullable_in_one_version_is_so_in_the_class() -> None:
    merged = merge(versions(v0=(Field("a", "string"),), v1=(Field("a", "string", nullable=True),)))
    assert merged.classes[-1].fields[0].nullable


def test_nested_classes_that_differ_under_one_name_are_told_apart() -> None:
    def message(kind: str, f: Field) -> Message:
        data = Field("data", "struct", "Data", array=True)
        return Message(kind, 1, {0: {"Data": Shape("Data", False, (f,)), kind: Shape(kind, False, (data,))}})

    both = module_text("x", [message("ARequest", Field("a", "int8")), message("AResponse", Field("b", "int8"))])
    assert "class RequestData(" in both and "class ResponseData(" in both
    same = module_text("x", [message("ARequest", Field("a", "int8")), message("AResponse", Field("a", "int8"))])
    assert same.count("class Data(") == 1
