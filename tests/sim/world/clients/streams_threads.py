"""A thread of a streams application (KIP-1071): a member of a streams group that processes its active tasks, keeps the
standby ones, and commits the positions of its source topics. Like a consumer it hangs, ends, repeats joins and commits
late. The invariants are those of consumers: a task takes the place of a partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages as m
from tests.broker_cy.coordinator.streams_harness import Part, topology
from tests.sim.world.clients.base import Spot
from tests.sim.world.clients.consumers import JOIN, Consumer
from tests.sim.world.clients.group_readers import Piece
from tests.sim.world.groups import REBALANCE_MS
from tests.sim.world.owners import Mark

if TYPE_CHECKING:
    from broker_cy.metadata.image import MetadataImage
    from tests.sim.world.world import World

WORDS, VIEWS = "words", "views"
# The second one reads a topic that comes, grows and goes.
TOPOLOGIES = {
    WORDS: topology(Part(["t0"], sinks=["a-words"]), Part(changelogs=["a-counts"], repartitions=["a-words"])),
    VIEWS: topology(Part(["t1"], changelogs=["b-views"]), Part(["v0"])),
}
# By application and subtopology: the topic that decides its number of tasks.
DECIDING = {WORDS: {"0": "t0", "1": "t0"}, VIEWS: {"0": "t1", "1": "v0"}}
# By application: its internal topics, each with the topic that has as many partitions.
INTERNAL = {WORDS: {"a-words": "t0", "a-counts": "t0"}, VIEWS: {"b-views": "t1"}}
# By application: the subtopology with state, and the one whose source topic lives as long as the world.
STATEFUL = {WORDS: "1", VIEWS: "0"}
LASTING = {WORDS: ("0", "t0"), VIEWS: ("0", "t1")}


class StreamsThread(Consumer):
    heartbeat_version = 0

    def __init__(self, world: World, name: str, host: str) -> None:
        super().__init__(world, name, host)
        self.application = self.draw.choice([WORDS, WORDS, VIEWS])
        self.group = f"{self.application}-{host}"
        self.process = ""
        self.endpoint_epoch = 0
        # Its standby tasks, and those that it has to give up.
        self.standby: set[Piece] = set()
        self.closing: set[Piece] = set()

    def _new_process(self) -> None:
        super()._new_process()
        self.process = f"{self.group}-{self.draw.choice('pq')}"

    def _subscribe(self) -> None:
        """The topology stays; the next heartbeat has everything."""
        self.is_full = True

    def _over(self) -> None:
        super()._over()
        self.standby, self.closing = set(), set()
        self.endpoint_epoch = 0

    # --- source topics

    async def _look(self) -> None:
        await self.look()
        _, topic = LASTING[self.application]
        self.known |= {self._piece_at(spot): spot for spot in self.spots if spot.topic == topic}

    def _piece_at(self, spot: Spot) -> Piece:
        return piece_of_task(LASTING[self.application][0], spot.partition)

    def _readable(self) -> set[Piece]:
        subtopology = LASTING[self.application][0]
        return {piece for piece in self.owned if piece == piece_of_task(subtopology, piece[1])}

    # --- heartbeats

    def _request(self, epoch: int, **more: Any) -> Any:
        return m.StreamsGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=epoch,
            endpoint_information_epoch=self.endpoint_epoch,
            **more,
        )

    def _full(self, epoch: int) -> Any:
        request = self._request(
            epoch,
            active_tasks=_ids(self.owned | self.revoking),
            standby_tasks=_ids(self.standby | self.closing),
            warmup_tasks=[],
        )
        if epoch == JOIN:
            request.rebalance_timeout_ms = REBALANCE_MS
            request.topology, request.process_id = TOPOLOGIES[self.application], self.process
            request.user_endpoint = m.StreamsGroupHeartbeatRequest.Endpoint(host=self.name, port=self.processes)
        return request

    def _heartbeat(self) -> Any:
        if self._must_give() and self._gives_up():
            self._release()
        if self.is_full or self.reports or self.draw.chance(0.2):
            return self._full(self.epoch)
        return self._request(self.epoch)

    def _must_give(self) -> bool:
        return bool(self.revoking or self.closing)

    def _release(self) -> None:
        super()._release()
        self.closing = set()

    def _answered(self, answer: Any, mark: Mark) -> None:
        if answer.partitions_by_user_endpoint is not None:
            self.endpoint_epoch = answer.endpoint_information_epoch
            self._check_endpoints(answer.partitions_by_user_endpoint)
        super()._answered(answer, mark)

    def _check_endpoints(self, endpoints: Any) -> None:
        """Raises AssertionError if two instances answer queries as the one with the active task."""
        found: dict[tuple[str, int], str] = {}
        for each in endpoints:
            for topic in each.active_partitions:
                for partition in topic.partitions:
                    first = found.setdefault((topic.topic, partition), each.user_endpoint.host)
                    name = f"{topic.topic}-{partition}"
                    assert first == each.user_endpoint.host, f"{first} and {each.user_endpoint.host} have {name}"

    def _pieces_of(self, answer: Any) -> set[Piece] | None:
        if answer.active_tasks is None:
            return None
        assert not answer.warmup_tasks, f"{self.name} gets warm-up tasks"
        standby = _pieces(answer.standby_tasks)
        self.closing = (self.closing | self.standby) - standby
        self.standby = standby
        return _pieces(answer.active_tasks)

    def _assigned(self, pieces: set[Piece], asked_us: int) -> None:
        since_us = self.revokes_us
        super()._assigned(pieces, asked_us)
        if self.closing and self.revokes_us is None:
            self.revokes_us = asked_us if since_us is None else since_us

    def _dropped(self, code: ErrorCode, mark: Mark) -> None:
        if code is ErrorCode.INVALID_REQUEST and self.application == VIEWS:
            # A topic was deleted or has fewer partitions, and it has reported tasks that no longer exist.
            self._over()
        else:
            super()._dropped(code, mark)


def piece_of_task(subtopology: str, partition: int) -> Piece:
    """A task in the form of a partition: a subtopology takes the place of a topic."""
    return UUID(int=int(subtopology) + 1 << 96), partition


def expected_tasks(application: str, image: MetadataImage) -> set[Piece]:
    """The tasks that the topics give; none unless all of them fit."""
    counts = {topic.name: len(topic.partitions) for topic in image.topics}
    deciding = DECIDING[application]
    if not counts.keys() >= set(deciding.values()):
        return set()
    if any(counts.get(topic) != counts[like] for topic, like in INTERNAL[application].items()):
        return set()
    return {
        piece_of_task(subtopology, number) for subtopology, topic in deciding.items() for number in range(counts[topic])
    }


def _ids(pieces: set[Piece]) -> list[Any]:
    found: dict[str, list[int]] = {}
    for topic_id, partition in sorted(pieces):
        found.setdefault(str((topic_id.int >> 96) - 1), []).append(partition)
    return [
        m.StreamsGroupHeartbeatRequest.TaskIds(subtopology_id=each, partitions=partitions)
        for each, partitions in found.items()
    ]


def _pieces(tasks: Any) -> set[Piece]:
    return {piece_of_task(each.subtopology_id, partition) for each in tasks for partition in each.partitions}
