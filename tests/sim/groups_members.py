"""What members of both protocols have in common: they work on partitions, commit, pause, crash and leave."""

from collections.abc import Callable
from typing import Any

from ottla.base.errors import ErrorCode
from ottla.core.groups.asks import (
    NO_GENERATION,
    Client,
    OffsetCommit,
    OffsetCommitReply,
    OffsetFetch,
    OffsetFetchReply,
    OffsetToCommit,
)
from tests.sim.groups_world import Failed, Line, World

Place = tuple[str, int]

RETRY_MS = 300
COMMIT_EVERY_MS = 2_000
UNREACHABLE = (None, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class Member:
    def __init__(self, world: World, group_id: str, name: str, instance_id: str | None = None) -> None:
        self.world = world
        self.group_id = group_id
        self.instance_id = instance_id
        self.client = Client(name, "127.0.0.1")
        self.line = Line(world)
        self.member_id = ""
        self.epoch = NO_GENERATION
        self.synced_epoch = NO_GENERATION
        """The generation that what it owns is from; only the classic protocol tells the two apart."""
        self.owned: dict[Place, int | None] = {}
        """What it works on, and its position there once it has fetched where to start."""
        self.is_alive = True
        self.life = 0
        """Grows when the member starts over, so that what it had in hand before comes to nothing."""
        self._paused_until_ms = 0
        world.laws.members.append(self)

    # The lives of a client

    def start(self) -> None:
        self.world.at(COMMIT_EVERY_MS, self._commit_now_and_then)

    def stop(self) -> None:
        """Like a crash: nobody is told."""
        self.is_alive = False
        self.world.laws.is_dirty = True

    def pause(self, duration_ms: float) -> None:
        self._paused_until_ms = self.world.now_ms + int(duration_ms)

    def leave(self) -> None:
        raise NotImplementedError

    def after(self, delay_ms: float, action: Callable[[], None]) -> None:
        """Do it later in this life, unless dead by then; a paused member gets to it when it wakes up."""
        life = self.life
        self.world.at(delay_ms, lambda: self._in_life(life, action))

    def call(self, method: str, ask: object, then: Callable[[Any], None], timeout_ms: int = 3_000) -> None:
        life = self.life
        self.line.call(method, ask, lambda reply: self._in_life(life, lambda: then(reply)), timeout_ms)

    def _in_life(self, life: int, action: Callable[[], None]) -> None:
        wait_ms = self._paused_until_ms - self.world.now_ms
        if wait_ms > 0:
            self.world.at(wait_ms, lambda: self._in_life(life, action))
        elif self.is_alive and life == self.life:
            action()

    # Work

    def take(self, places: set[Place]) -> None:
        for place in places - set(self.owned):
            self.owned[place] = None
        self.world.laws.is_dirty = True
        self._find_positions()

    def drop(self, places: set[Place]) -> None:
        for place in places:
            self.owned.pop(place, None)
        self.world.laws.is_dirty = True

    def _find_positions(self) -> None:
        missing = sorted(place for place, position in self.owned.items() if position is None)
        if not missing:
            return
        topics: dict[str, list[int]] = {}
        for topic, partition in missing:
            topics.setdefault(topic, []).append(partition)
        ask = OffsetFetch(group_id=self.group_id, topics=tuple((t, tuple(n)) for t, n in topics.items()))
        acknowledged = dict(self.world.laws.acknowledged)

        def begin(reply: Any) -> None:
            if not isinstance(reply, OffsetFetchReply):
                self.after(RETRY_MS, self._find_positions)
                return
            for topic, rows in reply.topics:
                for row in rows:
                    if self.owned.get((topic, row.partition), 0) is None:
                        offset = max(row.offset, 0)
                        place = (self.group_id, topic, row.partition)
                        self.world.laws.on_start(place, offset, acknowledged.get(place, 0))
                        self.owned[(topic, row.partition)] = offset

        self.call("fetch_offsets", ask, begin)

    def commit(self, then: Callable[[], None] = lambda: None) -> None:
        """Work a little, say how far it got, and go on whatever the answer."""
        if not self.may_commit():
            then()
            return
        offsets = []
        for (topic, partition), position in self.owned.items():
            if position is not None:
                position += self.world.random.randint(0, 9)
                self.owned[(topic, partition)] = position
                offsets.append(OffsetToCommit(topic, partition, position))
        if not offsets or self.epoch < 0:
            then()
            return
        ask = OffsetCommit(
            group_id=self.group_id,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            generation_id_or_member_epoch=self.epoch,
            offsets=tuple(offsets),
        )

        def note(reply: Any) -> None:
            if isinstance(reply, OffsetCommitReply):
                for asked in ask.offsets:
                    place = (self.group_id, asked.topic, asked.partition)
                    self.world.laws.on_acknowledged(place, asked.offset)
            else:
                assert isinstance(reply, Failed)
            then()

        self.call("commit_offsets", ask, note)

    def may_commit(self) -> bool:
        return True

    def _commit_now_and_then(self) -> None:
        if self.is_alive:
            if self._paused_until_ms <= self.world.now_ms:
                self.commit()
            self.world.at(COMMIT_EVERY_MS, self._commit_now_and_then)
