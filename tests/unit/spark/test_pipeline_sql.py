"""The statements of pipeline SQL, and what is said of those that are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.pipelines.definitions import Definitions, Faulty, Place, SqlText
from ottla.spark.pipelines.sql import define


def defined(text: str) -> Definitions:
    definitions = Definitions()
    define(text, "a.sql", definitions)
    return definitions


def complaints(text: str) -> list[str]:
    with pytest.raises(Faulty) as caught:
        defined(text)
    return [str(fault) for fault in caught.value.faults]


def test_a_stream_is_a_topic_with_columns_and_options() -> None:
    found = defined(
        "-- orders as they come\n"
        "CREATE OR REPLACE STREAM orders (id bigint, price decimal(10, 2) COMMENT 'a ) b')\n"
        "FROM TOPIC shop.orders-v1 WITH (format = 'json', key = id, watermark '10 seconds', limit=5, exact = -1);"
    )
    [orders] = found.sources.values()
    assert (orders.name, orders.topic, orders.is_table) == ("orders", "shop.orders-v1", False)
    assert orders.columns == SqlText("id bigint, price decimal(10, 2) COMMENT 'a ) b'", Place("a.sql", 2, 34))
    assert orders.options == {"format": "json", "key": "id", "watermark": "10 seconds", "limit": "5", "exact": "-1"}


def test_a_table_from_a_topic_is_the_last_value_of_each_key() -> None:
    [users] = defined("create table users (id int) from topic 'odd topic/name'").sources.values()
    assert users.is_table and users.topic == "odd topic/name"


def test_a_query_goes_to_a_topic_with_its_text_and_place() -> None:
    found = defined("INSERT INTO TOPIC big WITH (format='json')\n  SELECT * FROM orders -- all;of them\n WHERE p > 1 ;")
    [flow] = found.flows.values()
    assert flow.query == SqlText("SELECT * FROM orders -- all;of them\n WHERE p > 1", Place("a.sql", 2, 3))
    assert (flow.name, flow.options) == ("big", {"format": "json"})
    assert found.targets[flow.target].options == {"topic": "big"}


def test_the_text_for_spark_keeps_its_lines_and_columns() -> None:
    query = defined("\n\n  CREATE VIEW v AS SELECT 1").views["v"].query
    assert isinstance(query, SqlText)
    line, column = query.place.line, query.place.column
    assert query.padded().splitlines()[line - 1][column - 1 :] == "SELECT 1"


def test_a_query_may_begin_with_a_common_table_expression() -> None:
    [flow] = defined("INSERT INTO t WITH x AS (SELECT 1) SELECT * FROM x").flows.values()
    assert isinstance(flow.query, SqlText) and flow.query.text.startswith("WITH x AS") and flow.options == {}


def test_a_lake_table_brings_its_own_flow() -> None:
    found = defined(
        "CREATE STREAMING TABLE paid USING delta WITH (path = '/lake/paid') AS SELECT * FROM STREAM(orders)"
    )
    assert found.targets["paid"].format == "delta"
    assert [flow.target for flow in found.flows.values()] == ["paid"]


def test_several_flows_into_one_target_have_different_names() -> None:
    found = defined(
        "INSERT INTO TOPIC t SELECT 1; INSERT INTO TOPIC t SELECT 2; CREATE FLOW f AS INSERT INTO t SELECT 3"
    )
    assert list(found.flows) == ["t", "t_2", "f"]


def test_strings_and_comments_hide_what_is_in_them() -> None:
    found = defined("/* a; /* nested; */ b; */ CREATE VIEW v AS SELECT 'it''s; \\'so', \"x;y\", `a;b``c` -- ;\n")
    assert list(found.views) == ["v"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("SELECT 1", "a.sql:1:1: CREATE or INSERT INTO is expected, and 'SELECT' stands there"),
        ("CREATE STREAM", "a.sql:1:14: the stream's name is expected, and the statement ends"),
        ("CREATE STREAM s\nFROM orders", "a.sql:2:6: TOPIC is expected, and 'orders' stands there"),
        ("CREATE STREAM s (a int FROM TOPIC t", "a.sql:1:17: this bracket is never closed"),
        ("CREATE STREAM s FROM TOPIC t WITH (a=1, A=2)", "a.sql:1:41: a is given twice"),
        ("CREATE STREAM s FROM TOPIC t WITH (a=1 b=2)", "a.sql:1:40: , is expected, and 'b' stands there"),
        ("CREATE STREAM s FROM TOPIC t WITH (a=", "a.sql:1:38: a value is expected, and the statement ends"),
        ("CREATE STREAM s FROM TOPIC t oops", "a.sql:1:30: the end of the statement, a semicolon, is expected"),
        ("CREATE STREAM s AS SELECT 1", "a.sql:1:17: a query under a name is a view: CREATE VIEW s AS"),
        ("INSERT INTO t DELETE", "a.sql:1:15: a query (SELECT …) is expected, and 'DELETE' stands there"),
        ("INSERT INTO t SELECT 'abc", "a.sql:1:22: this string has no end"),
        ("CREATE VIEW v AS SELECT 1 /* oops", "a.sql:1:27: this comment has no end"),
        ("CREATE VIEW v AS SELECT 1; CREATE VIEW v AS SELECT 2", "a.sql:1:28: v is defined twice; first at a.sql:1:1"),
        ("CREATE SINK s", "a.sql:1:1: s needs a format"),
        ("CREATE TABLE t (a int) AS SELECT 1", "a.sql:1:17: a lake table has the columns of its query"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, complaint: str) -> None:
    assert complaints(text)[0].startswith(complaint)


def test_all_faulty_statements_are_named_at_once() -> None:
    assert [what.split(" ")[0] for what in complaints("CREATE; CREATE VIEW v AS SELECT 1;\nDROP x")] == [
        "a.sql:1:7:",
        "a.sql:2:1:",
    ]


_WORDS = "CREATE STREAM TABLE VIEW INSERT INTO TOPIC FROM WITH AS SELECT FLOW BY name 'text' \"text\" `q` 1.5"
_SIGNS = "( ) , ; = -- /* */ ' ` \\ - ."
_PIECES = st.sampled_from([*_WORDS.split(), *_SIGNS.split(), "\n"])


@given(st.one_of(st.text(), st.lists(_PIECES).map(" ".join), st.lists(_PIECES).map("".join)))
def test_any_text_is_read_or_refused_with_a_place_in_it(text: str) -> None:
    try:
        defined(text)
    except Faulty as faulty:
        lines = text.split("\n")
        for fault in faulty.faults:
            assert 1 <= fault.place.line <= len(lines)
            assert 1 <= fault.place.column <= len(lines[fault.place.line - 1]) + 1


@given(st.text(alphabet=st.characters(exclude_characters="\\", exclude_categories=["Cs"])))
def test_a_value_in_quotes_comes_out_as_it_was(value: str) -> None:
    quoted = "'" + value.replace("'", "''") + "'"
    assert defined(f"CREATE STREAM s FROM TOPIC t WITH (a = {quoted})").sources["s"].options == {"a": value}
