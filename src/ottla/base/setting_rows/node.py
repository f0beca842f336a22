"""Settings of a node: what this node is, and what clients may do with topics."""

from ottla.base.setting_rows.inert import inert
from ottla.base.settings import Kind, Setting, at_least

ROWS: tuple[Setting, ...] = (
    Setting("metrics.listener", Kind.STRING, None,
            "HOST:PORT where Prometheus metrics are served over HTTP; none unless set. Ottla's own setting."),
    inert("alter.config.policy.class.name", Kind.CLASS, None, "What may forbid changes of settings."),
    Setting("auto.create.topics.enable", Kind.BOOLEAN, "true",
            "Whether asking for the metadata of a topic that does not exist creates it."),
    inert("broker.id", Kind.INT, "-1", "The older name of node.id."),
    Setting("broker.rack", Kind.STRING, None, "Where this node stands; replicas of a partition go to different racks."),
    Setting("cluster.id", Kind.STRING, None, "The cluster's UUID, for the first start of an empty directory."),
    inert("create.topic.policy.class.name", Kind.CLASS, None, "What may forbid the creation of topics."),
    Setting("delete.topic.enable", Kind.BOOLEAN, "true", "Whether topics can be deleted at all."),
    Setting("max.request.partition.size.limit", Kind.INT, "2000",
            "The most partitions in one answer of DescribeTopicPartitions.", at_least(1)),
    Setting("node.id", Kind.INT, "1", "The number of this node in its cluster.", at_least(0)),
    Setting("num.partitions", Kind.INT, "1", "How many partitions a topic gets that does not say.", at_least(1)),
    inert("process.roles", Kind.LIST, "broker,controller", "What this node does in its cluster."),
)  # fmt: skip
