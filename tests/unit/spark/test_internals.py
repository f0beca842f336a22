"""What is known of Spark's inside, as far as it can be tried without Spark."""

import gc
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ottla.spark import internals
from ottla.spark.not_ready import NotReady


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    place = tmp_path / "a checkpoint"
    (place / "offsets").mkdir(parents=True)
    (place / "offsets" / "3").write_text('v1\n{"batchWatermarkMs":0}\n{"t": {"0": 5}}\n-')
    (place / "offsets" / "4").write_text("v9\n{}\n")
    return place


@pytest.mark.parametrize("form", ["{path}", "file:{quoted}", "file://{quoted}"])
def test_offsets_are_read_wherever_a_checkpoint_says_it_is(checkpoint: Path, form: str) -> None:
    place = form.format(path=checkpoint, quoted=str(checkpoint).replace(" ", "%20"))
    assert internals.is_readable(place)
    assert internals.sources_of_batch(place, 3) == ['{"t": {"0": 5}}', "-"]


def test_another_format_is_refused_and_not_guessed(checkpoint: Path) -> None:
    with pytest.raises(NotReady, match="v9"):
        internals.sources_of_batch(str(checkpoint), 4)


def test_a_file_system_that_nobody_knows_is_said_to_be_unreadable() -> None:
    assert not internals.is_readable("dbfs:/somewhere")


def test_the_checkpoint_is_found_among_options_of_any_case() -> None:
    assert internals.checkpoint_of({"CheckpointLocation": "/c"}) == "/c"
    assert internals.checkpoint_of({"topic": "t"}) is None


class Reports:
    """What Spark's gateway hands out, and how often it was asked for the text of one."""

    def __init__(self, *texts: str) -> None:
        self.asked = 0
        self._reports = [SimpleNamespace(json=lambda text=text: self._text(text)) for text in texts]

    def query(self) -> Any:
        return SimpleNamespace(_jsq=SimpleNamespace(recentProgress=lambda: self._reports))

    def _text(self, text: str) -> str:
        self.asked += 1
        return text


def test_reports_that_are_known_are_not_fetched_again() -> None:
    reports = Reports(*(str(number) for number in range(100)))
    assert internals.reports_since(reports.query(), "97") == ["98", "99"]
    assert reports.asked == 3


def test_all_reports_are_new_when_the_last_one_is_too_old_to_be_kept() -> None:
    assert internals.reports_since(Reports("5", "6").query(), "2") == ["5", "6"]
    assert internals.reports_since(Reports().query(), "") == []


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many modules there were, each time that objects were taken out of the search for garbage."""
    found: list[int] = []
    monkeypatch.setattr(gc, "freeze", lambda: found.append(len(sys.modules)))
    monkeypatch.setattr(internals, "_modules_spared", 0)
    return found


def be(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__spec__=SimpleNamespace(name=name)))


def test_a_worker_spares_what_it_has_imported_and_nothing_that_a_task_leaves(
    monkeypatch: pytest.MonkeyPatch, frozen: list[int]
) -> None:
    be(monkeypatch, "pyspark.daemon")
    for _ in range(3):
        internals.settle_in_worker()
    assert len(frozen) == 1
    monkeypatch.setitem(sys.modules, "imported_by_a_task", ModuleType("imported_by_a_task"))
    internals.settle_in_worker()
    assert len(frozen) == 2


@pytest.mark.parametrize(("fault", "is_told"), [(BrokenPipeError("nobody there"), False), (ValueError("bad"), True)])
def test_a_worker_that_was_stopped_leaves_quietly(
    monkeypatch: pytest.MonkeyPatch,
    frozen: list[int],
    capsys: pytest.CaptureFixture[str],
    fault: Exception,
    is_told: bool,
) -> None:
    be(monkeypatch, "pyspark.daemon")
    internals.settle_in_worker()
    daemon: Any = sys.modules["__main__"]
    try:
        raise fault
    except Exception:  # noqa: BLE001 - as the daemon does
        daemon.traceback.print_exc()
    assert (str(fault) in capsys.readouterr().err) == is_told


def test_nobody_but_a_worker_is_kept_from_finding_garbage(monkeypatch: pytest.MonkeyPatch, frozen: list[int]) -> None:
    be(monkeypatch, "pytest")
    internals.settle_in_worker()
    assert frozen == []
