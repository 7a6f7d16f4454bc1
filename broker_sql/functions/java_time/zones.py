"""Time zones as java.time.ZoneId has them, and their English names."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

_OFFSET: Final = re.compile(r"([+-])(\d|\d\d(?=:|$|\d\d))(?:(:?)([0-5]\d)(?:\3([0-5]\d))?)?", re.ASCII)
_PREFIX: Final = re.compile(r"(UTC|GMT|UT)(?=[+-])")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LOCAL_EPOCH: Final = datetime(1970, 1, 1)
# The first and last second for which datetime has rules, and the seconds of 400 years.
_FIRST_S: Final = -62_135_510_400
_LAST_S: Final = 253_402_214_400
_CYCLE_S: Final = 146_097 * 86_400
# Short names where the database of time zones has only numbers.
_MISSING_SHORT: Final = {
    "America/Sao_Paulo": "BRT", "America/Argentina/Buenos_Aires": "ART", "America/Bogota": "COT",
    "America/Lima": "PET", "America/Santiago": "CLT", "America/Caracas": "VET", "Asia/Singapore": "SGT",
    "Asia/Dubai": "GST", "Asia/Bangkok": "ICT", "Asia/Dhaka": "BDT", "Asia/Kathmandu": "NPT", "Asia/Tehran": "IRST",
    "Asia/Tashkent": "UZT", "Asia/Kabul": "AFT", "Asia/Riyadh": "AST", "Asia/Kuala_Lumpur": "MYT",
}  # fmt: skip
# The zone of a short name in texts that are read. For a name of several zones, such as BST and IST, Java takes any.
SHORT_NAMES: Final = {
    "UTC": "UTC", "GMT": "GMT", "UT": "UTC", "WET": "Europe/Lisbon", "BST": "Europe/London", "CET": "Europe/Paris",
    "CEST": "Europe/Paris", "EET": "Europe/Helsinki", "EEST": "Europe/Helsinki", "MSK": "Europe/Moscow",
    "WEST": "Europe/Lisbon", "PST": "America/Los_Angeles", "PDT": "America/Los_Angeles", "PT": "America/Los_Angeles",
    "MST": "America/Denver", "MDT": "America/Denver", "MT": "America/Denver", "CST": "America/Chicago",
    "CDT": "America/Chicago", "CT": "America/Chicago", "EST": "America/New_York", "EDT": "America/New_York",
    "ET": "America/New_York", "AST": "America/Halifax", "ADT": "America/Halifax", "NST": "America/St_Johns",
    "NDT": "America/St_Johns", "AKST": "America/Anchorage", "AKDT": "America/Anchorage", "HST": "Pacific/Honolulu",
    "JST": "Asia/Tokyo", "KST": "Asia/Seoul", "IST": "Asia/Kolkata", "SGT": "Asia/Singapore", "HKT": "Asia/Hong_Kong",
    "PKT": "Asia/Karachi", "WIB": "Asia/Jakarta", "AEST": "Australia/Sydney", "AEDT": "Australia/Sydney",
    "ACST": "Australia/Adelaide", "ACDT": "Australia/Adelaide", "AWST": "Australia/Perth", "NZST": "Pacific/Auckland",
    "NZDT": "Pacific/Auckland", "SAST": "Africa/Johannesburg", "EAT": "Africa/Nairobi", "CAT": "Africa/Maputo",
    "WAT": "Africa/Lagos",
} | {short: name for name, short in _MISSING_SHORT.items() if short != "AST"}  # fmt: skip
# Names of zones for zzzz: without, in, and whatever the summer time.
_FULL: Final = {
    "PST": "Pacific Standard Time", "PDT": "Pacific Daylight Time", "MST": "Mountain Standard Time",
    "MDT": "Mountain Daylight Time", "CST": "Central Standard Time", "CDT": "Central Daylight Time",
    "EST": "Eastern Standard Time", "EDT": "Eastern Daylight Time", "AST": "Atlantic Standard Time",
    "ADT": "Atlantic Daylight Time", "AKST": "Alaska Standard Time", "AKDT": "Alaska Daylight Time",
    "HST": "Hawaii-Aleutian Standard Time", "GMT": "Greenwich Mean Time", "UTC": "Coordinated Universal Time",
    "WET": "Western European Standard Time", "WEST": "Western European Summer Time",
    "CET": "Central European Standard Time", "CEST": "Central European Summer Time",
    "EET": "Eastern European Standard Time", "EEST": "Eastern European Summer Time", "MSK": "Moscow Standard Time",
    "BST": "British Summer Time", "JST": "Japan Standard Time", "KST": "Korean Standard Time",
    "IST": "India Standard Time", "SGT": "Singapore Standard Time", "HKT": "Hong Kong Standard Time",
    "PKT": "Pakistan Standard Time", "AEST": "Australian Eastern Standard Time",
    "AEDT": "Australian Eastern Daylight Time", "ACST": "Australian Central Standard Time",
    "ACDT": "Australian Central Daylight Time", "AWST": "Australian Western Standard Time",
    "NZST": "New Zealand Standard Time", "NZDT": "New Zealand Daylight Time", "SAST": "South Africa Standard Time",
    "EAT": "East Africa Time", "CAT": "Central Africa Time", "WAT": "West Africa Standard Time",
    "BRT": "Brasilia Standard Time", "ART": "Argentina Standard Time",
}  # fmt: skip


def _within(at_s: int) -> int:
    """Return a time with the same rules that datetime has: the calendar repeats after 400 years."""
    if at_s > _LAST_S:
        at_s -= ((at_s - _LAST_S) // _CYCLE_S + 1) * _CYCLE_S
    return max(at_s, _FIRST_S)


class Zone:
    """A zone by its Java identifier. `fixed_s` is the offset if it is the same at all times."""

    __slots__ = ("fixed_s", "name", "rules")

    def __init__(self, name: str, rules: tzinfo, fixed_s: int | None = None) -> None:
        self.name, self.rules, self.fixed_s = name, rules, fixed_s

    def offset_s(self, instant_s: int) -> int:
        """Return the offset from UTC at a time in seconds since 1970."""
        if self.fixed_s is not None:
            return self.fixed_s
        at = _EPOCH + timedelta(seconds=_within(instant_s))
        return _seconds(at.astimezone(self.rules).utcoffset())

    def local_offset_s(self, local_s: int) -> int:
        """Return the offset for a local time, in seconds since 1970 as if it were UTC.

        A time that a change of clocks leaves out has the offset before the change, so that it moves on by the gap. Of
        two times, the earlier one is meant."""
        if self.fixed_s is not None:
            return self.fixed_s
        at = _LOCAL_EPOCH + timedelta(seconds=_within(local_s))
        return _seconds(at.replace(tzinfo=self.rules).utcoffset())

    def short_name(self, instant_s: int) -> str:
        """Return a name such as PST; the identifier if there is none."""
        if self.fixed_s is not None:
            return self.name
        at = (_EPOCH + timedelta(seconds=_within(instant_s))).astimezone(self.rules)
        found = at.tzname() or self.name
        if found[0] in "+-":
            return _MISSING_SHORT.get(self.name, f"GMT{offset_text(_seconds(at.utcoffset()), ':')}")
        return found

    def full_name(self, instant_s: int) -> str:
        """Return a name such as Pacific Standard Time; the short name if there is none."""
        short = self.short_name(instant_s)
        if short == "IST" and self.name in ("Europe/Dublin", "Eire"):
            return "Irish Standard Time"
        return _FULL.get(short, short)

    def generic_name(self, instant_s: int, full: bool) -> str:
        """Return a name for all times of the year, such as PT and Pacific Time."""
        if full:
            return re.sub(r" (?:Standard|Daylight|Summer) Time$", " Time", self.full_name(instant_s))
        return re.sub(r"^([A-Z]{1,3})[SD]T$", r"\1T", self.short_name(instant_s))


def _seconds(offset: timedelta | None) -> int:
    return round(offset.total_seconds()) if offset is not None else 0


def offset_text(offset_s: int, colon: str) -> str:
    """Return +HH:mm."""
    minutes = abs(offset_s) // 60
    return f"{'-' if offset_s < 0 else '+'}{minutes // 60:02}{colon}{minutes % 60:02}"


def offset_zone(offset_s: int, prefix: str = "") -> Zone:
    """Return the zone of an offset; its identifier is `+02:00`, with the prefix `UTC+02:00`, or `Z`."""
    seconds = abs(offset_s) % 60
    name = offset_text(offset_s, ":") + (f":{seconds:02}" if seconds else "")
    name = prefix + name if offset_s else prefix or "Z"
    return Zone(name, timezone(timedelta(seconds=offset_s)), offset_s)


@lru_cache(maxsize=1)
def _regions() -> frozenset[str]:
    return frozenset(available_timezones())


@lru_cache(maxsize=1)
def region_names() -> dict[str, str]:
    """Return the identifiers of regions by their lower case."""
    return {each.lower(): each for each in _regions()}


@lru_cache(maxsize=1024)
def zone_of(name: str) -> Zone:
    """Return the zone of an identifier: `Europe/Paris`, `UTC`, `+02:00`, `GMT+2`. Raises ValueError."""
    if name == "Z":
        return offset_zone(0)
    prefix = _PREFIX.match(name)
    found = _OFFSET.fullmatch(name[prefix.end() :] if prefix else name)
    if found and (len(found[2]) == 2 or found[4] is None):
        sign, hours, _, minutes, seconds = found.groups()
        total = int(hours) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
        if total > 18 * 3600:
            raise ValueError(f"Zone offset not in valid range: -18:00 to +18:00: {name}")
        return offset_zone(-total if sign == "-" else total, prefix[0] if prefix else "")
    if name in ("UTC", "GMT", "UT"):
        return Zone(name, UTC, 0)
    if name not in _regions() or name in ("EST", "MST", "HST", "ROC", "localtime", "posixrules", "Factory"):
        raise ValueError(f"Unknown time-zone ID: {name}")
    try:
        return Zone(name, ZoneInfo(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"Unknown time-zone ID: {name}") from None
