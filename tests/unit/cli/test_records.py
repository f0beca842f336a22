import json

import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.failure import Failed, Misused
from ottla.cli.records import LineParser, Record, formatter, parse_json_line

maybe_bytes = st.none() | st.binary(max_size=50)


def message(
    key: bytes | None = b"k", value: bytes | None = b"v", headers: list[tuple[str, bytes | None]] | None = None
) -> Message:
    return Message("orders", 2, 7, key, value, headers or [], None, (1, 1700000000000))  # type: ignore[arg-type]


def test_a_line_is_a_value() -> None:
    assert LineParser()(b"a=b", 1) == Record(b"a=b")


def test_the_first_separator_ends_the_key() -> None:
    assert LineParser(b"=")(b"a=b=c", 1) == Record(b"b=c", b"a")


def test_the_null_marker_makes_no_value_and_no_key() -> None:
    assert LineParser(b":", b"NIL")(b"NIL:NIL", 1) == Record(None, None)


def test_a_line_without_the_separator_is_named_by_its_number() -> None:
    with pytest.raises(Failed, match="line 17"):
        LineParser(b"=")(b"nothing", 17)


@given(maybe_bytes, maybe_bytes, st.lists(st.tuples(st.text(min_size=1, max_size=9), maybe_bytes), max_size=4))
def test_what_consume_prints_as_json_produce_reads_back(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    line = formatter("json", "null")(message(key, value, headers))
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert parse_json_line(line, 1) == Record(value, key, headers, 2, 1700000000000)


def test_a_json_value_that_is_no_text_is_sent_as_json() -> None:
    assert parse_json_line(b'{"value": {"a": [1, 2]}}', 1).value == b'{"a": [1, 2]}'


@pytest.mark.parametrize(
    "line",
    [
        b"nope",
        b"[1]",
        b'{"key": "k"}',
        b'{"value": "v", "partition": "0"}',
        b'{"value": "v", "timestamp": true}',
        b'{"value": "v", "headers": {"a": "b"}}',
        b'{"value": "v", "headers": [{"value": "b"}]}',
        b'{"value_base64": "***"}',
        b"\xff",
    ],
)
def test_a_line_that_is_no_record_is_refused(line: bytes) -> None:
    with pytest.raises(Failed, match="line 3"):
        parse_json_line(line, 3)


def test_raw_prints_the_bytes_as_they_are() -> None:
    assert formatter("raw", "null")(message(value=b"\xff\x00")) == b"\xff\x00\n"
    assert formatter("raw", "NIL")(message(value=None)) == b"NIL\n"


def test_a_template_names_fields() -> None:
    line = formatter(r"{topic}[{partition}]@{offset}\t{key}={value} {headers} {timestamp}", "~")
    assert line(message(None, b"v", [("a", b"1"), ("b", None)])) == b"orders[2]@7\t~=v a=1,b= 1700000000000\n"


def test_a_template_that_ends_its_line_gets_no_second_newline() -> None:
    assert formatter(r"{value}\n", "")(message()) == b"v\n"


@pytest.mark.parametrize("template", ["{nothing}", "{", "{0}", "{value.__class__}"])
def test_a_template_of_unknown_fields_is_misuse(template: str) -> None:
    with pytest.raises(Misused):
        formatter(template, "null")


def test_timestamps_of_json_lines_are_numbers() -> None:
    assert json.loads(formatter("json", "null")(message()))["timestamp"] == 1700000000000
