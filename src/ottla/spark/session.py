"""A Spark session that just starts: the settings that Ottla's pipelines need, and advice where something is missing."""

import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.spark.java import find_java
from ottla.spark.not_ready import NotReady
from ottla.spark.shipping import packed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TAIL_SETTINGS = {
    # Rows leave Spark's buffers one by one, not by ten thousands. From some 20,000 rows a second on, 50 is better.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    # A row is longer than that, and does not wait in it for another.
    "spark.sql.execution.pandas.udf.buffer.size": "16",
}
"""For `session(config=…)` when queries in tail mode run in it; they make writes of many rows at once slower."""
_STREAMING = "org.apache.spark.sql.execution.streaming."
_CHECKPOINTS = "spark.sql.streaming.checkpointFileManagerClass"
_CHECKPOINT_MANAGER = f"{_STREAMING}checkpointing.FileSystemBasedCheckpointFileManager"
_LOGGING = Path(__file__).with_name("log4j2.properties")
_TASK_ATTEMPTS = 4
_MEMORY_MB = (1024, 4096)


def session(
    name: str = "ottla",
    *,
    master: str | None = None,
    remote: str | None = None,
    config: Mapping[str, object] | None = None,
) -> "SparkSession":
    """A Spark session ready for Ottla: on this machine, on a cluster (`master`) or over Spark Connect (`remote`).

    `config` is Spark's, and whatever it says wins over what is set here. Raises `NotReady` with advice when Java,
    PySpark or the cluster is not there.
    """
    if find_spec("pyspark") is None:
        raise NotReady("PySpark is not installed: pip install 'ottla[spark]'")
    given = {key: _text(value) for key, value in (config or {}).items()}
    remote = remote or os.environ.get("SPARK_REMOTE")
    return _connect(name, remote, given) if remote and master is None else _classic(name, master, given)


def _classic(name: str, master: str | None, given: Mapping[str, str]) -> "SparkSession":
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    where = master or given.get("spark.master") or os.environ.get("MASTER") or _local()
    settings = {**_settings(where), **given}
    if not submitted:
        settings["spark.master"] = where
        _prepare_environment(where)
    if submitted or not where.startswith("local"):
        settings["spark.submit.pyFiles"] = ",".join(filter(None, [given.get("spark.submit.pyFiles"), str(packed())]))
    builder = SparkSession.builder.appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except (PySparkException, Py4JError, OSError, RuntimeError) as failure:
        raise NotReady(f"Spark does not start on {where}: {_first_line(failure)}") from None
    if _CHECKPOINTS not in given:
        _spare_forks(spark)
    _listen_to_calls(spark)
    return spark


def _connect(name: str, remote: str, given: Mapping[str, str]) -> "SparkSession":
    missing = [module for module in ("grpc", "grpc_status", "googleapis_common_protos") if not _installed(module)]
    if missing:
        raise NotReady("Spark Connect needs further packages: pip install 'pyspark[connect]'")
    from pyspark.errors import PySparkException
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    builder = ConnectSession.builder.remote(remote).appName(name)
    for key, value in {**_query_settings(), **given}.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
        spark.addArtifacts(str(packed()), pyfile=True)
    except (PySparkException, OSError) as failure:
        raise NotReady(f"Spark Connect at {remote} cannot be used: {_first_line(failure)}") from None
    return spark  # type: ignore[return-value]


def _installed(module: str) -> bool:
    return find_spec("google.rpc" if module.startswith("googleapis") else module) is not None


def _local() -> str:
    """All cores, and a second chance for a task that fails: `local[n]` alone has none."""
    return f"local[{max(os.cpu_count() or 1, 2)},{_TASK_ATTEMPTS}]"


def _settings(where: str) -> dict[str, str]:
    settings = {
        "spark.scheduler.mode": "FAIR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Over TCP what Spark says to a worker in several pieces waits, by Nagle's rule, for an acknowledgement that the
        # other end holds back for 40 ms.
        "spark.python.unix.domain.socket.enabled": "true",
        **_query_settings(),
    }
    if where.startswith("local"):
        low, high = _MEMORY_MB
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": f"{min(max(_machine_memory_mb() // 4, low), high)}m",
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
            "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
        }
    return settings


def _query_settings() -> dict[str, str]:
    """What concerns queries and not the machine, and may be set on a running server, too."""
    return {
        # Without it Spark refuses every Python source that offers to filter.
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.streaming.stateStore.providerClass": f"{_STREAMING}state.RocksDBStateStoreProvider",
        # A state with timers of processing time asks for another batch for ever, and AvailableNow would never end.
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
    }


def _prepare_environment(where: str) -> None:
    """Before the JVM starts: it inherits the environment, and the workers inherit it from the JVM."""
    os.environ["JAVA_HOME"] = str(find_java(os.environ).home)
    if where.startswith("local"):
        # Else the workers run whatever `python3` is on the PATH, which need not be this one.
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _spare_forks(spark: "SparkSession") -> None:
    """Spark's usual way to write a checkpoint on a local disk runs some sixty processes a batch; this one none.

    The class has moved between versions, so it is asked for before it is named.
    """
    from py4j.protocol import Py4JError

    try:
        spark._jvm.java.lang.Class.forName(_CHECKPOINT_MANAGER)  # type: ignore[union-attr]
    except Py4JError:
        return
    spark.conf.set(_CHECKPOINTS, _CHECKPOINT_MANAGER)


def _listen_to_calls(spark: "SparkSession") -> None:
    """Begin to wait for what the JVM calls in this process (`foreachBatch`, listeners) while descriptors are low.

    Left to itself it begins with the first such query. By then the process may have a thousand files open, py4j's
    `select` fails, and all calls wait for ever.
    """
    from pyspark.java_gateway import ensure_callback_server_started

    ensure_callback_server_started(spark.sparkContext._gateway)


def _machine_memory_mb() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    except (ValueError, OSError):
        return _MEMORY_MB[1]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _first_line(failure: BaseException) -> str:
    lines = [line.strip() for line in str(failure).splitlines() if line.strip()]
    causes = [line for line in lines if not line.startswith(("at ", ":", "An error occurred", "..."))]
    return (causes or lines or [type(failure).__name__])[0]
