"""The status of a streams group: what heartbeats answer besides tasks, and the event of each change."""

from __future__ import annotations

import re
from typing import Final

from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.modern.journal import Noted
from broker_cy.coordinator.step import GroupStep
from broker_cy.coordinator.streams.configure import Status
from broker_cy.coordinator.streams.group import Reported, StreamsGroup
from broker_cy.coordinator.streams.internal_topics import MemberRights, create_missing
from broker_cy.coordinator.streams.member import StreamsMember
from broker_cy.core.step import Now
from broker_cy.metrics.events import GroupStatus, StreamsStatus

# Members with other rights get other texts: then the text changes with each heartbeat.
TEXT_INTERVAL_MS: Final = 60_000
# Characters of names of topics.
_NAMES: Final = re.compile(r"[A-Za-z0-9._-]+")


def status_of(
    machine: GroupTable,
    step: GroupStep,
    group: StreamsGroup,
    member: StreamsMember,
    delay: str | None,
    rights: MemberRights,
    now: Now,
) -> list[tuple[Status, str]]:
    """Return what the member learns besides its tasks. Missing internal topics are created; a change is reported."""
    assert group.topology is not None
    assert group.configured is not None
    found: list[tuple[Status, str]] = []
    if delay is not None:
        found.append((Status.ASSIGNMENT_DELAYED, delay))
    problem = group.configured.problem
    if problem is not None:
        more = create_missing(machine, step, group, rights, now) if group.configured.missing else ""
        found.append((problem.status, problem.detail + more))
    if group.shutdown_by is not None:
        found.append(
            (
                Status.SHUTDOWN_APPLICATION,
                f"Streams group member {group.shutdown_by} encountered a fatal error and requested a shutdown for the "
                "entire application.",
            )
        )
    _report(step, group, tuple(found), now)
    if member.topology_epoch < group.topology.epoch:
        found.insert(
            0,
            (
                Status.STALE_TOPOLOGY,
                f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch "
                f"{group.topology.epoch}.",
            ),
        )
    return found


def _report(step: GroupStep, group: StreamsGroup, found: tuple[tuple[Status, str], ...], now: Now) -> None:
    """Append the event of a change."""
    before = group.reported
    if before is None:
        if not found:
            return
    elif found == before.statuses or (
        [code for code, _ in found] == [code for code, _ in before.statuses]
        and now.mono_ms - before.at_ms < TEXT_INTERVAL_MS
    ):
        return
    group.reported = Reported(found, now.mono_ms)
    assert group.topology is not None
    statuses = [GroupStatus(code.name, detail) for code, detail in found]
    words = {word for _, detail in found for part in _NAMES.findall(detail) for word in (part, part.rstrip("."))}
    topics = sorted(group.topology.required_topics() & words)
    event = StreamsStatus(group.group_id, group.epoch, group.topology.epoch, statuses, topics)
    step.then(Noted(group.group_id, (event,)))
