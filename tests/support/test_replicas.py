"""The comparison of replicas, with two independent brokers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.acked import batch
from tests.support.broker import Target
from tests.support.raw_wire import PRODUCE, Connection, produce_body
from tests.support.replicas import equal_replicas
from tests.support.topics import create_topic


def write(broker: Target, data: bytes) -> None:
    with Connection((broker.host, broker.port)) as connection:
        connection.ask(PRODUCE, 8, produce_body({"t": {0: data}}))


def test_one_other_byte_is_found(make_broker: Callable[[], Target]) -> None:
    """If this fails, replicas that differ pass for equal ones."""
    brokers = [make_broker(), make_broker()]
    addresses = {number: (broker.host, broker.port) for number, broker in enumerate(brokers, 1)}
    same = [batch(b"%d" % number, timestamp=1_700_000_000_000) for number in range(3)]
    for broker in brokers:
        create_topic(broker.bootstrap, "t")
        for data in same:
            write(broker, data)
    assert len(equal_replicas(addresses, "t", 0)) == sum(map(len, same))
    write(brokers[0], batch(b"one", timestamp=1_700_000_000_000))
    write(brokers[1], batch(b"two", timestamp=1_700_000_000_000))
    with pytest.raises(AssertionError, match="the replicas of t-0 differ"):
        equal_replicas(addresses, "t", 0)
