"""The life of a broker: start, rest, very many partitions, a crash with much data, members that join."""

import time
from collections.abc import Iterator

from bench.race import librdkafka
from bench.race.apart import Load, apart
from bench.race.arena import Arena, Row, create, must_hold
from bench.race.contestants import Contestant
from bench.race.raw_load import connected, create_topics, produce_everywhere
from bench.race.watch import Meter, memory_mb

_FIRST = {"first": 1}
_TOPICS_OF_MANY = 100


def _acknowledged(broker: Contestant, topics: dict[str, int]) -> float:
    """The moment at which every partition has acknowledged a record."""
    broker.wait_until_it_listens(0.002)
    client = connected(broker.port)
    create_topics(client, topics, pause_seconds=0.005)
    produce_everywhere(client, topics, pause_seconds=0.005)
    moment = time.monotonic()
    client.close()
    return moment


def start(arena: Arena) -> Iterator[Row]:
    with arena.resting() as broker:
        begun = broker.launch()
        first_ack = _acknowledged(broker, _FIRST) - begun
        time.sleep(arena.seconds(3.0))
        with Meter(broker.pid) as meter:
            time.sleep(arena.seconds(10.0, 1.0))
        figures = {
            "first ack s": first_ack,
            "idle memory MB": memory_mb(broker.pid),
            "idle cpu %": meter.cpu / meter.seconds * 100,
        }
        yield Row("an empty data directory", figures)


def many_partitions(arena: Arena) -> Iterator[Row]:
    each = max(1, arena.count(10_000) // _TOPICS_OF_MANY)
    topics = {f"many-{number:03}": each for number in range(_TOPICS_OF_MANY)}
    with arena.running(is_warm=False) as broker:
        begun = time.monotonic()
        created = _acknowledged(broker, topics) - begun
        time.sleep(arena.seconds(10.0))
        with Meter(broker.pid) as idle:
            time.sleep(arena.seconds(10.0, 1.0))
        resting_mb = memory_mb(broker.pid)
        stopping = time.monotonic()
        broker.stop_and_wait()
        stopped = time.monotonic() - stopping
        begun = broker.launch()
        restarted = _acknowledged(broker, topics) - begun
        figures = {
            "creation s": created,
            "idle cpu %": idle.cpu / idle.seconds * 100,
            "memory MB": resting_mb,
            "stop s": stopped,
            "restart s": restarted,
        }
        yield Row("created, at rest, stopped and started again", figures)


def restart_after_kill(arena: Arena, partitions: int = 100) -> Iterator[Row]:
    """Data that nobody has flushed, and a process that is gone from one moment to the next."""
    topics, count = {"much": partitions}, arena.count(5_000_000)
    with arena.running(is_warm=False) as broker:
        create(broker, "much", partitions)
        apart(librdkafka.produce, broker.bootstrap, "much", count, 1000, "all", "none")
        broker.kill()
        begun = broker.launch()
        figures = {"restart after kill s": _acknowledged(broker, topics) - begun}
        must_hold(broker, "much", partitions, count + partitions)
        yield Row(f"{count / 1e6:g} GB in {partitions} partitions", figures)


def group_joins(arena: Arena, members: int = 50, partitions: int = 100) -> Iterator[Row]:
    members = min(members, arena.count(members, 5))
    with arena.running() as broker:
        create(broker, "work", partitions)
        for protocol in ("classic", "consumer"):
            apart(librdkafka.join_together, broker.bootstrap, "work", partitions, 2, protocol)
            with Meter(broker.pid) as meter:
                load: Load = apart(librdkafka.join_together, broker.bootstrap, "work", partitions, members, protocol)
            figures = {"joined s": load.seconds, "broker cpu s": meter.cpu}
            yield Row(f"{members} members, protocol {protocol}, librdkafka", figures)
