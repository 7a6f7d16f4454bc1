"""Topics: list, describe, create, clone, grow, delete; and deleting records up to an offset."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from typing import TypeVar
from uuid import UUID

from broker_cy.admin.caller import Caller, Controller, Leaders, Outcome, Send
from broker_cy.admin.configs import ConfigCalls, ConfigResource, ResourceType
from broker_cy.admin.metadata import PartitionInfo, TopicInfo, TopicPartition
from broker_cy.admin.reassignments import ReassignmentCalls
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import ClientError, Failure, Problem, problem_of
from broker_cy.client.pool import Peer
from broker_cy.core.classes import dataclass
from broker_cy.core.configs import ConfigSource
from broker_cy.wire import messages

V = TypeVar("V")

# The brokers' default number of partitions or replicas (KIP-464).
BROKER_DEFAULT = -1
# Topics of one request that changes them; partitions of one DeleteRecords request.
TOPICS_MAX = 500
PARTITIONS_MAX = 2_000
# The number of checks whether a change has arrived at a broker, about 2 s in all.
SETTLE_ATTEMPTS = 5
# The time limit of the request for moves under way: a quorum without a leader does not list them.
MOVES_S = 2.0
# In DeleteRecords: everything up to the high watermark.
HIGH_WATERMARK = -1


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. `assignments` gives the broker ids of each partition, instead of the two numbers."""

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str | None] = field(default_factory=dict)
    assignments: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic that was created, or would be. The numbers are -1 if the broker is too old to report them (before
    CreateTopics 5)."""

    name: str
    topic_id: UUID
    partitions: int
    replication_factor: int


def _adding(part: PartitionInfo, adding: tuple[int, ...]) -> tuple[int, ...]:
    """The added ones that are still among the replicas: the move may have ended between the two answers."""
    return tuple(each for each in adding if each in part.replicas) if part.is_under_replicated else ()


class TopicCalls:
    """`client.topics`."""

    def __init__(self, caller: Caller, configs: ConfigCalls, reassignments: ReassignmentCalls) -> None:
        self._caller = caller
        self._configs = configs
        self._reassignments = reassignments

    async def list_all(self, *, internal: bool = True) -> tuple[TopicInfo, ...]:
        """Every topic, by name; those of the cluster itself only with `internal`. Raises ClientError."""
        found, failed = await self._refresh(None)
        for error in failed.values():
            raise error
        found = await self._with_moves(found)
        topics = (topic for topic in found.values() if internal or not topic.is_own)
        return tuple(sorted(topics, key=lambda topic: topic.name))

    async def names(self) -> tuple[str, ...]:
        """The names of all topics. Raises ClientError."""
        found, failed = await self._refresh(None)
        return tuple(sorted(found | failed))

    async def describe(self, names: Iterable[str]) -> Outcome[str, TopicInfo]:
        """Describe these topics as they are now."""
        asked = list(dict.fromkeys(names))
        found, failed = await self._refresh(asked) if asked else ({}, {})
        found = await self._with_moves(found)
        return Outcome({name: found[name] for name in asked if name in found}, failed)

    async def _with_moves(self, topics: dict[str, TopicInfo]) -> dict[str, TopicInfo]:
        """The topics, with the replicas that reassignments add. No request is sent if all replicas are in sync. If the
        request fails, the added replicas stay unknown.
        """
        if not any(part.is_under_replicated for topic in topics.values() for part in topic.partitions):
            return topics
        try:
            async with asyncio.timeout(MOVES_S):
                moving = {each.partition: each.adding for each in await self._reassignments.list_all()}
        except (ClientError, TimeoutError):
            return topics
        found = dict(topics)
        for name in {key.topic for key in moving} & topics.keys():
            parts = tuple(
                part._replace(adding_replicas=_adding(part, moving.get(TopicPartition(name, part.partition), ())))
                for part in topics[name].partitions
            )
            found[name] = replace(topics[name], partitions=parts)
        return found

    async def _refresh(self, names: list[str] | None) -> tuple[dict[str, TopicInfo], dict[str, ClientError]]:
        """Metadata from any broker, with retries."""
        deadline = self._caller.deadline()
        attempt = 1
        while True:
            try:
                return await self._caller.metadata.refresh(names, deadline)
            except ClientError as error:
                if not self._caller.may_retry(error, attempt) or not await deadline.back_off(attempt):
                    raise
            attempt += 1

    async def create(self, topics: Iterable[NewTopic], *, validate_only: bool = False) -> Outcome[str, CreatedTopic]:
        """Create topics; with `validate_only` the broker answers in the same way, but creates none."""
        wanted = {topic.name: topic for topic in topics}

        async def send(peer: Peer, names: list[str], deadline: Deadline) -> dict[str, CreatedTopic | Problem]:
            request = messages.CreateTopicsRequest(
                topics=[_creatable(wanted[name]) for name in names],
                timeout_ms=deadline.left_ms,
                validate_only=validate_only,
            )
            answer, _ = await self._caller.pool.ask(peer, request, messages.CreateTopicsResponse, deadline)
            return {
                each.name: problem_of(each.error_code, each.error_message)
                or CreatedTopic(each.name, each.topic_id, each.num_partitions, each.replication_factor)
                for each in answer.topics
            }

        outcome = await self._change(wanted, send, "CreateTopics")
        if not validate_only:
            await self._settle(outcome.found, _is_in_service)
        return outcome

    async def _settle(self, names: Iterable[str], is_done: Callable[[str, TopicInfo | None], bool]) -> None:
        """Wait until a broker knows the controller's change, so that the next call does not see the old topic.

        The change itself is done, so a broker that is late or away is not an error.
        """
        waiting = list(names)
        deadline = self._caller.deadline()
        for attempt in range(1, SETTLE_ATTEMPTS + 1):
            try:
                found, _ = await self._caller.metadata.refresh(waiting, deadline)
            except ClientError:
                return
            waiting = [name for name in waiting if not is_done(name, found.get(name))]
            if not waiting or not await deadline.back_off(attempt):
                return

    async def clone(
        self, source: str, target: str, *, partitions: int | None = None, replication_factor: int | None = None
    ) -> CreatedTopic:
        """Create `target` with the partitions, replicas and own settings of `source`; records are not copied. Raises
        ClientError.
        """
        new = await self.plan_clone(source, target, partitions=partitions, replication_factor=replication_factor)
        return (await self.create([new])).whole()[target]

    async def plan_clone(
        self, source: str, target: str, *, partitions: int | None = None, replication_factor: int | None = None
    ) -> NewTopic:
        """The topic that `clone` would create. Raises ClientError."""
        resource = ConfigResource(ResourceType.TOPIC, source)
        described, settings = await asyncio.gather(self.describe([source]), self._configs.describe([resource]))
        topic = described.whole()[source]
        own = {
            entry.name: entry.value
            for entry in settings.whole()[resource]
            if entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG
        }
        return NewTopic(
            target,
            len(topic.partitions) if partitions is None else partitions,
            topic.replication_factor if replication_factor is None else replication_factor,
            own,
        )

    async def add_partitions(self, counts: Mapping[str, int], *, validate_only: bool = False) -> Outcome[str, bool]:
        """Raise the number of partitions of topics to these totals; True for each that was, or would be, changed."""

        async def send(peer: Peer, names: list[str], deadline: Deadline) -> dict[str, bool | Problem]:
            request = messages.CreatePartitionsRequest(
                topics=[
                    messages.CreatePartitionsRequest.CreatePartitionsTopic(
                        name=name, count=counts[name], assignments=None
                    )
                    for name in names
                ],
                timeout_ms=deadline.left_ms,
                validate_only=validate_only,
            )
            answer, _ = await self._caller.pool.ask(peer, request, messages.CreatePartitionsResponse, deadline)
            return {each.name: problem_of(each.error_code, each.error_message) or True for each in answer.results}

        outcome = await self._change(counts, send, "CreatePartitions")
        if not validate_only:
            await self._settle(
                outcome.found,
                lambda name, topic: _is_in_service(name, topic, counts[name]),
            )
        return outcome

    async def delete(self, names: Iterable[str]) -> Outcome[str, bool]:
        """Delete topics and all their records; True for each that was deleted."""

        async def send(peer: Peer, names: list[str], deadline: Deadline) -> dict[str, bool | Problem]:
            request = messages.DeleteTopicsRequest(timeout_ms=deadline.left_ms)
            link = await self._caller.pool.link(peer, deadline)
            offered = link.versions.get(messages.DeleteTopicsRequest.API_KEY)
            if offered is not None and offered.high >= 6:
                request.topics = [messages.DeleteTopicsRequest.DeleteTopicState(name=name) for name in names]
            else:
                request.topic_names = names
            answer, _ = await self._caller.pool.ask(peer, request, messages.DeleteTopicsResponse, deadline)
            return {
                each.name or "": problem_of(each.error_code, each.error_message) or True for each in answer.responses
            }

        outcome = await self._change(names, send, "DeleteTopics")
        await self._settle(outcome.found, lambda name, topic: topic is None)
        return outcome

    async def _change(self, names: Iterable[str], send: Send[str, V], api: str) -> Outcome[str, V]:
        controller: Controller[str] = Controller(self._caller)
        return await self._caller.spread(
            names, controller, send, api=api, name=lambda name: f"topic {name}", chunk=TOPICS_MAX
        )

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> Outcome[TopicPartition, int]:
        """Delete the records below an offset (HIGH_WATERMARK: all) of each partition; the new log start offsets."""
        for key, offset in before.items():
            if offset < HIGH_WATERMARK:
                raise ClientError(
                    Failure.INVALID, f"offset {offset}: must be 0 or more, or -1 for all", what=f"partition {key}"
                )

        async def send(
            peer: Peer, keys: list[TopicPartition], deadline: Deadline
        ) -> dict[TopicPartition, int | Problem]:
            by_topic: dict[str, list[messages.DeleteRecordsRequest.DeleteRecordsPartition]] = {}
            for key in keys:
                part = messages.DeleteRecordsRequest.DeleteRecordsPartition(
                    partition_index=key.partition, offset=before[key]
                )
                by_topic.setdefault(key.topic, []).append(part)
            request = messages.DeleteRecordsRequest(
                topics=[
                    messages.DeleteRecordsRequest.DeleteRecordsTopic(name=name, partitions=parts)
                    for name, parts in by_topic.items()
                ],
                timeout_ms=deadline.left_ms,
            )
            answer, _ = await self._caller.pool.ask(peer, request, messages.DeleteRecordsResponse, deadline)
            return {
                TopicPartition(topic.name, part.partition_index): problem_of(part.error_code) or part.low_watermark
                for topic in answer.topics
                for part in topic.partitions
            }

        return await self._caller.spread(
            before,
            Leaders(self._caller.metadata),
            send,
            api="DeleteRecords",
            name=lambda key: f"partition {key}",
            chunk=PARTITIONS_MAX,
        )


def _is_in_service(name: str, topic: TopicInfo | None, partitions: int = 1) -> bool:
    """Whether the topic has this many partitions, and each has a leader."""
    return (
        topic is not None
        and len(topic.partitions) >= partitions
        and not any(part.is_offline for part in topic.partitions)
    )


def _creatable(topic: NewTopic) -> messages.CreateTopicsRequest.CreatableTopic:
    assigned = bool(topic.assignments)
    return messages.CreateTopicsRequest.CreatableTopic(
        name=topic.name,
        num_partitions=BROKER_DEFAULT if assigned else topic.partitions,
        replication_factor=BROKER_DEFAULT if assigned else topic.replication_factor,
        assignments=[
            messages.CreateTopicsRequest.CreatableReplicaAssignment(partition_index=index, broker_ids=list(ids))
            for index, ids in enumerate(topic.assignments)
        ],
        configs=[
            messages.CreateTopicsRequest.CreatableTopicConfig(name=name, value=value)
            for name, value in topic.configs.items()
        ],
    )
