"""Windowed aggregations of all kinds, and their emit strategies."""

from __future__ import annotations

from typing import Any

from tests.broker_streams.oracle.scenarios.kit import (
    APPENDED,
    Calls,
    counted,
    do,
    grouped,
    out,
    session,
    sliding,
    spec,
    stored,
    table_out,
    time,
)

INPUT = "A k v1 0; A k v2 5; A l w 9; A k v3 10; A k v4 3; A - v5 11; A k - 12; A k v6 31; A k late 5; A l x 32"
UNLIMITED: dict[str, Any] = {"kind": "unlimited"}


def _reduced(windows: dict[str, Any], **options: Any) -> Calls:
    return [
        *grouped(),
        do("windowed_by w g", windows=windows),
        do("reduce c w", reducer=["concat", "value", ["text", "+"], "other"], materialized=stored("string"), **options),
        *table_out("c"),
    ]


def _aggregated(windows: dict[str, Any], aggregator: Any = APPENDED, **options: Any) -> Calls:
    merger = ["concat", "value", ["text", "&"], "other"] if windows["kind"] == "session" else None
    return [
        *grouped(),
        do("windowed_by w g", windows=windows),
        do(
            "aggregate c w",
            initial=["text", "0"],
            aggregator=aggregator,
            merger=merger,
            materialized=stored("string"),
            **options,
        ),
        *table_out("c"),
    ]


def _cogrouped(windows: dict[str, Any]) -> Calls:
    merger = ["concat", "value", ["text", "&"], "other"] if windows["kind"] == "session" else None
    return [
        *grouped(),
        do("stream b", topic="B"),
        do("group_by_key h b", key="string", value="string"),
        do("cogroup x g", aggregator=APPENDED),
        do("cogroup y x h", aggregator=["concat", "value", ["text", "<"], "other"]),
        do("windowed_by w y", windows=windows),
        do("aggregate c w", initial=["text", "0"], merger=merger, materialized=stored("string")),
        *table_out("c"),
    ]


BOTH = "A k a1 0; B k b1 5; B k b2 12; A l a2 13; A k a3 14; B k b3 1; A - a4 15; A k a5 60; B k b4 10"

TIME: dict[str, dict[str, Any]] = {
    "tumbling windows without grace": spec(counted(time(10)), INPUT),
    "tumbling windows with grace": spec(counted(time(10, 20)), INPUT),
    "a record at the end of grace": spec(counted(time(10, 5)), "A k v 0; A k v 14; A k v 1; A k v 15; A k v 2"),
    "hopping windows": spec(counted(time(10, 5, 3)), INPUT),
    "hopping windows at the start of time": spec(counted(time(100, 0, 30)), "A k v 0; A k v 10; A k v 40; A k v 99"),
    "windows reduce": spec(_reduced(time(10, 5)), INPUT),
    "windows aggregate": spec(_aggregated(time(10, 5)), INPUT),
    "windows aggregate to null": spec(_aggregated(time(10, 5), ["if", ["mod", "value", 2, 0], None, APPENDED]), INPUT),
    "windows in memory": spec(counted(time(10, 5), kind="memory"), INPUT),
    "windows without a cache": spec(counted(time(10, 5), caching=False), INPUT),
    "windows in a store with a name and a retention": spec(counted(time(10, 5), name="w", retention_ms=60_000), INPUT),
    "a retention shorter than the window is an error": spec(counted(time(10, 50), name="w", retention_ms=20), ""),
    "rows older than the retention are gone": spec(
        counted(time(10, 20), name="w", retention_ms=30), "A k v 0; A k v 15; A k v 200000; A k v 200015; A k v 400000"
    ),
    "windows emit when they close": spec(counted(time(10), emit_final=True), INPUT),
    "windows with grace emit when they close": spec(counted(time(10, 5), emit_final=True), INPUT),
    "hopping windows emit when they close": spec(counted(time(10, 5, 4), emit_final=True), INPUT),
    "unlimited windows cannot emit when they close": spec(counted(UNLIMITED, emit_final=True), INPUT),
    "unlimited windows": spec(counted(UNLIMITED), INPUT),
    "unlimited windows that start later": spec(counted(UNLIMITED | {"start_ms": 8}), INPUT),
    "a cogroup in windows": spec(_cogrouped(time(10, 5)), BOTH),
    "windowed keys as text": spec(
        [
            *grouped(),
            do("windowed_by w g", windows=time(10)),
            do("count c w", materialized=stored("long")),
            do("to_stream s c", to=["text_of", "key"]),
            *out("s", "long", "string"),
        ],
        INPUT,
    ),
    "a windowed table is filtered and joined": spec(
        [
            *grouped(),
            do("windowed_by w g", windows=time(10, 5)),
            do("count c w", materialized=stored("long")),
            do("reduce r w", reducer="other", materialized=stored("string")),
            do("filter f c", predicate=["not", ["equal", "value", 1]]),
            do("outer_join j f r", joiner=["concat", "value", ["text", "/"], "other"]),
            do("to_stream s j", to=["text_of", "key"]),
            *out("s", "string", "string"),
        ],
        INPUT,
    ),
    "windows after a new key": spec(
        [
            do("stream a", topic="A"),
            do("group_by g a", to=["end", "value", 1], key="string", value="string"),
            do("windowed_by w g", windows=time(10)),
            do("count c w", materialized=stored("long")),
            *table_out("c"),
        ],
        INPUT,
    ),
    "windows of size 0 are an error": spec(counted(time(0)), ""),
    "an advance larger than the window is an error": spec(counted(time(10, 0, 11)), ""),
}

SLIDING: dict[str, dict[str, Any]] = {
    "records far from each other": spec(counted(sliding(5)), "A k v 0; A k v 20; A k v 40"),
    "records near each other": spec(counted(sliding(10, 50)), "A k v 10; A k v 15; A k v 22; A k v 25; A k v 31"),
    "records before the difference": spec(counted(sliding(50, 50)), "A k v 0; A k v 5; A k v 6; A k v 3; A k v 10"),
    "equal times": spec(counted(sliding(5, 10)), "A k v 10; A k v 10; A k v 15; A k v 15; A k v 10"),
    "records out of order": spec(counted(sliding(10, 50)), "A k v 30; A k v 12; A k v 20; A k v 19; A k v 40; A k v 0"),
    "records after grace": spec(counted(sliding(10, 5)), "A k v 30; A k v 12; A k v 15; A k v 16; A k v 14; A k v 20"),
    "sliding windows reduce": spec(_reduced(sliding(10, 20)), INPUT),
    "sliding windows aggregate": spec(_aggregated(sliding(10, 20)), INPUT),
    "sliding windows without a cache": spec(counted(sliding(10, 20), caching=False), INPUT),
    "sliding windows in memory": spec(counted(sliding(10, 20), kind="memory"), INPUT),
    "sliding windows emit when they close": spec(counted(sliding(10, 5), emit_final=True), INPUT),
    "sliding windows at the start of time emit when they close": spec(
        counted(sliding(20, 5), emit_final=True), "A k v 0; A k v 5; A k v 30; A k v 60; A k v 100"
    ),
    "a cogroup in sliding windows": spec(_cogrouped(sliding(10, 20)), BOTH),
}

SESSION: dict[str, dict[str, Any]] = {
    "sessions grow": spec(counted(session(10, 20)), "A k v 0; A k v 5; A k v 14; A k v 40; A l v 41"),
    "a record joins two sessions": spec(counted(session(10, 50)), "A k v 0; A k v 15; A k v 7; A k v 30; A k v 22"),
    "a record at the same time": spec(counted(session(10, 5)), "A k v 5; A k v 5"),
    "a gap of 0": spec(counted(session(0, 20)), "A k v 5; A k v 5; A k v 6; A k v 5"),
    "records at the gap": spec(counted(session(10, 50)), "A k v 0; A k v 10; A k v 21; A l v 5; A l v 16"),
    "sessions after grace": spec(counted(session(10, 5)), "A k v 30; A k v 14; A k v 15; A k v 21; A k v 10"),
    "sessions of null keys are dropped": spec(counted(session(10)), INPUT),
    "sessions reduce": spec(_reduced(session(5, 20)), INPUT),
    "sessions aggregate and merge": spec(_aggregated(session(5, 20)), "A k a 0; A k b 9; A k c 5; A k d 30; A k e 12"),
    "sessions aggregate to null": spec(
        _aggregated(session(5, 20), ["if", ["mod", "value", 2, 0], None, APPENDED]), INPUT
    ),
    "sessions without a cache": spec(counted(session(5, 20), caching=False), INPUT),
    "sessions in memory": spec(counted(session(5, 20), kind="memory"), INPUT),
    "sessions in a store with a name": spec(counted(session(5, 20), name="s"), INPUT),
    "sessions emit when they close": spec(counted(session(5, 5), emit_final=True), INPUT),
    "joined sessions emit when they close": spec(
        counted(session(10, 20), emit_final=True), "A k v 0; A k v 15; A k v 7; A k v 30; A k v 100; A l v 140"
    ),
    "a cogroup in sessions": spec(_cogrouped(session(10, 20)), BOTH),
}
