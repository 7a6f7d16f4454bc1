"""Durations, sizes and times mean the same in every program."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import click
import pytest

from bench.spec import units
from broker_cy.client.quantities import is_zoneless, parse_duration, parse_seconds, parse_size
from broker_cy.commands.values import BYTES, DURATION, TIME
from broker_cy.console.values import parse_time
from loadgen.scenario.rates import span
from spark_analytics.cli import TIME as ANALYTICS_TIME

NOON_MS = 1_769_860_800_000  # 2026-01-31T12:00Z
HOUR_MS = 3_600_000


@pytest.fixture
def kolkata() -> Iterator[None]:
    """The local zone is 5 h 30 min before UTC."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "Asia/Kolkata"
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


@pytest.mark.parametrize("text", ["5m", "5min", "5 min", "300s", "300_000ms", "0.05h2m", "4m59s1000ms", "4m 60s"])
def test_a_duration_is_the_same_in_every_program(text: str) -> None:
    """If this fails, a duration that one program accepts is refused by another, or lasts longer there."""
    assert DURATION.convert(text, None, None) == 300_000
    assert units.duration(0, 3600)(text) * 1000 == span(text) * 1000 == parse_duration(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500000", 500_000),
        ("1 B", 1),
        ("50MB", 50_000_000),
        ("50 MB", 50_000_000),
        ("50MiB", 52_428_800),
        ("50M", 52_428_800),
        ("1.5GiB", 1_610_612_736),
        ("64kB", 64_000),
        ("64KB", 64_000),
        ("64k", 65_536),
        ("1_000KiB", 1_024_000),
    ],
)
def test_a_size_is_the_same_in_every_program(text: str, expected: int) -> None:
    """If this fails, a quota of 50MB is another one than the rate of 50MB with which it was measured."""
    assert BYTES.convert(text, None, None) == expected
    assert units.size(0, 1 << 62)(text) == expected


@pytest.mark.usefixtures("kolkata")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-31T12:00Z", NOON_MS),
        ("2026-01-31 12:00:00.001Z", NOON_MS + 1),
        ("2026-01-31T17:30", NOON_MS),
        ("2026-01-31T17:30:00.001", NOON_MS + 1),
        ("2026-01-31", NOON_MS - 17 * HOUR_MS - HOUR_MS // 2),
        ("2026-01-31T08:00-04:00", NOON_MS),
        (str(NOON_MS), NOON_MS),
    ],
)
def test_a_time_is_the_same_in_every_program(text: str, expected: int) -> None:
    """If this fails, a time without a zone is local for `broker-cy` and UTC for `broker-analytics`."""
    assert TIME.convert(text, None, None) == expected
    assert ANALYTICS_TIME.convert(text, None, None).timestamp() * 1000 == expected


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        *(
            (parse_seconds, text)
            for text in ("", "5", "5x", "5M", "m", "-5m", "5m-", "1e3s", "5mins", "²s", "5.s", "_5s")
        ),
        *((parse_duration, text) for text in ("1us", "0.5ms", "99999999999999999999w", "1s" * 60)),
        *((parse_size, text) for text in ("", "MB", "5mb", "5Mb", "5 KBit", "-1", "1e3", "9" * 101, "8388608TiB")),
        *((parse_time, text) for text in ("2026-01-31T12", "20260131T1200", "2026-W05-6", "12:00", "2026-01-31T1:00")),
        *(
            (parse_time, text)
            for text in ("1969-12-31T23:59:59.999Z", "9223372036854775808", "0001-01-01", "٢026-1-31")
        ),
    ],
)
def test_other_texts_are_refused(parse: Callable[[str], Any], text: str) -> None:
    """If this fails, a typing error is accepted as a quantity, or -1 (the latest record, for Kafka) as a time."""
    with pytest.raises(ValueError, match=r"such as|ms since 1970|milliseconds up to|before 1970"):
        parse(text)


def test_programs_refuse_what_the_rule_refuses() -> None:
    """If this fails, one program has a rule of its own."""
    for kind in (BYTES, DURATION, TIME, ANALYTICS_TIME):
        with pytest.raises(click.BadParameter):
            kind.convert("5 parsecs", None, None)
    for parse in (units.size(0, 9), units.duration(0, 9)):
        with pytest.raises(ValueError, match="'5 parsecs'"):
            parse("5 parsecs")


def test_texts_whose_meaning_depends_on_a_zone() -> None:
    """If this fails, a form of the dashboard interprets a user's time in the zone of the dashboard's machine."""
    assert all(map(is_zoneless, ("2026-01-31", "2026-01-31T12:00", "2026-01-31 12:00:00.123")))
    assert not any(map(is_zoneless, ("2026-01-31T12:00Z", "2026-01-31T12:00+02:00", "-15m", "now", "5", "soon")))
