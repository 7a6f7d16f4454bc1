"""Columns of requests by API, of their phases, of connections, and of the busiest topics."""

from __future__ import annotations

from typing import Any, Final

from broker_cy.console.columns import topics
from broker_cy.console.figures import ApiRow, BusyTopic, PhaseRow
from broker_cy.metrics.sample import Connection
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.tone import Tone

API: Final = Column[ApiRow]("api", "API", lambda row: row.name, width=18)
REQUESTS: Final = Column[ApiRow]("requests", "Requests/s", lambda row: row.per_s, Kind.RATE)
ERRORS: Final = Column[ApiRow](
    "errors",
    "Errors",
    lambda row: row.errors,
    Kind.COUNT,
    tone=lambda row: Tone.BAD if row.errors else Tone.MUTED,
    width=7,
)
ERROR_RATE: Final = Column[Any](
    "errors",
    "Errors/s",
    lambda row: row.errors_per_s,
    Kind.RATE,
    tone=lambda row: Tone.BAD if row.errors_per_s else Tone.MUTED,
    width=8,
)
IN: Final = Column[ApiRow]("in", "In/s", lambda row: row.in_per_s, Kind.BYTES, width=9)
OUT: Final = Column[ApiRow]("out", "Out/s", lambda row: row.out_per_s, Kind.BYTES, width=9)
MEAN: Final = Column[ApiRow]("mean", "Mean", lambda row: row.mean_us, Kind.LATENCY, width=9)
P99: Final = Column[ApiRow]("p99", "p99", lambda row: row.p99_us, Kind.LATENCY, width=9)
MAX: Final = Column[ApiRow]("max", "Max", lambda row: row.max_us, Kind.LATENCY, width=9)

PHASE: Final = Column[PhaseRow]("phase", "Phase", lambda row: row.name, sorts=False)
PHASE_COUNT: Final = Column[PhaseRow]("count", "Count", lambda row: row.count, Kind.COUNT, sorts=False)
PHASE_MEAN: Final[Column[PhaseRow]] = MEAN.by(lambda row: row.mean_us)
PHASE_P50: Final = Column[PhaseRow]("p50", "p50", lambda row: row.p50_us, Kind.LATENCY, width=9)
PHASE_P99: Final[Column[PhaseRow]] = P99.by(lambda row: row.p99_us)
PHASE_MAX: Final[Column[PhaseRow]] = MAX.by(lambda row: row.max_us)
PHASE_SHARE: Final = Column[PhaseRow](
    "share", "Share", lambda row: row.share, Kind.NUMBER, sorts=False, hint="Share of the API's time", width=5
)

CLIENT_ID: Final = Column[Connection](
    "client", "Client id", lambda row: row.client_id or None, sort=lambda row: row.client_id, width=16
)
HOST: Final = Column[Connection]("host", "Host", lambda row: row.host, width=16)
LISTENER: Final = Column[Connection]("listener", "Listener", lambda row: row.listener)
OPEN_FOR: Final = Column[Connection]("age", "Open for", lambda row: row.age_ms, Kind.DURATION)
CONNECTION_REQUESTS: Final[Column[Connection]] = REQUESTS.by(lambda row: row.requests)
CONNECTION_IN: Final[Column[Connection]] = IN.by(lambda row: row.in_bytes)
CONNECTION_OUT: Final[Column[Connection]] = OUT.by(lambda row: row.out_bytes)
CONNECTION_ID: Final = Column[Connection]("id", "Id", lambda row: row.id, sorts=False, width=14)

BUSY_TOPIC: Final[Column[BusyTopic]] = topics.TOPIC.by(lambda row: row.name)
BUSY_RECORDS: Final[Column[BusyTopic]] = topics.RECORDS.by(lambda row: row.records_per_s)
BUSY_IN: Final[Column[BusyTopic]] = IN.by(lambda row: row.in_per_s)
BUSY_OUT: Final[Column[BusyTopic]] = OUT.by(lambda row: row.out_per_s)
