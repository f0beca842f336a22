"""Spark's reports added up, and what a scraper is told of them."""

import json
import threading
import urllib.error
import urllib.request
from typing import Any

import pytest

from ottla.spark.not_ready import NotReady
from ottla.spark.pipelines.metrics import exposition, served
from ottla.spark.pipelines.progress import Progress, source_lag
from ottla.spark.pipelines.user_code import cause


def report(batch: int, **more: Any) -> dict[str, Any]:
    return {
        "runId": "r",
        "batchId": batch,
        "timestamp": f"2026-11-19T12:00:{batch:02}.000Z",
        "numInputRows": 100,
        "processedRowsPerSecond": 250.5,
        "durationMs": {"triggerExecution": 400, "addBatch": 300, "walCommit": 20, "queryPlanning": 9},
        "eventTime": {"watermark": "2026-11-19T11:59:50.000Z"},
        "stateOperators": [{"numRowsTotal": 7}, {"numRowsTotal": 3}],
        "sources": [
            {"numInputRows": 100, "endOffset": {"t": {"0": 5, "1": 7}}, "latestOffset": {"t": {"0": 9, "1": 7, "2": 4}}}
        ],
        "sink": {"numOutputRows": -1},
        "observedMetrics": {"ottla_rows": {"rows": 90, "dead": 10}},
        **more,
    }


def test_reports_add_up_and_none_counts_twice() -> None:
    progress = Progress()
    assert progress.add(report(0)) and progress.add(report(1)) and not progress.add(report(1))
    assert not progress.add(report(0))
    assert (progress.read_total, progress.written_total, progress.dead_total) == (200, 160, 20)
    assert (progress.batch, progress.read_per_s, progress.lag, progress.state_rows) == (1, 250.0, 8, 10)
    assert progress.phases_ms == {"work": 300, "note": 20, "plan": 9} and progress.trigger_ms == 400
    assert progress.watermark == "2026-11-19T11:59:50.000Z"


def test_a_query_that_was_started_again_is_counted_on() -> None:
    progress = Progress()
    progress.add(report(5))
    assert progress.add(report(5, runId="after the restart"))
    assert progress.read_total == 200


def test_rows_that_the_plan_reads_twice_count_once() -> None:
    progress = Progress()
    progress.add(report(0), scans=(2,))
    assert (progress.read_total, progress.read_per_s) == (50, 125.0)
    progress.add(report(1), scans=(2, 1))
    assert progress.read_total == 150


def test_a_look_that_found_nothing_leaves_the_last_batch_on_view() -> None:
    progress = Progress()
    progress.add(report(0))
    progress.add(report(1, durationMs={"latestOffset": 500, "triggerExecution": 500}, sources=[]))
    assert (progress.batch, progress.trigger_ms, progress.read_per_s, progress.lag) == (0, 400, 0.0, None)


def test_reports_without_observations_take_the_sinks_count() -> None:
    progress = Progress()
    progress.add(report(0, observedMetrics={}, sink={"numOutputRows": 42}))
    progress.add(report(1, observedMetrics={}))
    assert progress.written_total == 42


@pytest.mark.parametrize(
    ("source", "lag"),
    [
        ({"endOffset": {"t": {"0": 5}, "@group": "g", "@start": {"t": {"0": 0}}}, "latestOffset": {"t": {"0": 9}}}, 4),
        ({"endOffset": None, "latestOffset": {"t": {"0": 9}}}, 9),
        ({"endOffset": {"t": {"0": 9}}, "latestOffset": {"t": {"0": 5}}}, 0),
        ({"endOffset": {"t": {"0": 9}}, "latestOffset": None}, None),
        ({"endOffset": 5, "latestOffset": 7}, None),
    ],
)
def test_lag_is_the_way_from_the_batchs_end_to_the_sources(source: dict[str, Any], lag: int | None) -> None:
    assert source_lag(source) == lag


def status() -> dict[str, Any]:
    progress = Progress()
    progress.add(report(3))
    states = {"state": "running", "restarts": 2, "mode": "micro", "why": "", "start_ms": 0}
    return {
        "pipeline": 'a "shop"',
        "flows": {"big": {**states, **progress.as_json()}, "new": {**states, **Progress().as_json()}},
    }


def test_metrics_say_how_each_flow_does() -> None:
    lines = exposition(status()).splitlines()
    assert 'ottla_pipeline_up{pipeline="a \\"shop\\"",flow="big"} 1' in lines
    assert 'ottla_pipeline_lag_records{pipeline="a \\"shop\\"",flow="big"} 8' in lines
    assert 'ottla_pipeline_phase_seconds{pipeline="a \\"shop\\"",flow="big",phase="work"} 0.3' in lines
    assert 'ottla_pipeline_watermark_seconds{pipeline="a \\"shop\\"",flow="big"} 1795089590' in lines
    assert not any("lag" in line and 'flow="new"' in line for line in lines)
    assert lines.count("# TYPE ottla_pipeline_rows_read_total counter") == 1


def test_metrics_are_served_until_the_run_ends() -> None:
    before = threading.active_count()
    with served("127.0.0.1:0", status) as address:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
            assert answer.status == 200 and b"ottla_pipeline_up" in answer.read()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://{address}/", timeout=10)
        with pytest.raises(NotReady, match="cannot be served"), served(address, status):
            pass
    assert threading.active_count() <= before + 1


@pytest.mark.parametrize("address", ["9464", "host:", "host:x", "127.0.0.1:99999"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(NotReady), served(address, status):
        pass


def test_the_cause_of_a_failure_is_one_line() -> None:
    text = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: boom SQLSTATE: XXKST\n=== Streaming Query ===\n"
        "Traceback (most recent call last):\n  File \"x.py\", line 3, in write\n    raise ValueError('no')\n"
        "ValueError: no such place\n\tat org.apache.spark.X.y(Z.scala:5)\n"
    )
    assert cause(text) == "ValueError: no such place"
    assert cause("Traceback …\n  a.b.c.DataLoss: the topic t does not exist\n\tat org.x.Y: z") == (
        "DataLoss: the topic t does not exist"
    )
    assert cause("org.apache.spark.SparkException: no\njava.lang.Error: x") == "org.apache.spark.SparkException: no"
    told = "a.SomeError: bad option\nDuring handling …\nUnboundLocalError: cannot access local variable 'reader'"
    assert cause(told) == "SomeError: bad option"
    raised = "x\nSparkRuntimeException: [USER_RAISED_EXCEPTION] t, offset 0: no JSON SQLSTATE: P0001"
    assert cause(raised) == "t, offset 0: no JSON"
    assert cause("[STREAM_FAILED] it broke\n at x") == "[STREAM_FAILED] it broke"
    assert cause("") == "it ended without a word"


def test_a_status_is_json() -> None:
    assert json.loads(json.dumps(status())) == status()
