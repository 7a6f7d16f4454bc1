"""`suppress`: times, bounds and the state that stores below see."""

from __future__ import annotations

from typing import Any

import pytest

from broker_streams.kernel.errors import StreamsError
from broker_streams.kernel.value_getters import open_getter
from broker_streams.plan.steps.suppression import Suppress
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.plan.value_getters import StoreGetter, SuppressGetter
from broker_streams.records import Change, ValueAndTimestamp, Window, Windowed
from broker_streams.serdes.primitives import STRING
from broker_streams.serdes.windowed import TimeWindowedSerde
from tests.broker_streams.kernel.processors.running import Running, rows_of
from tests.broker_streams.kernel.stores.support import TEXT

BUFFER = Store("buffer", StoreKind.SUPPRESSION_BUFFER, TEXT, TEXT, persistent=False)


def waiting(wait_ms: int, **options: Any) -> Running:
    return Running(Suppress("buffer", wait_ms, is_final=False, **options), BUFFER)


def test_a_change_waits_from_the_first_record_of_its_key_on() -> None:
    """If this fails, a key that changes all the time is never passed on."""
    running = waiting(10)
    assert running.change("a", "1", None, 100) == running.change("a", "2", "1", 109) == []
    # The last change is passed on, with its own timestamp.
    assert running.change("b", "3", None, 110) == [("a", Change("2", "1"), 109)]
    assert running.change("a", None, "2", 130) == [("b", Change("3", None), 110)]
    # Late records do not move the time of the stream back.
    assert running.change("c", "4", None, 90) == [("c", Change("4", None), 90)]


def test_without_a_wait_each_change_is_passed_on() -> None:
    """If this fails, a limit of 0 holds the last change back."""
    assert waiting(0).change("a", None, "1", 5) == [("a", Change(None, "1"), 5)]


def test_final_results_wait_for_the_end_of_their_window() -> None:
    """If this fails, a window has a result before it closed, or a deletion where it has none."""
    buffer = Store("buffer", StoreKind.SUPPRESSION_BUFFER, TimeWindowedSerde(STRING, 10), TEXT, persistent=False)
    running = Running(Suppress("buffer", 5, is_final=True), buffer)
    first, second = Windowed("a", Window(0, 10)), Windowed("a", Window(10, 20))
    assert running.change(first, "1", None, 3) == running.change(second, "2", None, 14) == []
    assert running.change(second, None, "2", 15) == [(first, Change("1", None), 3)]
    assert running.change(Windowed("a", Window(20, 30)), "3", None, 25) == []


def test_a_full_buffer_emits_its_earliest_changes() -> None:
    """If this fails, a bounded buffer grows, or passes the wrong change on."""
    running = waiting(1_000, max_records=2, emits_early=True)
    running.change("b", "1", None, 1)
    running.change("a", "2", None, 2)
    assert running.change("c", "3", None, 3) == [("b", Change("1", None), 1)]
    small = waiting(1_000, max_bytes=50, emits_early=True)
    assert small.change("a", "1" * 100, None, 1) == [("a", Change("1" * 100, None), 1)]


def test_a_full_buffer_ends_the_task() -> None:
    """If this fails, a final result is passed on too early."""
    running = waiting(1_000, max_records=1)
    running.change("a", "1", None, 1)
    with pytest.raises(StreamsError, match=r"node buffer exceeded its max capacity. Currently \[2/1\] records"):
        running.change("b", "2", None, 2)


def test_headers_are_those_of_the_held_record() -> None:
    """If this fails, a result has the headers of the record that let it go."""
    running = waiting(10)
    running.put("a", Change("1", None), 1, (("h", b"1"),))
    running.put("b", Change("2", None), 20)
    assert running.headers == [(("h", b"1"),)]
    assert running.opened.task.headers == ()


def test_readers_see_the_row_that_was_passed_on_last() -> None:
    """If this fails, a join with a suppressed table has rows that the table does not show yet."""
    rows = rows_of("rows")
    running = Running(Suppress("buffer", 10, is_final=False), BUFFER, rows)
    getter = open_getter(SuppressGetter(StoreGetter("rows"), "buffer"), running.context)
    running.opened.at(1)
    running.opened.stores["rows"].put("a", ValueAndTimestamp("2", 1))
    assert getter.get("a") == ("2", 1)
    running.change("a", "2", "1", 1)
    assert getter.get("a") == ("1", -1)
    running.change("b", "3", None, 2)
    assert getter.get("b") is None
