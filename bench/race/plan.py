"""Every workload of the race in the order in which they are run; one that cannot be run yet says why."""

from collections.abc import Iterable

from bench.race import asking, compacting, living, moving, pipelines
from bench.race.arena import Arena, Row, Workload
from tests.compat.java import connector_jars


def _nothing(_: Arena) -> Iterable[Row]:
    return ()


WORKLOADS = (
    Workload(
        "start",
        "from the command to the first acknowledged record; then memory and processor time at rest",
        living.start,
        "importing modules, half of it wire classes and the event loop; then one fsync of the metadata log",
        disk_gb=0.1,
    ),
    Workload(
        "produce",
        "1 GB of 1 kB records or 0.3 GB of 100 B records, as fast as the client sends",
        moving.produce,
        "three passes over the bytes: socket to buffer, CRC, buffer to page cache; a fixed amount of Python per batch",
        disk_gb=6.0,
    ),
    Workload(
        "consume",
        "2 GB of 1 kB records or 0.6 GB of 100 B records, from the page cache and from the disk",
        moving.consume,
        "sendfile: the kernel copies from the page cache to the socket; Python per fetch, not per record",
        disk_gb=6.0,
    ),
    Workload(
        "backlog",
        "a reader catches up with 1 GB while 20 MB/s more come in",
        moving.drain_backlog,
        "as produce and consume, on one event loop together",
        disk_gb=3.0,
    ),
    Workload(
        "one-record requests",
        "linger 0, one record in each request, acks=all",
        asking.one_record_requests,
        "Python per request, and three system calls: recv, pwrite, send; what arrives together shares recv and send",
    ),
    Workload(
        "latency",
        "from the moment a record was due to its arrival at the consumer, open loop",
        asking.latency,
        "two wake-ups of the event loop, and how soon the machine gives it a core",
        disk_gb=2.0,
    ),
    Workload(
        "fsync per ack",
        "log.flush.interval.messages=1: an acknowledged record is on the disk",
        asking.fsync_per_ack,
        "the disk; producers that ask meanwhile share one fsync, and one thread hop each way",
    ),
    Workload(
        "1,000 connections",
        "each with one produce request under way",
        asking.many_connections,
        "Python per request; an idle connection owns no buffer",
    ),
    Workload(
        "transactions",
        "committed every 100 ms",
        asking.transactions,
        "three appends per commit (decision, marker, end), none of which waits for the disk by default",
        disk_gb=8.0,
    ),
    Workload(
        "group of 50",
        "consumers that come at once, until each has its part",
        living.group_joins,
        "classic: group.initial.rebalance.delay.ms (3 s) on both; consumer: the clients' heartbeats",
    ),
    Workload(
        "10,000 partitions",
        "in 100 topics",
        living.many_partitions,
        "creation: one fsync of the metadata log per request, four files per partition; restart: opening them",
        disk_gb=1.0,
        runs_max=3,
    ),
    Workload(
        "compaction",
        "1 GB on a tenth as many keys",
        compacting.compaction,
        "half a microsecond of Python per record and pass, to find its key and its end; then the fsync of what is left",
        disk_gb=4.0,
    ),
    Workload(
        "restart after kill",
        "SIGKILL with 5 GB that nobody flushed",
        living.restart_after_kill,
        "reading back what was not forced to the disk, and its CRCs",
        disk_gb=7.0,
    ),
    Workload(
        "spark source",
        "Ottla's data source on Ottla beside Spark's own Kafka connector on Apache Kafka, on one Spark",
        pipelines.spark_source,
        "Spark: Arrow into rows in the JVM; then numba, which reads each record once, and the socket between the two",
        disk_gb=2.0,
        fetch=connector_jars,
    ),
    Workload(
        "replication", "three brokers, acks=all", _nothing, "", absent="Ottla is a single node so far; no cluster yet"
    ),
)
