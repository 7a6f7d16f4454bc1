"""The status of a streams group, from the events of its cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker_cy.admin.group_values import CONSUMER, STREAMS, GroupDescription
from broker_cy.console.group_status import newest_of, status_facts
from broker_cy.metrics.events import GroupEpoch, GroupStatus, Stamped, StreamsStatus, Trigger
from broker_cy.reporting.tone import Tone

NAMES = ("MISSING_SOURCE_TOPICS", "ASSIGNMENT_DELAYED", "SHUTDOWN_APPLICATION")
GROUP = GroupDescription("g", STREAMS, "NotReady", "streams", "sticky", 1, 3, 2, ())


def status(group: str, *names: str) -> Stamped:
    return Stamped(1, 1, StreamsStatus(group, 3, 1, [GroupStatus(name, "why") for name in names]))


def epoch(number: int, group: str = "g") -> Stamped:
    return Stamped(1, 1, GroupEpoch(group, STREAMS, number, Trigger("join", "m", "app"), 1))


def test_the_newest_events_of_the_group_are_shown() -> None:
    """If this fails, operators see the problem of another group, or one that was solved."""
    found = [status("g", NAMES[1]), epoch(2), status("g", NAMES[0]), epoch(3), status("h", NAMES[2]), epoch(9, "h")]
    facts = [(fact.name, fact.value, fact.tone) for fact in status_facts(GROUP, found)]
    assert facts == [
        ("streams status", "MISSING_SOURCE_TOPICS: why", Tone.WARN),
        ("last epoch", "join of app", Tone.PLAIN),
    ]
    assert newest_of(GROUP, [*found, status("g")]).statuses == ()
    assert list(status_facts(replace(GROUP, group_type=CONSUMER), found)) == []


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        ("NotReady", [NAMES[0], NAMES[2]]),
        ("Assigning", [NAMES[1], NAMES[2]]),
        ("Stable", [NAMES[2]]),
        ("Reconciling", [NAMES[2]]),
        ("Empty", []),
    ],
)
def test_a_status_that_the_state_excludes_is_not_shown(state: str, shown: list[str]) -> None:
    """If this fails, a group that is ready again shows its old problem after its coordinator moved."""
    found = newest_of(replace(GROUP, state=state), [status("g", *NAMES)])
    assert [each.status for each in found.statuses] == shown


def test_the_epoch_of_a_former_group_is_not_shown() -> None:
    """If this fails, a group shows the cause of an epoch of a deleted group that had its name."""
    assert newest_of(GROUP, [epoch(7)]).epoch is None
