"""Groups: list and describe (classic ones and those of KIP-848), delete."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from broker_cy.admin.caller import Brokers, Caller, Outcome, Send, every_broker
from broker_cy.admin.coordinators import Coordinators
from broker_cy.admin.group_consumer import COMMIT_S, GroupConsumer
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.admin.records import Start
from broker_cy.client.consumer_protocol import PROTOCOL_TYPE, RANGE, assignment_of, subscription_of
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import Problem, problem_of
from broker_cy.client.group_member import MemberSettings
from broker_cy.client.pool import Peer
from broker_cy.core.errors import ErrorCode, WireError
from broker_cy.wire import messages
from broker_cy.wire.api_keys import ApiKey

V = TypeVar("V")

# Groups of one request: a description holds every member's assignment.
DESCRIBED_MAX = 100
DELETED_MAX = 500
CLASSIC = "classic"
CONSUMER = "consumer"
# From this version on DescribeGroups answers GROUP_ID_NOT_FOUND (KIP-1043); before, it reports a dead group.
_NOT_FOUND_FROM = 6
_DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group as ListGroups reports it. State and type are empty from old brokers (before versions 4 and 5)."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member. `assignment` is its current assignment, `target` the intended one (KIP-848 groups only, else None).

    `subscribed` are topic names. Classic groups have no member epoch (-1).
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rack: str | None
    member_epoch: int
    subscribed: tuple[str, ...]
    subscribed_regex: str | None
    assignment: tuple[TopicPartition, ...]
    target: tuple[TopicPartition, ...] | None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group. `assignor` is the protocol or assignor in use; epochs are -1 for classic groups."""

    group_id: str
    group_type: str
    state: str
    protocol_type: str
    assignor: str
    coordinator_id: int
    group_epoch: int
    assignment_epoch: int
    members: tuple[GroupMember, ...]


class GroupCalls:
    """`client.groups`."""

    def __init__(self, caller: Caller, coordinators: Coordinators) -> None:
        self._caller = caller
        self._coordinators = coordinators

    async def list_all(
        self, *, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> Outcome[int, tuple[GroupListing, ...]]:
        """The groups that each broker coordinates, by broker id; only those in `states` and of `types` where given.

        Kafka's names: Stable, Empty, PreparingRebalance ...; classic, consumer, share, streams. A broker that fails
        leaves out only its own groups: see `listed` for the groups of all brokers.
        """
        deadline = self._caller.deadline()
        wanted_states, wanted_types = list(states), list(types)
        at_least = 5 if wanted_types else 4 if wanted_states else 0

        async def send(
            peer: Peer, keys: list[int], deadline: Deadline
        ) -> dict[int, tuple[GroupListing, ...] | Problem]:
            request = messages.ListGroupsRequest(states_filter=wanted_states, types_filter=wanted_types)
            answer, _ = await self._caller.pool.ask(
                peer, request, messages.ListGroupsResponse, deadline, at_least=at_least
            )
            problem = problem_of(answer.error_code)
            listing = tuple(
                GroupListing(each.group_id, each.protocol_type, each.group_state, each.group_type)
                for each in answer.groups
            )
            return {keys[0]: problem or listing}

        return await self._caller.spread(
            await every_broker(self._caller, deadline),
            Brokers(self._caller.metadata),
            send,
            api="ListGroups",
            name=lambda key: f"broker {key}",
            chunk=1,
            deadline=deadline,
        )

    async def listed(self, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> tuple[GroupListing, ...]:
        """Every group, by id. ClientError if a broker does not report its groups."""
        by_broker = (await self.list_all(states=states, types=types)).whole()
        groups = (group for listing in by_broker.values() for group in listing)
        return tuple(sorted(groups, key=lambda group: group.group_id))

    async def describe(self, group_ids: Iterable[str]) -> Outcome[str, GroupDescription]:
        """State, members and assignments of groups of either type."""

        async def send(peer: Peer, keys: list[str], deadline: Deadline) -> dict[str, GroupDescription | Problem]:
            link = await self._caller.pool.link(peer, deadline)
            described: dict[str, GroupDescription | Problem] = {}
            if ApiKey.CONSUMER_GROUP_DESCRIBE in link.versions:
                described = await self._describe_consumer(peer, keys, deadline)
            # ConsumerGroupDescribe reports a classic group as if it did not exist.
            others = [key for key in keys if _is_absent(described.get(key))]
            return described | (await self._describe_classic(peer, others, deadline) if others else {})

        return await self._spread(group_ids, send, "DescribeGroups", DESCRIBED_MAX)

    async def _describe_consumer(
        self, peer: Peer, keys: list[str], deadline: Deadline
    ) -> dict[str, GroupDescription | Problem]:
        request = messages.ConsumerGroupDescribeRequest(group_ids=keys)
        answer, _ = await self._caller.pool.ask(peer, request, messages.ConsumerGroupDescribeResponse, deadline)
        coordinator = -1 if peer.node_id is None else peer.node_id
        return {
            each.group_id: problem_of(each.error_code, each.error_message)
            or GroupDescription(
                each.group_id,
                CONSUMER,
                each.group_state,
                PROTOCOL_TYPE,
                each.assignor_name,
                coordinator,
                each.group_epoch,
                each.assignment_epoch,
                tuple(_consumer_member(member) for member in each.members),
            )
            for each in answer.groups
        }

    async def _describe_classic(
        self, peer: Peer, keys: list[str], deadline: Deadline
    ) -> dict[str, GroupDescription | Problem]:
        request = messages.DescribeGroupsRequest(groups=keys)
        answer, version = await self._caller.pool.ask(peer, request, messages.DescribeGroupsResponse, deadline)
        coordinator = -1 if peer.node_id is None else peer.node_id
        out: dict[str, GroupDescription | Problem] = {}
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
                coordinator,
                -1,
                -1,
                members,
            )
        return out

    async def delete(self, group_ids: Iterable[str]) -> Outcome[str, bool]:
        """Delete groups without members, with their offsets; True for each that was deleted."""

        async def send(peer: Peer, keys: list[str], deadline: Deadline) -> dict[str, bool | Problem]:
            request = messages.DeleteGroupsRequest(groups_names=keys)
            answer, _ = await self._caller.pool.ask(peer, request, messages.DeleteGroupsResponse, deadline)
            return {each.group_id: problem_of(each.error_code) or True for each in answer.results}

        return await self._spread(group_ids, send, "DeleteGroups", DELETED_MAX)

    def consumer(
        self,
        settings: MemberSettings,
        topics: Sequence[str],
        *,
        assignors: Sequence[str] = (RANGE,),
        start: Start | None = None,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        commit_s: float | None = COMMIT_S,
    ) -> GroupConsumer:
        """Reads topics as a member of a group: see GroupConsumer. Raises ClientError."""
        return GroupConsumer(
            self._caller,
            self._coordinators,
            settings,
            topics,
            assignors=assignors,
            start=start,
            isolation=isolation,
            commit_s=commit_s,
        )

    async def _spread(self, keys: Iterable[str], send: Send[str, V], api: str, chunk: int) -> Outcome[str, V]:
        return await self._caller.spread(
            keys, self._coordinators, send, api=api, name=lambda key: f"group {key}", chunk=chunk
        )


def _is_absent(described: GroupDescription | Problem | None) -> bool:
    if isinstance(described, Problem):
        return described.code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)
    return described is None


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
        _partitions(member.assignment),
        _partitions(member.target_assignment),
    )


def _partitions(assignment: messages.ConsumerGroupDescribeResponse.Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, partition)
            for topic in assignment.topic_partitions
            for partition in topic.partitions
        )
    )
