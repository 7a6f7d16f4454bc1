"""Joins of two streams: records that reach the joins and their windows, with real stores, and the results."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pytest

from broker_streams.kernel.operators import processor_of
from broker_streams.kernel.processor import Processing, ProcessorContext, TaskState
from broker_streams.kernel.processors import stream_stream_join
from broker_streams.kernel.stores.factory import open_stores
from broker_streams.plan.functions import Function
from broker_streams.plan.steps import Step
from broker_streams.plan.steps import joins as steps
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.records import NO_HEADERS, Headers, Record

# The import registers the processors.
assert stream_stream_join.StreamStreamJoin is not None


class Text:
    name = "text"

    def serialize(self, topic: str, value: Any, headers: Headers = NO_HEADERS) -> bytes | None:
        return None if value is None else str(value).encode()

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = NO_HEADERS) -> Any:
        return None if data is None else data.decode()


class Result(NamedTuple):
    key: Any
    value: Any
    timestamp: int


def joined(left: Any, right: Any) -> str:
    return f"{left}+{right}"


class Join:
    """A join of "left" and "right" in one task. `seen` are the results since the last look at them."""

    def __init__(
        self,
        kind: str,
        before_ms: int,
        after_ms: int,
        grace_ms: int = 0,
        joiner: Callable[..., Any] = joined,
        with_key: bool = False,
    ) -> None:
        self.task = TaskState("app", (0, 0))
        self.log: list[tuple[Any, ...]] = []
        self.results: list[Result] = []
        self.processors: list[Processing] = []
        size_ms = before_ms + after_ms
        windows = {"retention_ms": size_ms + grace_ms, "window_ms": size_ms, "retain_duplicates": True}
        stores = [Store(each, StoreKind.WINDOW, **windows) for each in ("left", "right")]  # type: ignore[arg-type]
        if kind in ("left", "outer"):
            stores.append(Store("shared", StoreKind.JOIN_OUTER))
        text = Text()
        self.stores = open_stores(stores, self.task, lambda *change: self.log.append(change), text, text)
        self.inputs: dict[str, Callable[[Record], None]] = {}
        function = Function("join.joiner", joiner)
        if kind == "self":
            step: Step = steps.SelfJoin(function, "left", before_ms, after_ms, size_ms + grace_ms, with_key)
            window = self._made(steps.JoinWindow("left"), self._made(step, self._take).process)
            self.inputs = {"left": window.process}
            return
        for side, other in (("left", "right"), ("right", "left")):
            step = steps.StreamStreamJoin(
                function,
                side == "left",
                other,
                before_ms,
                after_ms,
                grace_ms,
                keeps_unmatched=kind == "outer" or kind == side,
                outer_store="shared" if kind in ("left", "outer") else None,
                with_key=with_key,
            )
            self.inputs[side] = self._made(steps.JoinWindow(side), self._made(step, self._take).process).process

    def _made(self, step: Step, child: Callable[[Record], None]) -> Processing:
        def schedule(*args: object) -> Any:
            raise AssertionError("a join schedules nothing")

        processor = processor_of(step)
        processor.init(ProcessorContext("node", self.task, {"child": child}, self.stores, schedule, lambda: None))
        self.processors.append(processor)
        return processor

    def _take(self, record: Record) -> None:
        assert self.task.timestamp == record.timestamp
        self.results.append(Result(record.key, record.value, record.timestamp))

    def put(self, side: str, key: Any, value: Any, timestamp: int) -> list[Result]:
        """One input record. Returns the results."""
        self.task.timestamp = timestamp
        self.results = []
        self.inputs[side](Record(key, value, timestamp))
        return self.results

    def waiting(self) -> list[Any]:
        return [each.value for each in self.stores["shared"].all()]


def test_a_right_record_joins_left_ones_of_its_window() -> None:
    """If this fails, a join has pairs that are too far apart, lacks some, or the results have other timestamps."""
    join = Join("inner", before_ms=10, after_ms=20, grace_ms=1_000)
    assert join.put("left", "k", "l", 100) == []
    assert join.put("right", "k", "early", 89) == []
    assert join.put("right", "k", "first", 90) == [Result("k", "l+first", 100)]
    assert join.put("right", "k", "last", 120) == [Result("k", "l+last", 120)]
    assert join.put("right", "k", "late", 121) == []
    assert join.put("right", "other", "r", 100) == []
    # Two records of one time are two records.
    assert join.put("left", "k", "l2", 100) == [Result("k", "l2+first", 100), Result("k", "l2+last", 120)]
    assert join.put("right", "k", "r", 100) == [Result("k", "l+r", 100), Result("k", "l2+r", 100)]


@pytest.mark.parametrize("kind", ["inner", "left", "outer", "self"])
def test_records_without_value_or_key_join_nothing(kind: str) -> None:
    """If this fails, a record without a value or key ends the application, or looks as if its partner were missing."""
    join = Join(kind, 10, 10)
    for side in join.inputs:
        assert join.put(side, "k", None, 5) == []
        assert join.put(side, None, None, 5) == []
    assert join.task.dropped_records == 2 * len(join.inputs)
    results = [join.put(side, None, side, 5) for side in join.inputs]
    # A side that keeps records without a partner passes on those that can have none (KIP-962).
    wanted: dict[str, list[list[Result]]] = {
        "inner": [[], []],
        "left": [[Result(None, "left+None", 5)], []],
        "outer": [[Result(None, "left+None", 5)], [Result(None, "None+right", 5)]],
        "self": [[]],
    }
    assert results == wanted[kind]


def test_a_left_record_waits_for_its_partner() -> None:
    """If this fails, a left join says that a partner is missing before it came, or never says it."""
    join = Join("left", 10, 10, grace_ms=5)
    assert join.put("left", "a", "l1", 0) == []
    assert join.put("left", "b", "l2", 3) == []
    assert join.put("left", "a", "l3", 0) == []
    assert join.waiting() == ["l1", "l3", "l2"]
    assert join.put("right", "b", "r", 4) == [Result("b", "l2+r", 4)]
    # 0 + 10 + 5: both are still open.
    assert join.put("right", "c", "r", 15) == []
    assert join.put("left", "c", "l4", 16) == [
        Result("a", "l1+None", 0),
        Result("a", "l3+None", 0),
        Result("c", "l4+r", 16),
    ]
    assert join.waiting() == []
    # All three left the changelog of the waiting ones as well: one row of two records and one of one record.
    assert [each[2] for each in join.log if each[0] == "shared"][-2:] == [None, None]


def test_a_record_behind_its_window_does_not_wait() -> None:
    """If this fails, a late record without a partner stays in the state for ever and has no result."""
    join = Join("outer", 10, 10, grace_ms=100)
    assert join.put("right", "a", "r", 50) == []
    assert join.put("left", "b", "late", 39) == [Result("b", "late+None", 39)]
    assert join.put("left", "b", "in time", 40) == []
    assert join.waiting() == ["in time", "r"]


def test_sides_of_an_outer_join_wait_for_different_times() -> None:
    """If this fails, an outer join with an asymmetric window passes on one side too early, or keeps it for ever."""
    join = Join("outer", before_ms=100, after_ms=10)
    join.put("left", "a", "l1", 0)
    join.put("right", "b", "r1", 0)
    join.put("left", "c", "l2", 5)
    # The left ones of time 0 and 5 are over, the right one waits for left ones until 100.
    assert join.put("left", "d", "l3", 16) == [Result("a", "l1+None", 0), Result("c", "l2+None", 5)]
    assert join.waiting() == ["r1", "l3"]
    assert join.put("left", "e", "l4", 101) == [Result("b", "None+r1", 0), Result("d", "l3+None", 16)]


def test_results_are_looked_for_at_intervals_of_the_clock() -> None:
    """If this fails, each record of a large outer join walks over all records that wait."""
    join = Join("left", 10, 10)
    join.task.join_emit_interval_ms = 1_000
    join.task.system_time_ms = 5_000
    join.put("left", "a", "l1", 0)
    # The first record looked, and found nothing that was over.
    assert join.put("right", "b", "r", 50) == []
    join.task.system_time_ms = 5_999
    assert join.put("right", "b", "r", 51) == []
    join.task.system_time_ms = 6_000
    assert join.put("right", "b", "r", 52) == [Result("a", "l1+None", 0)]
    assert join.put("left", "a", "l2", 60) == []
    join.task.system_time_ms = 6_999
    assert join.put("right", "b", "r", 100) == []


def test_a_closed_join_forgets_its_times() -> None:
    """If this fails, a task that starts again takes its first records for late ones, and passes them on too early."""
    join = Join("left", 10, 10)
    join.put("left", "a", "l1", 1_000)
    for each in join.processors:
        each.close()
    assert join.task.shared == {}


def test_a_joiner_may_take_the_key() -> None:
    """If this fails, joiners with a key get the values of the wrong side on one of the sides."""
    for kind in ("inner", "outer"):
        join = Join(kind, 10, 10, joiner=lambda key, left, right: f"{key}:{left}:{right}", with_key=True)
        join.put("left", "k", "l", 0)
        assert join.put("right", "k", "r", 0) == [Result("k", "k:l:r", 0)]
        join.put("right", "k", "r", 50)
        assert join.put("left", "k", "l", 51) == [Result("k", "k:l:r", 51)]


Input = tuple[str, str, str, int]


def inputs(seed: int, sides: Iterable[str]) -> list[Input]:
    """Records of three keys whose times go on, with some that are late."""
    chosen = random.Random(seed)
    sides = tuple(sides)
    return [
        (chosen.choice(sides), chosen.choice("abc"), f"v{at}", max(0, at * 3 - chosen.choice((0, 0, 0, 5, 40))))
        for at in range(80)
    ]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("windows", [(10, 10, 0), (0, 25, 3), (30, 0, 50)])
def test_a_self_join_equals_a_join_of_two_equal_streams(seed: int, windows: tuple[int, int, int]) -> None:
    """If this fails, topology.optimization changes the results of an application, or their order."""
    one, two = Join("self", *windows), Join("inner", *windows)
    for _, key, value, timestamp in inputs(seed, ["left"]):
        wanted = [*two.put("left", key, value, timestamp), *two.put("right", key, value, timestamp)]
        assert one.put("left", key, value, timestamp) == wanted


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", ["inner", "left", "outer"])
def test_results_are_those_of_a_join_of_all_records(seed: int, kind: str) -> None:
    """If this fails, a pair or a record without a partner is missing, or comes twice. The twin knows all records; the
    grace period is long enough for the latest ones.
    """
    before_ms, after_ms = 7, 12
    join = Join(kind, before_ms, after_ms, grace_ms=1_000)
    given = inputs(seed, ["left", "right"])
    results = [result for each in given for result in join.put(*each)]
    # Ends all windows.
    results += [result for result in join.put("right", "end", "end", 100_000) if result.key != "end"]
    lefts = [each[1:] for each in given if each[0] == "left"]
    rights = [each[1:] for each in given if each[0] == "right"]
    wanted, matched = [], set()
    for key, left, left_ms in lefts:
        for other_key, right, right_ms in rights:
            if key == other_key and left_ms - before_ms <= right_ms <= left_ms + after_ms:
                wanted.append(Result(key, f"{left}+{right}", max(left_ms, right_ms)))
                matched |= {left, right}
    if kind != "inner":
        wanted += [Result(key, f"{left}+None", at) for key, left, at in lefts if left not in matched]
    if kind == "outer":
        wanted += [Result(key, f"None+{right}", at) for key, right, at in rights if right not in matched]
    # A late record whose window is over has no time to wait: it may be passed on, and joined by a later one as well.
    late = {
        value
        for at, (side, _, value, ms) in enumerate(given)
        if ms + (after_ms if side == "left" else before_ms) < max(each[3] for each in given[: at + 1])
    }
    extra = [each for each in results if each not in wanted]
    assert all("None" in each.value and set(each.value.split("+")) & late for each in extra)
    for each in extra:
        results.remove(each)
    assert sorted(results) == sorted(wanted)
