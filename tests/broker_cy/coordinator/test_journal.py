"""The event of a rebalance is correct: its cause, its duration, the owners of partitions, and the stalls."""

from __future__ import annotations

import struct
from collections.abc import Iterable

import pytest

from broker_cy.coordinator.classic import journal
from broker_cy.coordinator.classic.subscription import assigned_partitions, owned_partitions
from broker_cy.coordinator.step import GroupStep
from broker_cy.core.step import WorkFailed
from broker_cy.metrics.events import Rebalance
from tests.broker_cy.coordinator.harness import SESSION_MS, Harness

Places = Iterable[int]


def assignment(*partitions: int) -> bytes:
    """ConsumerProtocolAssignment version 1 of partitions of topic t."""
    head = struct.pack(">hi", 1, 1) + struct.pack(">h", 1) + b"t"
    return head + struct.pack(f">i{len(partitions)}i", len(partitions), *partitions) + struct.pack(">i", -1)


def owning(*partitions: int) -> tuple[tuple[str, bytes]]:
    """Return a cooperative member's protocols: ConsumerProtocolSubscription version 1 with its own partitions."""
    data = struct.pack(">hi", 1, 1) + struct.pack(">h", 1) + b"t" + struct.pack(">i", -1)
    data += struct.pack(">i", 1) + struct.pack(">h", 1) + b"t"
    data += struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    return (("cooperative-sticky", data),)


class Journaled(Harness):
    """Stores the events."""

    def __init__(self) -> None:
        self.events: list[Rebalance] = []
        # Whether workers are slow.
        self.delays = False
        super().__init__()

    def take(self, step: GroupStep) -> GroupStep:
        self.events += [event for event in step.events if isinstance(event, Rebalance)]
        super().take(step)
        if not self.delays:
            self.works_end()
        return step


@pytest.fixture(params=["at once", "in the background"])
def h(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Journaled:
    if request.param == "in the background":
        in_the_background(monkeypatch)
    return Journaled()


def in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with 10,000 partitions, moves are found by a worker."""
    monkeypatch.setattr(journal, "ASSIGNMENT_BYTES_PER_TURN", -1)


def stable(h: Journaled, shares: dict[str, bytes], protocols: tuple[tuple[str, bytes], ...]) -> list[str]:
    """Make a group of new members with these partitions."""
    ids = [h.join_new(f"join {name}", protocols=protocols) for name in shares]
    h.advance(1)
    generation = h.group().generation
    leader = h.group().leader_id
    for member_id in ids:
        if member_id != leader:
            h.sync(f"sync {member_id}", member_id, generation)
    given = dict(zip(ids, shares.values(), strict=True))
    assert leader is not None
    h.sync(f"sync {leader}", leader, generation, given)
    return ids


def moves(event: Rebalance) -> dict[int, tuple[str | None, str | None, int]]:
    return {move.partition: (move.source, move.target, move.stall_ms) for move in event.moves}


def test_first_assignment_moves_everything_from_nobody(h: Journaled) -> None:
    a, b = stable(h, {"a": assignment(0, 1), "b": assignment(2)}, (("range", b"\x00\x00"),))
    (event,) = h.events
    assert moves(event) == {0: (None, a, -1), 1: (None, a, -1), 2: (None, b, -1)}
    assert [trigger.reason for trigger in event.triggers] == ["join", "join"]
    assert (event.members_before, event.members_after, event.kept) == (0, 2, 0)


def test_eager_members_stop_with_their_join(h: Journaled) -> None:
    """The second of two members takes 700 ms longer to rejoin, so its partitions were stalled for less time."""
    a, b = stable(h, {"a": assignment(0), "b": assignment(1)}, (("range", b"\x00\x00"),))
    c = h.join_new("join c")
    h.advance(300)
    h.join("again a", a)
    h.advance(700)
    h.join("again b", b)
    h.sync("sync b", b, 2)
    h.sync("sync c", c, 2)
    h.advance(50)
    h.sync("sync a", a, 2, {a: assignment(0), b: b"", c: assignment(1)})
    event = h.events[-1]
    assert moves(event) == {0: (a, a, 750), 1: (b, c, 50)}
    assert (event.join_ms, event.sync_ms, event.total_ms, event.stall_max_ms) == (1000, 50, 1050, 750)
    assert [(trigger.reason, trigger.member_id) for trigger in event.triggers] == [("join", c)]


def test_cooperative_members_keep_what_they_name(h: Journaled) -> None:
    """KIP-429: only partitions that move are stalled, from revocation until they are assigned to the new owner."""
    (a,) = stable(h, {"a": assignment(0, 1, 2, 3)}, owning())
    b = h.join_new("join b", protocols=owning())
    h.advance(100)
    h.join("again a", a, protocols=owning(0, 1, 2, 3))
    h.sync("sync b", b, 2)
    h.sync("sync a", a, 2, {a: assignment(0, 1), b: b""})
    event = h.events[-1]
    assert moves(event) == {2: (a, None, 0), 3: (a, None, 0)}
    assert event.kept == 2
    h.advance(40)
    h.join("third a", a, protocols=owning(0, 1))
    h.advance(60)
    h.join("third b", b, protocols=owning())
    h.sync("sync3 b", b, 3)
    h.sync("sync3 a", a, 3, {a: assignment(0, 1), b: assignment(2, 3)})
    event = h.events[-1]
    assert moves(event) == {2: (None, b, 100), 3: (None, b, 100)}
    assert event.kept == 2
    assert [trigger.reason for trigger in event.triggers] == ["rejoin"]


def test_lost_member_counts_from_when_it_was_last_heard_of(h: Journaled) -> None:
    a, b = stable(h, {"a": assignment(0), "b": assignment(1)}, (("range", b"\x00\x00"),))
    h.advance(1000)
    h.heartbeat(a, 1)
    h.advance(SESSION_MS - 500)
    h.heartbeat(a, 1)
    h.advance(600)
    h.join("again a", a)
    h.sync("sync a", a, 2, {a: assignment(0, 1)})
    event = h.events[-1]
    assert [(trigger.reason, trigger.member_id) for trigger in event.triggers] == [("session_timeout", b)]
    # b was last heard from when it requested its assignment.
    assert moves(event)[1] == (b, a, 1000 + SESSION_MS - 500 + 600)


def test_nobody_left(h: Journaled) -> None:
    (a,) = stable(h, {"a": assignment(0)}, (("range", b"\x00\x00"),))
    h.leave("leave", (a, None))
    event = h.events[-1]
    assert (event.result, event.members_before, event.members_after) == ("empty", 1, 0)
    assert moves(event) == {0: (a, None, 0)}
    h.advance(5000)
    b = h.join_new("join b")
    h.advance(1)
    h.sync("sync b", b, h.group().generation, {b: assignment(0)})
    assert moves(h.events[-1])[0][2] >= 5000


def test_group_that_never_settles_is_reported_once_with_all_its_triggers(h: Journaled) -> None:
    """A rebalance that starts over is one rebalance for the waiting members."""
    a, b = stable(h, {"a": assignment(0), "b": assignment(1)}, (("range", b"\x00\x00"),))
    count = len(h.events)
    h.leave("leave b", (b, None))
    h.advance(100)
    h.join("again a", a)
    c = h.join_new("join c")
    h.advance(100)
    h.join("third a", a)
    h.sync("sync c", c, 3)
    h.sync("sync a", a, 3, {a: assignment(0), c: assignment(1)})
    assert len(h.events) == count + 1
    event = h.events[-1]
    assert [trigger.reason for trigger in event.triggers] == ["leave", "join"]
    assert event.total_ms == 200


@pytest.mark.parametrize("data", [b"\x00", b"\x00\x01\x00\x00", b"\xff\xff", b"\x00\x01\x7f\xff\xff\xff", b"junk" * 9])
def test_what_cannot_be_read_is_owned_by_nobody(data: bytes) -> None:
    """The metadata of members may be any bytes."""
    assert assigned_partitions(data) == []
    assert owned_partitions((("range", data),)) == frozenset()


@pytest.mark.parametrize("is_early", [False, True])
def test_moves_that_a_worker_finds(monkeypatch: pytest.MonkeyPatch, is_early: bool) -> None:
    """If this fails, a rebalance is reported twice, or the next one names members that had a partition before; or a
    leader that assigns 10,000 partitions holds producers up. `is_early`: the next rebalance begins before the moves of
    the first one are found.
    """
    in_the_background(monkeypatch)
    h = Journaled()
    h.delays = True
    a, b = stable(h, {"a": assignment(0, 1), "b": assignment(2)}, (("range", b"\x00\x00"),))
    assert h.events == []
    if not is_early:
        h.works_end()
    h.advance(500)
    h.leave("b leaves", (b, None))
    h.advance(300)
    h.join("again a", a)
    h.works_end()
    (first,) = h.events
    assert moves(first) == {0: (None, a, -1), 1: (None, a, -1), 2: (None, b, -1)}
    h.sync("sync a", a, h.group().generation, {a: assignment(1, 2)})
    assert h.events == [first]
    h.works_end()
    _, second = h.events
    assert moves(second) == {0: (a, None, 0), 1: (a, a, 0), 2: (b, a, 300)}


def test_moves_that_a_worker_does_not_find(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a rebalance is never reported if its worker had no memory."""
    in_the_background(monkeypatch)
    h = Journaled()
    h.delays = True
    (a,) = stable(h, {"a": assignment(0)}, (("range", b"\x00\x00"),))
    (work,) = h.works
    h.works = []
    h.run(work.then, *work.about, WorkFailed("no memory"))
    (event,) = h.events
    assert (event.generation, event.moves) == (h.group().generation, [])
    h.delays = False
    h.leave("a leaves", (a, None))
    assert moves(h.events[-1]) == {0: (a, None, 0)}
