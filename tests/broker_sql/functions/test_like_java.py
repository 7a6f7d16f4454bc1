"""Patterns of dates, and results of regular expressions, are those of Java."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker_sql.functions.java_time.formatter import Formatter
from broker_sql.functions.java_time.zones import zone_of
from tests.broker_sql.functions.support import scalar
from tests.support import needs
from tests.support.java_oracle import JavaOracle
from tests.support.tiers import by_tier

pytestmark = [pytest.mark.full, needs.java]
COUNT = by_tier(1_000, 5_000)
# Abbreviations of these zones are of one zone only. Times before 1970 have names that differ.
ZONES = "UTC GMT America/Los_Angeles Europe/Paris +02:00 -03:30 Z GMT+3 Australia/Sydney America/New_York Asia/Tokyo"
# Without v, whose names in winter differ; without F, which has another meaning since Java 19; without p, of which
# Java 17 refuses some places.
ELEMENTS = """
    yyyy yy y yyyyy uuuu uu u M MM MMM MMMM MMMMM L LL LLL LLLL d dd D DD DDD G GGGG GGGGG Q QQ QQQ QQQQ q qqq Y
    YY YYYY w ww W E EEE EEEE EEEEE e ee eee eeee c ccc a h hh K KK k kk H HH m mm s ss S SS SSS SSSSSS
    SSSSSSSSS A AAAAA n N VV z zz zzz zzzz O OOOO X XX XXX XXXX XXXXX x xx xxx xxxx xxxxx Z ZZZ ZZZZ ZZZZZ B j
    ddd HHH aa V zzzzz [yyyy ['x'HH] ] 'T' '' 'it''s' 'open { # g
"""
SEPARATORS = ("-", "/", " ", ":", ".", ",", "T", "_", "")
READ = [
    "yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd'T'HH:mm:ss.SSSX", "yyyyMMddHHmmss", "yyyyMMddHHmmssSSS", "yyMMddHHmm",
    "d/M/y H:m", "dd-MMM-yyyy hh:mm:ss a", "EEEE, d MMMM uuuu HH:mm", "EEE MMM dd HH:mm:ss zzz yyyy", "yyyy-DDD HH:mm",
    "YYYY-'W'ww-e HH:mm", "yyyy-MM-dd HH:mm:ss[.SSS][ VV]", "yyyy-MM-dd HH:mm:ss Z", "yyyy-MM-dd HH:mm:ss ZZZZZ",
    "yyyy-MM-dd HH:mm:ss xxx", "yyyy-MM-dd HH:mm O", "yyyy-MM-dd HH:mm VV", "G y-MM-dd HH:mm", "yyyy-MM-dd kk:mm",
    "yyyy-MM-dd KK:mm a", "yyyy-MM-dd A", "yyyy-MM-dd N", "ppppy-ppM-ppd HH:mm", "yyyyMd HHmm", "HHmmss yyyy-MM-dd",
    "uuuuMMdd HHmmss.SSSSSS", "yyyy-MM-dd HH:mm:ss XX", "yyyy-MM-dd HH:mm OOOO", "E yyyy-MM-dd HH:mm",
]  # fmt: skip


@pytest.fixture(scope="module")
def java() -> Iterator[JavaOracle]:
    with JavaOracle(Path(__file__).with_name("JavaTime.java"), ".") as found:
        yield found


def theirs(java: JavaOracle, *parts: str) -> str:
    """Return `=` and the result, or `!`."""
    answer = base64.b64decode(java.ask(base64.b64encode("\0".join(parts).encode()).decode())).decode()
    return answer if answer.startswith("=") else "!"


def ours(call: Callable[..., object], *arguments: object) -> str:
    try:
        return f"={call(*arguments)}"
    except ValueError:
        return "!"


def written(pattern: str, time_ms: int, zone: str) -> str:
    return Formatter(pattern).write_timestamp(time_ms, zone_of(zone))


def read(pattern: str, text: str, zone: str) -> int:
    return Formatter(pattern).read_timestamp(text, zone_of(zone))


def replaced(text: str, pattern: str, replacement: str) -> str:
    return str(scalar("REGEXP_REPLACE", ["STRING"] * 3, text, pattern, replacement))


def extracted(pattern: str, text: str) -> str:
    return "".join(f"<{each}>" for each in scalar("REGEXP_EXTRACT_ALL", ["STRING"] * 2, pattern, text))


def test_random_patterns_write_the_same(java: JavaOracle) -> None:
    source, elements, zones = random.Random(1), ELEMENTS.split(), ZONES.split()
    count_valid = 0
    for _ in range(COUNT):
        pattern = "".join(source.choice(elements) + source.choice(SEPARATORS) for _ in range(source.randint(1, 5)))
        time_ms = source.choice(
            [source.randrange(2**41), source.randrange(2**31), source.randrange(253_402_300_800_000)]
        )
        zone = source.choice(zones)
        expected = theirs(java, "format", pattern, str(time_ms), zone)
        found = ours(written, pattern, time_ms, zone)
        assert found == expected, (pattern, time_ms, zone)
        count_valid += expected != "!"
    assert COUNT / 4 < count_valid < COUNT, "nothing is shown by patterns that are all valid, or all refused"


def test_texts_are_read_as_the_same_times(java: JavaOracle) -> None:
    source, zones = random.Random(2), ZONES.split()
    count_valid = 0
    for _ in range(COUNT):
        pattern, zone, local = source.choice(READ), zone_of(source.choice(zones)), source.choice(zones)
        text = Formatter(pattern).write_timestamp(source.randrange(2**42), zone)
        chance = source.random()
        if chance < 0.4:
            text = text.upper() if chance < 0.2 else text.lower()
        elif chance < 0.6:
            at = source.randrange(len(text) + 1)
            text = text[:at] + source.choice(["", source.choice("0123456789:- +Zx")]) + text[at + source.randrange(2) :]
        expected = theirs(java, "parse", pattern, text, local)
        found = ours(read, pattern, text, local)
        assert found == expected, (pattern, text, local)
        count_valid += expected != "!"
    assert COUNT / 2 < count_valid < COUNT


def test_regular_expressions_replace_and_find_the_same(java: JavaOracle) -> None:
    source = random.Random(3)
    pieces = ("a", "b", ".", "[ab]", "(a)", "(a|b)", "(?:ab)", "\\w", "\\d", "^", "$")
    parts = ("x", "$1", "$0", "\\$", "\\\\", "$12", "$")
    endings = ("", "", "*", "+", "?", "{1,2}", "*?")
    count_valid = 0
    for _ in range(COUNT):
        pattern = "".join(source.choice(pieces) + source.choice(endings) for _ in range(source.randint(1, 3)))
        text = "".join(source.choice("ab1 ") for _ in range(source.randrange(8)))
        replacement = "".join(source.choice(parts) for _ in range(source.randrange(3)))
        expected = theirs(java, "replace", text, pattern, replacement)
        found = ours(replaced, text, pattern, replacement)
        if found != "!" or expected == "!":  # patterns that `re` has no equal of are refused
            assert found == expected, (text, pattern, replacement)
        expected = theirs(java, "extract", pattern, text)
        found = ours(extracted, pattern, text)
        if found != "!" or expected == "!":
            assert found == expected, (pattern, text)
        count_valid += found != "!"
    assert count_valid > COUNT / 2
