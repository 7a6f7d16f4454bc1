"""The base of all clients of the world: a channel that is reopened, the known topics, and the steps."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages as m
from broker_cy.wire.record import Record
from tests.history.operations import Place
from tests.sim.world.router import Router
from tests.sim.world.wire import Channel, Lost

if TYPE_CHECKING:
    from tests.sim.world.world import World

# Errors after which the same request is sent again.
RETRIABLE = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        # A producer gets these while the transaction coordinator cannot verify its batch.
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        # Only clients of a cluster get these.
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)
GROUP, TRANSACTION = 0, 1
# The topic was deleted.
GONE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID})


@dataclass(frozen=True)
class Spot:
    """A partition in one life of its topic."""

    topic: str
    topic_id: UUID
    partition: int
    place: Place


class Client:
    """One client of the broker on `host`; `step` is repeated until the world is over."""

    # Whether its topics may be deleted while it works.
    takes_volatile = True
    # Whether it can cope with topics that lose records by unclean elections.
    takes_unclean = False

    def __init__(self, world: World, name: str, host: str) -> None:
        self.world = world
        self.name = name
        self.host = host
        self.draw = world.draws(name)
        # The nodes of the cluster that it talks to, if it is one.
        self.cluster = world.clusters.get(host, world.cluster)
        self.recorder = world.recorder
        # The number of successful steps: it must increase for each client after the faults.
        self.successes = 0
        self.is_done = False
        self.channel: Channel | Router | None = None
        self.spots: list[Spot] = []

    async def run(self) -> None:
        await self.begin()
        while not self.world.over:
            await self.step()
            await asyncio.sleep(self.draw.choice([0.0, 0.001, 0.01, 0.1, 0.4]))
        await self.finish()
        self.is_done = True

    async def begin(self) -> None:
        """Called before the first step."""

    async def step(self) -> None:
        raise NotImplementedError

    async def finish(self) -> None:
        """Called after the last step."""

    # --- requests

    def new_channel(self) -> Channel | Router:
        """A further connection, which is not open yet."""
        if self.world.plan.is_cluster:
            return Router(self.world, self.name, self.draw, self.host)
        return Channel(self.world, self.name, self.host)

    async def connected(self) -> Channel | Router:
        """A channel to the broker; raises Lost."""
        if self.channel is None or self.channel.is_lost:
            self.channel = self.new_channel()
            await self.channel.open()
        return self.channel

    def hang_up(self) -> None:
        """Drop the connection, with everything in flight."""
        if self.channel is not None:
            self.channel.close()
            self.channel = None

    async def once(self, request: Any, version: int) -> Any:
        """The answer; raises Lost."""
        return await (await self.connected()).send(request, version)

    async def ask(self, request: Any, version: int) -> Any:
        """Return the answer, however often the request must be sent: only for repeatable requests."""
        while True:
            try:
                return await self.once(request, version)
            except Lost:
                await self.back_off()

    async def back_off(self) -> None:
        await asyncio.sleep(self.draw.choice([0.02, 0.1, 0.3]))

    async def find_coordinator(self, key: str, kind: int) -> None:
        """Ask until there is a coordinator: the first question creates its topic."""
        while True:
            answer = await self.ask(m.FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 6)
            code = ErrorCode(answer.coordinators[0].error_code)
            if code is ErrorCode.NONE:
                return
            assert code in RETRIABLE, f"{self.name}: FindCoordinator: {code.name}"
            await self.back_off()

    async def look(self) -> None:
        """Take over which partitions there are."""
        answer = await self.ask(m.MetadataRequest(topics=None, allow_auto_topic_creation=False), 13)
        self.spots = [
            Spot(each.name, each.topic_id, index, place_of(each.name, each.topic_id, index))
            for each in answer.topics
            if each.name[0] in ("tcv" if self.takes_volatile else "tc") + "u" * self.takes_unclean
            for index in sorted(part.partition_index for part in each.partitions)
            if not each.error_code
        ]

    async def leader_of(self, spot: Spot) -> str | None:
        """The host that leads a partition, as far as some broker knows."""
        answer = await self.ask(m.MetadataRequest(topics=None, allow_auto_topic_creation=False), 13)
        hosts = {each.node_id: each.host for each in answer.brokers}
        leaders = {
            (topic.topic_id, part.partition_index): hosts.get(part.leader_id)
            for topic in answer.topics
            for part in topic.partitions
        }
        return leaders.get((spot.topic_id, spot.partition))

    async def is_alive(self, spot: Spot) -> bool:
        """Whether the topic with this name still has this id. If so, requests by name since it was found reached it,
        because ids are not reused.
        """
        known = self.spots
        await self.look()
        lives = {each.topic: each.topic_id for each in self.spots}
        self.spots = known
        return lives.get(spot.topic) == spot.topic_id

    def may_name(self, spot: Spot) -> bool:
        """Whether `is_alive` can identify the topic that a name reached: in a cluster, the leader and the broker that
        answers may know different lives of it.
        """
        return not self.world.plan.is_cluster or spot.topic[0] != "v"

    def records(self, values: list[tuple[str, str | None]]) -> list[Record]:
        """Records of (value, key)."""
        now_ms = self.world.wall_ms()
        padding = b":" + b"." * self.draw.choice([0, 0, 20, 300])
        return [
            Record(timestamp=now_ms, key=key.encode() if key is not None else None, value=value.encode() + padding)
            for value, key in values
        ]


def place_of(topic: str, topic_id: UUID, partition: int) -> Place:
    """The name of a partition in the history: each life of a topic has its own."""
    return f"{topic}@{topic_id.hex[:8]}", partition


def value_of(record: Record) -> str:
    assert record.value is not None
    return bytes(record.value).partition(b":")[0].decode()
