"""Committed offsets of groups: fetch, commit and delete them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from broker_cy.admin.caller import Caller, Outcome, Send
from broker_cy.admin.coordinators import Coordinators
from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import ClientError, Failure, Problem, problem_of, refused
from broker_cy.client.pool import Peer, common_version
from broker_cy.client.transaction import GroupMetadata
from broker_cy.core.classes import NamedTuple, dataclass
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from broker_cy.wire.api_keys import ApiKey

_FETCH = "OffsetFetch"
# Newer versions name topics by id, which hides topics that were deleted.
_BY_NAME_UNTIL = 9
_GROUPS_FROM = 8
_ALL_TOPICS_FROM = 2
# Groups of one OffsetFetch: an answer of 100 groups x 50 partitions decodes in 5 ms, so that a console can react.
GROUPS_MAX = 100
# A commit that is not by a member, as Kafka's admin client sends it.
_NO_GENERATION = -1
# Codes that are returned for each partition, but concern the group.
_GROUP_CODES = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
    }
)

V = TypeVar("V")


class CommittedOffset(NamedTuple):
    """The committed offset of a partition. The leader epoch is -1 if none was committed.

    A tuple, like PartitionLag: there are 100,000 of them, and creating a frozen dataclass takes twice as long.
    """

    offset: int
    leader_epoch: int
    metadata: str


Committed = dict[TopicPartition, CommittedOffset]
_Named = dict[str, list[int]]


class GroupOffsetCalls:
    """`client.group_offsets`."""

    def __init__(self, caller: Caller, coordinators: Coordinators) -> None:
        self._caller = caller
        self._coordinators = coordinators

    async def fetch(
        self, group_ids: Iterable[str], *, stable: bool = False, partitions: Iterable[TopicPartition] | None = None
    ) -> Outcome[str, Committed]:
        """The committed offsets of each group, by partition; {} for a group that does not exist. None as `partitions`
        stands for all.

        `stable`: wait for offsets of open transactions, and fail with UNSTABLE_OFFSET_COMMIT if they do not end. Only
        named partitions are waited for in all cases: as in Kafka, a question for all leaves out a partition whose first
        offset is in an open transaction.
        """
        named = None if partitions is None else _named(partitions)

        async def send(peer: Peer, keys: list[str], deadline: Deadline) -> dict[str, Committed | Problem]:
            link = await self._caller.pool.link(peer, deadline)
            at_least = 7 if stable else _ALL_TOPICS_FROM
            version = common_version(link, ApiKey.OFFSET_FETCH, _FETCH, at_least, _BY_NAME_UNTIL)
            if version >= _GROUPS_FROM:
                return await self._fetch_many(peer, keys, deadline, stable, named)
            return {key: await self._fetch_one(peer, key, deadline, stable, named) for key in keys}

        return await self._caller.spread(
            group_ids, self._coordinators, send, api=_FETCH, name=lambda key: f"group {key}", chunk=GROUPS_MAX
        )

    async def _fetch_many(
        self, peer: Peer, keys: list[str], deadline: Deadline, stable: bool, named: _Named | None
    ) -> dict[str, Committed | Problem]:
        kind = messages.OffsetFetchRequest
        topics = (
            None
            if named is None
            else [
                kind.OffsetFetchRequestTopics(name=name, partition_indexes=numbers) for name, numbers in named.items()
            ]
        )
        request = kind(
            groups=[kind.OffsetFetchRequestGroup(group_id=key, topics=topics) for key in keys], require_stable=stable
        )
        answer, _ = await self._caller.pool.ask(
            peer, request, messages.OffsetFetchResponse, deadline, at_least=_GROUPS_FROM, at_most=_BY_NAME_UNTIL
        )
        shared: dict[tuple[str, int], TopicPartition] = {}
        return {
            group.group_id: problem_of(group.error_code) or _committed(group.topics, shared) for group in answer.groups
        }

    async def _fetch_one(
        self, peer: Peer, key: str, deadline: Deadline, stable: bool, named: _Named | None
    ) -> Committed | Problem:
        kind = messages.OffsetFetchRequest
        topics = (
            None
            if named is None
            else [kind.OffsetFetchRequestTopic(name=name, partition_indexes=numbers) for name, numbers in named.items()]
        )
        request = kind(group_id=key, topics=topics, require_stable=stable)
        answer, _ = await self._caller.pool.ask(
            peer, request, messages.OffsetFetchResponse, deadline, at_most=_GROUPS_FROM - 1
        )
        return problem_of(answer.error_code) or _committed(answer.topics, {})

    async def alter(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int],
        metadata: Mapping[TopicPartition, str] | None = None,
        *,
        member: GroupMetadata | None = None,
    ) -> Outcome[TopicPartition, int]:
        """Commit `offsets`, with the texts of `metadata`, for a group without members, or as this member of the group;
        the offsets that were committed.

        A group that does not exist is created. Without `member`, refused with UNKNOWN_MEMBER_ID while the group has
        members.
        """
        committer = member or GroupMetadata(group_id, _NO_GENERATION)
        for partition, offset in offsets.items():
            if offset < 0:
                raise ClientError(Failure.INVALID, f"offset {offset}: must be 0 or more", what=f"partition {partition}")
        by_topic: dict[str, list[messages.OffsetCommitRequest.OffsetCommitRequestPartition]] = {}
        texts = metadata or {}
        for partition, offset in offsets.items():
            part = messages.OffsetCommitRequest.OffsetCommitRequestPartition(
                partition_index=partition.partition,
                committed_offset=offset,
                committed_metadata=texts.get(partition, ""),
            )
            by_topic.setdefault(partition.topic, []).append(part)
        topics = [
            messages.OffsetCommitRequest.OffsetCommitRequestTopic(name=name, partitions=parts)
            for name, parts in by_topic.items()
        ]

        async def send(peer: Peer, keys: list[str], deadline: Deadline) -> dict[str, _Answers | Problem]:
            request = messages.OffsetCommitRequest(
                group_id=group_id,
                generation_id_or_member_epoch=committer.generation,
                member_id=committer.member_id,
                group_instance_id=committer.instance_id,
                topics=topics,
            )
            answer, _ = await self._caller.pool.ask(
                peer, request, messages.OffsetCommitResponse, deadline, at_most=_BY_NAME_UNTIL
            )
            codes = {
                TopicPartition(topic.name, part.partition_index): part.error_code
                for topic in answer.topics
                for part in topic.partitions
            }
            return {group_id: _whole_or_answers(codes, peer)}

        answers = await self._one_group(group_id, send, "OffsetCommit")
        return _by_partition(answers, {key: offsets[key] for key in offsets}, "OffsetCommit", group_id)

    async def delete(self, group_id: str, partitions: Iterable[TopicPartition]) -> Outcome[TopicPartition, bool]:
        """Delete the committed offsets of `partitions`; True for each. The group may have members, but must not be
        subscribed to these topics.
        """
        wanted = list(dict.fromkeys(partitions))
        by_topic: dict[str, list[messages.OffsetDeleteRequest.OffsetDeleteRequestPartition]] = {}
        for key in wanted:
            part = messages.OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=key.partition)
            by_topic.setdefault(key.topic, []).append(part)

        async def send(peer: Peer, keys: list[str], deadline: Deadline) -> dict[str, _Answers | Problem]:
            request = messages.OffsetDeleteRequest(
                group_id=group_id,
                topics=[
                    messages.OffsetDeleteRequest.OffsetDeleteRequestTopic(name=name, partitions=parts)
                    for name, parts in by_topic.items()
                ],
            )
            answer, _ = await self._caller.pool.ask(peer, request, messages.OffsetDeleteResponse, deadline)
            if (problem := problem_of(answer.error_code)) is not None:
                return {group_id: problem}
            codes = {
                TopicPartition(topic.name, part.partition_index): part.error_code
                for topic in answer.topics
                for part in topic.partitions
            }
            return {group_id: _whole_or_answers(codes, peer)}

        answers = await self._one_group(group_id, send, "OffsetDelete")
        return _by_partition(answers, dict.fromkeys(wanted, True), "OffsetDelete", group_id)

    async def _one_group(self, group_id: str, send: Send[str, _Answers], api: str) -> _Answers:
        outcome = await self._caller.spread(
            [group_id], self._coordinators, send, api=api, name=lambda key: f"group {key}", chunk=1
        )
        return outcome.whole()[group_id]


@dataclass(frozen=True, slots=True)
class _Answers:
    """Error codes by partition, and the broker that returned them."""

    broker: str
    problems: dict[TopicPartition, Problem | None]


def _whole_or_answers(codes: Mapping[TopicPartition, int], peer: Peer) -> _Answers | Problem:
    """A coordinator that cannot serve the group returns the error for each partition: it is reported for the group, and
    retried.
    """
    problems = {key: problem_of(code) for key, code in codes.items()}
    for problem in problems.values():
        if problem is not None and problem.code in _GROUP_CODES:
            return problem
    return _Answers(peer.name, problems)


def _by_partition(
    answers: _Answers, values: Mapping[TopicPartition, V], api: str, group_id: str
) -> Outcome[TopicPartition, V]:
    found: dict[TopicPartition, V] = {}
    failed: dict[TopicPartition, ClientError] = {}
    for key, value in values.items():
        what = f"group {group_id}, partition {key}"
        if key not in answers.problems:
            failed[key] = ClientError(
                Failure.MALFORMED, "the answer does not mention it", broker=answers.broker, api=api, what=what
            )
        elif (problem := answers.problems[key]) is not None:
            failed[key] = refused(problem, answers.broker, api, what)
        else:
            found[key] = value
    return Outcome(found, failed)


def _named(partitions: Iterable[TopicPartition]) -> _Named:
    found: _Named = {}
    for key in partitions:
        found.setdefault(key.topic, []).append(key.partition)
    return found


def _committed(
    topics: Iterable[messages.OffsetFetchResponse.OffsetFetchResponseTopics]
    | Iterable[messages.OffsetFetchResponse.OffsetFetchResponseTopic],
    shared: dict[tuple[str, int], TopicPartition],
) -> Committed | Problem:
    """The offsets of one group. `shared` holds the partitions of one answer, which its groups have in common."""
    found: Committed = {}
    for topic in topics:
        name = topic.name
        for part in topic.partitions:
            if part.error_code:
                return problem_of(part.error_code) or found
            # -1: nothing is committed.
            if part.committed_offset >= 0:
                at = (name, part.partition_index)
                key = shared.get(at)
                if key is None:
                    key = shared[at] = TopicPartition(name, part.partition_index)
                found[key] = CommittedOffset(part.committed_offset, part.committed_leader_epoch, part.metadata or "")
    return found
