"""The nodes the compatibility tests talk to, as child processes: Ottla, or Apache Kafka for comparison."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from .java import kafka_command

START_SECONDS_MAX = 90.0
STOP_SECONDS_MAX = 30.0


class DidNotStart(RuntimeError):
    """The node exited, or did not answer on its port in time."""


def free_port() -> int:
    """A loopback port nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Broker(ABC):
    """One node: a data directory and a port that survive stop, kill and restart."""

    name: str

    def __init__(self, root: Path, settings: Mapping[str, str] | None = None) -> None:
        self.root = root
        self.data_dir = root / "data"
        self.log_file = root / "node.log"
        self.settings = dict(settings or {})
        self.host = "127.0.0.1"
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        root.mkdir(parents=True, exist_ok=True)

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the node is not running"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def metadata_log(self) -> Path:
        return self.data_dir / "__cluster_metadata-0"

    def partition_dir(self, topic: str, partition: int = 0) -> Path:
        return self.data_dir / f"{topic}-{partition}"

    def log_text(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    @abstractmethod
    def _spawn(self, log: IO[bytes]) -> subprocess.Popen[bytes]: ...

    def start(self) -> None:
        assert not self.running
        with self.log_file.open("ab") as log:
            self._process = self._spawn(log)
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self._answers():
            if self._process.poll() is not None:
                raise DidNotStart(f"{self.name} exited with {self._process.returncode}:\n{self.log_text()[-4000:]}")
            if time.monotonic() > deadline:
                self.kill()
                raise DidNotStart(f"{self.name} did not answer:\n{self.log_text()[-4000:]}")
            time.sleep(0.02)

    def _answers(self) -> bool:
        """A broker is up when it answers ApiVersions v0, not when its port opens."""
        ask = b"\x00\x00\x00\x0a" + b"\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff"
        try:
            with socket.create_connection((self.host, self.port), timeout=5) as probe:
                probe.sendall(ask)
                return len(probe.recv(10)) == 10
        except OSError:
            return False

    def stop(self) -> int:
        """Ask the node to stop cleanly; its exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Let the node die as in a crash."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> int:
        process = self._process
        assert process is not None
        if process.poll() is None:
            process.send_signal(how)
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_SECONDS_MAX)
            raise
        return int(process.returncode)

    def restart(self) -> None:
        if self.running:
            self.stop()
        self.start()


class OttlaBroker(Broker):
    """`ottla start`, as a user would type it."""

    name = "ottla"

    def _spawn(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        executable = Path(sys.executable).with_name("ottla")
        command = [str(executable), "start", "--data-dir", str(self.data_dir), "--listen", self.bootstrap]
        if self.settings:
            command += ["--config", str(self._config_file())]
        return subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def _config_file(self) -> Path:
        file = self.root / "server.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in self.settings.items()))
        return file


class KafkaBroker(Broker):
    """Apache Kafka as one combined broker and controller, formatted as its own tool does it."""

    name = "kafka"

    def __init__(self, root: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(root, settings)
        self._controller_port = free_port()

    def _spawn(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        config = self._config_file()
        if not (self.data_dir / "meta.properties").exists():
            self._format(config, log)
        command = kafka_command("kafka.Kafka", str(config), heap="-Xmx768m")
        return subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.root)

    def _format(self, config: Path, log: IO[bytes]) -> None:
        cluster_id = "b3R0bGEtY29tcGF0LTAwMQ"
        command = kafka_command(
            "kafka.tools.StorageTool", "format", "--cluster-id", cluster_id, "--standalone", "--config", str(config)
        )
        subprocess.run(command, stdout=log, stderr=log, check=True, cwd=self.root, timeout=START_SECONDS_MAX)

    def _config_file(self) -> Path:
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{self._controller_port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self._controller_port}",
            "log.dirs": str(self.data_dir),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            **self.settings,
        }
        file = self.root / "server.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return file


def make_broker(target: str, root: Path, settings: Mapping[str, str] | None = None) -> Broker:
    """A stopped node of the wanted kind below `root`."""
    return {"ottla": OttlaBroker, "kafka": KafkaBroker}[target](root, settings)


def discard(broker: Broker) -> None:
    """End the node and its files."""
    if broker.running:
        broker.kill()
    if "OTTLA_KEEP_COMPAT" not in os.environ:
        shutil.rmtree(broker.root, ignore_errors=True)
