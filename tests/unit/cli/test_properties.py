from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.failure import Failed, Misused
from ottla.cli.properties import parse_pairs, parse_properties, read_settings


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("a=1\nb = 2\nc: 3\nd 4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("# comment\n! comment\n\n  a = 1  ", {"a": "1"}),
        ("a = one, \\\n    two", {"a": "one, two"}),
        ("path = C\\:\\\\data", {"path": "C:\\data"}),
        ("name\\=odd = x", {"name=odd": "x"}),
        ("empty =\nalone", {"empty": "", "alone": ""}),
        ("euro = \\u20ac", {"euro": "€"}),
        ("listeners=PLAINTEXT://127.0.0.1:9092", {"listeners": "PLAINTEXT://127.0.0.1:9092"}),
        ("a=1\na=2", {"a": "2"}),
        ("cut = off\\", {"cut": "off"}),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, settings: dict[str, str]) -> None:
    assert parse_properties(text) == settings


@given(st.text())
def test_any_text_is_some_properties(text: str) -> None:
    parse_properties(text)


def test_toml_tables_are_dotted_names(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text('num.partitions = 3\n"log.dirs" = ["/a", "/b"]\n[log]\nretention.ms = -1\npreallocate = false\n')
    assert read_settings(path) == {
        "num.partitions": "3",
        "log.dirs": "/a,/b",
        "log.retention.ms": "-1",
        "log.preallocate": "false",
    }


@pytest.mark.parametrize("text", ["a = ", "a = 2026-01-01", "[a", "a = 1\na = 2"])
def test_a_toml_file_that_is_wrong_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "node.toml"
    path.write_text(text)
    with pytest.raises(Failed, match=r"node\.toml"):
        read_settings(path)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "node.properties"
    path.write_bytes(b"a=\xff\xfe")
    with pytest.raises(Failed, match="not UTF-8"):
        read_settings(path)


def test_a_pair_may_have_an_empty_value_and_equals_signs_in_it() -> None:
    assert parse_pairs(["a=", "b=c=d"], "--set") == {"a": "", "b": "c=d"}


@pytest.mark.parametrize("pair", ["a", "=1", ""])
def test_what_is_no_pair_is_misuse(pair: str) -> None:
    with pytest.raises(Misused, match="--set"):
        parse_pairs([pair], "--set")
