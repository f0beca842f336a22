"""Plans over empty topics: what is planned, and what is said of plans that cannot run."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.spark.pipelines.active import activate
from ottla.spark.pipelines.checking import Findings, check
from ottla.spark.pipelines.project import FlowSettings, Mode
from ottla.spark.pipelines.starting import start_project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Check = Callable[..., Findings]
ORDERS = "CREATE STREAM orders (id bigint, price double, at timestamp) FROM TOPIC orders WITH (format = 'json');\n"


@pytest.fixture
def checked(spark: "SparkSession", tmp_path: Path) -> Iterator[Check]:
    """Each project in a session of its own, for their views have the same names."""

    def check_files(override: FlowSettings | None = None, **files: str) -> Findings:
        (tmp_path / "transformations").mkdir()
        (tmp_path / "pipeline.yml").write_text("name: test")
        for name, text in files.items():
            (tmp_path / "transformations" / name.replace("_", ".")).write_text(text)
        return check(tmp_path, lambda project: spark.newSession(), override)

    yield check_files
    activate(spark)


def faults(findings: Findings) -> list[str]:
    return [str(fault).removeprefix("transformations/") for fault in findings.faults]


def test_the_project_that_init_writes_is_sound(spark: "SparkSession", tmp_path: Path) -> None:
    start_project(tmp_path / "shop")
    findings = check(tmp_path / "shop", lambda project: spark.newSession())
    assert findings.faults == []
    assert [(flow["name"], flow["reads"], flow["writes"]) for flow in findings.flows] == [
        ("revenue", ["orders"], "topic:revenue"),
        ("big_orders", ["orders"], "topic:big-orders"),
    ]


def test_views_of_both_languages_may_stand_in_any_order(checked: Check) -> None:
    findings = checked(
        a_sql="INSERT INTO TOPIC big WITH (key = id) SELECT id FROM STREAM(big);\n"
        "CREATE VIEW big AS SELECT * FROM dear WHERE id > 5;",
        b_py="from pyspark import pipelines as dp\nfrom pyspark.sql import SparkSession\n"
        "spark = SparkSession.active()\n"
        "@dp.temporary_view\ndef dear(): return spark.readStream.table('orders').where('price > 5')\n",
        c_sql=ORDERS,
    )
    assert faults(findings) == []
    [flow] = findings.flows
    assert (flow["reads"], flow["dead_letters"]) == (["orders"], ["orders.dlq"])


def test_dead_letters_are_written_once_and_by_a_flow_to_a_topic_if_there_is_one(checked: Check) -> None:
    findings = checked(
        a_sql=ORDERS
        + "CREATE STREAM clicks (id int) FROM TOPIC clicks WITH (dlq = 'bad');\n"
        + "CREATE STREAM quiet (id int) FROM TOPIC q WITH (errors = drop);\n"
        + "CREATE TABLE lake USING delta WITH (path = '/x') AS SELECT orders.id FROM orders;\n"
        + "CREATE TABLE lake2 USING delta WITH (path = '/x') AS SELECT * FROM clicks;\n"
        + "INSERT INTO TOPIC a SELECT id FROM orders; INSERT INTO TOPIC b SELECT id FROM orders;\n"
        + "INSERT INTO TOPIC c SELECT id FROM quiet;\n"
    )
    assert faults(findings) == []
    assert {flow["name"]: flow["dead_letters"] for flow in findings.flows if flow["dead_letters"]} == {
        "a": ["orders.dlq"],
        "clicks_dead_letters": ["bad"],
    }


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("INSERT INTO TOPIC t\n  SELECT idd FROM orders", "a.sql:3:10: A column, variable, or function parameter with"),
        ("INSERT INTO TOPIC t\n  SELECT * FROM\n orderz", "a.sql:4:2: there is no stream or view orderz; did you mean"),
        ("INSERT INTO TOPIC t SELECT * FROM orders WHERE id = = 5", "a.sql:2:53: Syntax error at or near"),
        ("INSERT INTO TOPIC t SELECT * FROM orders ORDER BY id", "a.sql:2:1: t: Sorting is not supported on streaming"),
        (
            "INSERT INTO TOPIC t SELECT id, count(*) AS c FROM orders GROUP BY id",
            "a.sql:2:1: t: Invalid streaming output mode: append.",
        ),
        ("INSERT INTO TOPIC t WITH (key = ID2) SELECT id FROM orders", "a.sql:2:1: t: the query has no column ID2"),
        ("INSERT INTO TOPIC t WITH (mode = quick) SELECT id FROM orders", "a.sql:2:1: t: mode is one of batch, micro,"),
        ("INSERT INTO TOPIC t WITH (fromat = json) SELECT 1", "a.sql:2:1: t reads no stream"),
        ("INSERT INTO TOPIC t WITH (x = json) SELECT * FROM orders", "a.sql:2:1: t: a flow has no option x; it has"),
        ("INSERT INTO TOPIC t WITH (format = raw) SELECT * FROM orders", "a.sql:2:1: t: raw records need a column"),
        ("INSERT INTO TOPIC t WITH (format = xml) SELECT * FROM orders", "a.sql:2:1: t: format is one of raw, string"),
        ("CREATE TABLE t USING delta AS SELECT * FROM orders", "a.sql:2:1: t: delta needs path = '…'"),
        (
            "CREATE TABLE t USING dlta AS SELECT * FROM orders",
            "a.sql:2:1: t: there is no format dlta; did you mean delta",
        ),
        ("CREATE TABLE t AS SELECT * FROM orders", "a.sql:2:1: t needs a format: "),
        ("CREATE VIEW a AS SELECT * FROM b; CREATE VIEW b AS SELECT * FROM a;", "a.sql:2:35: b is made of itself"),
        ("CREATE STREAM x (id in) FROM TOPIC t", 'a.sql:2:21: Unsupported data type "IN"'),
        ("CREATE STREAM x FROM TOPIC t WITH (format = json)", "a.sql:2:1: x: json needs the columns"),
        (
            "CREATE STREAM x FROM TOPIC t WITH (format = jsn)",
            "a.sql:2:1: x: format is one of raw, string, json, avro, protobuf, not jsn; did",
        ),
        ("CREATE STREAM x FROM TOPIC t WITH (watermrk = 5)", "a.sql:2:1: x: there is no option watermrk; did you mean"),
        (
            "CREATE STREAM x FROM TOPIC t WITH (maxOffsetsPerTrigger = -4)",
            "a.sql:2:1: x: option 'maxOffsetsPerTrigger'",
        ),
        ("CREATE STREAM x FROM TOPIC t WITH (kafka.group.id = a, startingOffsets = soon)", "a.sql:2:1: x: option "),
        ("CREATE STREAM x FROM TOPIC t WITH (watermark = '5 s')", "a.sql:2:1: x: a watermark needs to know the column"),
        (
            "CREATE TABLE l USING delta WITH (path = x) AS SELECT * FROM orders; INSERT INTO TOPIC t SELECT * FROM l",
            "a.sql:2:103: l is written by this pipeline; to read on from it",
        ),
    ],
)
def test_a_fault_is_named_with_its_place(checked: Check, text: str, complaint: str) -> None:
    found = faults(checked(a_sql=ORDERS + text + ";\nINSERT INTO TOPIC fine SELECT * FROM orders;"))
    assert [fault[: len(complaint)] for fault in found[:1]] == [complaint], found


def test_faults_in_python_are_named_with_their_line_and_hide_no_others(checked: Check) -> None:
    findings = checked(
        a_sql=ORDERS,
        b_py="from ottla.spark import pipelines as dp\ndp.create_sink('out', 'console')\n"
        "@dp.append_flow(target='out')\ndef one():\n    return (spark.readStream.table('orders')\n"
        "        .where('pric > 5'))\n"
        "@dp.append_flow(target='out')\ndef two():\n    raise KeyError('x')\n"
        "@dp.append_flow(target='out')\ndef three(): return 5\n"
        "@dp.append_flow(target='out')\ndef four(): return spark.readStream.table('orders')\n",
    )
    assert [fault[:24] for fault in faults(findings)] == [
        "b.py:6: A column, variab",
        "b.py:9: KeyError: 'x'",
        "b.py:10: three returns i",
    ]
    assert [flow["name"] for flow in findings.flows if flow["writes"] == "out"] == ["four"]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("WITH (output = update) SELECT DISTINCT id FROM s", "needs a state between batches"),
        ("SELECT a.id FROM s a JOIN s b ON a.id = b.id", "joins"),
        ("SELECT id FROM s UNION ALL SELECT id FROM s2", "reads several streams"),
        ("SELECT id FROM s", ""),
        ("SELECT explode(sequence(1, id)) AS id FROM s WHERE id > 5", ""),
    ],
)
def test_it_is_said_why_a_plan_cannot_be_run_as_tail(checked: Check, query: str, reason: str) -> None:
    streams = "".join(f"CREATE STREAM {s} (id int) FROM TOPIC t WITH (errors = drop);" for s in ("s", "s2"))
    findings = checked(FlowSettings(mode=Mode.TAIL), a_sql=f"{streams}INSERT INTO TOPIC u {query}")
    if reason:
        [fault] = faults(findings)
        assert "cannot be run as tail" in fault and reason in fault
    else:
        assert faults(findings) == [] and findings.flows[0]["mode"] == "tail"


def test_dead_letters_and_tail_exclude_each_other_until_one_is_chosen(checked: Check) -> None:
    sql = "CREATE STREAM s (id int) FROM TOPIC t; INSERT INTO TOPIC u SELECT * FROM s"
    [flow, letters] = checked(FlowSettings(mode=Mode.TAIL), a_sql=sql).flows
    assert (flow["mode"], flow["dead_letters"]) == ("tail", [])
    assert (letters["mode"], letters["dead_letters"]) == ("micro", ["t.dlq"])


def test_flows_of_all_modes_may_read_one_stream_and_its_views(checked: Check) -> None:
    sql = (
        "CREATE STREAM s (id int) FROM TOPIC t; CREATE VIEW v AS SELECT id FROM s;\n"
        "INSERT INTO TOPIC a WITH (mode = tail) SELECT * FROM v; INSERT INTO TOPIC b SELECT * FROM v;"
    )
    findings = checked(a_sql=sql)
    assert faults(findings) == []
    assert [(flow["name"], flow["mode"], flow["dead_letters"]) for flow in findings.flows] == [
        ("a", "tail", []),
        ("b", "micro", ["t.dlq"]),
    ]
