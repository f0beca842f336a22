"""Small requests: one record each, their latency under an open-loop load, and answers that wait for the disk."""

import time
from collections.abc import Iterator

from bench.race import librdkafka, open_loop, raw_load
from bench.race.apart import Apart, Load, apart
from bench.race.arena import Arena, Row, create, must_hold
from bench.race.watch import Meter

_WARM_UP_SECONDS = 5.0
_HEAD_START_SECONDS = 3.0
"""Until both client processes have loaded their library and know their broker."""


def one_record_requests(arena: Arena) -> Iterator[Row]:
    with arena.running() as broker:
        create(broker, "single")
        total = 0
        for clients in (1, 50):
            count = arena.count(200_000)
            with Meter(broker.pid) as meter:
                load = apart(librdkafka.produce_singly, broker.bootstrap, "single", count, clients)
            total += count
            must_hold(broker, "single", 1, total)
            yield Row(f"{_clients(clients)}, librdkafka", _asked(load, meter))
        for clients, window in ((1, 1), (1, 16), (50, 1)):
            with Meter(broker.pid) as meter:
                load = apart(raw_load.drive, broker.port, "single", clients, window, arena.seconds(8.0))
            total += int(load.figures["produced"])
            must_hold(broker, "single", 1, total)
            yield Row(f"{_clients(clients)}, {window} under way each, plain sockets", _asked(load, meter))


def _clients(number: int) -> str:
    return "1 client" if number == 1 else f"{number} clients"


def _asked(load: Load, meter: Meter) -> dict[str, float]:
    return {
        "requests/s": load.records / load.seconds,
        "broker cpu us/request": meter.cpu / load.records * 1e6,
        "peak memory MB": meter.peak_mb,
        "client cores": load.client_cores,
    }


def latency(arena: Arena, rates: tuple[int, ...] = (1_000, 10_000)) -> Iterator[Row]:
    with arena.running() as broker:
        for rate in rates:
            topic = f"latency-{rate}"
            create(broker, topic)
            warm_up = int(arena.seconds(_WARM_UP_SECONDS) * rate)
            count = warm_up + int(arena.seconds(20.0) * rate)
            begin = time.monotonic_ns() + int(_HEAD_START_SECONDS * 1e9)
            schedule = open_loop.Schedule(begin, rate, count, warm_up)
            with (
                Apart(open_loop.receive, broker.bootstrap, topic, schedule) as receiver,
                Apart(open_loop.send, broker.bootstrap, topic, 1000, schedule) as sender,
                Meter(broker.pid) as meter,
            ):
                sent, received = sender.result(), receiver.result()
            must_hold(broker, topic, 1, count)
            figures = {f"{rank} ms": value for rank, value in received.figures.items()}
            figures["peak memory MB"] = meter.peak_mb
            figures["sender late p99 ms"] = sent.figures["late_p99"]
            yield Row(f"{rate:,} records/s, 1 kB, acks=all", figures)


def fsync_per_ack(arena: Arena) -> Iterator[Row]:
    """log.flush.interval.messages=1 on both: acknowledged is on the disk."""
    with arena.running({"log.flush.interval.messages": "1"}, is_warm=False) as broker:
        create(broker, "durable")
        total = 0
        for producers in (1, 50):
            for seconds in (1.0, 8.0):  # the first is for warming up
                with Meter(broker.pid) as meter:
                    load = apart(raw_load.drive, broker.port, "durable", producers, 1, arena.seconds(seconds))
                total += int(load.figures["produced"])
            must_hold(broker, "durable", 1, total)
            figures = _asked(load, meter)
            figures["acks/s"] = figures.pop("requests/s")
            yield Row(f"{producers} producer{'s' if producers > 1 else ''}", figures)


def many_connections(arena: Arena, connections: int = 1_000) -> Iterator[Row]:
    connections = min(connections, arena.count(connections, 20))
    with arena.running() as broker:
        create(broker, "crowd")
        with Meter(broker.pid) as meter:
            load = apart(raw_load.drive, broker.port, "crowd", connections, 1, arena.seconds(8.0))
        must_hold(broker, "crowd", 1, int(load.figures["produced"]))
        yield Row("each with one record under way", _asked(load, meter) | {"connecting s": load.figures["opened"]})


def transactions(arena: Arena) -> Iterator[Row]:
    """As many records as fit into transactions of 100 ms."""
    with arena.running() as broker:
        create(broker, "atomic")
        apart(librdkafka.transact, broker.bootstrap, "atomic", 1000, arena.seconds(2.0), 100.0)
        with Meter(broker.pid) as meter:
            load = apart(librdkafka.transact, broker.bootstrap, "atomic", 1000, arena.seconds(10.0), 100.0)
        gigabytes = load.records / 1e6
        figures = {
            "MB/s": gigabytes * 1000 / load.seconds,
            "broker cpu s/GB": meter.cpu / gigabytes,
            "commit p50 ms": load.figures["p50"],
            "commit p99 ms": load.figures["p99"],
            "client cores": load.client_cores,
        }
        yield Row("100 ms each, 1 kB records, librdkafka", figures)
