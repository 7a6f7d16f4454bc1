"""Stores as users choose them: names, serdes, retention, and the combinations that are refused."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from broker_streams.dsl.builder import StreamsBuilder
from broker_streams.dsl.graph import Graph
from broker_streams.dsl.materialized import Materialized
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.plan.topology import TopologyError
from broker_streams.plan.windows import TimeWindows
from broker_streams.serdes.primitives import LONG, STRING
from broker_streams.testing.topology_test_driver import TopologyTestDriver


def test_a_name_is_generated_only_if_there_is_none() -> None:
    """If this fails, an application does not find its state after an update of this package."""
    graph = Graph()
    named = Materialized("counts", value=STRING).completed(graph, "KSTREAM-AGGREGATE-", STRING, LONG)
    assert named == Materialized("counts", key=STRING, value=STRING)
    generated = Materialized().completed(graph, "KSTREAM-AGGREGATE-", None, LONG)
    assert generated.name == "KSTREAM-AGGREGATE-STATE-STORE-0000000000"


def test_stores_of_all_kinds() -> None:
    """If this fails, a store forgets rows too early, or has no changelog."""
    chosen = Materialized("s", STRING, LONG, caching=False, topic_config={"segment.ms": "5"})
    assert chosen.key_value_store() == Store(
        "s", StoreKind.TIMESTAMPED_KEY_VALUE, STRING, LONG, None, topic_config={"segment.ms": "5"}
    )
    versioned = Materialized("s", history="1h").key_value_store()
    assert versioned == Store("s", StoreKind.VERSIONED_KEY_VALUE, history_ms=3_600_000)
    in_memory = Materialized("s", in_memory=True, logging=False, retention="1m")
    assert in_memory.window_store(10, 30, "size 10 + grace 20", {"time_ordered": True}) == Store(
        "s",
        StoreKind.TIMESTAMPED_WINDOW,
        persistent=False,
        logging=False,
        caching=True,
        retention_ms=60_000,
        window_ms=10,
        options={"time_ordered": True},
    )
    assert Materialized("s", in_memory=False).without_cache().session_store(30, "", {}) == Store(
        "s", StoreKind.SESSION, retention_ms=30
    )


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: Materialized("a b"), TopologyError, "the name 'a b' has other characters than ASCII letters"),
        (lambda: Materialized(retention=-1), ValueError, "retention is -1 ms; 0 to 9223372036854775807 are allowed"),
        (
            lambda: Materialized(history="1h", in_memory=True),
            ValueError,
            "a store with a history is not kept in memory",
        ),
        (lambda: Materialized(logging=False, topic_config={"a": "b"}), ValueError, "topic_config is for the changelog"),
        (lambda: Materialized("s", retention="1m").key_value_store(), ValueError, "store s has no windows, so a"),
        (
            lambda: Materialized("s", history=5).session_store(1, "", {}),
            ValueError,
            "store s has windows, so a history",
        ),
        (
            lambda: Materialized("s", retention=29).window_store(10, 30, "size 10 + grace 20", {}),
            ValueError,
            "the retention of store s is 29 ms; at least size 10 + grace 20 = 30 ms is allowed",
        ),
    ],
)
def test_refusals_name_value_and_limits(make: Callable[[], object], error: type[ValueError], text: str) -> None:
    """If this fails, an option that cannot work is accepted and ignored."""
    with pytest.raises(error, match=re.escape(text)):
        make()


@pytest.mark.parametrize(
    ("suppliers", "in_memory", "order"),
    [
        ("RocksDBDslStoreSuppliers", None, ["a", "b"]),
        ("InMemoryDslStoreSuppliers", None, ["b", "a"]),
        ("InMemoryDslStoreSuppliers", False, ["a", "b"]),
        ("RocksDBDslStoreSuppliers", True, ["b", "a"]),
    ],
)
def test_stores_are_kept_where_the_application_says(suppliers: str, in_memory: bool | None, order: list[str]) -> None:
    """If this fails, dsl.store.suppliers.class is accepted and ignored."""
    builder = StreamsBuilder()
    windowed = builder.stream("in", key=STRING, value=STRING).group_by_key().windowed_by(TimeWindows.of(10).grace(50))
    windowed.count(materialized=Materialized("counts", in_memory=in_memory))
    config = {"application.id": "app", "dsl.store.suppliers.class": suppliers}
    with TopologyTestDriver(builder.build(), config) as driver:
        given = driver.create_input_topic("in", key=STRING, value=STRING)
        given.pipe_input("b", "x", 0)
        given.pipe_input("a", "x", 10)
        # Rows in memory have the order of their times, those of segments the order of their keys.
        assert [windowed.key for windowed, _ in driver.get_window_store("counts").all()] == order
