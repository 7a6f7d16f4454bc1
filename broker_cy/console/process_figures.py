"""The resources that a broker's process uses, by its newest sample; for a host, all its shards (console/hosts.py).
Values are None without a sample.
"""

from __future__ import annotations

from broker_cy.console.rows import BrokerRow
from broker_cy.metrics.sample import Sample


def _samples(row: BrokerRow) -> list[Sample]:
    return [each.sample for each in row.parts if each.sample is not None]


def uptime_of(row: BrokerRow) -> int | None:
    """Return the ms since the start; of a host, since that of the shard that was started last."""
    found = _samples(row)
    return min(each.uptime_ms for each in found) if found else None


def cpu_of(row: BrokerRow) -> float | None:
    """Return the CPU time as a part of one core: a host of four shards may show 4."""
    found = [each for each in _samples(row) if each.interval_ms > 0]
    return sum(each.cpu_us / 1000 / each.interval_ms for each in found) if found else None


def memory_of(row: BrokerRow) -> int | None:
    """Return the resident memory in bytes."""
    found = _samples(row)
    return sum(each.resident_bytes for each in found) if found else None


def connections_of(row: BrokerRow) -> int | None:
    """Return the number of open connections."""
    found = _samples(row)
    return sum(each.connections for each in found) if found else None
