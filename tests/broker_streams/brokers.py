"""Settings of the brokers that tests of applications start."""

from __future__ import annotations

from tests.support.broker import QUICK

SETTINGS = {
    **QUICK,
    # Records with timestamps of 1970 stay.
    "log.retention.ms": "-1",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "100",
}
