"""The calendar, and all letters of patterns there and back."""

from __future__ import annotations

import random
from datetime import date

import pytest

from broker_sql.functions.java_time.calendar import date_of, days_of, sunday_first, weekday
from broker_sql.functions.java_time.formatter import Formatter
from broker_sql.functions.java_time.zones import zone_of

ZONES = ("UTC", "America/Los_Angeles", "Europe/Paris", "Asia/Kolkata", "+02:00", "-03:30", "Australia/Sydney", "GMT+3")


def test_calendar_is_that_of_datetime() -> None:
    epoch = date(1970, 1, 1).toordinal()
    source = random.Random(3)
    for ordinal in [1, 2, date.max.toordinal(), *(source.randrange(1, date.max.toordinal()) for _ in range(2000))]:
        wanted = date.fromordinal(ordinal)
        days = ordinal - epoch
        assert date_of(days) == (wanted.year, wanted.month, wanted.day)
        assert days_of(wanted.year, wanted.month, wanted.day) == days
        assert weekday(days) == wanted.isoweekday()
        assert sunday_first(days) == wanted.isoweekday() % 7 + 1


@pytest.mark.parametrize("year", [-999_999_999, -401, -400, -1, 0, 10_000, 999_999_999])
def test_years_beyond_datetime(year: int) -> None:
    for month, day in ((1, 1), (2, 28), (3, 1), (12, 31)):
        assert date_of(days_of(year, month, day)) == (year, month, day)
    assert days_of(year + 1, 1, 1) - days_of(year, 12, 31) == 1


@pytest.mark.parametrize(
    "pattern",
    [
        "yyyy-MM-dd HH:mm:ss.SSS XXX", "yyyyMMddHHmmssSSSX", "EEEE, d MMMM uuuu H:m:s.SSS ZZZZZ", "y/D A xx",
        "d.L.y hh:mm:ss.SSS a Z", "YYYY-ww-e KK:mm:ss.SSS a xxx", "yyyy-MM-dd kk:mm:ss.SSS VV", "G y-M-d N XXXXX",
        "EEE MMM dd HH:mm:ss.SSS OOOO yyyy", "ppppyyyy-ppM-ppd HH:mm:ss.SSS ZZZZ", "g AAAAAAAA XXX",
        "yyyy[-MM][-dd] HH[:mm[:ss[.SSS]]] xxxxx", "'It''s' yyyy-MM-dd HH:mm:ss n x", "QQQ yyyy-MM-dd HH:mm:ss.SSS XX",
    ],
)  # fmt: skip
def test_texts_are_read_back(pattern: str) -> None:
    source = random.Random(pattern)
    translated = Formatter(pattern)
    for _ in range(60):
        # No second time of a clock that is set back: a pattern with VV but without an offset means the first one.
        time_ms = source.randrange(0, 2**42) // 60_000_000 * 60_000_000 + source.randrange(60_000)
        zone = zone_of(
            source.choice(ZONES) if "VV" not in pattern else source.choice(("UTC", "Asia/Kolkata", "+02:00"))
        )
        wanted = time_ms if "S" in pattern or "A" in pattern or "N" in pattern or "n" in pattern else time_ms // 1000
        text = translated.write_timestamp(time_ms, zone)
        assert translated.read_timestamp(text, zone_of("UTC")) == wanted, text
        assert translated.read_timestamp(text.upper(), zone_of("UTC")) == wanted, text


@pytest.mark.parametrize(
    ("pattern", "error"),
    [
        ("yyyy]", "without previous"), ("{", "reserved character"), ("VVV", "must be 2"), ("OO", "must be 1 or 4"),
        ("MMMMMM", "Too many"), ("SSSSSSSSSS", "Too many"), ("p", "Pad letter"), ("cc", "Invalid pattern"),
        ("aa", "Too many"), ("zzzzz", "Too many"), ("XXXXXX", "Too many"), ("BB", "Wrong number"), ("DDDD", "Too many"),
    ],
)  # fmt: skip
def test_patterns_that_are_refused(pattern: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        Formatter(pattern)


@pytest.mark.parametrize("name", ["EST", "PST", "europe/paris", "+19:00", "+2:0", "UTC+", "", "Factory", "+012:00"])
def test_zones_that_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"time-zone ID|not in valid range"):
        zone_of(name)


@pytest.mark.parametrize(
    ("name", "found"),
    [("Z", "Z"), ("+2", "+02:00"), ("UTC-0130", "UTC-01:30"), ("GMT", "GMT"), ("CET", "CET"), ("GMT+0", "GMT")],
)
def test_identifiers_of_zones(name: str, found: str) -> None:
    assert zone_of(name).name == found
