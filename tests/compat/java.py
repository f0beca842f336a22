"""Apache Kafka's jars and those of Spark's Kafka connector: fetched once through Maven into an ignored folder."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_POMS = Path(__file__).with_name("java")
POM = _POMS / "pom.xml"
SPARK_POM = _POMS / "spark" / "pom.xml"
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
    return _version("kafka", POM)


def connector_version() -> str:
    """Of Spark's Kafka connector."""
    return _version("spark", SPARK_POM)


@functools.cache
def kafka_libs() -> Path:
    """The folder of jars, resolved on first use."""
    version = kafka_version()
    return _resolved(f"kafka/{version}", POM, f"kafka-clients-{version}.jar", f"Apache Kafka {version}")


@functools.cache
def connector_jars() -> tuple[Path, ...]:
    """Spark's Kafka connector and what it needs beyond the jars of PySpark; resolved on first use."""
    spark = find_spec("pyspark")
    if spark is None or spark.origin is None:
        raise Missing("no PySpark on this machine: pip install 'ottla[spark]'")
    version = connector_version()
    connector = f"spark-sql-kafka-0-10_2.13-{version}.jar"
    libs = _resolved(f"spark/{version}", SPARK_POM, connector, f"Spark's Kafka connector {version}")
    has = {_artifact(jar) for jar in (Path(spark.origin).parent / "jars").glob("*.jar")}
    return tuple(jar for jar in sorted(libs.glob("*.jar")) if _artifact(jar) not in has)


def _version(what: str, pom: Path) -> str:
    found = re.search(rf"<{what}.version>(.+?)</{what}.version>", pom.read_text())
    assert found is not None
    return found[1]


def _artifact(jar: Path) -> str:
    """A jar's name without its version."""
    return re.sub(r"-\d[^/]*$", "", jar.stem)


def _resolved(place: str, pom: Path, jar: str, what: str) -> Path:
    """The folder with all that a pom asks for; fetched unless `jar` is in it."""
    libs = ROOT / ".peers" / place / "libs"
    if shutil.which("java") is None:
        raise Missing(f"no java on this machine: {what} needs one")
    if not (libs / jar).exists():
        _resolve(libs, pom, what)
    return libs


def _resolve(libs: Path, pom: Path, what: str) -> None:
    """Fetch beside the folder and rename: another process may be at it as well."""
    if shutil.which("mvn") is None:
        raise Missing(f"no mvn on this machine: it fetches {what}")
    fetched = libs.with_name(f"libs.{os.getpid()}")
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={fetched}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RESOLVE_SECONDS_MAX)
    if done.returncode != 0:
        shutil.rmtree(fetched, ignore_errors=True)
        raise Missing(f"mvn could not fetch {what}: {done.stdout[-300:]}")
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
