"""The state of remote topics of a copy flow before a failover."""

from __future__ import annotations

from broker_mirror.promotion.copied import is_wanted, rows_of
from broker_mirror.status import PartitionLag
from tests.broker_mirror.tasks.flow_rows import flow_of


def lag_of(topic: str, partition: int, lag: int | None) -> PartitionLag:
    return PartitionLag("A->B", topic, partition, 0, lag, lag)


def test_a_remote_topic_lags_if_one_partition_does() -> None:
    """If this fails, a planned failover of a copy flow leaves records behind."""
    lags = [lag_of("orders", 0, 0), lag_of("orders", 1, 7), lag_of("payments", 0, 0), lag_of("x", 0, None)]
    orders, payments, unknown = rows_of(flow_of(), lags)
    assert (orders.topic, orders.source, orders.lag, orders.waiting) == ("A.orders", "orders", 7, 1)
    assert (payments.is_complete, orders.is_complete, unknown.is_complete) == (True, False, False)


def test_heartbeats_are_not_waited_for() -> None:
    """If this fails, a failover waits for the last heartbeat, and there is always another one."""
    topics = "orders", "heartbeats", "C.heartbeats"
    assert [each for each in topics if is_wanted(flow_of(), each, ())] == ["orders"]
    assert [each for each in topics if is_wanted(flow_of(), each, ("A.orders",))] == ["orders"]
    assert [each for each in topics if is_wanted(flow_of(), each, ("A.heartbeats",))] == ["heartbeats"]
