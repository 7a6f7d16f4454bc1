"""Values of a report as readable texts. Everything from a lake is escaped here or by the caller."""

from __future__ import annotations

from html import escape

from broker_cy.admin.lag import Status
from broker_cy.reporting.foreign_text import LABEL_MAX, clean
from broker_cy.reporting.numbers import UNKNOWN, share
from spark_analytics.report.content import DAY_MS, HOUR_MS, NAMES_MAX, Backtest

_STATUS = {
    Status.OK: "ok",
    Status.UNKNOWN: "unknown",
    Status.WARN: "lag grows",
    Status.REWOUND: "rewound",
    Status.STALLED: "stalled",
    Status.STOPPED: "stopped",
}


def text(of: str) -> str:
    """Return a text of the lake as HTML."""
    return escape(clean(of)) if of else UNKNOWN


def name(of: str) -> str:
    """Return a name as HTML; a short one is not broken at its hyphens."""
    return f'<span class="name">{text(of)}</span>' if len(of) <= LABEL_MAX else text(of)


def names(of: tuple[str, ...]) -> str:
    """Return names as HTML, the first ones of many."""
    shown = ", ".join(name(each) for each in of[:NAMES_MAX])
    return f"{shown} and more" if len(of) > NAMES_MAX else shown or UNKNOWN


def status(of: Status) -> str:
    return _STATUS[of]


def days(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def period(ms: int) -> str:
    """Format the length of periods: minute, 5 minutes, hour, 6 hours, day."""
    for unit_ms, unit in ((DAY_MS, "day"), (HOUR_MS, "hour"), (60_000, "minute")):
        if ms >= unit_ms:
            return unit if ms == unit_ms else f"{ms // unit_ms} {unit}s"
    raise ValueError(f"a period of {ms} ms: a minute or more is expected")


def backtest(of: Backtest | None) -> str:
    """Return a text about the quality of a forecast on known data."""
    if of is None:
        return "no backtest: too little history"
    if of.error is None:
        error = "no error is known (all values are 0)"
    else:
        error = f"off by {share(of.error)} on average" if of.error >= 0.0005 else "off by less than 0.1% on average"
    return f"{error}, {of.coverage:.0%} of {of.hours:,} hours in the band"
