"""Which Java is taken, and what is said when there is none."""

import subprocess
from pathlib import Path

import pytest

from ottla.spark import java
from ottla.spark.java import find_java
from ottla.spark.not_ready import NotReady


def a_java(home: Path, version: str, modules: str = "") -> Path:
    (home / "bin").mkdir(parents=True)
    command = home / "bin" / "java"
    command.write_text('#!/bin/sh\nfor word do echo "[$word]"; done\n')
    command.chmod(0o755)
    (home / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return home


@pytest.fixture(autouse=True)
def no_packaged_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_packaged_runtime", lambda: None)


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    home = a_java(tmp_path / "a", "21.0.2")
    on_path = a_java(tmp_path / "b", "17.0.1")
    found = find_java({"JAVA_HOME": str(home), "PATH": str(on_path / "bin")}, ())
    assert (found.home, found.major) == (home, 21)


def test_a_java_that_spark_cannot_use_is_passed_over(tmp_path: Path) -> None:
    old = a_java(tmp_path / "old", "1.8.0_392")
    found = find_java({"JAVA_HOME": str(old), "PATH": str(a_java(tmp_path / "b", "17.0.1") / "bin")}, ())
    assert found.major == 17


def test_the_usual_places_are_searched(tmp_path: Path) -> None:
    a_java(tmp_path / "jvm" / "java-11", "11.0.1")
    a_java(tmp_path / "jvm" / "java-25", "25.0.3")
    assert find_java({}, (f"{tmp_path}/jvm/*",)).home == tmp_path / "jvm" / "java-25"


def test_without_any_java_the_advice_names_what_was_found_and_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NotReady) as caught:
        find_java({"JAVA_HOME": str(a_java(tmp_path / "old", "11.0.1"))}, ())
    text = str(caught.value)
    assert f"{tmp_path}/old is Java 11" in text and "ottla[spark-java]" in text and "JAVA_HOME" in text


def test_a_packaged_runtime_without_vectors_runs_behind_a_shim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slim = a_java(tmp_path / "it's slim", "21.0.8", "java.base java.sql")
    monkeypatch.setattr(java, "_packaged_runtime", lambda: slim)
    found = find_java({"XDG_CACHE_HOME": str(tmp_path / "cache")}, ())
    options = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", "$HOME"]
    run = subprocess.run([found.home / "bin" / "java", *options], capture_output=True, text=True, check=True)
    assert run.stdout.split("\n")[:-1] == ["[-cp]", "[a b]", "[Main]", "[$HOME]"]


def test_a_packaged_runtime_with_vectors_runs_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = a_java(tmp_path / "whole", "21.0.8", "java.base jdk.incubator.vector")
    monkeypatch.setattr(java, "_packaged_runtime", lambda: whole)
    assert find_java({}, ()).home == whole
