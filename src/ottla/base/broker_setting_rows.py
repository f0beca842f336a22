"""Every setting of a node, one row each, by name; Kafka's name wherever Kafka has the setting."""

from ottla.base.setting_rows import groups, log, network, node, quorum, remote, replication, security, transactions
from ottla.base.settings import Setting

BROKER_ROWS: tuple[Setting, ...] = tuple(
    sorted(
        (
            *groups.ROWS,
            *log.ROWS,
            *network.ROWS,
            *node.ROWS,
            *quorum.ROWS,
            *remote.ROWS,
            *replication.ROWS,
            *security.ROWS,
            *transactions.ROWS,
        ),
        key=lambda row: row.name,
    )
)
