"""Partitions that lack replicas: which are missing, and how many each topic needs to accept writes with acks=all."""

from __future__ import annotations

from collections.abc import Iterable

from broker_cy.admin.caller import Caller, Outcome
from broker_cy.admin.configs import ConfigCalls, ConfigResource, ResourceType
from broker_cy.admin.metadata import PartitionInfo, TopicInfo, TopicPartition
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import ClientError, Failure, Problem, problem_of, refused
from broker_cy.core.classes import dataclass
from broker_cy.wire import messages

_MIN_ISR = "min.insync.replicas"
# Topics of one DescribeTopicPartitions request, and partitions of one answer (max.request.partition.size.limit).
TOPICS_MAX = 500
PARTITIONS_MAX = 2_000


@dataclass(frozen=True, slots=True)
class EligibleReplicas:
    """The replicas of a partition that may lead it without loss though they are not in sync, and those that were the
    last to do so (KIP-966); both empty while enough are in sync.
    """

    eligible: tuple[int, ...]
    last_known: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PartitionHealth:
    """A partition and its problems. `min_in_sync` is None if the topic's settings could not be read, `eligible` if the
    broker does not report it.
    """

    partition: TopicPartition
    info: PartitionInfo
    min_in_sync: int | None
    eligible: EligibleReplicas | None = None

    @property
    def is_offline(self) -> bool:
        return self.info.is_offline

    @property
    def is_under_replicated(self) -> bool:
        return self.info.is_under_replicated

    @property
    def is_below_min_isr(self) -> bool:
        """Whether writes with acks=all are refused."""
        return self.needed is not None and len(self.info.in_sync_replicas) < self.needed

    @property
    def needed(self) -> int | None:
        """How many replicas must be in sync for acks=all: one with fewer replicas than the setting needs all of them
        (Kafka's effective min.insync.replicas).
        """
        return None if self.min_in_sync is None else min(self.min_in_sync, len(self.info.replicas))

    @property
    def is_healthy(self) -> bool:
        return not (self.is_offline or self.is_under_replicated or self.is_below_min_isr)

    @property
    def missing(self) -> tuple[int, ...]:
        """The replicas that are not in sync."""
        return tuple(each for each in self.info.replicas if each not in self.info.in_sync_replicas)


class PartitionHealthCalls:
    """`client.partition_health`."""

    def __init__(self, caller: Caller, configs: ConfigCalls) -> None:
        self._caller = caller
        self._configs = configs

    async def of(self, topics: Iterable[TopicInfo]) -> tuple[PartitionHealth, ...]:
        """Every partition of these topics, by name; with eligible leaders where something is missing. Raises
        ClientError.
        """
        by_name = {topic.name: topic for topic in topics}
        least = await self._min_in_sync(by_name)
        found = [
            PartitionHealth(TopicPartition(topic.name, part.partition), part, least.get(topic.name))
            for topic in by_name.values()
            for part in topic.partitions
        ]
        sick = sorted({each.partition.topic for each in found if not each.is_healthy})
        eligible = (await self.eligible(sick)).found if sick else {}
        return tuple(
            PartitionHealth(each.partition, each.info, each.min_in_sync, eligible.get(each.partition))
            for each in sorted(found, key=lambda each: each.partition)
        )

    async def _min_in_sync(self, topics: Iterable[str]) -> dict[str, int]:
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in topics]
        outcome = await self._configs.describe(resources, names=[_MIN_ISR])
        return {
            resource.name: int(entry.value)
            for resource, entries in outcome.found.items()
            for entry in entries
            if entry.name == _MIN_ISR and entry.value is not None and entry.value.isdecimal()
        }

    async def eligible(self, topics: Iterable[str]) -> Outcome[TopicPartition, EligibleReplicas]:
        """The eligible leaders of every partition of these topics (DescribeTopicPartitions); nothing from a broker that
        does not report them. Raises ClientError.
        """
        names = sorted(set(topics))
        deadline = self._caller.deadline()
        found: dict[TopicPartition, EligibleReplicas] = {}
        failed: dict[TopicPartition, ClientError] = {}
        try:
            for start in range(0, len(names), TOPICS_MAX):
                await self._pages(names[start : start + TOPICS_MAX], deadline, found, failed)
        except ClientError as error:
            if error.failure is not Failure.UNSUPPORTED:
                raise
        return Outcome(found, failed)

    async def _pages(
        self,
        names: list[str],
        deadline: Deadline,
        found: dict[TopicPartition, EligibleReplicas],
        failed: dict[TopicPartition, ClientError],
    ) -> None:
        """Fetch page after page. The broker answers in the order of names, with the start of the next page."""
        cursor: messages.DescribeTopicPartitionsRequest.Cursor | None = None
        while True:
            answer = await self._caller.ask(
                messages.DescribeTopicPartitionsRequest(
                    topics=[messages.DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in names],
                    response_partition_limit=PARTITIONS_MAX,
                    cursor=cursor,
                ),
                messages.DescribeTopicPartitionsResponse,
                _no_problem,
                deadline=deadline,
            )
            for topic in answer.topics:
                for part in topic.partitions:
                    key = TopicPartition(topic.name or "", part.partition_index)
                    found[key] = EligibleReplicas(
                        tuple(part.eligible_leader_replicas or ()), tuple(part.last_known_elr or ())
                    )
                problem = problem_of(topic.error_code)
                if problem is not None:
                    key = TopicPartition(topic.name or "", -1)
                    failed[key] = refused(problem, "", "DescribeTopicPartitions", f"topic {topic.name}")
            after = answer.next_cursor
            if after is None:
                return
            place = (after.topic_name, after.partition_index)
            if cursor is not None and place <= (cursor.topic_name, cursor.partition_index):
                raise ClientError(Failure.MALFORMED, "the next page does not go on", api="DescribeTopicPartitions")
            cursor = messages.DescribeTopicPartitionsRequest.Cursor(topic_name=place[0], partition_index=place[1])
            names = [name for name in names if name >= place[0]]


def _no_problem(answer: messages.DescribeTopicPartitionsResponse) -> Problem | None:
    """The answer has errors of topics only."""
    return None
