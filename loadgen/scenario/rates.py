"""Rates in a scenario: "5000/s", "100/s to 5000/s over 30 s", or a table with a profile."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from bench.spec import units
from broker_cy.client import toml_values
from broker_cy.client.toml_file import Table
from loadgen.scenario.profile import POINTS_MAX, RateProfile

RATE_MAX = 10_000_000.0
RATE_UNITS = {"/s": 1.0, "/min": 1 / 60, "/h": 1 / 3600}
# The longest time of a run or of a part of a profile.
TIME_MAX_S = 31 * 24 * 3600.0
_RAMP = re.compile(r"^\s*(?:ramp\s+)?(\S+)\s+to\s+(\S+)\s+over\s+(.+)$")

span = units.duration(0.001, TIME_MAX_S)


def rate_number(value: Any) -> float:
    """Parse "5000/s", which may be 0. Raises ValueError."""
    number, unit = units.quantity(value, RATE_UNITS, "a rate", "5000/s")
    found = number * RATE_UNITS[unit]
    if found > RATE_MAX:
        raise ValueError(f"{value!r} is out of range (allowed: up to {RATE_MAX:g}/s)")
    return found


def positive_rate(value: Any) -> float:
    """Parse a rate above 0. Raises ValueError."""
    found = rate_number(value)
    if found <= 0:
        raise ValueError(f"{value!r} is out of range (allowed: above 0/s, up to {RATE_MAX:g}/s)")
    return found


def rate_text(value: Any) -> RateProfile:
    """Parse a constant rate or a ramp. Raises ValueError."""
    ramp = _RAMP.match(value) if isinstance(value, str) else None
    if ramp is None:
        return RateProfile.constant(positive_rate(value))
    start, end = rate_number(ramp.group(1)), rate_number(ramp.group(2))
    if max(start, end) <= 0:
        raise ValueError(f"{value!r} is never above 0/s")
    return RateProfile.ramp(start, end, span(ramp.group(3)))


def take_rate(entry: Table) -> RateProfile | None:
    """Take the key `rate` of an entry of users. Raises SpecError."""
    if not isinstance(entry.values.get("rate"), dict):
        return entry.take("rate", rate_text, None)
    table = entry.table("rate")
    kind = table.take("profile", toml_values.one_of(*PROFILES))
    found = PROFILES[kind](table)
    table.finish()
    if found.highest <= 0:
        raise table.error("profile", "the rate is never above 0/s")
    return found


def _constant(table: Table) -> RateProfile:
    return RateProfile.constant(table.take("rate", positive_rate))


def _ramp(table: Table) -> RateProfile:
    start, end = table.take("from", rate_number), table.take("to", rate_number)
    return RateProfile.ramp(start, end, table.take("over", span))


def _soak(table: Table) -> RateProfile:
    return RateProfile.soak(table.take("rate", positive_rate), table.take("ramp", span, 60.0))


def _spike(table: Table) -> RateProfile:
    base, peak = table.take("base", rate_number), table.take("peak", positive_rate)
    at_s, for_s = table.take("at", units.duration(0, TIME_MAX_S)), table.take("for", span)
    every_s = table.take("every", span, None)
    if peak <= base:
        raise table.error("peak", f"{peak:g}/s is not above the base of {base:g}/s")
    if every_s is not None and every_s < at_s + for_s:
        raise table.error("every", f"{every_s:g} s is too short: the spike ends {at_s + for_s:g} s after each start")
    return RateProfile.spike(base, peak, at_s, for_s, every_s)


def _diurnal(table: Table) -> RateProfile:
    low, high = table.take("low", rate_number), table.take("high", positive_rate)
    if high <= low:
        raise table.error("high", f"{high:g}/s is not above the low rate of {low:g}/s")
    return RateProfile.diurnal(low, high, table.take("period", span, 24 * 3600.0))


def _points(table: Table) -> RateProfile:
    points = table.take("points", _pairs)
    return RateProfile.points(points, table.take("repeat", toml_values.boolean, False))


def _pairs(value: Any) -> list[tuple[float, float]]:
    if not isinstance(value, list) or not 2 <= len(value) <= POINTS_MAX:
        raise ValueError(f'needs 2 to {POINTS_MAX} points, such as [["0 s", "100/s"], ["30 s", "5000/s"]]')
    found: list[tuple[float, float]] = []
    for each in value:
        if not isinstance(each, list) or len(each) != 2:
            raise ValueError(f'{each!r} is not a point (allowed: ["30 s", "5000/s"])')
        found.append((units.duration(0, TIME_MAX_S)(each[0]), rate_number(each[1])))
    times = [at for at, _ in found]
    if times[0] != 0:
        raise ValueError(f"the first point is at {value[0][0]!r} (allowed: 0 s)")
    for before, after in itertools.pairwise(found):
        if after[0] < before[0]:
            raise ValueError(f"the point at {after[0]:g} s follows one at {before[0]:g} s (allowed: ascending times)")
    if max(Counter(times).values()) > 2:
        raise ValueError("more than two points at one time (allowed: two, which are a jump)")
    if times[-1] == 0:
        raise ValueError("all points are at 0 s (allowed: two times at least)")
    return found


PROFILES: dict[str, Callable[[Table], RateProfile]] = {
    "constant": _constant,
    "ramp": _ramp,
    "spike": _spike,
    "soak": _soak,
    "diurnal": _diurnal,
    "points": _points,
}
