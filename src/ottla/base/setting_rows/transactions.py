"""Settings of a node: transactions and their coordinator."""

from ottla.base.setting_rows.inert import inert
from ottla.base.settings import Kind, Reach, Setting, at_least

_CLUSTER = Reach.CLUSTER_WIDE

ROWS: tuple[Setting, ...] = (
    Setting("add.partitions.to.txn.retry.backoff.max.ms", Kind.INT, "100",
            "How long a producer that begins a transaction waits for the end of the one before.", at_least(0)),
    inert("add.partitions.to.txn.retry.backoff.ms", Kind.INT, "20",
          "The first wait between two attempts to add a partition to a transaction."),
    inert("transaction.abort.timed.out.transaction.cleanup.interval.ms", Kind.INT, "10000",
          "How often transactions that have timed out are aborted."),
    Setting("transaction.max.timeout.ms", Kind.INT, "900000",
            "The longest timeout that a transaction may ask for.", at_least(1)),
    Setting("transaction.partition.verification.enable", Kind.BOOLEAN, "true",
            "Whether a partition checks with the coordinator that a transaction is open.", reach=_CLUSTER),
    Setting("transaction.remove.expired.transaction.cleanup.interval.ms", Kind.INT, "3600000",
            "How often expired transactional ids are removed.", at_least(1)),
    inert("transaction.state.log.load.buffer.size", Kind.INT, "5242880",
          "How much of __transaction_state is read at once when it is loaded."),
    Setting("transaction.state.log.min.isr", Kind.INT, "2",
            "The replicas of __transaction_state that must be in sync.", at_least(1)),
    Setting("transaction.state.log.num.partitions", Kind.INT, "50",
            "The partitions of __transaction_state.", at_least(1)),
    Setting("transaction.state.log.replication.factor", Kind.SHORT, "3",
            "The replicas of __transaction_state.", at_least(1)),
    Setting("transaction.state.log.segment.bytes", Kind.INT, "104857600",
            "The segment size of __transaction_state.", at_least(1)),
    Setting("transaction.two.phase.commit.enable", Kind.BOOLEAN, "false",
            "Whether a transaction may be left prepared by an outside coordinator."),
    Setting("transactional.id.expiration.ms", Kind.INT, "604800000",
            "How long an idle transactional id is remembered.", at_least(1)),
)  # fmt: skip
