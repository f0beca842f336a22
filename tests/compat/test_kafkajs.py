"""kafkajs 2.2.4: producer and admin, in the protocol versions of 2022."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from .names import unique
from .raw import Raw

pytestmark = pytest.mark.peers

PACKAGE = Path(__file__).with_name("node")
MODULES = Path(__file__).resolve().parents[2] / ".peers" / "node"
INSTALL_SECONDS_MAX = 300
RUN_SECONDS_MAX = 60


@pytest.fixture(scope="module")
def node_modules() -> Path:
    """kafkajs, installed once into an ignored folder."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("no node or npm on this machine: kafkajs needs them")
    if not (MODULES / "node_modules" / "kafkajs").exists():
        MODULES.mkdir(parents=True, exist_ok=True)
        shutil.copy(PACKAGE / "package.json", MODULES)
        command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(MODULES)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS_MAX)
        if done.returncode != 0:
            pytest.skip(f"npm could not install kafkajs: {done.stderr[-300:]}")
    return MODULES / "node_modules"


def test_kafkajs_produces_and_administers(node_modules: Path, bootstrap: str, raw: Raw) -> None:
    topic = unique("js")
    wanted = {"name": topic, "num_partitions": 2, "replication_factor": 1}
    raw.ask("create_topics", 5, timeout=20_000, topics=[wanted])
    raw.wait_ready(topic, 2)
    command = ["node", str(PACKAGE / "roundtrip.js"), bootstrap, topic]
    environment = {"NODE_PATH": str(node_modules), "PATH": "/usr/bin:/bin", "KAFKAJS_NO_PARTITIONER_WARNING": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS_MAX, env=environment)
    assert done.returncode == 0, done.stderr
    saw = json.loads(done.stdout.splitlines()[-1])
    assert saw["plain"] == [{"partition": 1, "errorCode": 0, "baseOffset": "0"}]
    assert saw["idempotent"] == [{"partition": 1, "errorCode": 0, "baseOffset": "3"}]
    assert (saw["created"], saw["createdAgain"]) == (True, False)
    assert saw["badName"] == "INVALID_TOPIC_EXCEPTION"
    assert saw["badFactor"] == "INVALID_REPLICATION_FACTOR"
    assert saw["partitions"] == [0, 1, 2]
    assert saw["retention"] == ["12345"]
    assert saw["brokers"] == [bootstrap]
    assert [(entry["low"], entry["high"]) for entry in saw["offsets"]] == [("0", "2"), ("0", "6")]
    assert saw["afterDeletion"][0]["low"] == "2"
    assert saw["listed"] is True
    assert saw["deletedAgain"] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert [header.last_offset for header in raw.batches(topic, 2, partition=1)] == [2, 5]
