"""All scenarios written by hand, by room: what Kafka's own tests of each operator look at."""

from __future__ import annotations

from typing import Any, Final

from tests.broker_streams.oracle.scenarios import (
    aggregates,
    combined,
    joins,
    more,
    operators,
    stateless,
    tables,
    windows,
)

ROOMS: Final[dict[str, dict[str, dict[str, Any]]]] = {
    "stateless": stateless.SCENARIOS,
    "aggregates": aggregates.SCENARIOS,
    "time_windows": windows.TIME,
    "sliding_windows": windows.SLIDING,
    "session_windows": windows.SESSION,
    "tables": tables.TABLES,
    "table_joins": tables.JOINS,
    "stream_joins": joins.STREAMS,
    "stream_table_joins": joins.TABLES,
    "foreign_keys": more.FOREIGN_KEYS,
    "versioned": more.VERSIONED,
    "suppress": more.SUPPRESS,
    "processors": more.PROCESSORS,
    "combined": combined.SCENARIOS,
    "operators": operators.STREAMS,
    "values": operators.VALUES,
}
