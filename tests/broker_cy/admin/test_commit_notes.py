"""Time lag from the brokers' commit events: the events that are used, and the number that is read."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable

import pytest

from broker_cy.admin import commit_notes
from broker_cy.admin.caller import Outcome
from broker_cy.admin.commit_notes import CommitNotes, CommitTail, EventTimestamps
from broker_cy.admin.group_lag import GroupLag, PartitionLag
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.own_topics import EVENTS_TOPIC, Entry, OwnTopic
from broker_cy.admin.records import Span, Start
from broker_cy.client.errors import ClientError, Failure
from broker_cy.core.errors import ErrorCode
from broker_cy.metrics.events import BrokerStopped, Commits, Committed, Event, Stamped, TopicDeleted

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
FALLBACK_MS = 77


def commit(group: str, key: TopicPartition, offset: int, record_time_ms: int) -> Commits:
    return Commits(group, [Committed(key.topic, key.partition, offset, 5, record_time_ms, 100)])


def behind(key: TopicPartition, committed: int) -> PartitionLag:
    return PartitionLag(key, committed, start=0, end=200)


class Log(OwnTopic[Stamped]):
    """The event topic, in memory, and which ranges of it were read."""

    def __init__(self, happened: Iterable[Event] = ()) -> None:
        self.topic = EVENTS_TOPIC
        self.happened = list(happened)
        self.earliest = 0
        self.read_ranges: list[tuple[int, int]] = []
        self.too_large: set[int] = set()
        self.problem: ClientError | None = None

    async def span(self, start: Start) -> Span:
        if self.problem is not None:
            raise self.problem
        return Span(len(self.happened), len(self.happened), self.earliest)

    async def read_range(self, start: int, end: int, *, skip: bytes = b"") -> list[Entry[Stamped]] | None:
        self.read_ranges.append((start, end))
        if self.too_large & set(range(start, end)):
            return None
        return [Entry(at, Stamped(at, 0, self.happened[at]), b"") for at in range(start, end)]


class Fallback:
    """Takes the place of reading records: knows one timestamp."""

    def __init__(self) -> None:
        self.asked: list[PartitionLag] = []

    async def unread_timestamps(
        self, group_id: str, parts: Collection[PartitionLag]
    ) -> Outcome[TopicPartition, int | None]:
        self.asked += parts
        return Outcome({part.partition: FALLBACK_MS for part in parts}, {})


class Asking:
    """Requests timestamps from EventTimestamps over a log; every request finds new events."""

    def __init__(self, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(commit_notes, "REFRESH_S", 0.0)
        monkeypatch.setattr(commit_notes, "STEPS", (2, 4))
        self.log, self.fallback = log, Fallback()
        self.tail = CommitTail(CommitNotes())
        self.source = EventTimestamps(self.tail, log, self.fallback)

    async def __call__(self, group: str, offsets: dict[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        self.log.read_ranges.clear()
        return (await self.source.unread_timestamps(group, [behind(*each) for each in offsets.items()])).whole()


def test_an_event_is_believed_only_for_its_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a group seems minutes behind because of the time of another record."""

    async def job() -> None:
        log = Log([commit("g", A, 5, 1000), commit("g", B, 9, -1), commit("h", A, 5, 3000)])
        ask = Asking(log, monkeypatch)
        assert await ask("g", {A: 5}) == {A: 1000}
        assert ask.fallback.asked == []
        # A newer commit has no event, or there was no record to read at the time of the commit.
        assert await ask("g", {A: 6, B: 9}) == {A: FALLBACK_MS, B: FALLBACK_MS}
        log.happened.append(commit("g", A, 6, 2000))
        assert await ask("g", {A: 6}) == {A: 2000}
        # The group went back: the older event has the same offset, but is not the last one.
        assert await ask("g", {A: 5}) == {A: FALLBACK_MS}
        # The topic is a different one now, under the same name.
        log.happened.append(TopicDeleted("a"))
        assert await ask("g", {A: 6}) == {A: FALLBACK_MS}
        assert await ask("h", {A: 5}) == {A: FALLBACK_MS}

    asyncio.run(job())


def test_no_more_is_read_than_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the lag of one group requires reading a month of events."""

    async def job() -> None:
        log = Log([commit("old", A, 1, 10), *[BrokerStopped()] * 10, commit("far", A, 2, 20), commit("g", A, 5, 1000)])
        ask = Asking(log, monkeypatch)
        assert await ask("g", {A: 5}) == {A: 1000}
        assert log.read_ranges == [(11, 13)]
        assert await ask("far", {A: 2}) == {A: 20}
        assert log.read_ranges == [(13, 13)]
        # Out of reach: both steps were read, and nothing is read again.
        assert await ask("old", {A: 1}) == {A: FALLBACK_MS}
        assert log.read_ranges == [(13, 13), (7, 11)]
        assert await ask("old", {A: 1}) == {A: FALLBACK_MS}
        assert log.read_ranges == [(13, 13)]
        # Only new events are read or, if there are too many, again from the end.
        log.happened += [BrokerStopped()] * 3
        await ask("g", {A: 5})
        assert log.read_ranges == [(13, 16)]
        log.happened += [BrokerStopped()] * 50
        assert await ask("g", {A: 5}) == {A: FALLBACK_MS}
        assert log.read_ranges == [(64, 66), (60, 64)]

    asyncio.run(job())


def test_a_step_with_too_many_bytes_is_not_taken_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, an event in the part that was read is used, although the unread part has a newer one."""

    async def job() -> None:
        log = Log([commit("g", A, 5, 1000), commit("g", A, 5, 2000), commit("h", A, 1, 1)])
        log.too_large = {0}
        ask = Asking(log, monkeypatch)
        assert await ask("g", {A: 5, B: 0}) == {A: 2000, B: FALLBACK_MS}
        assert log.read_ranges == [(1, 3), (0, 1)]
        log.too_large = {3}
        log.happened.append(commit("g", A, 5, 3000))
        assert await ask("g", {A: 5}) == {A: FALLBACK_MS}

    asyncio.run(job())


def test_older_events_of_a_topic_that_was_deleted_since(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a topic that was created again has the times of the old one."""

    async def job() -> None:
        log = Log([commit("g", A, 5, 1000), commit("g", B, 5, 1000), TopicDeleted("a"), commit("h", A, 5, 2000)])
        ask = Asking(log, monkeypatch)
        assert await ask("g", {A: 5, B: 5}) == {A: FALLBACK_MS, B: 1000}
        assert await ask("h", {A: 5}) == {A: 2000}
        # Also if it is the event topic itself.
        log.happened = [commit("h", A, 5, 3000)]
        assert await ask("h", {A: 5}) == {A: 3000}

    asyncio.run(job())


def test_without_events_records_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, Apache Kafka's groups have no time lag, or each request for one requests a topic that does not
    exist.
    """

    async def job() -> None:
        log = Log()
        log.problem = ClientError(Failure.REFUSED, "none", code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        ask = Asking(log, monkeypatch)
        assert await ask("g", {A: 5}) == {A: FALLBACK_MS}
        assert ask.tail.problem is log.problem
        log.problem, log.happened = None, [commit("g", A, 5, 1000)]
        assert await ask("g", {A: 5}) == {A: FALLBACK_MS}
        monkeypatch.setattr(ask.tail, "_next_look_s", 0.0)
        assert await ask("g", {A: 5}) == {A: 1000}
        assert ask.tail.problem is None

    asyncio.run(job())


def test_share_groups_begin_where_their_leader_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a share group that has finished all but its newest records seems as late as its first record: the
    start offset is persisted with the next acknowledgement only.
    """

    def shared(committed: int | None, lag: int, *, start: int = 0) -> PartitionLag:
        return PartitionLag(A, committed, start, 9, incomplete=lag)

    def reported(start: int, completed: int, record_time_ms: int) -> Commits:
        return Commits("g", [Committed("a", 0, start, 5, record_time_ms, 9, completed)])

    async def job() -> None:
        log = Log([reported(4, 2, 1000)])
        ask = Asking(log, monkeypatch)

        async def time_of(part: PartitionLag) -> int | None:
            return (await ask.source.unread_timestamps("g", [part])).whole()[A]

        # 4 + 2 of 9 were finished, or more since.
        assert await time_of(shared(0, 3)) == 1000
        assert await time_of(shared(4, 2)) == 1000
        assert (await ask.source.with_commit_times(GroupLag("g", (shared(0, 3),)))).partitions[0].commit_ms == 5
        assert ask.tail.notes.exact(GroupLag("g", (shared(0, 3),))) == {A}
        assert ask.tail.notes.sampled_time_ms("g", A, 6) == 1000
        assert ask.fallback.asked == []
        # Finished records came again, the group was reset, or records were deleted: the record itself is read.
        others = [shared(0, 4), shared(0, 9), shared(5, 3), shared(0, 3, start=5)]
        for part in others:
            assert await time_of(part) == FALLBACK_MS
        assert [part.first_unread for part in ask.fallback.asked] == [0, 0, 5, 5]
        assert ask.tail.notes.sampled_time_ms("g", A, 5) is None
        # It had finished all records then; the one after them came later.
        log.happened.append(reported(8, 0, -1))
        assert await time_of(shared(0, 1)) == FALLBACK_MS
        assert ask.fallback.asked[-1].first_unread == 8

    asyncio.run(job())


def test_notes_are_bounded() -> None:
    """If this fails, a console that runs for months keeps every group that ever existed."""
    notes = CommitNotes(commits_max=2)
    for number, group in enumerate(("f", "g", "f", "h")):
        notes.take(Stamped(number, 0, commit(group, A, 5, number)))
    assert len(notes) == 2
    assert [notes.record_time_ms(group, behind(A, 5)) for group in "fgh"] == [2, None, 3]
    older = CommitNotes()
    for number, group in enumerate("xyf"):
        older.take(Stamped(number, 0, commit(group, A, 5, 10 + number)))
    notes = CommitNotes(commits_max=2)
    notes.take(Stamped(1, 0, commit("f", A, 5, 2)))
    notes.take_older(older, ())
    # The newest of the older commits is kept.
    assert [notes.record_time_ms(group, behind(A, 5)) for group in "xyf"] == [None, 11, 2]
