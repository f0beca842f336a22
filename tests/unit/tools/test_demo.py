"""The demonstration leaves its pipeline out where Spark cannot run, and says why; a sum that is wrong ends it."""

from collections.abc import Mapping

import pytest

import ottla.spark.java
from ottla.spark.not_ready import NotReady
from tools.demo import pipeline
from tools.demo.payments import NotProven, prove


def no_java(environment: Mapping[str, str]) -> None:
    raise NotReady("Spark needs Java 17 and none was found")


def test_without_java_the_pipeline_is_left_out_with_the_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ottla.spark.java, "find_java", no_java)
    assert pipeline.why_not() == "Spark needs Java 17 and none was found"


@pytest.mark.parametrize("module", ["pyspark", "deltalake"])
def test_a_package_that_is_missing_is_named(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "find_spec", lambda name: None if name == module else object())
    assert (pipeline.why_not() or "").startswith(f"{module} is not installed: pip install 'ottla[")


def test_a_claim_that_does_not_hold_ends_the_demonstration() -> None:
    with pytest.raises(NotProven, match="all are there: expected 2, found 1"):
        prove("all are there", 1, 2)
