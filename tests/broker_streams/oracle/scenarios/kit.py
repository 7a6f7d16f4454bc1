"""Short forms for scenarios written by hand.

    do("join j a b", joiner=...)      {"call": "join", "id": "j", "on": "a", "with": "b", ...}
    rows("A k v 5; A - 3 6; +10")     records as topic, key, value and time, and an advance of the wall clock by 10 ms

In rows, - is null, a number a Long, and '' the empty text.
"""

from __future__ import annotations

from typing import Any

Call = dict[str, Any]
Calls = list[Call]

LEFT_RIGHT = ["concat", "value", ["text", "+"], "other"]
"""A joiner: left+right."""
APPENDED = ["concat", "other", ["text", "+"], "value"]
"""An aggregator: the aggregate, then the value."""
CUT = ["concat", "other", ["text", "-"], "value"]
"""A subtractor: the aggregate, then the old value after a minus sign."""


def do(text: str, **options: Any) -> Call:
    """See the module. An `id` of - is none, as for a sink."""
    method, id_, *places = text.split()
    found: Call = {"call": method}
    if id_ != "-":
        found["id"] = id_
    found |= dict(zip(("on", "with"), places, strict=False))
    return found | {key: value for key, value in options.items() if value is not None}


def spec(calls: Calls, inputs: str, config: dict[str, str] | None = None, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"calls": calls, "inputs": rows(inputs)} | options
    return found | ({"config": config} if config else {})


def rows(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for row in filter(None, (each.strip() for each in text.split(";"))):
        if row.startswith("+"):
            found.append({"advance_ms": int(row)})
            continue
        topic, key, value, at, *headers = row.split()
        record: dict[str, Any] = {"topic": topic, "key": _value(key), "value": _value(value), "at": int(at)}
        if headers:
            record["headers"] = [each.split("=") for each in headers]
        found.append(record)
    return found


def _value(text: str) -> Any:
    if text.lstrip("-").isdigit():
        return int(text)
    if text.startswith("0x"):
        return {"hex": text[2:]}
    return {"-": None, "''": ""}.get(text, text)


def out(id_: str, value: str | None = None, key: str | None = None, topic: str = "out") -> Calls:
    """Write a stream."""
    return [do(f"to - {id_}", topic=topic, key=key, value=value)]


def table_out(id_: str, value: str | None = None, key: str | None = None, topic: str = "out") -> Calls:
    """Write a table."""
    return [do(f"to_stream {id_}-stream {id_}"), *out(f"{id_}-stream", value, key, topic)]


def grouped(value: str = "string", topic: str = "A") -> Calls:
    """Stream `a` of String keys, and its group `g` by key."""
    return [
        do("stream a", topic=topic, key="string", value=value),
        do("group_by_key g a", key="string", value=value),
    ]


def stored(value: str, **options: Any) -> dict[str, Any]:
    """Options of a store with String keys."""
    return {"key": "string", "value": value} | options


def counted(windows: dict[str, Any], emit_final: bool = False, **store: Any) -> Calls:
    """Windowed counts of `grouped`, written to `out`."""
    calls = [*grouped(), do("windowed_by w g", windows=windows)]
    on = "w"
    if emit_final:
        calls.append(do("emit_strategy e w", strategy="on_window_close"))
        on = "e"
    return [*calls, do(f"count c {on}", materialized=stored("long", **store)), *table_out("c")]


def time(size_ms: int, grace_ms: int = 0, advance_ms: int | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"kind": "time", "size_ms": size_ms, "grace_ms": grace_ms}
    return found if advance_ms is None else found | {"advance_ms": advance_ms}


def sliding(difference_ms: int, grace_ms: int = 0) -> dict[str, Any]:
    return {"kind": "sliding", "difference_ms": difference_ms, "grace_ms": grace_ms}


def session(gap_ms: int, grace_ms: int = 0) -> dict[str, Any]:
    return {"kind": "session", "gap_ms": gap_ms, "grace_ms": grace_ms}
