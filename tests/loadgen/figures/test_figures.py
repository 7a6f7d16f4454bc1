"""The figures of users are merged into those of a process, and of all processes, without loss."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.measuring.histogram import Histogram
from loadgen.figures import totals as totals_module
from loadgen.figures.book import METERS_MAX, Book
from loadgen.figures.meter import ERRORS_MAX, OTHER, Meter
from loadgen.figures.totals import Totals, histogram_of
from loadgen.pace.pacer import Pacer

# (meter, error or None, service ns, further ns from due to sent, records, bytes)
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["Produce", "Fetch"]),
        st.sampled_from([None, None, "NOT_LEADER_OR_FOLLOWER", "timeout"]),
        st.integers(0, 10**10),
        st.integers(0, 10**10),
        st.integers(0, 1000),
        st.integers(0, 10**6),
    ),
    max_size=30,
)


def note(meter: Meter, event: tuple[Any, ...]) -> None:
    _, error, service_ns, late_ns, records, size = event
    if error is None:
        meter.done(0, late_ns, late_ns + service_ns, records, size)
    else:
        meter.failed(error, 0, late_ns, late_ns + service_ns)


def interval_of(book: Book, second: int) -> dict[str, Any]:
    """Return an interval in the form in which it arrives at the conductor."""
    found: dict[str, Any] = msgpack.unpackb(msgpack.packb(book.take(second)))
    return found


@given(st.lists(st.lists(EVENTS, min_size=1, max_size=3), min_size=1, max_size=3))
def test_totals_are_the_sum_of_all_workers(workers: list[list[list[tuple[Any, ...]]]]) -> None:
    """If this fails, the report of a run has fewer or more operations, errors or latencies than its users measured."""
    totals, all_events = Totals(), []
    for index, seconds in enumerate(workers):
        book = Book()
        for second, events in enumerate(seconds):
            for event in events:
                note(book.meter(event[0]), event)
            book.count("kills", len(events))
            totals.add(f"worker-{index}", interval_of(book, second))
            all_events += events
    for name in ("Produce", "Fetch"):
        mine = [event for event in all_events if event[0] == name]
        good = [event for event in mine if event[1] is None]
        if not mine:
            assert name not in totals.operations
            continue
        found = totals.operations[name]
        latency, service = Histogram(), Histogram()
        for _, _, service_ns, late_ns, _, _ in mine:
            latency.add(service_ns + late_ns)
            service.add(service_ns)
        assert found.latency.state() == latency.state()
        assert found.service.state() == service.state()
        assert (found.requests, found.failures) == (len(good), len(mine) - len(good))
        assert (found.records, found.bytes) == (sum(each[4] for each in good), sum(each[5] for each in good))
        assert sum(slot.operations[name].requests for slot in totals.series.values() if name in slot.operations) == len(
            good
        )
    assert totals.counts == {"kills": len(all_events)}
    assert sum(each.requests for each in totals.workers.values()) == sum(event[1] is None for event in all_events)
    assert {at: slot.workers for at, slot in totals.series.items()} == {
        at: sum(len(seconds) > at for seconds in workers) for at in range(max(map(len, workers)))
    }


def test_an_interval_is_taken_once() -> None:
    """If this fails, operations are counted again in each later second."""
    book = Book()
    book.meter("Produce").done(0, 1, 2)
    book.count("kills")
    book.hub_lag.add(5)
    assert book.take(0)["operations"].keys() == {"Produce"}
    again = book.take(1)
    assert (again["operations"], again["counts"], histogram_of(again["hub_lag"]).count) == ({}, {}, 0)


def test_an_interval_has_the_lateness_of_all_pacers() -> None:
    """If this fails, the generator's own delay is reported too small, and wrong figures are trusted."""
    book, pacers = Book(), [Pacer(), Pacer()]
    for name, pacer in zip(("a", "b"), pacers, strict=True):
        pacer.lateness.add(1000)
        pacer.queued, pacer.unsent = 3, 2
        book.follow(name, pacer)
    totals = Totals()
    for second in range(2):
        totals.add("w", interval_of(book, second))
    assert (totals.lateness.count, totals.queued, totals.series[0].queued) == (2, 6, 6)
    assert (totals.unsent_of, totals.unsent) == ({"a": 2, "b": 2}, 4)


def test_the_warm_up_is_left_out() -> None:
    """If this fails, figures include the time in which connections were opened and code was compiled."""
    book, totals = Book(), Totals()
    for second in (-2, -1, 0):
        book.meter("Produce").done(0, 1, 2)
        totals.add("w", interval_of(book, second))
    assert totals.operations["Produce"].requests == 1
    assert list(totals.series) == [0]


def test_an_engines_own_figures_are_added() -> None:
    """If this fails, the volume of the engine `raw` is not reported."""
    latency, service = Histogram(), Histogram()
    for value in (10, 20, 30):
        latency.add(value)
        service.add(value // 2)
    meter = Meter("Produce")
    meter.done(0, 5, 10, 2, 200)
    meter.add(3, 300, 30_000, latency, service)
    state = meter.take()
    assert state is not None
    assert (state["requests"], state["records"], state["bytes"]) == (4, 302, 30_200)
    assert (histogram_of(state["latency"]).count, histogram_of(state["service"]).count) == (4, 4)
    assert meter.take() is None


def test_errors_and_meters_are_bounded() -> None:
    """If this fails, error texts that all differ exhaust the memory of worker and conductor."""
    meter = Meter("Produce")
    for number in range(ERRORS_MAX + 20):
        meter.failed(f"error {number}", 0, 0, 1)
    state = meter.take()
    assert state is not None
    assert len(state["errors"]) == ERRORS_MAX + 1
    assert state["errors"][OTHER] == 20
    book = Book()
    for number in range(METERS_MAX):
        book.meter(f"m{number}")
    with pytest.raises(ValueError, match=f"more than {METERS_MAX} kinds of operations"):
        book.meter("one more")
    assert book.meter("m0").name == "m0"


def test_the_series_is_bounded_and_the_totals_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a run of several days exhausts the conductor's memory, or forgets its first days."""
    monkeypatch.setattr(totals_module, "SERIES_MAX", 3)
    book, totals = Book(), Totals()
    for second in range(10):
        book.meter("Produce").done(0, 1, 2)
        totals.add("w", interval_of(book, second))
    assert list(totals.series) == [7, 8, 9]
    assert totals.operations["Produce"].requests == 10


def test_what_was_due_in_the_warm_up_is_left_out() -> None:
    """If this fails, a cluster that was slow in the warm-up seems to have more operations a second than were due."""
    book = Book()
    early = book.meter("Produce")
    book.measure_from(1000)
    for meter in (early, book.meter("Fetch")):
        meter.done(900, 900, 999)  # the warm-up has separate intervals
        assert (meter.take() or {})["requests"] == 1
        meter.done(999, 1001, 1002)
        meter.failed("TIMED_OUT", 999, 999, 1000)
        assert meter.take() is None
        meter.done(1000, 1001, 1002)
        assert (meter.take() or {})["requests"] == 1
