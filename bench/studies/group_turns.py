"""The longest turns of the event loop for groups that read very many topics, act by act: the part `turns` of
`bench.studies.heartbeats`.

The state machine of a group coordinator runs here without a broker. A turn is an operation with the batch of its
records, the decoding of a request, or the encoding of an answer; work in the background is not counted, as workers do
it. The time is that of this thread's CPU, so other programs hardly change it.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar
from uuid import UUID

from bench.studies.goals import Figures
from broker_cy.cli import GC_THRESHOLDS
from broker_cy.coordinator.classic import join, sync
from broker_cy.coordinator.consumer import heartbeat as consumer_heartbeat
from broker_cy.coordinator.group_machine import GroupMachine
from broker_cy.coordinator.settings import (
    ConsumerGroupSettings,
    GroupSettings,
    ShareGroupSettings,
    StreamsGroupSettings,
)
from broker_cy.coordinator.share import heartbeat as share_heartbeat
from broker_cy.coordinator.share_state.answers import Outcome
from broker_cy.coordinator.share_state.state import SharePartitionKey
from broker_cy.coordinator.step import ClientFacts, GroupStep
from broker_cy.coordinator.streams import heartbeat as streams_heartbeat
from broker_cy.coordinator.streams.internal_topics import MemberRights, Requester
from broker_cy.core.errors import ErrorCode
from broker_cy.core.step import Now, Work
from broker_cy.metadata.image import BrokerImage, MetadataImage
from broker_cy.metadata.partition import PartitionImage
from broker_cy.metadata.topics import TopicImage
from broker_cy.wire import codec, messages, records

T = TypeVar("T")

TOPICS: Final = 10_000
GROUP: Final = "readers"
REBALANCE_MS: Final = 60_000
# Heartbeats of each member until a group has to be stable; an answer gives 500 topics.
HEARTBEATS_MAX: Final = 200
CLASSIC_VERSION: Final = 1
EVERYTHING: Final = ".*"
SUBTOPOLOGIES: Final = 10
RETRY_MS: Final = 100
WARM_UP_TOPICS: Final = 20


def image_of(topics: int) -> MetadataImage:
    """Topics with one partition each, as a broker reads them from the metadata log."""
    image, draw = MetadataImage(), random.Random(1)
    image.brokers[1] = BrokerImage(1, 0, UUID(int=1), {}, {}, "rack", False, False, (), None)
    for number in range(topics):
        image.offset += 1
        record = messages.TopicRecord(name=f"topic-number-{number}", topic_id=UUID(int=draw.getrandbits(128)))
        read = codec.decode(messages.TopicRecord, 0, codec.encode(record, 0))
        image.topics.put(TopicImage(read.name, read.topic_id, {0: PartitionImage((1,), (1,), 1, 0, 0)}))
    return image


class Coordinator:
    """A group coordinator whose log, workers and share coordinator answer at once. `longest_ms` has the longest turn of
    each act, and `turns` the operation that took it.
    """

    def __init__(self, image: MetadataImage) -> None:
        self.machine = GroupMachine(
            GroupSettings(
                initial_rebalance_delay_ms=0,
                consumer=ConsumerGroupSettings(assignment_interval_ms=0),
                share=ShareGroupSettings(assignment_interval_ms=0),
                streams=StreamsGroupSettings(assignment_interval_ms=0, initial_rebalance_delay_ms=0),
            )
        )
        self.machine.take_image(image)
        self.topics = [topic.name for topic in image.topics]
        self.mono_ms = 0
        self.act = ""
        self.longest_ms: dict[str, float] = {}
        self.turns: dict[str, str] = {}
        self._works: list[Work] = []
        self._answer: Any = None
        self._take(self.machine.loaded(self.now))

    @property
    def now(self) -> Now:
        return Now(1_700_000_000_000 + self.mono_ms, self.mono_ms)

    def group(self) -> Any:
        return self.machine.groups[GROUP]

    # ---- turns ----

    def _turn(self, name: str, turn: Callable[[], T]) -> T:
        began = time.thread_time()
        result = turn()
        took_ms = (time.thread_time() - began) * 1e3
        if took_ms > self.longest_ms.get(self.act, 0.0):
            self.longest_ms[self.act], self.turns[self.act] = took_ms, name
        return result

    def _operate(self, operation: Any, *about: Any) -> None:
        def turn() -> tuple[GroupStep, GroupStep]:
            step = self.machine.run(operation, *about, self.now)
            if step.records:
                records.encode_batch([records.Record(key=each.key, value=each.value) for each in step.records])
            return step, self.machine.written([step], self.now)

        for step in self._turn(operation.__name__, turn):
            self._take(step)

    def _take(self, step: GroupStep) -> None:
        for _, response in step.replies:
            self._answer = response
        self._works += step.work
        for call in step.calls:
            self._operate(call.then, *call.about, _initialized(call.request))

    def request(self, operation: Callable[..., None], request: Any, version: int, *about: Any) -> Any:
        """Send a request, and let all that follows from it happen. Returns the answer; None while it is awaited."""
        body = codec.encode(request, version)
        decoded = self._turn("decode", lambda: codec.decode_request(type(request), version, body))
        self._answer = None
        self._operate(operation, decoded, *about, "token")
        answer = self._answer
        if answer is not None:
            self._turn("encode", lambda: codec.encode(answer, version))
        while self._works:
            works, self._works = self._works, []
            for work in works:
                self._operate(work.then, *work.about, work.function(*work.arguments))
        return answer

    def advance(self, ms: int) -> None:
        """Time passes, and deadlines with it."""
        self.mono_ms += ms
        self._take(self._turn("expire", lambda: self.machine.expire(self.now)))

    # ---- members of consumer groups ----

    def consumer(self, member_id: str, epoch: int | None = None, **fields: Any) -> Any:
        """A heartbeat; None: of a member with its epoch, which owns what it was assigned."""
        if epoch is None:
            member = self.group().members[member_id]
            epoch, owned = member.epoch, member.assigned
        else:
            owned = {}
        request = messages.ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member_id,
            member_epoch=epoch,
            topic_partitions=[
                messages.ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=each, partitions=list(partitions))
                for each, partitions in owned.items()
            ],
            **fields,
        )
        return self.request(consumer_heartbeat.heartbeat, request, 1, _client(1), "unique", None)

    def joins(self, member_id: str, **fields: Any) -> Any:
        fields.setdefault("subscribed_topic_regex", EVERYTHING)
        return self.consumer(member_id, 0, rebalance_timeout_ms=REBALANCE_MS, **fields)

    def settles(self, *members: Callable[[], object]) -> None:
        """Members send heartbeats until the group is stable."""
        for _ in range(HEARTBEATS_MAX):
            for member in members:
                member()
            if self.group().is_stable:
                return
        raise AssertionError(f"{self.act}: the group is not stable")

    # ---- members that use the classic protocol ----

    def classic(self, member_id: str, topics: Sequence[str], owned: Iterable[str]) -> Any:
        """A JoinGroup."""
        kind = messages.ConsumerProtocolSubscription
        metadata = codec.encode_versioned(
            kind(
                topics=list(topics),
                owned_partitions=[kind.TopicPartition(topic=name, partitions=[0]) for name in owned],
            ),
            CLASSIC_VERSION,
        )
        request = messages.JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=REBALANCE_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[messages.JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        return self.request(join.join, request, 9, _client(9), "unique")

    def syncs(self, member_id: str, generation: int, assigned: Mapping[str, Iterable[str]]) -> Any:
        kind = messages.ConsumerProtocolAssignment
        request = messages.SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=member_id,
            assignments=[
                messages.SyncGroupRequest.SyncGroupRequestAssignment(
                    member_id=each,
                    assignment=codec.encode_versioned(
                        kind(assigned_partitions=[kind.TopicPartition(topic=name, partitions=[0]) for name in names]),
                        CLASSIC_VERSION,
                    ),
                )
                for each, names in assigned.items()
            ],
        )
        return self.request(sync.sync, request, 5)

    # ---- members of share and streams groups ----

    def sharer(self, member_id: str, epoch: int | None = None, topics: list[str] | None = None) -> Any:
        if epoch is None:
            epoch = self.group().members[member_id].epoch
        request = messages.ShareGroupHeartbeatRequest(
            group_id=GROUP, member_id=member_id, member_epoch=epoch, subscribed_topic_names=topics
        )
        return self.request(share_heartbeat.heartbeat, request, 1, _client(1))

    def streamer(self, member_id: str, epoch: int | None = None, topics: list[str] | None = None) -> Any:
        """A heartbeat of a member of a streams group that has the tasks that it was assigned."""
        kind = messages.StreamsGroupHeartbeatRequest
        held: Mapping[str, Iterable[int]] = {}
        if epoch is None:
            member = self.group().members[member_id]
            epoch, held = member.epoch, member.assigned.active
        fields: dict[str, Any] = {}
        if topics is not None:
            # Subtopologies that read many topics each, as those of a pattern.
            parts = [
                kind.Subtopology(subtopology_id=str(number), source_topics=topics[number::SUBTOPOLOGIES])
                for number in range(SUBTOPOLOGIES)
            ]
            fields = {
                "topology": kind.Topology(epoch=0, subtopologies=parts),
                "process_id": f"process-{member_id}",
                "rebalance_timeout_ms": REBALANCE_MS,
            }
        request = kind(
            group_id=GROUP,
            member_id=member_id,
            member_epoch=epoch,
            active_tasks=[kind.TaskIds(subtopology_id=each, partitions=list(of)) for each, of in held.items()],
            standby_tasks=[],
            warmup_tasks=[],
            **fields,
        )
        rights = MemberRights(Requester("client", "127.0.0.1", "PLAINTEXT", "User:app", False), None)
        return self.request(streams_heartbeat.heartbeat, request, 0, _client(0), rights)


def _client(version: int) -> ClientFacts:
    return ClientFacts("client", "/127.0.0.1", version)


def _initialized(request: Any) -> dict[SharePartitionKey, Outcome]:
    """The share coordinator has given all partitions their state."""
    return {
        SharePartitionKey(request.group_id, topic_id, partition): Outcome()
        for topic_id, starts in request.start_offsets.items()
        for partition in starts
    }


# ---- the acts of each type of groups ----


def consumer_acts(c: Coordinator) -> None:
    """Members that read all topics by one expression, and one that is static."""

    def static() -> object:
        return c.consumer("static-2" if "static-2" in c.group().members else "static", instance_id="static")

    def second() -> object:
        return c.consumer("second")

    c.act = "regex_joins"
    c.joins("static", instance_id="static")
    c.act = "gains"
    c.settles(static)
    c.act = "static_leaves"
    c.consumer("static", -2, instance_id="static")
    c.act = "static_returns"
    c.joins("static-2", instance_id="static")
    c.settles(static)
    c.act = "full_heartbeat"
    member = c.group().members["static-2"]
    c.consumer(
        "static-2", None, instance_id="static", subscribed_topic_regex=EVERYTHING, rebalance_timeout_ms=REBALANCE_MS
    )
    assert len(member.assigned) == len(c.topics)
    c.act = "second_joins"
    c.joins("second")
    c.settles(static, second)
    c.act = "second_leaves"
    c.consumer("second", -1)
    c.settles(static)
    c.act = "last_leaves"
    c.consumer("static-2", -1)


def named_acts(c: Coordinator) -> None:
    """Members that name all topics."""
    names = {"subscribed_topic_names": c.topics, "subscribed_topic_regex": None}
    c.act = "named_joins"
    c.joins("first", **names)
    c.settles(lambda: c.consumer("first"))
    c.act = "named_second_joins"
    c.joins("second", **names)
    c.settles(lambda: c.consumer("first"), lambda: c.consumer("second"))
    c.act = "named_changes"
    c.consumer("first", None, subscribed_topic_names=c.topics[: len(c.topics) // 2])
    c.settles(lambda: c.consumer("first"), lambda: c.consumer("second"))
    c.act = "named_leaves"
    c.consumer("second", -1)
    c.settles(lambda: c.consumer("first"))
    c.consumer("first", -1)


def conversion_acts(c: Coordinator) -> None:
    """A classic group becomes a consumer group, and a classic one again."""
    c.act = "classic_joins"
    member_id = c.classic("", c.topics, ()).member_id
    c.classic(member_id, c.topics, ())
    c.advance(1)
    c.syncs(member_id, c.group().generation, {member_id: c.topics})
    c.act = "upgrade"
    # The group is converted in the background: a client repeats its request.
    while c.joins("consumer").error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        c.advance(RETRY_MS)
    c.act = "classic_in_consumer_group"
    for _ in range(HEARTBEATS_MAX):
        held = c.group().members[member_id].assigned
        names = [topic.name for topic in c.machine.image.topics.with_ids(held) if topic is not None]
        c.classic(member_id, c.topics, names)
        c.syncs(member_id, c.group().members[member_id].epoch, {})
        c.consumer("consumer")
        if c.group().is_stable:
            break
    c.act = "downgrade"
    c.consumer("consumer", -1)


def share_acts(c: Coordinator) -> None:
    c.act = "share_joins"
    c.sharer("first", 0, c.topics)
    c.act = "share_gains"
    c.advance(1_000)
    c.settles(lambda: c.sharer("first"))
    c.act = "share_second_joins"
    c.sharer("second", 0, c.topics)
    c.settles(lambda: c.sharer("first"), lambda: c.sharer("second"))
    c.act = "share_leaves"
    c.sharer("second", -1)
    c.settles(lambda: c.sharer("first"))
    c.sharer("first", -1)


def streams_acts(c: Coordinator) -> None:
    c.act = "streams_joins"
    c.streamer("first", 0, c.topics)
    c.settles(lambda: c.streamer("first"))
    c.act = "streams_second_joins"
    c.streamer("second", 0, c.topics)
    c.settles(lambda: c.streamer("first"), lambda: c.streamer("second"))
    c.act = "streams_leaves"
    c.streamer("second", -1)
    c.settles(lambda: c.streamer("first"))
    c.streamer("first", -1)


ACTS: Final[tuple[Callable[[Coordinator], None], ...]] = (
    consumer_acts,
    named_acts,
    conversion_acts,
    share_acts,
    streams_acts,
)
FIGURES: Final = tuple(
    f"turn_{act}_ms"
    for acts in (
        "regex_joins gains static_leaves static_returns full_heartbeat second_joins second_leaves last_leaves",
        "named_joins named_second_joins named_changes named_leaves",
        "classic_joins upgrade classic_in_consumer_group downgrade",
        "share_joins share_gains share_second_joins share_leaves",
        "streams_joins streams_second_joins streams_leaves",
    )
    for act in acts.split()
)


def turns(topics: int, rounds: int) -> Figures:
    """The longest turn of each act in ms, of several rounds. The garbage collector works as in the broker."""
    for acts in ACTS:
        # The first use of some libraries imports them.
        acts(Coordinator(image_of(WARM_UP_TOPICS)))
    image = image_of(topics)
    found: dict[str, list[float]] = {figure: [] for figure in FIGURES}
    thresholds = gc.get_threshold()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.collect()
    gc.freeze()
    try:
        for acts in ACTS:
            for _ in range(rounds):
                coordinator = Coordinator(image)
                acts(coordinator)
                for act, took_ms in coordinator.longest_ms.items():
                    found[f"turn_{act}_ms"].append(took_ms)
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
    return dict(found)
