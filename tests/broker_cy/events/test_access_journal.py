"""The journal of rights that clients use."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from broker_cy.events import access_journal
from broker_cy.events.access_journal import ROOM, AccessJournal, Kind
from broker_cy.metrics.events import Accesses
from broker_cy.security.acls import Operation, ResourceType

READ, WRITE, TOPIC = Operation.READ, Operation.WRITE, ResourceType.TOPIC


class Rig:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loop = asyncio.new_event_loop()
        self.due: list[tuple[float, Any, asyncio.TimerHandle]] = []
        monkeypatch.setattr(self.loop, "call_later", self._later)
        self.written: list[Accesses] = []
        self.periods = 0
        self.journal = AccessJournal(self.loop, self.written.append, self._on_period, allow_if_no_acl=True)  # type: ignore[arg-type]

    def _later(self, delay_s: float, call: Any) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(0, call, (), self.loop)
        self.due.append((delay_s, call, handle))
        return handle

    def _on_period(self) -> None:
        self.periods += 1

    def saw(self, name: str = "t", operation: Operation = READ, kind: Kind = Kind.NAMED) -> None:
        self.journal.saw("User:a", "10.0.0.1", operation, TOPIC, name, kind)

    def pass_time(self, delay_s: float) -> None:
        at = next(n for n, (each, _, handle) in enumerate(self.due) if each == delay_s and not handle.cancelled())
        self.due.pop(at)[1]()

    def take(self) -> list[tuple[str, list[str]]]:
        found = [(each.resource, each.operations) for event in self.written for each in event.accesses]
        self.written.clear()
        return found


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    made = Rig(monkeypatch)
    yield made
    made.loop.close()


def test_an_access_is_written_once_an_hour(rig: Rig) -> None:
    """If this fails, the topic of events grows with the traffic, or an access of this hour is missing."""
    for _ in range(1_000):
        rig.saw()
        rig.saw(operation=WRITE)
        rig.saw("u")
    rig.pass_time(access_journal.WRITE_S)
    assert rig.written[0].allow_if_no_acl is True
    assert rig.take() == [("t", ["READ", "WRITE"]), ("u", ["READ"])]
    rig.saw()
    rig.saw("u", WRITE)
    rig.pass_time(access_journal.WRITE_S)
    assert rig.take() == [("u", ["WRITE"])]
    assert rig.periods == 0
    rig.saw("v")
    rig.pass_time(access_journal.PERIOD_S)
    assert (rig.take(), rig.periods) == ([("v", ["READ"])], 1)
    rig.saw()
    rig.pass_time(access_journal.WRITE_S)
    assert rig.take() == [("t", ["READ"])]


def test_the_journal_is_bounded(rig: Rig) -> None:
    """If this fails, a client that uses random names exhausts the broker's memory, or the room of all other clients."""
    for number in range(ROOM[Kind.REFUSED] + 100):
        rig.saw(f"random-{number}", kind=Kind.REFUSED)
    for number in range(ROOM[Kind.LISTED] + 50):
        rig.saw(f"listed-{number}", kind=Kind.LISTED)
    rig.saw("needed")
    rig.journal.stop()
    assert sum(event.left_out for event in rig.written) == 150
    assert max(len(event.accesses) for event in rig.written) == access_journal.ACCESSES_AN_EVENT
    found = rig.take()
    assert len(found) == ROOM[Kind.REFUSED] + ROOM[Kind.LISTED] + 1
    assert ("needed", ["READ"]) in found
    rig.saw("late")
    assert all(handle.cancelled() for delay_s, _, handle in rig.due if delay_s == access_journal.PERIOD_S)


def test_what_was_left_out_is_said(rig: Rig) -> None:
    """If this fails, an incomplete preview looks complete."""
    rig.journal._room[Kind.NAMED] = 0
    rig.saw("x")
    rig.pass_time(access_journal.WRITE_S)
    assert [(event.accesses, event.left_out) for event in rig.written] == [([], 1)]
