"""Descriptions of groups. Each type has its own API, and answers for a group of another type as if the group did not
exist; so the APIs are asked in turn for the groups that are still missing.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from operator import attrgetter
from typing import Any, Final

from broker_cy.admin.caller import Caller
from broker_cy.admin.group_values import (
    CLASSIC,
    CONSUMER,
    SHARE,
    STREAMS,
    GroupDescription,
    GroupMember,
    InternalTopic,
    StreamsFacts,
    Subtopology,
    Task,
    Tasks,
    Topology,
)
from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.consumer_protocol import PROTOCOL_TYPE, assignment_of, subscription_of
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import Problem, problem_of
from broker_cy.client.pool import Peer
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode, WireError
from broker_cy.wire import messages
from broker_cy.wire.api_keys import ApiKey
from broker_cy.wire.codec import Message

# From this version on DescribeGroups answers GROUP_ID_NOT_FOUND (KIP-1043); before, it reports a dead group.
_NOT_FOUND_FROM: Final = 6
_DEAD: Final = "Dead"
_MAY_BE_OFF: Final = (
    "the group does not exist, or its protocol is switched off by group.version, share.version or streams.version"
)
# `member_type` of ConsumerGroupDescribe; -1 is unknown.
_MEMBER_PROTOCOLS: Final = {0: CLASSIC, 1: CONSUMER}

# Groups whose API is remembered.
REMEMBERED_MAX: Final = 10_000

Described = dict[str, GroupDescription | Problem]
_Describe = Callable[[Peer, list[str], Deadline], Awaitable[Described]]


class _NewerType(NamedTuple):
    """The API that describes groups with epochs of one type; `member`, `assignor` and `topology` read its answer."""

    name: str
    protocol_type: str
    request: Callable[..., Message]
    response: type[Any]
    member: Callable[[Any], GroupMember]
    assignor: Callable[[Any], str] = attrgetter("assignor_name")
    topology: Callable[[Any], Topology | None] = lambda _: None


class Descriptions:
    """Describes groups at their coordinator."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        # Groups of the classic protocol are the most frequent ones, but every broker that has consumer groups reports a
        # group in conversion as one.
        self._by_api: tuple[tuple[ApiKey, _Describe], ...] = (
            (ApiKey.CONSUMER_GROUP_DESCRIBE, partial(self._with_epochs, _CONSUMER_GROUP)),
            (ApiKey.DESCRIBE_GROUPS, self._classic),
            (ApiKey.SHARE_GROUP_DESCRIBE, partial(self._with_epochs, _SHARE_GROUP)),
            (ApiKey.STREAMS_GROUP_DESCRIBE, partial(self._with_epochs, _STREAMS_GROUP)),
        )
        # The API that described a group the last time is asked first: a page that is refreshed each second would cause
        # an error of each other API each second. At most REMEMBERED_MAX, the oldest goes.
        self._answered_by: dict[str, ApiKey] = {}

    async def of(self, peer: Peer, keys: list[str], deadline: Deadline) -> Described:
        link = await self._caller.pool.link(peer, deadline)
        served = [(api, describe) for api, describe in self._by_api if api in link.versions]
        found: Described = {}
        # Groups whose API may be one that is switched off.
        off: set[str] = set()
        for api, describe in served:
            known = [key for key in keys if self._answered_by.get(key) is api]
            await self._ask(found, off, known, api, describe, peer, deadline)
        before = dict(self._answered_by)
        for api, describe in served:
            missing = [key for key in keys if _is_absent(found.get(key)) and before.get(key) is not api]
            await self._ask(found, off, missing, api, describe, peer, deadline)
        for key in off:
            if _is_absent(found.get(key)):
                found[key] = Problem(ErrorCode.GROUP_ID_NOT_FOUND, _MAY_BE_OFF)
        return {key: found.get(key, Problem(ErrorCode.GROUP_ID_NOT_FOUND)) for key in keys}

    async def _ask(
        self,
        found: Described,
        off: set[str],
        keys: list[str],
        api: ApiKey,
        describe: _Describe,
        peer: Peer,
        deadline: Deadline,
    ) -> None:
        """Add what one API answers to `found` and `off`."""
        if not keys:
            return
        for key, answer in (await describe(peer, keys, deadline)).items():
            if not _is_absent(answer):
                found[key] = answer
                self._answered_by.pop(key, None)
                self._answered_by[key] = api
            elif _code(answer) is ErrorCode.GROUP_ID_NOT_FOUND:
                found.setdefault(key, answer)
            else:
                off.add(key)
        while len(self._answered_by) > REMEMBERED_MAX:
            del self._answered_by[next(iter(self._answered_by))]

    async def _classic(self, peer: Peer, keys: list[str], deadline: Deadline) -> Described:
        request = messages.DescribeGroupsRequest(groups=keys)
        answer, version = await self._caller.pool.ask(peer, request, messages.DescribeGroupsResponse, deadline)
        out: Described = {}
        for each in answer.groups:
            problem = problem_of(each.error_code, each.error_message)
            if problem is None and version < _NOT_FOUND_FROM and each.group_state == _DEAD:
                problem = Problem(ErrorCode.GROUP_ID_NOT_FOUND)
            members = tuple(_classic_member(member, each.protocol_type) for member in each.members)
            out[each.group_id] = problem or GroupDescription(
                each.group_id,
                CLASSIC,
                each.group_state,
                each.protocol_type,
                each.protocol_data,
                _node(peer),
                -1,
                -1,
                members,
            )
        return out

    async def _with_epochs(self, kind: _NewerType, peer: Peer, keys: list[str], deadline: Deadline) -> Described:
        answer, _ = await self._caller.pool.ask(peer, kind.request(group_ids=keys), kind.response, deadline)
        return {
            each.group_id: problem_of(each.error_code, each.error_message)
            or GroupDescription(
                each.group_id,
                kind.name,
                each.group_state,
                kind.protocol_type,
                kind.assignor(each),
                _node(peer),
                each.group_epoch,
                each.assignment_epoch,
                tuple(map(kind.member, each.members)),
                kind.topology(each),
            )
            for each in answer.groups
        }


def _node(peer: Peer) -> int:
    return -1 if peer.node_id is None else peer.node_id


def _code(described: GroupDescription | Problem | None) -> ErrorCode | None:
    return described.code if isinstance(described, Problem) else None


def _is_absent(described: GroupDescription | Problem | None) -> bool:
    """Whether a group of another type may have this id. UNSUPPORTED_VERSION is the answer of an API that is switched
    off.
    """
    return described is None or _code(described) in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)


def _classic_member(member: messages.DescribeGroupsResponse.DescribedGroupMember, protocol_type: str) -> GroupMember:
    subscribed: tuple[str, ...] = ()
    assignment: list[TopicPartition] = []
    # Other protocols, such as Connect's, put other data there, and a member may put anything: then there is nothing to
    # show.
    if protocol_type == PROTOCOL_TYPE:
        try:
            if member.member_metadata:
                subscribed = tuple(sorted(subscription_of(member.member_metadata).topics))
            assignment = list(itertools.starmap(TopicPartition, assignment_of(member.member_assignment)))
        except WireError:
            pass
    return GroupMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        None,
        -1,
        subscribed,
        None,
        tuple(sorted(assignment)),
        None,
        CLASSIC,
    )


def _consumer_member(member: messages.ConsumerGroupDescribeResponse.Member) -> GroupMember:
    return GroupMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rack_id,
        member.member_epoch,
        tuple(sorted(member.subscribed_topic_names)),
        member.subscribed_topic_regex or None,
        _partitions(member.assignment.topic_partitions),
        _partitions(member.target_assignment.topic_partitions),
        _MEMBER_PROTOCOLS.get(member.member_type, ""),
    )


def _share_member(member: messages.ShareGroupDescribeResponse.Member) -> GroupMember:
    return GroupMember(
        member.member_id,
        None,
        member.client_id,
        member.client_host,
        member.rack_id,
        member.member_epoch,
        tuple(sorted(member.subscribed_topic_names)),
        None,
        _partitions(member.assignment.topic_partitions),
        None,
        SHARE,
    )


def _streams_member(member: messages.StreamsGroupDescribeResponse.Member) -> GroupMember:
    endpoint = member.user_endpoint
    return GroupMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rack_id,
        member.member_epoch,
        (),
        None,
        (),
        None,
        CLASSIC if member.is_classic else STREAMS,
        StreamsFacts(
            member.process_id,
            member.topology_epoch,
            None if endpoint is None else f"{endpoint.host}:{endpoint.port}",
            {tag.key: tag.value for tag in member.client_tags},
            _tasks(member.assignment),
            _tasks(member.target_assignment),
        ),
    )


def _tasks(assignment: messages.StreamsGroupDescribeResponse.Assignment) -> Tasks:
    def tasks(ids: Iterable[messages.StreamsGroupDescribeResponse.TaskIds]) -> tuple[Task, ...]:
        return tuple(sorted(Task(each.subtopology_id, partition) for each in ids for partition in each.partitions))

    return Tasks(tasks(assignment.active_tasks), tasks(assignment.standby_tasks), tasks(assignment.warmup_tasks))


def _topology(topology: messages.StreamsGroupDescribeResponse.Topology | None) -> Topology | None:
    if topology is None:
        return None

    def topics(infos: Iterable[messages.StreamsGroupDescribeResponse.TopicInfo]) -> tuple[InternalTopic, ...]:
        return tuple(InternalTopic(each.name, each.partitions) for each in infos)

    return Topology(
        topology.epoch,
        tuple(
            Subtopology(
                each.subtopology_id,
                tuple(each.source_topics),
                topics(each.repartition_source_topics),
                tuple(each.repartition_sink_topics),
                topics(each.state_changelog_topics),
            )
            for each in topology.subtopologies or ()
        ),
    )


def _partitions(
    topics: Iterable[
        messages.ConsumerGroupDescribeResponse.TopicPartitions | messages.ShareGroupDescribeResponse.TopicPartitions
    ],
) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(TopicPartition(topic.topic_name, partition) for topic in topics for partition in topic.partitions)
    )


_CONSUMER_GROUP: Final = _NewerType(
    CONSUMER,
    PROTOCOL_TYPE,
    messages.ConsumerGroupDescribeRequest,
    messages.ConsumerGroupDescribeResponse,
    _consumer_member,
)
_SHARE_GROUP: Final = _NewerType(
    SHARE, SHARE, messages.ShareGroupDescribeRequest, messages.ShareGroupDescribeResponse, _share_member
)
_STREAMS_GROUP: Final = _NewerType(
    STREAMS,
    STREAMS,
    messages.StreamsGroupDescribeRequest,
    messages.StreamsGroupDescribeResponse,
    _streams_member,
    assignor=lambda _: "",
    topology=lambda group: _topology(group.topology),
)
