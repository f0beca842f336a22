"""The words of dead letters: records that could not be read, kept in a topic of their own, and why."""

SUFFIX = ".dlq"
"""Behind the topic's name, where no other topic is asked for."""

ERROR = "ottla.dlq.error"
TOPIC = "ottla.dlq.topic"
PARTITION = "ottla.dlq.partition"
OFFSET = "ottla.dlq.offset"
TIMESTAMP = "ottla.dlq.timestamp"
PIPELINE = "ottla.dlq.pipeline"
BATCH = "ottla.dlq.batch"
"""Headers that a dead letter has beside its own; their values are text."""

PREFIX = "ottla.dlq."
