"""Apache Kafka's jars: fetched once through Maven into an ignored folder, run with a small heap."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
POM = Path(__file__).with_name("java") / "pom.xml"
RESOLVE_SECONDS_MAX = 600

LOG4J = """\
rootLogger.level = WARN
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d] %p %m (%c)%n
"""


class Missing(RuntimeError):
    """Something the machine lacks and we could not fetch; the text is the reason to skip with."""


def kafka_version() -> str:
    found = re.search(r"<kafka.version>(.+?)</kafka.version>", POM.read_text())
    assert found is not None
    return found[1]


@functools.cache
def kafka_libs() -> Path:
    """The folder of jars, resolved on first use."""
    libs = ROOT / ".peers" / "kafka" / kafka_version() / "libs"
    if shutil.which("java") is None:
        raise Missing("no java on this machine: Apache Kafka's client and tools need one")
    if not (libs / f"kafka-clients-{kafka_version()}.jar").exists():
        _resolve(libs)
    return libs


def _resolve(libs: Path) -> None:
    """Fetch beside the folder and rename: another process may be at it as well."""
    if shutil.which("mvn") is None:
        raise Missing("no mvn on this machine: it fetches Apache Kafka's jars")
    fetched = libs.with_name(f"libs.{os.getpid()}")
    command = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies", f"-DoutputDirectory={fetched}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RESOLVE_SECONDS_MAX)
    if done.returncode != 0:
        shutil.rmtree(fetched, ignore_errors=True)
        raise Missing(f"mvn could not fetch Apache Kafka {kafka_version()}: {done.stdout[-300:]}")
    try:
        fetched.rename(libs)
    except OSError:
        shutil.rmtree(fetched, ignore_errors=True)
        if not libs.exists():
            raise


def kafka_command(main: str, *arguments: str, heap: str = "-Xmx256m") -> list[str]:
    """The command line that runs one of Kafka's main classes."""
    libs = kafka_libs()
    log4j = libs.parent / "log4j2.properties"
    if not log4j.exists():
        log4j.write_text(LOG4J)
    return [
        "java",
        heap,
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        f"-Dlog4j2.configurationFile={log4j}",
        "-cp",
        f"{libs}/*",
        main,
        *arguments,
    ]


def run_kafka(main: str, *arguments: str, stdin: str = "", seconds_max: float = 90) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's tools to its end."""
    command = kafka_command(main, *arguments)
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=seconds_max)
