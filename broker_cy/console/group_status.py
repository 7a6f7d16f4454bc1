"""The newest events of a streams group: its status, and the cause of its last epoch. A described group has neither."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from broker_cy.admin.group_values import STREAMS, GroupDescription
from broker_cy.client.event_text import cause_of, status_text
from broker_cy.console.figures import Fact
from broker_cy.core.classes import NamedTuple
from broker_cy.metrics.events import GroupEpoch, GroupStatus, Stamped, StreamsStatus
from broker_cy.reporting.tone import Tone

# The states of a group in which a status can hold; that of any other is NotReady.
_HELD_IN: Final = {
    "ASSIGNMENT_DELAYED": ("Assigning",),
    "SHUTDOWN_APPLICATION": ("Assigning", "NotReady", "Reconciling", "Stable"),
}
_NOT_READY: Final = ("NotReady",)


class Newest(NamedTuple):
    """The statuses that hold, and the newest epoch if its event is known."""

    statuses: tuple[GroupStatus, ...] = ()
    epoch: GroupEpoch | None = None


def newest_of(group: GroupDescription, events: Iterable[Stamped]) -> Newest:
    """`events` are in the order of their times. A coordinator that has just begun to serve a group does not report that
    all is well, so statuses that its state excludes are left out. Other types of groups have no status.
    """
    if group.group_type != STREAMS:
        return Newest()
    statuses: list[GroupStatus] = []
    epoch: GroupEpoch | None = None
    for stamped in events:
        event = stamped.event
        if isinstance(event, StreamsStatus) and event.group == group.group_id:
            statuses = event.statuses
        elif isinstance(event, GroupEpoch) and event.group == group.group_id:
            epoch = event
    held = tuple(each for each in statuses if group.state in _HELD_IN.get(each.status, _NOT_READY))
    # Another group may have had the name.
    return Newest(held, epoch if epoch is not None and epoch.epoch == group.group_epoch else None)


def status_facts(group: GroupDescription, events: Iterable[Stamped]) -> Iterator[Fact]:
    """Yield them as facts."""
    newest = newest_of(group, events)
    for each in newest.statuses:
        yield Fact("streams status", status_text(each), Tone.WARN)
    if newest.epoch is not None:
        yield Fact("last epoch", cause_of(newest.epoch))
