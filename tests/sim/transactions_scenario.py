"""One seed: producers of two transactional ids, now and then two at once for the same, faults, and then peace."""

from enum import Enum

from tests.sim.transactions_producer import Producer
from tests.sim.transactions_world import TIMEOUT_MS, World

FAULTY_MS = 15_000


class Kind(Enum):
    CLASSIC = "classic"
    BUMPING = "version 2"


def run(kind: Kind, seed: int) -> World:
    world = World(seed)
    for transactional_id in ("a", "b"):
        if world.chance(0.2):
            world.coordinator.begin_near_the_last_epoch(transactional_id)
    world.coordinator.start()
    producers: list[Producer] = []

    def add(transactional_id: str) -> None:
        producers.append(Producer(world, f"p{len(producers)}", transactional_id, kind is Kind.BUMPING))
        producers[-1].init()

    def succeed() -> None:
        """A second instance of an id, while the first may still be at work."""
        if not world.is_healed:
            add(world.random.choice(("a", "b")))
            world.at(world.random.uniform(500, 6_000), succeed)

    add("a")
    add("b")
    world.at(world.random.uniform(500, 6_000), succeed)
    for _ in range(world.random.randint(0, 2)):
        world.at(world.random.uniform(0, FAULTY_MS), world.coordinator.crash)
    world.run_for(FAULTY_MS)
    world.faults.heal()
    world.is_healed = True
    world.run_for(10_000)
    for producer in producers:
        producer.is_over = True
    world.run_for(2 * TIMEOUT_MS + 12_000)
    txns = [txn for producer in producers for txn in producer.txns]
    world.laws.check_end(txns, [partition.visible for partition in world.partitions])
    for partition in world.partitions:
        assert partition.stable_offset == len(partition.log), "T9: something holds back the last stable offset"
    return world
