"""Settings of a node: replication between brokers, fetching, and requests that wait."""

from ottla.base.setting_rows.inert import inert
from ottla.base.settings import Kind, Reach, Setting, at_least

_CLUSTER = Reach.CLUSTER_WIDE

ROWS: tuple[Setting, ...] = (
    inert("alter.log.dirs.replication.quota.window.num", Kind.INT, "11",
          "How many windows the rate of moves between directories is measured over."),
    inert("alter.log.dirs.replication.quota.window.size.seconds", Kind.INT, "1",
          "The length of one window of that rate."),
    Setting("default.replication.factor", Kind.INT, "1", "How many replicas a topic gets that does not say.",
            at_least(1)),
    inert("delete.records.purgatory.purge.interval.requests", Kind.INT, "1",
          "After how many requests finished waits of DeleteRecords are purged."),
    Setting("fetch.max.bytes", Kind.INT, "57671680", "The largest answer to one Fetch.", at_least(1024)),
    inert("fetch.purgatory.purge.interval.requests", Kind.INT, "1000",
          "After how many requests finished waits of Fetch are purged."),
    inert("follower.replication.throttled.rate", Kind.LONG, None,
          "How many bytes a second throttled followers take; kafka-reassign-partitions sets it.", _CLUSTER),
    inert("leader.replication.throttled.rate", Kind.LONG, None,
          "How many bytes a second leaders give to throttled followers.", _CLUSTER),
    inert("max.incremental.fetch.session.cache.slots", Kind.INT, "1000", "How many fetch sessions are kept."),
    Setting("min.insync.replicas", Kind.INT, "1", "Default of min.insync.replicas.", at_least(1), (), _CLUSTER),
    inert("num.replica.alter.log.dirs.threads", Kind.INT, None, "Threads that move replicas between directories."),
    inert("num.replica.fetchers", Kind.INT, "1", "Connections that fetch from one leader.", _CLUSTER),
    inert("producer.purgatory.purge.interval.requests", Kind.INT, "1000",
          "After how many requests finished waits of Produce are purged."),
    inert("replica.alter.log.dirs.io.max.bytes.per.second", Kind.LONG, None,
          "How fast replicas move between directories.", _CLUSTER),
    inert("replica.fetch.backoff.ms", Kind.INT, "1000", "How long a follower waits after a failed fetch."),
    inert("replica.fetch.max.bytes", Kind.INT, "1048576", "The most bytes of one partition in a follower's fetch."),
    inert("replica.fetch.min.bytes", Kind.INT, "1", "The bytes that a follower's fetch waits for."),
    inert("replica.fetch.response.max.bytes", Kind.INT, "10485760", "The most bytes in a follower's fetch."),
    inert("replica.fetch.wait.max.ms", Kind.INT, "500", "How long a follower's fetch waits for data."),
    Setting("replica.high.watermark.checkpoint.interval.ms", Kind.LONG, "5000",
            "How often high watermarks are written down."),
    inert("replica.lag.time.max.ms", Kind.LONG, "30000",
          "How long a replica may lag before it leaves the in-sync set."),
    inert("replica.selector.class", Kind.STRING, None, "What chooses the replica that a consumer reads."),
    inert("replica.socket.receive.buffer.bytes", Kind.INT, "65536", "The receive buffer of a follower's connection."),
    inert("replica.socket.timeout.ms", Kind.INT, "30000", "How long a follower's request may take."),
    inert("replication.quota.window.num", Kind.INT, "11", "How many windows the replication rate is measured over."),
    inert("replication.quota.window.size.seconds", Kind.INT, "1", "The length of one window of the replication rate."),
    Setting("unclean.leader.election.enable", Kind.BOOLEAN, "false", "Default of unclean.leader.election.enable.",
            None, (), _CLUSTER),
)  # fmt: skip
