"""Values with units in workload and target files. Parsers raise a ValueError that names the value and the allowed ones.

Sizes and durations are written as in all programs (broker_cy.client.quantities).
"""

import re
from collections.abc import Callable
from typing import Any

from broker_cy.client import quantities

LINKS = {"Mbit/s": 10**6, "Gbit/s": 10**9}
LINK_LEAST, LINK_MOST = 10**6, 10**11
NUMBER_MAX = 1e18  # before its unit: above every sensible quantity, and far below the limit of floats
_QUANTITY = re.compile(rf"^\s*({quantities.NUMBER})\s*([A-Za-z/]*)\s*$")


def _text(value: Any, what: str, example: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not {what} (a number and its unit, for example {example!r})")
    return value


def quantity(value: Any, units: dict[str, Any], what: str, example: str) -> tuple[float, str]:
    """Return number and unit of a text such as "16 KiB"."""
    match = _QUANTITY.match(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"{value!r} is not {what} (a number and one of {', '.join(units)}, for example {example!r})")
    if match.group(2) not in units:
        raise ValueError(f"{value!r} has the unit {match.group(2)!r} (allowed: {', '.join(units)})")
    if (found := float(match.group(1).replace("_", ""))) > NUMBER_MAX:
        raise ValueError(f"{value[:20]!r}... is out of range (allowed: at most {NUMBER_MAX:g})")
    return found, match.group(2)


def size(least: int, most: int) -> Callable[[Any], int]:
    """Return a parser of sizes in bytes: "16 KiB", or a whole number."""

    def parse(value: Any) -> int:
        if isinstance(value, int) and not isinstance(value, bool):
            found = value
        else:
            found = quantities.parse_size(_text(value, "a size", "16 KiB"))
        if not least <= found <= most:
            raise ValueError(f"{value!r} is out of range (allowed: {least} B to {most} B)")
        return found

    return parse


def link(value: Any) -> int:
    """Parse the rate of a network link, in bits per second."""
    found, unit = quantity(value, LINKS, "a rate of a link", "1 Gbit/s")
    bits = int(found * LINKS[unit])
    if not LINK_LEAST <= bits <= LINK_MOST:
        raise ValueError(f"{value!r} is out of range (allowed: 1 Mbit/s to 100 Gbit/s)")
    return bits


def duration(least_s: float, most_s: float) -> Callable[[Any], float]:
    """Return a parser of durations in seconds: "250 ms"."""

    def parse(value: Any) -> float:
        found = float(quantities.parse_seconds(_text(value, "a duration", "10 s")))
        if not least_s <= found <= most_s:
            raise ValueError(f"{value!r} is out of range (allowed: {least_s:g} s to {most_s:g} s)")
        return found

    return parse
