"""The topics that brokers write themselves: reading from the end, combining samples, and printing in one line."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from itertools import pairwise

from broker_cy.admin import own_topics
from broker_cy.admin.own_topics import EVENTS_TOPIC, Entry, OwnTopic
from broker_cy.admin.sample_window import windows
from broker_cy.client.event_text import line_of, subject_of, topics_of
from broker_cy.metrics import events
from broker_cy.metrics.events import (
    EVENTS,
    BrokerStarted,
    BrokerStopped,
    Commits,
    Committed,
    ConfigChange,
    ConfigChanged,
    Stamped,
    StreamsStatus,
)
from broker_cy.metrics.sample import Api, Connection, Sample, Times, Topic


class Numbers(OwnTopic[int]):
    """A topic whose entries are their offsets; ranges of more than `range_max` entries are too large for one read."""

    def __init__(self, range_max: int) -> None:
        self.topic = EVENTS_TOPIC
        self.range_max = range_max
        self.read_ranges: list[tuple[int, int]] = []

    async def read_range(self, start: int, end: int, *, skip: bytes = b"") -> list[Entry[int]] | None:
        self.read_ranges.append((start, end))
        if end - start > self.range_max:
            return None
        return [Entry(at, at, b"") for at in range(start, end)]


def test_the_newest_are_found_without_reading_everything() -> None:
    """If this fails, the last twenty events of a busy cluster take a minute, or exhaust the memory."""

    async def job() -> None:
        topic = Numbers(range_max=1_000_000)
        found = await topic.newest(3, lambda at: at % 10 == 0, 100_000, 0)
        assert [entry.item for entry in found.entries] == [99_970, 99_980, 99_990]
        assert found.is_complete
        assert topic.read_ranges == [(99_750, 100_000)]
        # Rare entries are searched for in larger and larger ranges, up to the bound.
        found = await topic.newest(3, lambda at: at in (5, 95_000), 100_000, 0)
        assert [entry.item for entry in found.entries] == [95_000]
        assert (found.start, found.is_complete) == (100_000 - own_topics.NEWEST_RECORDS_MAX, False)
        # Nothing precedes the start of the log.
        found = await topic.newest(3, lambda at: at == 5, 900, 4)
        assert [entry.item for entry in found.entries] == [5]
        assert found.is_complete
        # Large records are read a few at a time; each is read once.
        topic = Numbers(range_max=40)
        found = await topic.newest(3, lambda at: at in (9_000, 9_990), 10_000, 8_990)
        assert [entry.item for entry in found.entries] == [9_000, 9_990]
        taken = sorted(pair for pair in topic.read_ranges if pair[1] - pair[0] <= 40)
        assert taken[0][0] == 8_990
        assert taken[-1][1] == 10_000
        assert all(before[1] == after[0] for before, after in pairwise(taken))
        # One that is too large by itself is skipped.
        topic = Numbers(range_max=0)
        found = await topic.newest(3, lambda at: True, 3, 0)
        assert (found.entries, found.is_complete) == ([], True)

    asyncio.run(job())


def test_samples_are_put_together() -> None:
    """If this fails, a rate is that of one second only, or a bad second hides behind nine good ones."""

    def sample(at_s: int, broker: int = 1, **values: object) -> Sample:
        return Sample(time_ms=at_s * 1000, broker=broker, interval_ms=1000, **values)  # type: ignore[arg-type]

    quick, slow = Times(10, 100, 5, 20, 40), Times(2, 900, 300, 500, 600)
    busy = [Connection("1", "app", "h", "l", 5, 3, 30, 300), Connection("2", "app", "h", "l", 5, 1, 10, 100)]
    found = windows(
        [
            sample(1, topics={"t": Topic(1000, 1000, 1000)}),
            sample(5, broker=2, resident_bytes=7),
            sample(11, apis={"Fetch": Api(10, {"X": 1}, 1, 2, {"total": quick})}, topics={"t": Topic(1, 2, 3)}),
            sample(12, apis={"Fetch": Api(2, {"X": 2}, 3, 4, {"total": slow})}, cold_reads=4, busy=busy),
            sample(13, topics={"t": Topic(10, 20, 30)}, cold_reads=3, resident_bytes=9, busy=busy[:1]),
        ],
        10_000,
    )
    assert list(found) == [1, 2]
    window = found[1]
    assert (window.samples, window.seconds, window.last.resident_bytes, window.cold_reads) == (3, 3.0, 9, 7)
    fetch = window.apis["Fetch"]
    assert (fetch.requests, fetch.errors, fetch.in_bytes, fetch.out_bytes) == (12, {"X": 3}, 4, 6)
    assert fetch.phases == {"total": Times(12, 1000, 300, 500, 600)}
    assert window.topics == {"t": Topic(11, 22, 33)}
    app = window.clients["app"]
    assert (app.connections, app.requests, app.in_bytes, app.out_bytes) == (2, 7, 70, 700)
    # The newest value is used, however long its interval is.
    assert (found[2].samples, found[2].last.resident_bytes) == (1, 7)


def test_every_event_is_shown_in_a_line() -> None:
    """If this fails, a new type is shown as its name alone, or a name with control characters reaches the terminal."""
    for kind in EVENTS.values():
        event = kind()
        for each in fields(event):
            if each.type == "str":
                setattr(event, each.name, "\x1b[2J")
        assert "\x1b" not in line_of(event) + subject_of(Stamped(1, 1, event))
        assert line_of(event) != kind.TYPE or not fields(event), kind.TYPE
        assert isinstance(topics_of(event), frozenset)
        _, value = events.encode(Stamped(1, 1, event))
        assert value.startswith(events.prefix_of(kind))
    # In a cluster of several brokers, the subject names the one that started or stopped.
    assert subject_of(Stamped(1, 7, BrokerStarted())) == "broker 7"
    assert events.encode(Stamped(1, 7, BrokerStopped()))[0] == b"broker 7"
    many = Commits("g", [Committed("t", index, 5, 1, 1, 10) for index in range(50)])
    assert line_of(many).endswith("t-3: 5 of 10, and 46 others")
    changed = ConfigChanged("topic", "t", [ConfigChange("retention.ms", None, "1")])
    assert line_of(changed) == "topic: retention.ms: (unset) -> 1"
    assert topics_of(changed) == {"t"}
    assert topics_of(StreamsStatus("g", 1, 1, [], ["t", "u"])) == {"t", "u"}
