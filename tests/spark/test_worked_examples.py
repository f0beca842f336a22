"""The worked examples run as a user would run them, and what they print is what they have proved."""

import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient

import ottla.spark
from ottla.testing import Broker
from tests.spark.topics import Topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "examples" / "spark"
SAID = {
    "join.py": ["1300 of 2000 orders were paid in time: 130080000 cents"],
    "windows.py": ["from 01:00: 61 watts", "398 watts in all; 2 readings were too late"],
    "sessions.py": ["100 sessions of 600 clicks, 5700 cents"],
    "tail.py": ["80 alarms of 400 readings, each once"],
    "word_count/run.py": ["10 words, 1700 times", "log 300", "the 300"],
    "to_delta/run.py": [
        "in the table: 10000 payments, 499805000 cents",
        "997 of them are large",
        "dead letter no json: ",
    ],
}


OWN = {example: f"{example.removesuffix('.py').removesuffix('/run').replace('_', '-')}-" for example in SAID}
OWN["word_count/run.py"] = "streams-"
"""How the names of an example's topics begin."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("example", SAID)
def test_the_example_proves_its_sums(
    example: str,
    spark: "SparkSession",
    node: Broker,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # In this process and session: a JVM of its own would take each example many seconds more.
    monkeypatch.setattr(ottla.spark, "session", lambda name, config=None: spark)
    monkeypatch.setattr(sys, "argv", [example, node.bootstrap])
    runpy.run_path(str(EXAMPLES / example), run_name="__main__")
    told = capsys.readouterr().out
    assert [line for line in SAID[example] if line not in told] == [], told


@pytest.mark.parametrize("example", SAID)
def test_a_run_begins_anew_where_another_has_been(example: str, node: Broker) -> None:
    make_topics = runpy.run_path(str(EXAMPLES / example), run_name="loaded")["make_topics"]
    make_topics(node.bootstrap)
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    topics = {name for name in admin.list_topics(timeout=10).topics if name.startswith(OWN[example])}
    assert len(topics) >= 2
    for name in topics:
        Topic(node.bootstrap, name).produce(["left behind"])
    make_topics(node.bootstrap)
    assert [value for name in topics for value in Topic(node.bootstrap, name).values()] == []


def test_every_worked_example_is_tried_and_has_its_section() -> None:
    files = {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.rglob("*.py")}
    scripts = {file for file in files if "/transformations/" not in file}
    assert scripts == SAID.keys()
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [file for file in files if f"`{file}`" not in page] == []
