"""Arrow's types by Spark's names, and back."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.formats.format import BadSchema
from ottla.spark.formats.spark_types import arrow_type, columns_ddl, ddl

_plain = st.sampled_from(
    [
        pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(),
        pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.duration("us"), pa.decimal128(38, 18),
    ]
)  # fmt: skip
_names = st.text("abcxyz_0` :<é", min_size=1, max_size=6)


def _nested(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    fields = st.builds(pa.field, _names, inner, nullable=st.booleans())
    return (
        st.builds(pa.list_, inner)
        | st.builds(pa.map_, _plain, inner)
        | st.lists(fields, min_size=1, max_size=4).map(pa.struct)
    )


_types = st.recursive(_plain, _nested, max_leaves=6)


@given(_types)
def test_a_type_comes_back_from_its_name(kind: pa.DataType) -> None:
    assert arrow_type(ddl(kind)) == kind


@given(st.lists(st.builds(pa.field, _names, _types, nullable=st.booleans()), min_size=1, max_size=4))
def test_columns_come_back_from_their_ddl(fields: list[pa.Field]) -> None:
    assert arrow_type(columns_ddl(pa.schema(fields))) == pa.struct(fields)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("ID BIGINT, Name String", pa.struct([("ID", pa.int64()), ("Name", pa.string())])),
        ("id long not null comment 'the key, of course'", pa.struct([pa.field("id", pa.int64(), False)])),
        ("STRUCT<a INT, b: array<decimal>>", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.decimal128(10, 0)))])),
        ("varchar(20)", pa.string()),
        ("price decimal(9)", pa.struct([("price", pa.decimal128(9, 0))])),
        ("timestamp_ltz", pa.timestamp("us", "UTC")),
        ("struct<>", pa.struct([])),
    ],
)
def test_the_words_of_spark_are_understood(text: str, kind: pa.DataType) -> None:
    assert arrow_type(text) == kind


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it ends early"),
        ("bigit", "no type is called bigit"),
        ("array<int", "'>' is missing"),
        ("map<string>", "',' is missing in front of '>'"),
        ("a int b int", "',' is missing in front of 'b'"),
        ("a int,", "it ends early"),
        ("decimal(39,0)", "a decimal has 1 to 38 digits, not (39,0)"),
        ("decimal(x)", "'x' where a number is needed"),
        ("int >", "no type is called >"),
        ("a int; b int", "unexpected ';'"),
    ],
)
def test_what_is_no_type_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(BadSchema) as caught:
        arrow_type(text)
    assert why in str(caught.value)


def test_types_that_spark_does_not_have_are_named() -> None:
    with pytest.raises(BadSchema, match="Spark has no type for Arrow's uint64"):
        ddl(pa.struct([("a", pa.uint64())]))
