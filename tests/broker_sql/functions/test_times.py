"""Functions of dates, times and timestamps."""

from __future__ import annotations

from typing import Any

import pytest

from broker_sql.errors import AnalysisError
from broker_sql.functions import INTERVAL_UNIT
from broker_sql.types import INTEGER
from tests.broker_sql.functions.support import NOW_MS, REGISTRY, kind, kinds, scalar

S, N, L, T = "STRING", "INT", "BIGINT", "TIMESTAMP"
FORMAT, PARSE = "FORMAT_TIMESTAMP", "PARSE_TIMESTAMP"
DAY = 86_400_000
TS = 1_625_490_245_123  # 2021-07-05 13:04:05.123 UTC


@pytest.mark.parametrize(
    ("name", "types", "values", "wanted"),
    [
        (FORMAT, [T, S], (TS, "yyyy-MM-dd HH:mm:ss.SSS"), "2021-07-05 13:04:05.123"),
        (FORMAT, [T, S, S], (TS, "EEE d MMM yy h:mm a z", "America/New_York"), "Mon 5 Jul 21 9:04 AM EDT"),
        (FORMAT, [T, S, S], (TS, "yyyy-MM-dd'T'HH:mmXXX", "Asia/Kolkata"), "2021-07-05T18:34+05:30"),
        (FORMAT, [T, S, S], (TS, "zzzz VV O Z", "Asia/Tokyo"), "Japan Standard Time Asia/Tokyo GMT+9 +0900"),
        (FORMAT, [T, S], (TS, "X x XX xxx Z"), "Z +00 Z +00:00 +0000"),
        (FORMAT, [T, S], (-1, "u-DDD G 'o''clock' A"), "1969-365 AD o'clock 86399999"),
        (FORMAT, [T, S, S], (TS, "yyyy", None), None),
        (FORMAT, [T, S], (None, "yyyy"), None),
        ("TIMESTAMPTOSTRING", [L, S, S], (TS, "HH", "+02:30"), "15"),
        ("FORMAT_DATE", ["DATE", S], (18_813, "EEEE, MMMM d, y; QQQ; 'W'w"), "Monday, July 5, 2021; Q3; W28"),
        ("FORMAT_DATE", ["DATE", S], (3_000_000, "yyyy-MM-dd"), "+10183-09-21"),
        ("FORMAT_DATE", ["DATE", S], (18_813, "yyyy[ HH:mm]"), "2021"),
        ("DATETOSTRING", [N, S], (0, "dd/MM/yy"), "01/01/70"),
        ("FORMAT_TIME", ["TIME", S], (47_045_123, "H:m:s.SS a K k"), "13:4:5.12 PM 1 13"),
        ("FORMAT_TIME", ["TIME", S], (0, "hh kk"), "12 24"),
        ("PARSE_DATE", [S, S], ("5-JUL-2021", "d-MMM-yyyy"), 18_813),
        ("PARSE_DATE", [S, S], ("20210705", "yyyyMMdd"), 18_813),
        ("PARSE_DATE", [S, S], ("2021-02-31", "yyyy-MM-dd"), 18_686),
        ("PARSE_DATE", [S, S], ("2021/060", "yyyy/DDD"), 18_687),
        ("PARSE_DATE", [S, S], ("07", "MM"), 181),
        ("PARSE_DATE", [S, S], ("99", "yy"), 47_117),
        ("PARSE_DATE", [S, S], ("2021-W28-2", "YYYY-'W'ww-e"), 18_813),
        ("PARSE_DATE", [S, S], ("2021-07-05T10:00", "yyyy-MM-dd"), 18_813),
        ("STRINGTODATE", [S, S], ("1969-12-31", "yyyy-MM-dd"), -1),
        ("PARSE_TIME", [S, S], ("1:04:05 pm", "h:mm:ss a"), 47_045_000),
        ("PARSE_TIME", [S, S], ("24:00", "HH:mm"), 0),
        ("PARSE_TIME", [S, S], ("130405.1", "HHmmss.S"), 47_045_100),
        (PARSE, [S, S], ("2021-07-05 13:04:05.123", "yyyy-MM-dd HH:mm:ss.SSS"), TS),
        (PARSE, [S, S], ("2021-07-05T13:04:05.123456789Z", "yyyy-MM-dd'T'HH:mm:ss.SSSSSSSSSX"), TS),
        (PARSE, [S, S, S], ("2021-07-05 15:04:05.123", "yyyy-MM-dd HH:mm:ss.SSS", "Europe/Paris"), TS),
        (PARSE, [S, S, S], ("2021-07-05 06:04:05.123 PST", "yyyy-MM-dd HH:mm:ss.SSS zzz", "UTC"), TS),
        (PARSE, [S, S, S], ("2021-07-05 15:04:05.123 +0200", "yyyy-MM-dd HH:mm:ss.SSS Z", "Asia/Tokyo"), TS),
        (PARSE, [S, S], ("2021-07-05 13:04:05.123 gmt+00:00", "yyyy-MM-dd HH:mm:ss.SSS VV"), TS),
        (PARSE, [S, S, S], ("2021-03-14 02:30", "yyyy-MM-dd HH:mm", "America/New_York"), 1_615_707_000_000),
        (PARSE, [S, S, S], ("2021-11-07 01:30", "yyyy-MM-dd HH:mm", "America/New_York"), 1_636_263_000_000),
        (PARSE, [S, S, S], ("+27007-06-26 02:07", "yyyy-MM-dd HH:mm", "Europe/Paris"), 790_106_573_220_000),
        (PARSE, [S, S], ("", None), None),
        ("STRINGTOTIMESTAMP", [S, S], ("1970", "yyyy"), 0),
        ("CONVERT_TZ", [T, S, S], (TS, "UTC", "Europe/Paris"), TS + 7_200_000),
        ("CONVERT_TZ", [T, S, S], (TS, "+05:30", "GMT-2"), TS - 27_000_000),
        ("CONVERT_TZ", [T, S, S], (TS, None, "UTC"), None),
        ("UNIX_TIMESTAMP", [], (), NOW_MS),
        ("UNIX_TIMESTAMP", [T], (5,), 5),
        ("UNIX_DATE", [], (), NOW_MS // DAY),
        ("UNIX_DATE", ["DATE"], (None,), None),
        ("FROM_DAYS", [N], (-5,), -5),
        ("FROM_UNIXTIME", [L], (None,), None),
    ],
)  # fmt: skip
def test_values(name: str, types: list[str], values: tuple[Any, ...], wanted: Any) -> None:
    assert scalar(name, types, *values) == wanted


@pytest.mark.parametrize(
    ("name", "type_", "unit", "interval", "value", "wanted"),
    [
        ("DATEADD", "DATE", "DAYS", -3, 1, -2),
        ("DATEADD", "DATE", "HOURS", 47, 1, 2),
        ("DATESUB", "DATE", "SECONDS", 1, 1, 0),
        ("TIMEADD", "TIME", "MINUTES", 2, DAY - 60_000, 60_000),
        ("TIMESUB", "TIME", "DAY", 2, 5, 5),
        ("TIMESUB", "TIME", "MILLISECONDS", 6, 5, DAY - 1),
        ("TIMESTAMPADD", "TIMESTAMP", "HOUR", 2, -1, 7_199_999),
        ("TIMESTAMPSUB", "TIMESTAMP", "DAYS", None, 5, None),
        ("TIMESTAMPADD", "TIMESTAMP", "DAYS", 1, None, None),
    ],
)
def test_intervals(
    name: str, type_: str, unit: str, interval: int | None, value: int | None, wanted: int | None
) -> None:
    found = REGISTRY.scalar(name, [INTERVAL_UNIT, INTEGER, kind(type_)])
    assert found.call(unit, interval, value) == wanted
    assert found.return_type == kind(type_)


def test_an_interval_needs_a_unit() -> None:
    with pytest.raises(AnalysisError, match=r"no form DATEADD\(DATE, INTEGER, DATE\)"):
        REGISTRY.scalar("DATEADD", kinds("DATE", N, "DATE"))
    with pytest.raises(ValueError, match="unit WEEKS"):
        REGISTRY.scalar("DATEADD", [INTERVAL_UNIT, INTEGER, kind("DATE")]).call("WEEKS", 1, 1)


@pytest.mark.parametrize(
    ("name", "types", "values", "error"),
    [
        ("FORMAT_DATE", ["DATE", S], (0, "HH"), "date 1970-01-01 cannot be written as 'HH': Unsupported"),
        ("FORMAT_TIME", ["TIME", S], (0, "yyyy"), "Unsupported field: YearOfEra"),
        ("FORMAT_TIME", ["TIME", S], (0, "X"), "Unsupported field: OffsetSeconds"),
        (FORMAT, [T, S], (0, "i"), "Unknown pattern letter: i"),
        (FORMAT, [T, S], (0, "HHH"), "Too many pattern letters: H"),
        (FORMAT, [T, S], (0, "'open"), "incomplete string literal"),
        (FORMAT, [T, S, S], (0, "HH", "PST"), "Unknown time-zone ID: PST"),
        ("PARSE_DATE", [S, S], ("2021-13-01", "yyyy-MM-dd"), "Invalid value for MonthOfYear"),
        ("PARSE_DATE", [S, S], ("2021-366", "yyyy-DDD"), "not a leap year"),
        ("STRINGTODATE", [S, S], ("2021-07-05x", "yyyy-MM-dd"), "unparsed text found at index 10"),
        ("PARSE_DATE", [S, S], ("12021-07-05", "yyyy-MM-dd"), "could not be parsed at index 0"),
        ("PARSE_DATE", [S, S], ("2021-07-05 10", "yyyy-MM-dd HH"), "fields of a time: a date is expected"),
        ("PARSE_DATE", [S, S], ("Tue 2021-07-05", "E yyyy-MM-dd"), "Conflict found: DayOfWeek 1 differs"),
        ("PARSE_TIME", [S, S], ("2021 10", "yyyy HH"), "fields of a date: a time is expected"),
        ("PARSE_TIME", [S, S], ("24:01", "HH:mm"), "Invalid value for HourOfDay"),
        (PARSE, [S, S], ("x", "yyyy"), "'x' cannot be read as a timestamp, 'yyyy': Text 'x' could not"),
        ("CONVERT_TZ", [T, S, S], (0, "Mars", "UTC"), "CONVERT_TZ: Unknown time-zone ID: Mars"),
    ],
)  # fmt: skip
def test_errors_name_the_value(name: str, types: list[str], values: tuple[Any, ...], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        scalar(name, types, *values)
