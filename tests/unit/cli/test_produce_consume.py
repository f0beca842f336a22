import json
from itertools import count

import pytest

from tests.unit.cli.conftest import Cli

_topics = count()


@pytest.fixture
def topic() -> str:
    return f"topic-{next(_topics)}"


def test_lines_come_back_as_they_went_in(ottla: Cli, mock_cluster: str, topic: str) -> None:
    code, out, err = ottla("produce", topic, "-p", "0", "-b", mock_cluster, stdin=b"one\ntwo\r\n\nlast")
    assert (code, out, err) == (0, f"4 records produced to {topic}\n", "")
    code, out, err = ottla("consume", topic, "-b", mock_cluster)
    assert (code, out, err) == (0, "one\ntwo\n\nlast\n", "")


def test_keys_headers_and_nulls_travel(ottla: Cli, mock_cluster: str, topic: str) -> None:
    lines = b"k1=v1\nk2=NIL\n"
    arguments = ["-K", "=", "--null", "NIL", "-H", "trace=7", "-p", "0", "-z", "zstd", "-b", mock_cluster]
    assert ottla("produce", topic, *arguments, stdin=lines)[0] == 0
    code, out, _ = ottla("consume", topic, "--json", "-b", mock_cluster)
    records = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [(r["offset"], r["key"], r["value"]) for r in records] == [(0, "k1", "v1"), (1, "k2", None)]
    assert records[0]["headers"] == [{"name": "trace", "value": "7"}]


def test_json_lines_of_one_topic_fill_another(ottla: Cli, mock_cluster: str, topic: str) -> None:
    ottla("produce", topic, "-K", ":", "-b", mock_cluster, stdin=b"a:1\nb:2\nc:3\n")
    copied = ottla("consume", topic, "--json", "-b", mock_cluster)[1]
    ottla("produce", f"{topic}-copy", "--format", "json", "-b", mock_cluster, stdin=copied.encode())
    again = ottla("consume", f"{topic}-copy", "--json", "-b", mock_cluster)[1]
    plain = lambda text: sorted((r["partition"], r["key"], r["value"]) for r in map(json.loads, text.splitlines()))  # noqa: E731
    assert plain(again) == plain(copied) and len(plain(copied)) == 3


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--offset", "7"], ["7", "8", "9"]),
        (["--offset", "-2"], ["8", "9"]),
        (["--offset", "-99", "-n", "1"], ["0"]),
        (["--offset", "earliest", "--count", "2"], ["0", "1"]),
        (["--offset", "latest"], []),
        (["--offset", "10"], []),
        (["--from-beginning", "-p", "0", "-n", "1"], ["0"]),
        (["--follow", "--from-beginning", "-n", "3"], ["0", "1", "2"]),
    ],
)
def test_consume_begins_and_ends_where_it_is_told(
    ottla: Cli, mock_cluster: str, topic: str, options: list[str], expected: list[str]
) -> None:
    numbers = b"".join(b"%d\n" % number for number in range(10))
    ottla("produce", topic, "-p", "0", "-b", mock_cluster, stdin=numbers)
    assert ottla("consume", topic, "-p", "0", *options, "-b", mock_cluster)[:2] == (
        0,
        "".join(f"{line}\n" for line in expected),
    )


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["consume", "missing"], 1, "there is no topic 'missing'"),
        (["consume", "t", "--offset", "soon"], 2, "--offset takes"),
        (["consume", "t", "--offset", "1", "--from-beginning"], 2, "give one of"),
        (["consume", "t", "--timestamp", "yesterday"], 2, "--timestamp takes"),
        (["consume", "t", "--format", "{no}"], 2, "--format takes"),
        (["consume"], 2, "Missing argument"),
        (["consume", "t", "-n", "0"], 2, "-n"),
        (["produce", "t", "--key-separator", ""], 2, "cannot be empty"),
        (["produce", "t", "--format", "json", "--null", "x"], 2, "for plain lines"),
        (["produce", "t", "--header", "x"], 2, "--header takes NAME=VALUE"),
        (["produce", "t", "--acks", "2"], 2, "--acks"),
        (["produce", "t", "--file", "/does/not/exist"], 2, "does not exist"),
        (["nonsense"], 2, "nonsense"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    ottla: Cli, mock_cluster: str, arguments: list[str], code: int, complaint: str
) -> None:
    bootstrap = ["-b", mock_cluster] if len(arguments) > 1 else []
    actual, out, err = ottla(*arguments, *bootstrap, stdin=b"line\n")
    assert actual == code
    assert err.startswith("ottla: ") and err.count("\n") == 1 and complaint in err
    assert out == ""


def test_a_line_without_a_key_stops_the_run_by_its_number(ottla: Cli, mock_cluster: str, topic: str) -> None:
    code, _, err = ottla("produce", topic, "-K", "=", "-b", mock_cluster, stdin=b"a=1\nb\nc=3\n")
    assert code == 1 and "line 2 has no key separator" in err and "1 record before it produced" in err
    assert ottla("consume", topic, "-b", mock_cluster)[1] == "1\n"


def test_a_partition_that_is_not_there_is_named(ottla: Cli, mock_cluster: str, topic: str) -> None:
    ottla("produce", topic, "-b", mock_cluster, stdin=b"x\n")
    code, _, err = ottla("consume", topic, "-p", "44", "-b", mock_cluster)
    assert code == 1 and "no partition 44" in err


def test_a_cluster_that_is_not_there_is_named_with_the_reason(ottla: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.cli.connection.UNREACHABLE_FOR_S_MAX", 0.1)
    for command in (
        ["topic", "list"],
        ["topic", "create", "t"],
        ["consume", "t"],
        ["config", "describe", "topic", "t"],
        ["cluster", "describe"],
        ["cluster", "quorum"],
        ["group", "list"],
        ["group", "reset", "g", "--all-topics", "--to-latest"],
        ["txn", "list"],
    ):
        code, _, err = ottla(*command, "-b", "127.0.0.1:1")
        assert code == 1
        assert err.startswith("ottla: cannot reach 127.0.0.1:1: Connection refused") and err.count("\n") == 1
        assert "ottla start" in err and "--bootstrap" in err


def test_client_settings_come_from_a_file(ottla: Cli, mock_cluster: str, tmp_path: object) -> None:
    from pathlib import Path

    path = Path(str(tmp_path)) / "client.properties"
    path.write_text("no.such.setting=1\n")
    code, _, err = ottla("topic", "list", "-b", mock_cluster, "--command-config", str(path))
    assert code == 1 and "no.such.setting" in err
