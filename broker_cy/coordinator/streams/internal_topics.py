"""The creation of internal topics in the name of the member whose heartbeat finds them missing.

As in Kafka, a member without the right to create one of them creates none. Topics that could not be created are tried
again after two heartbeats; until then, heartbeats get the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.step import CallFailed, GroupStep
from broker_cy.coordinator.streams.group import StreamsGroup
from broker_cy.coordinator.streams.topology import InternalTopic
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode
from broker_cy.core.step import Now

# Heartbeats for which a failure is kept.
FAILED_HEARTBEATS: Final = 2
# Failures that a status names; of the others it has the number.
FAILURES_MAX: Final = 3


class Requester(NamedTuple):
    """The client in whose name topics are created: `principal` in Kafka's form, and whether it has logged in with a
    delegation token.
    """

    client_id: str | None
    host: str
    listener: str
    principal: str
    by_token: bool


class CreateInternalTopics(NamedTuple):
    """The request to the service that creates topics. Its result is a tuple of `NotCreated`."""

    requester: Requester
    topics: tuple[InternalTopic, ...]


class NotCreated(NamedTuple):
    topic: str
    reason: str


class MemberRights(NamedTuple):
    """The client of a heartbeat, and which topics it may create; None: all."""

    requester: Requester
    may_create: Callable[[str], bool] | None


def create_missing(machine: GroupTable, step: GroupStep, group: StreamsGroup, rights: MemberRights, now: Now) -> str:
    """Create the missing internal topics that are not being created already. Returns what the status has to add."""
    assert group.configured is not None
    missing = group.configured.missing
    if rights.may_create is not None:
        denied = [topic.name for topic in missing if not rights.may_create(topic.name)]
        if denied:
            return f"; Unauthorized to CREATE on topics {', '.join(denied)}."
    failed = group.failed_creations(now.mono_ms)
    wanted = tuple(topic for topic in missing if topic.name not in failed and topic.name not in group.creating)
    if wanted:
        names = frozenset(topic.name for topic in wanted)
        group.creating |= names
        request = CreateInternalTopics(rights.requester, wanted)
        step.call_when_written(request, created, group.group_id, group.number, names)
        step.then(CreationBegun(group.group_id, group.number, names))
    shown = [f"{topic.name} ({failed[topic.name]})" for topic in missing if topic.name in failed]
    if not shown:
        return ""
    more = len(shown) - FAILURES_MAX
    return f"; Creation failed: {', '.join(shown[:FAILURES_MAX])}{f' and {more} more' if more > 0 else ''}."


class CreationBegun(NamedTuple):
    """Topics are created when the records of the heartbeat are written."""

    group_id: str
    number: int
    names: frozenset[str]

    def written(self, machine: GroupTable, out: GroupStep, now: Now) -> None:
        """The call is made."""

    def failed(self, machine: GroupTable, out: GroupStep, now: Now, code: ErrorCode) -> None:
        """It is not: another heartbeat makes it."""
        if (group := _same_group(machine, self.group_id, self.number)) is not None:
            group.creating -= self.names


def created(
    machine: GroupTable,
    step: GroupStep,
    group_id: str,
    number: int,
    names: Collection[str],
    result: tuple[NotCreated, ...] | CallFailed,
    now: Now,
) -> None:
    """The service has answered. Topics that exist now begin another epoch with the next heartbeat."""
    group = _same_group(machine, group_id, number)
    if group is None:
        return
    group.creating -= frozenset(names)
    if isinstance(result, CallFailed):
        result = tuple(NotCreated(name, result.reason) for name in sorted(names))
    until_ms = now.mono_ms + FAILED_HEARTBEATS * machine.streams_config(group_id).heartbeat_interval_ms
    for topic, reason in result:
        group.creation_errors[topic] = (reason, until_ms)


def _same_group(machine: GroupTable, group_id: str, number: int) -> StreamsGroup | None:
    """The group, unless it is a later one of its id."""
    group = machine.groups.get(group_id)
    return group if isinstance(group, StreamsGroup) and group.number == number else None
