"""The events of a flow, from its states."""

from __future__ import annotations

from typing import Any

import pytest

from broker_cy.client.mirror_status import FlowStatus, PartitionState, Restart
from broker_mirror import journal
from broker_mirror.journal import Journal

RUNNING = FlowStatus("A", "B", "copy", "running", share="1 of 2", leads=True)


def state(base: FlowStatus = RUNNING, **changed: Any) -> FlowStatus:
    given = {name: getattr(base, name) for name in FlowStatus.__slots__}
    return FlowStatus(**{**given, **changed})


def told(found: Journal, status: FlowStatus) -> list[tuple[str, str, str]]:
    return [(each.change, each.subject, each.reason) for each in found.look(status)]


def test_begins_and_failures_are_told_once() -> None:
    """If this fails, an operator does not find when a flow stood still, and why."""
    found = Journal("A", "B")
    assert told(found, FlowStatus("A", "B", "copy", "starting")) == []
    assert told(found, RUNNING) == [("started", "", "part 1 of 2")]
    assert told(found, RUNNING) == []
    waiting = FlowStatus("A", "B", "copy", "waiting", restarts=1, last_restarts=(Restart(5, "the target is away"),))
    assert told(found, waiting) == [("failed", "", "the target is away")]
    assert told(found, waiting) == []
    # It failed again and runs already.
    again = state(restarts=3, last_restarts=(Restart(5, "a"), Restart(6, "the session ended")))
    assert told(found, again) == [("failed", "", "the session ended"), ("started", "", "part 1 of 2")]


def test_problems_begin_and_end_after_two_looks() -> None:
    """If this fails, one failed turn of a task is an event, or a lasting problem is none."""
    found = Journal("A", "B")
    found.look(RUNNING)
    denied = state(problems={"sync.topic.acls": "denied"})
    assert told(found, denied) == []
    assert told(found, RUNNING) == []
    assert told(found, denied) == []
    assert told(found, denied) == [("problem_began", "sync.topic.acls", "denied")]
    assert told(found, state(problems={"sync.topic.acls": "denied again"})) == []
    assert told(found, RUNNING) == []
    assert told(found, denied) == []
    assert [told(found, RUNNING) for _ in range(2)] == [[], [("problem_ended", "sync.topic.acls", "denied")]]
    part = PartitionState("t", 3, "A.t", None, None, None, None, None, 0, 0, "no partition 3", True)
    assert [told(found, state(partitions=(part,))) for _ in range(2)][1] == [("problem_began", "t-3", "no partition 3")]


def test_one_process_tells_of_loops_and_topics() -> None:
    """If this fails, each process of a flow writes the same events."""
    leader, other = Journal("A", "B"), Journal("A", "B")
    found = state(loops=("B.t",), problems={"refresh.topics: u": "fewer partitions"})
    assert told(leader, found)[1:] == [("loop_found", "B.t", "the topic comes from B")]
    assert told(leader, found) == [("problem_began", "refresh.topics: u", "fewer partitions")]
    assert [told(other, state(found, leads=False)) for _ in range(3)][1:] == [[], []]


def test_events_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a target that denies everything fills the topic of events."""
    monkeypatch.setattr(journal, "EVENTS_MAX", 2)
    found = Journal("A", "B")
    many = state(problems={f"t-{each}": "denied" for each in range(5)}, loops=tuple(f"B.{each}" for each in range(4)))
    assert [each[1] for each in told(found, many)[1:]] == ["B.0", "B.1", "others"]
    assert [each[1:] for each in told(found, many)] == [("t-0", "denied"), ("t-1", "denied"), ("others", "3 more")]
    assert told(found, many) == []
