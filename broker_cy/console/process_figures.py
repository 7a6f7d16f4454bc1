"""The resources that a broker's process uses, by its newest sample; for a host, all its shards (console/hosts.py)."""

from __future__ import annotations

from broker_cy.console.rows import BrokerRow
from broker_cy.metrics.sample import Sample
from broker_cy.reporting.numbers import count, duration, percent, size

# The text without a sample.
UNKNOWN = "-"


def _samples(row: BrokerRow) -> list[Sample]:
    return [each.sample for each in row.parts if each.sample is not None]


def up_text(row: BrokerRow) -> str:
    """Return the time since the start; of a host, since that of the shard that was started last."""
    found = _samples(row)
    return duration(min(each.uptime_ms for each in found)) if found else UNKNOWN


def cpu_text(row: BrokerRow) -> str:
    """Return the CPU time as a part of one core: a host of four shards may show 400 %."""
    found = [each for each in _samples(row) if each.interval_ms > 0]
    return percent(sum(each.cpu_us / 1000 / each.interval_ms for each in found), 1) if found else UNKNOWN


def memory_text(row: BrokerRow) -> str:
    """Return the resident memory."""
    found = _samples(row)
    return size(sum(each.resident_bytes for each in found)) if found else UNKNOWN


def connections_text(row: BrokerRow) -> str:
    """Return the number of open connections."""
    found = _samples(row)
    return count(sum(each.connections for each in found)) if found else UNKNOWN
