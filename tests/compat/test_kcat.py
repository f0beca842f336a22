"""kcat, as Debian ships it: produce, consume from anywhere, list, query."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable

import pytest

from .names import unique

pytestmark = pytest.mark.peers

INSTALL_SECONDS_MAX = 300
RUN_SECONDS_MAX = 60
Kcat = Callable[..., str]


@pytest.fixture(scope="session")
def executable() -> str:
    if shutil.which("kcat") is None and os.geteuid() == 0 and shutil.which("apt-get") is not None:
        subprocess.run(["apt-get", "install", "-y", "kcat"], capture_output=True, timeout=INSTALL_SECONDS_MAX)
    found = shutil.which("kcat")
    if found is None:
        pytest.skip("no kcat on this machine, and none could be installed")
    return found


@pytest.fixture
def kcat(executable: str, bootstrap: str) -> Kcat:
    def run(*arguments: str, stdin: str = "") -> str:
        command = [executable, "-b", bootstrap, "-q", *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=RUN_SECONDS_MAX)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_lines_come_back_as_they_went_in(kcat: Kcat, codec: str) -> None:
    topic = unique("kcat")
    lines = "".join(f"key {at}:value {at}\n" for at in range(200))
    kcat("-P", "-t", topic, "-K:", "-p", "0", "-z", codec, stdin=lines)
    assert kcat("-C", "-t", topic, "-K:", "-p", "0", "-o", "beginning", "-e") == lines


def test_reading_starts_at_an_offset_from_either_end(kcat: Kcat) -> None:
    topic = unique("kcat")
    kcat("-P", "-t", topic, "-p", "0", stdin="a\nb\nc\nd\n")
    assert kcat("-C", "-t", topic, "-p", "0", "-o", "2", "-e") == "c\nd\n"
    assert kcat("-C", "-t", topic, "-p", "0", "-o", "-1", "-e") == "d\n"
    assert kcat("-C", "-t", topic, "-p", "0", "-o", "beginning", "-c", "1") == "a\n"


def test_headers_timestamps_and_nulls_are_shown(kcat: Kcat) -> None:
    topic = unique("kcat")
    kcat("-P", "-t", topic, "-p", "0", "-K:", "-Z", "-H", "a=1", "-H", "b=2", stdin="k:\n")
    shown = kcat("-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-f", "%k %S %h %o %p\n")
    assert shown == "k -1 a=1,b=2 0 0\n"


def test_metadata_is_listed(kcat: Kcat, bootstrap: str) -> None:
    topic = unique("kcat")
    kcat("-P", "-t", topic, "-p", "0", stdin="a\n")
    listed = json.loads(kcat("-L", "-J"))
    assert [broker["name"] for broker in listed["brokers"]] == [bootstrap]
    [entry] = [entry for entry in listed["topics"] if entry["topic"] == topic]
    assert [partition["partition"] for partition in entry["partitions"]] == [0]
    assert "error" not in entry


def test_offset_is_queried_by_time(kcat: Kcat) -> None:
    topic = unique("kcat")
    kcat("-P", "-t", topic, "-p", "0", stdin="a\nb\n")
    assert kcat("-Q", "-t", f"{topic}:0:1").strip() == f"{topic} [0] offset 0"
    assert kcat("-Q", "-t", f"{topic}:0:-1").strip() == f"{topic} [0] offset 2"
