"""Samples from newer brokers, and records that are not samples."""

from __future__ import annotations

import json
from typing import Any

import pytest

from broker_cy.metrics.sample import Api, Connection, QuotaUse, Sample, Times, Topic, decode, encode

SAMPLE = Sample(
    time_ms=5,
    broker=1,
    loop_lag=Times(1, 2, 3, 4, 5),
    disks={"/data": (1, 2)},
    apis={"Fetch": Api(7, {"NOT_LEADER": 1}, 3, 4, {"total": Times(7, 70, 9, 11, 12)})},
    topics={"orders": Topic(1, 2, 3)},
    busy=[Connection("c", "client", requests=4)],
    quotas=[QuotaUse("producer_byte_rate", "alice", limit=5.0, waits=1)],
)


def written(change: tuple[str | int, ...] = (), value: Any = 1) -> bytes:
    """The record of SAMPLE, with one value replaced or added."""
    found = json.loads(encode(SAMPLE))
    at = found
    for step in change[:-1]:
        at = at[step]
    if change:
        at[change[-1]] = value
    return json.dumps(found).encode()


@pytest.mark.parametrize(
    "place",
    [
        (),
        ("new",),
        ("loop_lag", "new"),
        ("apis", "Fetch", "new"),
        ("apis", "Fetch", "phases", "total", "new"),
        ("topics", "orders", "new"),
        ("busy", 0, "new"),
        ("quotas", 0, "new"),
    ],
)
def test_fields_of_a_newer_broker_are_ignored(place: tuple[str | int, ...]) -> None:
    """If this fails, an older console shows nothing of a broker that was upgraded first."""
    assert decode(written(place)) == SAMPLE


def test_a_value_of_zero_is_read_as_zero() -> None:
    """If this fails, the samples of node 0 belong to no node."""
    of_node_0 = Sample(time_ms=5, broker=0)
    assert b"broker" not in encode(of_node_0)
    assert decode(encode(of_node_0)) == of_node_0


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("apis",), []),
        (("loop_lag",), 5),
        (("apis", "Fetch", "phases", "total"), [1]),
        (("topics", "orders"), 5),
        (("busy", 0), "host"),
        (("disks", "/data"), 5),
    ],
)
def test_other_types_are_refused(place: tuple[str | int, ...], value: Any) -> None:
    """If this fails, one broken record ends a chart with a traceback instead of being left out."""
    with pytest.raises(ValueError, match="not a sample"):
        decode(written(place, value))
