"""Hundreds of histories of the quorum, each with its own faults; `World.check` holds the laws after every event."""

from collections.abc import Callable

import pytest

from tests.sim.quorum_world import World

SIZES = (1, 3, 5)
HISTORIES = 360


def disturb(world: World) -> None:
    """One thing that may go wrong, or right."""
    chance = world.random
    node = chance.choice(list(world.nodes.values()))
    match chance.randrange(9):
        case 0:
            if node.quorum is not None:
                world.crash(node)
        case 1 | 2:
            if node.quorum is None:
                world.boot(node)
        case 3:
            others = [n for n in world.nodes if n != node.id]
            world.cut = {frozenset((node.id, other)) for other in others if chance.random() < 0.8}
        case 4:
            world.cut = set()
        case 5:
            world.loss = chance.choice((0.0, 0.05, 0.3))
            world.repetition = chance.choice((0.0, 0.2))
        case 6:
            world.delay_ms_max = chance.choice((2, 10, 200, 900))
        case 7:
            world.keep_snapshot(node)
        case 8:
            if world.leader is not None and world.leader.quorum is not None and chance.random() < 0.3:
                world.do(world.leader, world.leader.quorum.resign(world.now_ms))


def live_through(world: World, steps: int, trouble: Callable[[World], None]) -> None:
    for _ in range(steps):
        if world.leader is not None:
            world.propose(world.leader)
        if world.random.random() < 0.4:
            trouble(world)
        world.run(world.now_ms + world.random.randint(5, 400))


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_the_quorum_keeps_its_laws_and_recovers(seed: int) -> None:
    world = World(seed, voters=SIZES[seed % 3], observers=seed % 2)
    try:
        live_through(world, steps=60, trouble=disturb)
        world.heal()
        world.run(world.now_ms + 30_000)
        leader = world.leader
        assert leader is not None, "liveness: no leader although all is well"
        before = len(world.committed)
        world.propose(leader)
        world.run(world.now_ms + 5_000)
        assert len(world.committed) > before, "liveness: nothing is committed although all is well"
        for node in world.nodes.values():
            assert node.quorum is not None and node.quorum.high_watermark == len(world.committed), f"node {node.id}"
    except AssertionError as broken:
        raise AssertionError(f"seed {seed}, event {world.happened}, {world.now_ms} ms: {broken}") from broken


def test_one_seed_is_one_history() -> None:
    def history() -> tuple[int, int, list[object]]:
        world = World(7, voters=3)
        live_through(world, steps=40, trouble=disturb)
        return world.happened, world.now_ms, [*world.committed]

    assert history() == history()


def test_a_quorum_of_one_leads_at_once_and_by_the_same_path() -> None:
    world = World(1, voters=1)
    world.run(100)
    assert world.leader is not None
    assert world.committed == [(1, "leader 1")]


def test_a_leader_cut_off_from_the_majority_steps_down() -> None:
    world = World(3, voters=3)
    world.run(10_000)
    old = world.leader
    assert old is not None
    world.cut = {frozenset((old.id, other)) for other in world.nodes if other != old.id}
    world.run(world.now_ms + 10_000)
    assert old.quorum is not None and not old.quorum.is_leader
    assert world.leader is not None and world.leader is not old


def test_a_member_that_comes_back_disturbs_no_leader() -> None:
    world = World(4, voters=3)
    world.run(10_000)
    leader = world.leader
    assert leader is not None and leader.quorum is not None
    epoch = leader.quorum.epoch
    alone = next(n for n in world.nodes.values() if n is not leader)
    world.cut = {frozenset((alone.id, other)) for other in world.nodes if other != alone.id}
    world.run(world.now_ms + 20_000)
    world.cut = set()
    world.run(world.now_ms + 10_000)
    assert leader.quorum.is_leader and leader.quorum.epoch == epoch


def test_a_follower_behind_the_leaders_log_gets_its_snapshot() -> None:
    world = World(5, voters=3)
    world.run(10_000)
    leader = world.leader
    assert leader is not None
    late = next(n for n in world.nodes.values() if n is not leader)
    world.crash(late)
    for _ in range(10):
        world.propose(leader)
        world.run(world.now_ms + 200)
    world.keep_snapshot(leader)
    assert leader.disk.base.end_offset > late.disk.end
    world.boot(late)
    world.run(world.now_ms + 20_000)
    assert late.quorum is not None and late.quorum.high_watermark == len(world.committed)
    assert late.disk.base.end_offset > 0
