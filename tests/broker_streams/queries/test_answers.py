"""Queries of stores of each kind, and the requests that carry them.

The expected results are those of stores of Kafka Streams 4.3.1 in its TopologyTestDriver, for the same records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from broker_streams import (
    LONG,
    STRING,
    FailureReason,
    KeyQuery,
    Materialized,
    MultiVersionedKeyQuery,
    Position,
    PositionBound,
    Processor,
    RangeQuery,
    SessionWindows,
    StateQueryRequest,
    Store,
    StoreKind,
    StreamsBuilder,
    StreamsError,
    TimestampedKeyQuery,
    TimestampedRangeQuery,
    TimeWindows,
    TopologyTestDriver,
    ValueAndTimestamp,
    VersionedKeyQuery,
    VersionedRecord,
    Window,
    Windowed,
    WindowKeyQuery,
    WindowRangeQuery,
)
from broker_streams.queries.answers import answer
from broker_streams.queries.requests import LagInfo, Query, QueryResult, StateQueryResult

UNBOUNDED = PositionBound.unbounded()


class Stores:
    """The stores of a topology, with the records of `ann` at 0, 10 and 70 s, and of `bob` at 20 s."""

    def __init__(self, driver: TopologyTestDriver, plans: dict[str, Store]) -> None:
        self._driver, self._plans = driver, plans

    def ask(self, name: str, query: Query, **options: Any) -> QueryResult:
        given: dict[str, Any] = {
            "position": Position(),
            "bound": UNBOUNDED,
            "partition": 0,
            "has_info": False,
            **options,
        }
        store = self._driver.get_state_store(name)
        return answer(
            self._plans[name],
            store,
            query,
            given["position"],
            given["bound"],
            given["partition"],
            has_info=given["has_info"],
        )

    def result(self, name: str, query: Query) -> Any:
        return self.ask(name, query).result

    def reason(self, name: str, query: Query) -> FailureReason | None:
        return self.ask(name, query).failure_reason


@pytest.fixture
def stores() -> Iterator[Stores]:
    builder = StreamsBuilder()
    builder.add_state_store(Store("plain", StoreKind.KEY_VALUE, STRING, STRING))
    stream = builder.stream("in", key=STRING, value=STRING)

    class Put(Processor):
        def init(self, context: Any) -> None:
            self._store = context.state_store("plain")

        def process(self, record: Any) -> None:
            self._store.put(record.key, record.value)

    stream.process(Put, "plain")
    grouped = stream.group_by_key()
    grouped.count(materialized=Materialized("counts"))
    grouped.windowed_by(TimeWindows.of("1m")).count(materialized=Materialized("minutes", retention="1h"))
    grouped.windowed_by(SessionWindows.of("30s")).count(materialized=Materialized("visits"))
    stream.to_table(materialized=Materialized("history", history="1h", key=STRING, value=STRING))
    topology = builder.build()
    plans = {each.name: each for each in topology.plan.stores}
    with TopologyTestDriver(topology, {"application.id": "asked"}) as driver:
        topic = driver.create_input_topic("in", key=STRING, value=STRING)
        for key, value, at in (("ann", "a", 0), ("ann", "b", 10_000), ("bob", "c", 20_000), ("ann", "d", 70_000)):
            topic.pipe_input(key, value, at)
        yield Stores(driver, plans)


def test_key_value_stores_answer(stores: Stores) -> None:
    """If this fails, a query returns another row, or a timestamp that was not asked for."""
    assert stores.result("plain", KeyQuery.with_key("ann")) == "d"
    assert stores.result("plain", KeyQuery.with_key("cid")) is None
    assert stores.result("counts", KeyQuery.with_key("ann")) == 3
    assert stores.result("counts", TimestampedKeyQuery.with_key("ann")) == ValueAndTimestamp(3, 70_000)
    assert stores.result("counts", RangeQuery.with_no_bounds()) == [("ann", 3), ("bob", 1)]
    assert stores.result("counts", RangeQuery.with_lower_bound("b")) == [("bob", 1)]
    assert stores.result("counts", RangeQuery.with_upper_bound("b").with_ascending_keys()) == [("ann", 3)]
    assert stores.result("plain", RangeQuery.with_range(None, None).with_descending_keys()) == [
        ("bob", "c"),
        ("ann", "d"),
    ]
    assert stores.result("counts", TimestampedRangeQuery.with_range("a", "b").with_descending_keys()) == [
        ("ann", ValueAndTimestamp(3, 70_000))
    ]


def test_windows_and_sessions_answer(stores: Stores) -> None:
    """If this fails, a query returns windows of other keys or times."""
    of_key = WindowKeyQuery.with_key_and_window_start_range("ann", 0, 59_999)
    assert stores.result("minutes", of_key) == [(0, ValueAndTimestamp(2, 10_000))]
    of_all = WindowRangeQuery.with_window_start_range(0, 60_000)
    assert stores.result("minutes", of_all) == [
        (Windowed("ann", Window(0, 60_000)), ValueAndTimestamp(2, 10_000)),
        (Windowed("ann", Window(60_000, 120_000)), ValueAndTimestamp(1, 70_000)),
        (Windowed("bob", Window(0, 60_000)), ValueAndTimestamp(1, 20_000)),
    ]
    # The first visit is beyond the retention of the store, and only the cache has it.
    assert stores.result("visits", WindowRangeQuery.with_key("ann")) == [(Windowed("ann", Window(70_000, 70_000)), 1)]
    # Each kind of store answers one of the two forms.
    assert stores.reason("minutes", WindowRangeQuery.with_key("ann")) is FailureReason.UNKNOWN_QUERY_TYPE
    assert stores.reason("visits", of_all) is FailureReason.UNKNOWN_QUERY_TYPE
    assert "it answers WindowRangeQuery.with_key" in stores.ask("visits", of_all).failure_message


def test_versioned_stores_answer(stores: Stores) -> None:
    """If this fails, a query returns a version that was not valid then, or in another order."""
    latest, first = VersionedRecord("d", 70_000), VersionedRecord("a", 0, 10_000)
    assert stores.result("history", VersionedKeyQuery.with_key("ann")) == latest
    assert stores.result("history", VersionedKeyQuery.with_key("ann").as_of(9_999)) == first
    second = VersionedRecord("b", 10_000, 70_000)
    of_ann = MultiVersionedKeyQuery.with_key("ann")
    assert stores.result("history", of_ann) == [latest, second, first]
    assert stores.result("history", of_ann.with_ascending_timestamps()) == [first, second, latest]
    assert stores.result("history", of_ann.from_time(10_000).to_time(20_000)) == [second]
    assert stores.result("history", of_ann.from_time(0).to_time(9_999)) == [first]
    assert stores.result("history", of_ann.from_time(9_999).to_time(10_000)) == [second, first]
    assert stores.result("history", of_ann.to_time(69_999)) == [second, first]
    assert stores.result("history", VersionedKeyQuery.with_key("cid")) is None
    assert stores.result("history", VersionedKeyQuery.with_key("ann").as_of(-5)) is None
    with pytest.raises(ValueError, match="from_time 2 of a query lies behind to_time 1"):
        stores.ask("history", of_ann.from_time(2).to_time(1))
    with pytest.raises(StreamsError, match="does not answer KeyQuery; ask by VersionedKeyQuery"):
        stores.ask("history", KeyQuery.with_key("ann"))


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("plain", TimestampedKeyQuery.with_key("ann")),
        ("plain", TimestampedRangeQuery.with_no_bounds()),
        ("counts", WindowRangeQuery.with_key("ann")),
        ("minutes", KeyQuery.with_key("ann")),
        ("visits", WindowKeyQuery.with_key_and_window_start_range("ann", 0, 1)),
        ("history", TimestampedKeyQuery.with_key("ann")),
    ],
)
def test_a_query_of_another_kind_of_store_fails(stores: Stores, name: str, query: Query) -> None:
    """If this fails, a wrong query has a result, or ends a program without the reason."""
    found = stores.ask(name, query)
    assert found.failure_reason is FailureReason.UNKNOWN_QUERY_TYPE
    assert found.failure_message.startswith(f"store {name} is a ")
    with pytest.raises(ValueError, match="UNKNOWN_QUERY_TYPE"):
        _ = found.result


def test_a_key_that_the_serde_refuses_is_named(stores: Stores) -> None:
    """If this fails, a wrong key looks like a missing row."""
    found = stores.ask("counts", KeyQuery.with_key(7))
    assert found.failure_reason is FailureReason.STORE_EXCEPTION
    assert "store counts cannot answer KeyQuery(key=7" in found.failure_message


def test_a_part_behind_the_bound_does_not_answer(stores: Stores) -> None:
    """If this fails, a program reads rows that lack its own writes."""
    query, at = KeyQuery.with_key("ann"), Position({"in": {0: 4, 1: 9}})
    for bound, reason in (
        (Position({"in": {0: 4}}), None),
        (Position({"in": {0: 5}}), FailureReason.NOT_UP_TO_BOUND),
        # Only the bounds of the part's own partition count.
        (Position({"in": {1: 100}}), None),
        (Position({"other": {0: 0}}), FailureReason.NOT_UP_TO_BOUND),
    ):
        found = stores.ask("counts", query, position=at, bound=PositionBound.at(bound), has_info=True)
        assert found.failure_reason is reason, bound
        assert found.position == at
        assert found.execution_info[0].startswith("answered by store counts in ")


def test_positions_are_merged() -> None:
    """If this fails, a bound forgets what was written before."""
    one = Position.empty_position().with_component("a", 0, 5)
    assert one.with_component("a", 0, 3) == one
    assert one.merge(Position.from_map({"a": {1: 2}, "b": {0: 1}})) == Position({"a": {0: 5, 1: 2}, "b": {0: 1}})
    assert one == Position({"a": {0: 5}})
    assert one.topics == frozenset(["a"])
    assert not one.partition_positions("b")
    assert not one.is_empty
    assert PositionBound.unbounded().is_unbounded


def test_the_only_result_of_several_parts() -> None:
    """If this fails, a program takes the row of one part for that of all."""
    nothing, row = QueryResult.for_result(None), QueryResult.for_result(1)
    failed = QueryResult.for_failure(FailureReason.NOT_PRESENT, "not here")
    assert StateQueryResult({0: nothing, 1: row, 2: failed}).only_partition_result() is row
    assert StateQueryResult({0: nothing}).only_partition_result() is None
    with pytest.raises(ValueError, match="partitions 0, 2 have results"):
        StateQueryResult({0: row, 1: nothing, 2: row}).only_partition_result()


def test_requests_keep_what_they_are_given() -> None:
    """If this fails, an option of a request is lost."""
    plain = StateQueryRequest.in_store("counts").with_query(KeyQuery.with_key("a").skip_cache())
    assert (plain.partitions, plain.is_require_active, plain.has_execution_info) == (None, False, False)
    bound = PositionBound.at(Position({"in": {0: 1}}))
    full = plain.with_partitions([1, 2]).require_active().enable_execution_info().with_position_bound(bound)
    assert full.partitions == frozenset([1, 2])
    assert full.position_bound == bound
    assert full.is_require_active
    assert full.has_execution_info
    assert full.with_all_partitions().partitions is None
    with pytest.raises(ValueError, match="the key of a query is None"):
        KeyQuery.with_key(None)
    with pytest.raises(ValueError, match="time_to of a query is '1m'; ms since 1970 are expected"):
        WindowKeyQuery.with_key_and_window_start_range("a", 0, "1m")  # type: ignore[arg-type]  # that is what is tested
    assert (LagInfo(3, 5).offset_lag, LagInfo(7, 5).offset_lag) == (2, 0)


def test_a_query_can_skip_the_cache() -> None:
    """If this fails, skip_cache is accepted and ignored."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=STRING, value=STRING)
    stream.group_by_key().count(materialized=Materialized("counts", key=STRING, value=LONG))
    topology = builder.build()
    plans = {each.name: each for each in topology.plan.stores}
    with TopologyTestDriver(topology, {"application.id": "cached"}) as driver:
        topic = driver.create_input_topic("in", key=STRING, value=STRING)
        topic.pipe_input("ann", "a", 0)
        found, store = Stores(driver, plans), driver.get_state_store("counts")
        # The driver flushes after each record; this change waits in the cache.
        store.put("ann", ValueAndTimestamp(7, 1))
        assert found.result("counts", KeyQuery.with_key("ann")) == 7
        assert found.result("counts", KeyQuery.with_key("ann").skip_cache()) == 1
        assert found.result("counts", RangeQuery.with_no_bounds()) == [("ann", 1)]
        below = TimestampedKeyQuery.with_key("ann").skip_cache()
        assert found.result("counts", below) == ValueAndTimestamp(1, 0)
