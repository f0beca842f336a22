"""`ottla pipeline …` as far as it needs no Spark session."""

import subprocess
import sys
from pathlib import Path

import pytest

from ottla.cli import spark_extra
from tests.unit.cli.conftest import Cli


def test_init_writes_a_project_and_says_what_to_do_next(ottla: Cli, tmp_path: Path) -> None:
    code, out, err = ottla("pipeline", "init", str(tmp_path / "shop"))
    assert (code, err) == (0, "") and f"cd {tmp_path}/shop" in out and "ottla pipeline check" in out
    assert (tmp_path / "shop" / "pipeline.yml").is_file()


def test_init_leaves_alone_what_is_there(ottla: Cli, tmp_path: Path) -> None:
    ottla("pipeline", "init", str(tmp_path))
    code, _, err = ottla("pipeline", "init", str(tmp_path))
    assert code == 1 and err == f"ottla: {tmp_path}/pipeline.yml is there already; nothing was written\n"


def test_faults_that_need_no_spark_are_told_without_one(ottla: Cli, tmp_path: Path) -> None:
    (tmp_path / "pipeline.yml").write_text("name: x\nmood: y\n")
    code, out, err = ottla("pipeline", "check", str(tmp_path))
    assert (code, out) == (1, "")
    assert err == "pipeline.yml:2:1: there is no 'mood' here; did you mean mode?\npipeline: 1 fault\n"


def test_faults_as_json(ottla: Cli, tmp_path: Path) -> None:
    (tmp_path / "pipeline.yml").write_text("name: x\nmode: y\n")
    code, out, err = ottla("pipeline", "check", str(tmp_path), "--json")
    assert (code, err) == (1, "")
    assert '"faults": [{"file": "pipeline.yml", "line": 2, "column": 7, "why": "batch, micro, tail are possible' in out


def test_without_the_extra_there_is_one_line_of_advice(
    ottla: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_extra, "find_spec", lambda name: None)
    code, out, err = ottla("pipeline", "check", str(tmp_path))
    assert (code, out) == (1, "")
    assert err == "ottla: pipelines run on Spark, and pyspark is not installed: pip install 'ottla[spark]'\n"


def test_no_other_command_imports_spark() -> None:
    code = (
        "import sys; from ottla.cli.main import build; build([])\n"
        "heavy = ('pyspark', 'ottla.spark', 'pyarrow', 'numpy')\n"
        "print(sorted({name for name in sys.modules if name.startswith(heavy)}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
