import json
import sys
from pathlib import Path

import pytest

from bench import report
from bench.bounds.split import ABOUT
from bench.page import markers
from bench.report import BEGIN, END, NoPlace, put_between

from .race_results import race_of_three

DOCS = Path(__file__).parents[3] / "docs"


def test_only_what_stands_between_the_markers_is_replaced() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    once = put_between(page, "new")
    assert once == f"before\n{BEGIN}\nnew\n{END}\nafter\n"
    assert put_between(once, "new") == once


@pytest.mark.parametrize("page", ["", f"{BEGIN} and no end", f"{END} before {BEGIN}"])
def test_a_page_without_a_place_is_refused(page: str) -> None:
    with pytest.raises(NoPlace):
        put_between(page, "new")


def test_the_committed_page_has_a_place_for_the_result() -> None:
    put_between((DOCS / "performance.md").read_text(encoding="utf-8"), "new")


def run_report(monkeypatch: pytest.MonkeyPatch, place: Path, race: str, bounds: str) -> None:
    given = ["--docs", str(place), "--result", str(place / race), "--bounds", str(place / bounds)]
    monkeypatch.setattr(sys, "argv", ["report", *given])


def test_one_command_publishes_tables_and_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = "".join(f"{mark}\n" for name in ("bounds", "split", "parts") for mark in markers(name))
    (tmp_path / "performance.md").write_text(f"# Page\n{places}{BEGIN}\n{END}\nThe end.\n")
    (tmp_path / "race.json").write_text(race_of_three().to_json())
    measured = {
        "measured": "2026-01-01",
        "machine": {"processor": "fast"},
        "bounds": {"fsyncs_per_s": 1_234.0},
        "split": {name: {"own": 3e-6, "kernel": 1e-6, "switches": 1} for name in ABOUT},
        "parts": {f"{kind} {window}": {"`recv`": 4.5} for kind in ("produce", "fetch") for window in (1, 16)},
    }
    (tmp_path / "bounds.json").write_text(json.dumps(measured))
    run_report(monkeypatch, tmp_path, "race.json", "bounds.json")
    assert report.main() == 0
    page = (tmp_path / "performance.md").read_text()
    assert page.startswith("# Page\n") and page.endswith("The end.\n")
    for part in ("**missed**", "cores 2", "`node.id=1`", "race.svg", "logging: WARN", "1,234", "4.5", "3.00 (75%)"):
        assert part in page
    assert (tmp_path / "race.svg").read_text().startswith("<svg")


def test_without_a_result_nothing_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_report(monkeypatch, tmp_path, "none.json", "none.json")
    assert report.main() == 2
    assert "make race" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_what_is_published_is_what_was_measured() -> None:
    """Whoever edits the figures in the page by hand fails here."""
    if not report.RESULT.exists():
        pytest.skip("no race has been published yet")
    page = (DOCS / "performance.md").read_text(encoding="utf-8")
    result = report.load()
    assert result is not None
    assert put_between(page, report.told(result)) == page
    assert json.loads(report.RESULT.read_text())["options"]["scale"] == 1.0
