"""Groups of every type: list, describe, delete."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from broker_cy.admin.caller import Brokers, Caller, Outcome, Send, every_broker
from broker_cy.admin.coordinators import Coordinators
from broker_cy.admin.group_consumer import COMMIT_S, GroupConsumer
from broker_cy.admin.group_descriptions import Descriptions
from broker_cy.admin.group_values import GroupDescription, GroupListing
from broker_cy.admin.offsets import Isolation
from broker_cy.admin.records import Start
from broker_cy.client.consumer_protocol import RANGE
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import Problem, problem_of
from broker_cy.client.group_member import MemberSettings
from broker_cy.client.pool import Peer
from broker_cy.wire import messages

V = TypeVar("V")

# Groups of one request: a description holds every member's assignment.
DESCRIBED_MAX = 100
DELETED_MAX = 500


class GroupCalls:
    """`client.groups`."""

    def __init__(self, caller: Caller, coordinators: Coordinators) -> None:
        self._caller = caller
        self._coordinators = coordinators
        self._descriptions = Descriptions(caller)

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
        """State, members and assignments of groups of any type."""
        return await self._spread(group_ids, self._descriptions.of, "DescribeGroups", DESCRIBED_MAX)

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
