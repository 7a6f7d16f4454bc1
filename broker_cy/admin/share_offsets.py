"""The start offsets of share groups (KIP-932): describe, alter and delete them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from broker_cy.admin.caller import Caller, Outcome, Send
from broker_cy.admin.coordinators import Coordinators
from broker_cy.admin.group_offsets import GROUPS_MAX
from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import ClientError, Failure, Problem, problem_of, refused
from broker_cy.client.pool import Peer
from broker_cy.core.classes import NamedTuple
from broker_cy.wire import messages

V = TypeVar("V")


class ShareOffset(NamedTuple):
    """A partition of a share group. Every record below `start` was acknowledged or archived. `start` is None before the
    group has read the partition; `lag` is the number of records that were not completed yet, None if it is unknown.
    """

    start: int | None
    leader_epoch: int
    lag: int | None
    problem: Problem | None = None


ShareOffsets = dict[TopicPartition, ShareOffset]
_Codes = dict[TopicPartition, Problem | None]
_TopicCodes = dict[str, Problem | None]


class ShareOffsetCalls:
    """`client.share_offsets`."""

    def __init__(self, caller: Caller, coordinators: Coordinators) -> None:
        self._caller = caller
        self._coordinators = coordinators

    async def describe(self, group_ids: Iterable[str]) -> Outcome[str, ShareOffsets]:
        """Start offset and lag of each partition that a share group reads or has read."""

        async def send(peer: Peer, keys: list[str], deadline: Deadline) -> dict[str, ShareOffsets | Problem]:
            group = messages.DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
            request = messages.DescribeShareGroupOffsetsRequest(
                groups=[group(group_id=key, topics=None) for key in keys]
            )
            answer, _ = await self._caller.pool.ask(peer, request, messages.DescribeShareGroupOffsetsResponse, deadline)
            return {
                each.group_id: problem_of(each.error_code, each.error_message)
                or {
                    TopicPartition(topic.topic_name, part.partition_index): _offset(part)
                    for topic in each.topics
                    for part in topic.partitions
                }
                for each in answer.groups
            }

        return await self._spread(group_ids, send, "DescribeShareGroupOffsets", GROUPS_MAX)

    async def alter(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> Outcome[TopicPartition, int]:
        """Set the start offsets of a share group without members; a group that does not exist is created."""
        topic_of = messages.AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic
        part_of = messages.AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition
        by_topic: dict[str, list[messages.AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition]] = {}
        for key, offset in offsets.items():
            by_topic.setdefault(key.topic, []).append(part_of(partition_index=key.partition, start_offset=offset))
        request = messages.AlterShareGroupOffsetsRequest(
            group_id=group_id,
            topics=[topic_of(topic_name=name, partitions=parts) for name, parts in by_topic.items()],
        )

        async def send(peer: Peer, keys: list[str], deadline: Deadline) -> dict[str, _Codes | Problem]:
            answer, _ = await self._caller.pool.ask(peer, request, messages.AlterShareGroupOffsetsResponse, deadline)
            return {
                group_id: problem_of(answer.error_code, answer.error_message)
                or {
                    TopicPartition(topic.topic_name, part.partition_index): problem_of(
                        part.error_code, part.error_message
                    )
                    for topic in answer.responses
                    for part in topic.partitions
                }
            }

        api = "AlterShareGroupOffsets"
        codes = (await self._spread([group_id], send, api, 1)).whole()[group_id]
        return _by_key(offsets, codes, api, f"group {group_id}, partition")

    async def delete(self, group_id: str, topics: Iterable[str]) -> Outcome[str, bool]:
        """Delete all that a share group without members keeps of `topics`; True for each."""
        wanted = dict.fromkeys(topics, True)
        topic_of = messages.DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic
        request = messages.DeleteShareGroupOffsetsRequest(
            group_id=group_id, topics=[topic_of(topic_name=name) for name in wanted]
        )

        async def send(peer: Peer, keys: list[str], deadline: Deadline) -> dict[str, _TopicCodes | Problem]:
            answer, _ = await self._caller.pool.ask(peer, request, messages.DeleteShareGroupOffsetsResponse, deadline)
            return {
                group_id: problem_of(answer.error_code, answer.error_message)
                or {topic.topic_name: problem_of(topic.error_code, topic.error_message) for topic in answer.responses}
            }

        api = "DeleteShareGroupOffsets"
        codes = (await self._spread([group_id], send, api, 1)).whole()[group_id]
        return _by_key(wanted, codes, api, f"group {group_id}, topic")

    async def _spread(self, keys: Iterable[str], send: Send[str, V], api: str, chunk: int) -> Outcome[str, V]:
        return await self._caller.spread(
            keys, self._coordinators, send, api=api, name=lambda key: f"group {key}", chunk=chunk
        )


def _offset(
    part: messages.DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition,
) -> ShareOffset:
    return ShareOffset(
        part.start_offset if part.start_offset >= 0 else None,
        part.leader_epoch,
        part.lag if part.lag >= 0 else None,
        problem_of(part.error_code, part.error_message),
    )


K = TypeVar("K", str, TopicPartition)


def _by_key(values: Mapping[K, V], codes: Mapping[K, Problem | None], api: str, what: str) -> Outcome[K, V]:
    found: dict[K, V] = {}
    failed: dict[K, ClientError] = {}
    for key, value in values.items():
        if key not in codes:
            failed[key] = ClientError(
                Failure.MALFORMED, "the answer does not mention it", api=api, what=f"{what} {key}"
            )
        elif (problem := codes[key]) is not None:
            failed[key] = refused(problem, "", api, f"{what} {key}")
        else:
            found[key] = value
    return Outcome(found, failed)
