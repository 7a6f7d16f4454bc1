"""Replicas on the move: which partitions have replicas to add or to remove, starting and cancelling moves (KIP-455);
and elections of partition leaders (KIP-460).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, IntEnum

from broker_cy.admin.caller import Caller, Controller, Outcome
from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import ClientError, Problem, problem_of, refused
from broker_cy.client.pool import Peer
from broker_cy.core.classes import dataclass
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages

# Partitions of one request.
PARTITIONS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A partition that is being moved. `replicas` are the present ones: old and new, until the new ones are in sync."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def before(self) -> tuple[int, ...]:
        """The replicas after a cancellation."""
        return tuple(each for each in self.replicas if each not in self.adding)

    @property
    def after(self) -> tuple[int, ...]:
        """The replicas when it is complete."""
        return tuple(each for each in self.replicas if each not in self.removing)


class ElectionType(IntEnum):
    """`election_type` of ElectLeaders. UNCLEAN may choose a replica that is not in sync: records are lost."""

    PREFERRED = 0
    UNCLEAN = 1


class Elected(Enum):
    """The result of an election."""

    NEW_LEADER = "new leader"
    NOT_NEEDED = "not needed"


class ReassignmentCalls:
    """`client.reassignments`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def list_all(self) -> tuple[Reassignment, ...]:
        """Every partition that is being moved, by name. Raises ClientError."""
        deadline = self._caller.deadline()
        answer = await self._caller.ask(
            messages.ListPartitionReassignmentsRequest(timeout_ms=deadline.left_ms, topics=None),
            messages.ListPartitionReassignmentsResponse,
            lambda got: problem_of(got.error_code, got.error_message),
            controller=True,
            deadline=deadline,
        )
        found = [
            Reassignment(
                TopicPartition(topic.name, part.partition_index),
                tuple(part.replicas),
                tuple(part.adding_replicas),
                tuple(part.removing_replicas),
            )
            for topic in answer.topics
            for part in topic.partitions
        ]
        return tuple(sorted(found, key=lambda each: each.partition))

    async def alter(
        self, wanted: Mapping[TopicPartition, tuple[int, ...] | None], *, may_change_factor: bool = False
    ) -> Outcome[TopicPartition, bool]:
        """Start to move each partition to the replicas given; None cancels its move. True for each that was accepted.

        Unless `may_change_factor`, a broker that knows version 1 refuses another number of replicas than the partition
        has now: it may have changed since a plan was made (KIP-860).
        """

        async def send(
            peer: Peer, keys: list[TopicPartition], deadline: Deadline
        ) -> dict[TopicPartition, bool | Problem]:
            by_topic: dict[str, list[messages.AlterPartitionReassignmentsRequest.ReassignablePartition]] = {}
            for key in keys:
                replicas = wanted[key]
                part = messages.AlterPartitionReassignmentsRequest.ReassignablePartition(
                    partition_index=key.partition, replicas=None if replicas is None else list(replicas)
                )
                by_topic.setdefault(key.topic, []).append(part)
            request = messages.AlterPartitionReassignmentsRequest(
                timeout_ms=deadline.left_ms,
                topics=[
                    messages.AlterPartitionReassignmentsRequest.ReassignableTopic(name=name, partitions=parts)
                    for name, parts in by_topic.items()
                ],
            )
            link = await self._caller.pool.link(peer, deadline)
            offered = link.versions.get(messages.AlterPartitionReassignmentsRequest.API_KEY)
            if offered is not None and offered.high >= 1:
                request.allow_replication_factor_change = may_change_factor
            answer, _ = await self._caller.pool.ask(
                peer, request, messages.AlterPartitionReassignmentsResponse, deadline
            )
            whole = problem_of(answer.error_code, answer.error_message)
            if whole is not None:
                return dict.fromkeys(keys, whole)
            return {
                TopicPartition(topic.name, part.partition_index): problem_of(part.error_code, part.error_message)
                or True
                for topic in answer.responses
                for part in topic.partitions
            }

        return await self._caller.spread(
            wanted,
            Controller[TopicPartition](self._caller),
            send,
            api="AlterPartitionReassignments",
            name=lambda key: f"partition {key}",
            chunk=PARTITIONS_MAX,
        )

    async def elect(self, kind: ElectionType, partitions: Iterable[TopicPartition]) -> Outcome[TopicPartition, Elected]:
        """Elect the leaders of partitions: the first replica of the list, or with UNCLEAN any replica that is alive."""

        # Retriable in Kafka, but the replica that is missing will hardly come back within the call.
        missing = (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)

        def result(problem: Problem | None, key: TopicPartition, broker: str) -> Elected | Problem | ClientError:
            if problem is None:
                return Elected.NEW_LEADER
            if problem.code is ErrorCode.ELECTION_NOT_NEEDED:
                return Elected.NOT_NEEDED
            return refused(problem, broker, "ElectLeaders", f"partition {key}") if problem.code in missing else problem

        async def send(
            peer: Peer, keys: list[TopicPartition], deadline: Deadline
        ) -> dict[TopicPartition, Elected | Problem | ClientError]:
            by_topic: dict[str, list[int]] = {}
            for key in keys:
                by_topic.setdefault(key.topic, []).append(key.partition)
            request = messages.ElectLeadersRequest(
                election_type=kind,
                topic_partitions=[
                    messages.ElectLeadersRequest.TopicPartitions(topic=topic, partitions=numbers)
                    for topic, numbers in by_topic.items()
                ],
                timeout_ms=deadline.left_ms,
            )
            answer, _ = await self._caller.pool.ask(
                peer,
                request,
                messages.ElectLeadersResponse,
                deadline,
                # Version 0 has no type: it would elect the preferred leader instead.
                at_least=0 if kind is ElectionType.PREFERRED else 1,
            )
            whole = problem_of(answer.error_code)
            if whole is not None:
                return dict.fromkeys(keys, whole)
            found: dict[TopicPartition, Elected | Problem | ClientError] = {}
            for topic in answer.replica_election_results:
                for part in topic.partition_result:
                    key = TopicPartition(topic.topic, part.partition_id)
                    found[key] = result(problem_of(part.error_code, part.error_message), key, peer.name)
            return found

        outcome: Outcome[TopicPartition, Elected | ClientError] = await self._caller.spread(
            partitions,
            Controller[TopicPartition](self._caller),
            send,
            api="ElectLeaders",
            name=lambda key: f"partition {key}",
            chunk=PARTITIONS_MAX,
        )
        found = {key: each for key, each in outcome.found.items() if isinstance(each, Elected)}
        failed = {key: each for key, each in outcome.found.items() if isinstance(each, ClientError)}
        return Outcome(found, {**outcome.failed, **failed})
