"""The type of an answer, by the Accept header of its request (RFC 9110, section 12.5.1)."""

from __future__ import annotations

from collections.abc import Sequence


def preferred(accept: str, offered: Sequence[str]) -> str:
    """Return the one of `offered` that the client likes best; the first one without a wish, "" if it takes none."""
    if not accept:
        return offered[0]
    best, best_quality = "", 0.0
    for part in accept.split(","):
        name, *parameters = (each.strip().lower() for each in part.split(";"))
        quality = _quality(parameters)
        found = next((each for each in offered if _fits(each, name)), "")
        if found and quality > best_quality:
            best, best_quality = found, quality
    return best


def _quality(parameters: list[str]) -> float:
    for each in parameters:
        name, _, value = each.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


def _fits(offered: str, wanted: str) -> bool:
    kind, _, subtype = wanted.partition("/")
    return wanted == offered or kind == "*" or (subtype == "*" and offered.startswith(f"{kind}/"))
