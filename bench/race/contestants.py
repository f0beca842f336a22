"""The brokers that race, each a child process with a data directory of its own: Ottla, and Apache Kafka as it comes.

What starts, stops and kills them is shared with the compatibility tests; only Kafka's command line differs: the tests
give it a small heap, the race gives it the heap and the collector of its own start script.
"""

import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import ottla
from tests.compat.brokers import Broker, DidNotStart, KafkaBroker, OttlaBroker
from tests.compat.java import kafka_libs, kafka_version

ANSWER_SECONDS_MAX = 180.0
STOP_SECONDS_MAX = 300.0

STOCK_HEAP = ("-Xmx1G", "-Xms1G")
STOCK_JVM = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
STOCK_JMX = (
    "-Dcom.sun.management.jmxremote",
    "-Dcom.sun.management.jmxremote.authenticate=false",
    "-Dcom.sun.management.jmxremote.ssl=false",
)
"""What bin/kafka-server-start.sh and bin/kafka-run-class.sh of Apache Kafka give to the JVM."""


class Contestant(Broker):
    """A node that can be launched without being waited for, because the waiting is what is measured."""

    def prepare(self) -> None:
        """What must be there before the command can be given; not part of the time that starting takes."""

    def launch(self) -> float:
        """Give the command; the moment (monotonic) at which it was given."""
        self.prepare()
        with self.log_file.open("ab") as log:
            begun = time.monotonic()
            self._process = self._spawn(log)
        return begun

    def wait_until_it_listens(self, pause_seconds: float = 0.005) -> None:
        assert self._process is not None
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while True:
            try:
                socket.create_connection((self.host, self.port), timeout=5).close()
                return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise DidNotStart(f"{self.name} does not listen:\n{self.log_text()[-2000:]}") from None
                time.sleep(pause_seconds)

    def start(self) -> None:
        self.launch()
        self.wait_until_it_listens()

    def stop_and_wait(self) -> None:
        """A clean stop, however long it takes within reason: very many partitions take their time."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(STOP_SECONDS_MAX)

    @property
    def command_line(self) -> list[str]:
        assert self._process is not None
        return [str(part) for part in self._process.args] if isinstance(self._process.args, list) else []


class Ottla(OttlaBroker, Contestant):
    """`ottla start` with a data directory and an address."""


class Kafka(KafkaBroker, Contestant):
    """Apache Kafka as a single KRaft node, with the settings of its own config file and start script."""

    def prepare(self) -> None:
        config = self._config_file()
        if not (self.data_dir / "meta.properties").exists():
            with self.log_file.open("ab") as log:
                self._format(config, log)

    def _spawn(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        gc_log = f"-Xlog:gc*:file={self.root}/kafkaServer-gc.log:time,tags:filecount=10,filesize=100M"
        libs = kafka_libs()
        log4j = f"-Dlog4j2.configurationFile={libs.parent}/log4j2.properties"
        jvm = [*STOCK_HEAP, *STOCK_JVM, gc_log, *STOCK_JMX, log4j]
        command = ["java", *jvm, "-cp", f"{libs}/*", "kafka.Kafka", str(self.root / "server.properties")]
        return subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.root)


CONTESTANTS: Mapping[str, type[Contestant]] = {"ottla": Ottla, "kafka": Kafka}


def prepare_peer() -> None:
    """Fetch Apache Kafka's jars; raises Missing with the reason if the machine lacks what that takes."""
    kafka_libs()


def described(name: str, root: Path) -> dict[str, object]:
    """Version, command and settings of a contestant, as the result states them."""
    if name == "ottla":
        return {
            "version": ottla.__version__,
            "runtime": f"Python {sys.version.split()[0]}",
            "command": "ottla start --data-dir … --listen 127.0.0.1:…",
            "settings": "none: every setting has its default",
        }
    node = Kafka(root / "described")
    lines = node._config_file().read_text().splitlines()
    hidden = ("listeners", "advertised.listeners", "controller.quorum.bootstrap.servers", "log.dirs")
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, timeout=30).stderr
    return {
        "version": kafka_version(),
        "runtime": java.splitlines()[0] if java else "java",
        "command": " ".join(("java", *STOCK_HEAP, *STOCK_JVM, "-Xlog:gc*:file=…", *STOCK_JMX, "kafka.Kafka")),
        "settings": [line for line in lines if line.split("=")[0] not in hidden],
        "logging": "WARN and above, to a file (its own default is INFO)",
        "not counted": "formatting the data directory before the first start",
    }
