import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import structlog

from ottla.base.broker_settings import Listener
from ottla.cli.brokers import Brokers
from ottla.cli.connection import Target
from ottla.cli.failure import Failed, Misused
from ottla.cli.start import Flags, announce, announcement, default_directory, node_config
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

BROKER_LOGGER = 8
OTTLA = str(Path(sys.executable).with_name("ottla"))
HOME = {"XDG_DATA_HOME": "/xdg"}


def test_without_any_setting_it_listens_on_loopback_and_keeps_data_at_home() -> None:
    config = node_config(Flags(), {"XDG_DATA_HOME": "/xdg"})
    assert [listener.address for listener in config.listeners] == ["127.0.0.1:9092"]
    assert config.log_dirs == (Path("/xdg/ottla"),)


def test_a_relative_xdg_directory_is_no_directory() -> None:
    assert default_directory({"XDG_DATA_HOME": "data"}) == Path.home() / ".local/share/ottla"


@pytest.mark.parametrize(
    ("name", "text"), [("node.toml", "num.partitions = 2"), ("node.properties", "num.partitions=2")]
)
def test_flags_beat_the_environment_and_that_beats_the_file(tmp_path: Path, name: str, text: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    assert node_config(Flags(config=file), HOME).num_partitions == 2
    environment = {**HOME, "OTTLA_NUM_PARTITIONS": "3"}
    assert node_config(Flags(config=file), environment).num_partitions == 3
    assert node_config(Flags(config=file, settings={"num.partitions": "4"}), environment).num_partitions == 4


def test_the_environment_names_file_address_and_directories(tmp_path: Path) -> None:
    file = tmp_path / "node.properties"
    file.write_text("num.partitions=7\nlisteners=PLAINTEXT://127.0.0.1:1\nlog.dirs=/from-file\n")
    environment = {"OTTLA_CONFIG": str(file), "OTTLA_LISTEN": "127.0.0.1:2", "OTTLA_DATA_DIR": "/a:/b"}
    config = node_config(Flags(), environment)
    assert config.num_partitions == 7
    assert config.listeners == (Listener("PLAINTEXT", "127.0.0.1", 2),)
    assert config.log_dirs == (Path("/a"), Path("/b"))
    assert node_config(Flags(data_dirs=(Path("/c"),), listen="127.0.0.1:3"), environment).log_dirs == (Path("/c"),)


def test_directories_of_the_file_stand_when_nothing_else_is_said(tmp_path: Path) -> None:
    file = tmp_path / "node.properties"
    file.write_text("log.dirs=/from-file,/and-this\n")
    assert node_config(Flags(config=file), HOME).log_dirs == (Path("/from-file"), Path("/and-this"))


def test_variables_of_other_programs_are_left_alone() -> None:
    node_config(Flags(), {**HOME, "OTTLA_PORT": "tcp://10.0.0.1:9092", "OTTLA_SERVICE_HOST": "10.0.0.1"})


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (Flags(settings={"no.such.setting": "1"}), "no.such.setting"),
        (Flags(settings={"num.partitions": "many"}), "num.partitions takes"),
        (Flags(listen="nonsense"), "HOST:PORT"),
        (Flags(listen="127.0.0.1:99999"), "HOST:PORT"),
        (Flags(settings={"num.partition": "1"}), "is num.partitions meant"),
        (Flags(settings={"retention.ms": "1"}), "is log.retention.ms meant"),
        (Flags(settings={"metrics.listener": "nonsense"}), "HOST:PORT"),
        (Flags(settings={"group.min.session.timeout.ms": "1800001"}), "must not exceed group.max.session.timeout.ms"),
        (Flags(settings={"group.consumer.session.timeout.ms": "5000"}), "must be below group.consumer.session.timeout"),
        (Flags(listen="SSL://127.0.0.1:1"), "wants SSL"),
        (Flags(settings={"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}), "an address that clients can reach"),
        (Flags(settings={"advertised.listeners": "OUTSIDE://example.com:1"}), "no listener has that name"),
        (
            Flags(listen="OUT://:1", settings={"listener.security.protocol.map": "IN:PLAINTEXT, OUT:SASL_SSL"}),
            "listener OUT wants SASL_SSL",
        ),
    ],
)
def test_a_wrong_setting_is_misuse(flags: Flags, complaint: str) -> None:
    with pytest.raises(Misused, match=complaint):
        node_config(flags, HOME)


def test_what_a_file_says_beyond_our_settings_is_warned_of_and_ignored(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("zookeeper.connect=localhost:2181\nnum.partitions=2\nnum.partition=3\n")
    with structlog.testing.capture_logs() as logs:
        assert node_config(Flags(config=file), HOME).num_partitions == 2
    assert [(entry["log_level"], entry["reason"]) for entry in logs] == [
        ("warning", "Unknown broker config name: num.partition (is num.partitions meant?)"),
        ("warning", "Unknown broker config name: zookeeper.connect"),
    ]


def test_a_file_that_is_not_there_is_said() -> None:
    with pytest.raises(Failed, match="cannot read /not/there"):
        node_config(Flags(config=Path("/not/there")), HOME)


# --- the command itself


def test_a_node_loads_nothing_that_draws_tables() -> None:
    code = (
        "import sys; from ottla.cli.main import build; build(['start'])\n"
        "import ottla.broker.server, structlog\n"
        "print('rich' in sys.modules, 'pygments' in sys.modules, structlog.dev.rich)\n"
        "import rich"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False False None"


def start(*arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "OTTLA_LOG_LEVEL": "warning"}
    return subprocess.Popen(
        [OTTLA, "start", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def listening(node: subprocess.Popen[str]) -> str:
    """The address, from the first line of what it prints."""
    assert node.stdout is not None and node.stderr is not None
    line = node.stdout.readline()
    assert " is listening on " in line, node.stderr.read()
    return line.rpartition(" ")[2].strip()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    node = start("--data-dir", str(tmp_path), "--listen", "127.0.0.1:0")
    listening(node)
    node.send_signal(number)
    assert node.stdout is not None and node.stderr is not None
    out, err = node.stdout.read(), node.stderr.read()
    assert (node.wait(30), err) == (0, "")
    assert str(tmp_path) in out and "Ctrl-C" in out
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_its_log_level_can_be_moved_while_it_runs(tmp_path: Path) -> None:
    node = start("--data-dir", str(tmp_path), "--listen", "127.0.0.1:0")
    request = IncrementalAlterConfigsRequest(
        [AlterConfigsResource(BROKER_LOGGER, "1", [AlterableConfig("root", 0, "INFO")])]
    )
    with Brokers(Target(listening(node), timeout_s=30)) as brokers:
        assert brokers.any().ask(request).responses[0].error_code == 0
    node.send_signal(signal.SIGTERM)
    _, err = node.communicate(timeout=60)
    assert node.returncode == 0 and "node stopped" in err


def test_what_is_in_the_way_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        attempts = {
            "in use": start("--data-dir", str(tmp_path / "a"), "--listen", f"127.0.0.1:{port}"),
            str(tmp_path / "file"): start("--data-dir", str(tmp_path / "file"), "--listen", "127.0.0.1:0"),
            "cannot listen on 192.0.2.1:1": start("--data-dir", str(tmp_path / "b"), "--listen", "192.0.2.1:1"),
        }
        for complaint, node in attempts.items():
            _, err = node.communicate(timeout=30)
            assert node.returncode == 1
            assert err.startswith("ottla: ") and err.count("\n") == 1 and complaint in err


def test_it_does_not_mind_that_nobody_reads_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as unread:
        monkeypatch.setattr(sys, "stdout", unread)
        announce("listening")
        print("more", flush=True)


@pytest.mark.parametrize(
    ("listen", "is_warned"),
    [("127.0.0.1:1", False), ("localhost:1", False), ("[::1]:1", False), ("0.0.0.0:1", True), (":1", True)],
)
def test_an_address_that_others_can_reach_is_warned_of(listen: str, is_warned: bool) -> None:
    text = announcement("127.0.0.1:1", node_config(Flags(listen=listen), HOME))
    assert ("no passwords" in text) == is_warned


def test_a_directory_that_another_node_has_is_refused(tmp_path: Path) -> None:
    first = start("--data-dir", str(tmp_path), "--listen", "127.0.0.1:0")
    try:
        listening(first)
        second = start("--data-dir", str(tmp_path), "--listen", "127.0.0.1:0")
        _, err = second.communicate(timeout=30)
        assert second.returncode == 1
        assert err.count("\n") == 1 and str(tmp_path) in err and "in use" in err
    finally:
        first.terminate()
        first.communicate(timeout=30)
