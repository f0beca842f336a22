"""The fixtures as another project sees them: a pytest run of its own, with nothing but the installed package."""

import subprocess
import sys
from pathlib import Path

USER_TEST = """
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

seen = []

def partitions(broker, topic):
    return len(AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=10).topics[topic].partitions)

def test_sends(ottla_broker, ottla_topic):
    seen.append((ottla_broker.bootstrap, ottla_topic))
    producer = Producer({"bootstrap.servers": ottla_broker.bootstrap})
    producer.produce(ottla_topic, b"hello")
    assert producer.flush(10) == 0
    assert partitions(ottla_broker, ottla_topic) == 1

def test_has_a_topic_of_its_own_on_the_same_broker(ottla_broker, ottla_topic):
    assert seen[0][0] == ottla_broker.bootstrap
    assert seen[0][1] != ottla_topic

def test_settings_come_from_the_project(ottla_broker):
    producer = Producer({"bootstrap.servers": ottla_broker.bootstrap})
    producer.produce("on-demand", b"hello")
    assert producer.flush(10) == 0
    assert partitions(ottla_broker, "on-demand") == 3
"""


def run_pytest(directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, timeout=100)


def test_a_project_gets_a_broker_and_topics_by_installing_ottla(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nottla_settings =\n    num.partitions=3\n")
    (tmp_path / "test_user.py").write_text(USER_TEST)
    done = run_pytest(tmp_path)
    assert "3 passed" in done.stdout, done.stdout + done.stderr


def test_a_setting_that_is_none_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nottla_settings = nonsense\n")
    (tmp_path / "test_user.py").write_text("def test_it(ottla_broker): pass\n")
    done = run_pytest(tmp_path)
    assert done.returncode != 0
    assert "ottla_settings takes name=value, not 'nonsense'" in done.stdout


def test_a_project_that_does_not_use_it_loads_no_node(tmp_path: Path) -> None:
    (tmp_path / "test_user.py").write_text(
        "import sys\n"
        "def test_it():\n"
        "    assert not {'ottla.broker', 'ottla.wire', 'structlog', 'confluent_kafka'} & sys.modules.keys()\n"
    )
    done = run_pytest(tmp_path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_the_node_is_loaded_past_the_rewriting_of_assertions(tmp_path: Path) -> None:
    """An installed wheel marks all of Ottla for rewriting; an editable install does not, so the project asks for it."""
    (tmp_path / "conftest.py").write_text("import pytest\npytest.register_assert_rewrite('ottla')\n")
    (tmp_path / "test_user.py").write_text(
        "def test_it(ottla_broker):\n"
        "    import ottla.broker.server, ottla.cli.failure\n"
        "    assert 'pytest' in type(ottla.cli.failure.__loader__).__module__\n"
        "    assert 'pytest' not in type(ottla.broker.server.__loader__).__module__\n"
    )
    done = run_pytest(tmp_path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
