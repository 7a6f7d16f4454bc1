"""The records of client processes: their schedule, values and keys, and how their reports are counted."""

import dataclasses
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.drivers import payload
from bench.drivers.base import DriverResult, Sample
from bench.drivers.deliveries import Arrivals, Deliveries, Delivery, mark, stamp_all
from bench.drivers.schedule import Schedule
from bench.drivers.series import Series
from bench.measuring.histogram import Histogram
from bench.spec.workload import Rate, Workload, parse
from broker_cy.client.payload.draws import Size
from broker_cy.client.toml_file import Table

rates = st.floats(0.5, 1e5)


def workload(**changed: Any) -> Workload:
    return dataclasses.replace(parse(Table("test.toml", {}, {}), "test"), **changed)


@given(rates, rates, st.floats(0.1, 100), st.floats(0, 50), st.integers(0, 100_000))
def test_the_inverse_of_due_is_how_many_are_due(start: float, end: float, ramp_s: float, s: float, n: int) -> None:
    """A record would be sent twice, or never, if both disagree."""
    schedule = Schedule(start, end, ramp_s)
    assert schedule.due_s(n) <= schedule.due_s(n + 1)
    due = schedule.due_by(s / 10)
    assert due == 0 or schedule.due_s(due - 1) < s / 10
    assert schedule.due_s(due) >= s / 10


def test_a_ramp_sends_the_area_under_its_line() -> None:
    """If this fails, a ramp is steeper or flatter than the workload says."""
    schedule = Schedule.of(Rate(1000, 3000, "records", 10.0), 100, producers=2, index=0)
    assert schedule.due_by(10.0) == 10_000  # of one of two producers: (1000 + 3000) / 2 * 10 / 2
    assert schedule.due_by(5.0) == 3750
    assert schedule.due_by(12.0) == 13_000
    assert schedule.due_s(0) == 0.0


def test_producers_share_a_rate_and_take_turns() -> None:
    """Producers in step would send bursts instead of a rate."""
    shares = [Schedule.of(Rate(3e5, 3e5, "bytes"), 100, producers=3, index=index) for index in range(3)]
    due = sorted(schedule.due_s(number) for schedule in shares for number in range(5))
    assert due == pytest.approx([number / 3000 for number in range(15)])


def test_values_have_the_workloads_sizes_and_entropy() -> None:
    """Values of another compressibility are another workload."""
    half = payload.values(workload(record_size=Size(1000, 1000), entropy=0.5), 1)
    assert {len(value) for value in half} == {1000}
    assert {value[500:] for value in half} == {half[0][-1:] * 500}
    assert len({value[:500] for value in half}) == len(half)
    assert half == payload.values(workload(record_size=Size(1000, 1000), entropy=0.5), 1)
    assert half != payload.values(workload(record_size=Size(1000, 1000), entropy=0.5), 2)
    spread = sorted(map(len, payload.values(workload(record_size=Size(10, 1000, "lognormal")), 1)))
    assert 10 <= spread[0] < 30
    assert 400 < spread[-1] <= 1000
    assert spread[len(spread) // 2] == pytest.approx(100, rel=0.1)
    assert len(payload.values(workload(record_size=Size(10 << 20, 10 << 20)), 1)) == 4
    assert len(payload.values(workload(record_size=Size(1, 1)), 1)) == 20_000


def test_every_key_comes_equally_often() -> None:
    """Fewer keys than asked for would load fewer partitions."""
    keys = payload.keys(workload(keys=300, key_bytes=2), 1)
    assert keys is not None
    drawn = [next(keys) for _ in range(600)]
    assert len(set(drawn)) == 300
    assert all(drawn.count(key) == 2 and len(key) == 2 for key in set(drawn))
    assert payload.keys(workload(keys=0), 1) is None


class Report:
    """A message or an error of confluent-kafka, with the methods that are used."""

    def __init__(self, value: bytes | None = None, code: int | None = None) -> None:
        self._value, self._code = value, code

    def __len__(self) -> int:
        return len(self._value or b"")

    def value(self) -> bytes | None:
        return self._value

    def error(self) -> "Report | None":
        return self if self._code is not None else None

    def code(self) -> int | None:
        return self._code

    def str(self) -> str:
        return f"error {self._code}"

    def partition(self) -> int:
        return 3


def test_each_report_counts_from_its_own_due_time() -> None:
    """Latency from any other time than the due time would hide waiting."""
    owner = Deliveries(8)
    now = time.monotonic_ns()
    messages: list[dict[str, Any]] = [{"value": bytes(100)} for _ in range(2)]
    mark(messages, [now - 5_000_000_000, now - 1_000_000_000], owner, True)
    for message in messages:
        message["callback"](None, Report(message["value"]))
    Delivery(owner, now)(Report(code=7), Report())
    assert (owner.acked, owner.acked_bytes, owner.errors, owner.first_error) == (2, 216, 1, "error 7")
    latency = owner.take_latency()
    assert latency.count == 2
    assert latency.percentile(50) == pytest.approx(1e9, rel=0.1)
    assert latency.percentile(100) == pytest.approx(5e9, rel=0.1)
    assert owner.take_latency().count == 0
    arrivals = Arrivals(True, 8)
    assert arrivals.take([Report(message["value"]) for message in messages] + [Report(code=-191)]) == [3]
    assert (arrivals.records, arrivals.bytes, arrivals.errors) == (2, 216, 0)
    assert arrivals.end_to_end.percentile(100) == pytest.approx(5e9, rel=0.1)


def test_a_record_of_the_future_is_counted_as_negative() -> None:
    """A clock error that is clamped to 0 makes a latency too good to be true."""
    messages: list[dict[str, Any]] = [{"value": bytes(8)}]
    stamp_all(messages, time.monotonic_ns() + 10**12)
    arrivals = Arrivals(True, 0)
    arrivals.take([Report(messages[0]["value"])])
    assert (arrivals.end_to_end.count, arrivals.end_to_end.negative) == (0, 1)


def test_records_of_somebody_else_are_errors() -> None:
    arrivals = Arrivals(True, 0)
    arrivals.take([Report(b"short"), Report(None), Report(code=3)])
    assert (arrivals.records, arrivals.errors) == (2, 3)
    assert arrivals.first_error is not None
    assert "5 bytes" in arrivals.first_error


def test_no_room_for_a_stamp_is_refused() -> None:
    """The stamp would be written beyond the end of the value."""
    with pytest.raises(ValueError, match="4 bytes has no room"):
        stamp_all([{"value": b"four"}], 1)
    with pytest.raises(ValueError, match="4 bytes has no room"):
        mark([{"value": b"four"}], [1], Deliveries(0), True)
    with pytest.raises(ValueError, match="1 messages, but 0 due times"):
        mark([{"value": b"four"}], [], Deliveries(0), False)


def test_a_sample_is_reported_once_all_processes_have_given_their_part() -> None:
    """If this fails, a live view shows half of the rate while one process is late."""
    reported: list[Sample] = []
    series = Series(2, reported.append)
    series.add(0, Sample(0.25, 1, 10, 1, 0, Histogram()))
    series.add(0, Sample(0.5, 2, 20, 1, 0, Histogram()))
    assert reported == []
    series.add(1, Sample(0.25, 4, 40, 1, 0, Histogram()))
    assert [(sample.t_s, sample.records) for sample in reported] == [(0.25, 5)]
    series.end(1)
    assert [(sample.t_s, sample.records) for sample in reported] == [(0.25, 5), (0.5, 2)]
    assert [sample.records for sample in series.samples()] == [5, 2]


def test_percentiles_that_others_printed_are_not_merged() -> None:
    """The percentile over two processes cannot be computed from their percentiles."""
    both = DriverResult(processes=0)
    both.merge(DriverResult(records=100, reported={"avg_ms": 1.0, "max_ms": 5.0, "p99_ms": 3.0}))
    assert both.reported["p99_ms"] == 3.0
    both.merge(DriverResult(records=300, reported={"avg_ms": 3.0, "max_ms": 9.0, "p99_ms": 4.0}))
    assert both.reported == {"avg_ms": 2.5, "max_ms": 9.0}
