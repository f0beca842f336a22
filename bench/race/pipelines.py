"""Spark over a topic: Ottla's source from Ottla beside Spark's own Kafka connector from Apache Kafka."""

from collections.abc import Iterator

from bench.race.apart import apart
from bench.race.arena import Arena, Row, create
from bench.spark_work import COPYING, PARTITIONS, Reading, copying, fill, medians, reading, topic_of

_COUNTS = {100: 1_000_000, 1000: 300_000}
_WAYS = (Reading(100, True), Reading(100, False), Reading(1000, True))
_REPEATS = 3


def spark_source(arena: Arena) -> Iterator[Row]:
    """Batches with every column looked at; then a stream from topic to topic, whose promises differ."""
    with arena.running(is_warm=False) as broker:
        for size, count in _COUNTS.items():
            create(broker, topic_of(size), PARTITIONS)
            apart(fill, broker.bootstrap, topic_of(size), arena.count(count), size)
        ways = [(way, arena.count(_COUNTS[way.size])) for way in _WAYS]
        # Each of the contestants comes with its own half: the format is called as the broker is.
        found = apart(reading, arena.contestant, broker.bootstrap, ways, _REPEATS)
        for name, passes in found.items():
            yield Row(name, medians(passes))
        create(broker, "spark-copy", PARTITIONS)
        copied = apart(copying, arena.contestant, broker.bootstrap, "spark-copy", arena.count(_COUNTS[100]), _REPEATS)
        note = "each row exactly once" if arena.contestant == "ottla" else "each row at least once"
        figures = medians(copied)
        yield Row(COPYING, {"rows copied/s": figures["rows/s"], "cpu us/row": figures["cpu us/row"]}, [note])
