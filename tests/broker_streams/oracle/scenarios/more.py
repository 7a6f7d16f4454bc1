"""Foreign keys, versioned tables, suppression, processors."""

from __future__ import annotations

from typing import Any

from tests.broker_streams.oracle.scenarios.kit import (
    LEFT_RIGHT,
    Calls,
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

STRINGS = stored("string")
LEFT = do("table l", topic="L", key="string", value="string")
RIGHT = do("table r", topic="R", key="string", value="string")
FOREIGN = ["end", "value", 1]
FOREIGN_INPUT = (
    "L a 1x 0; R x r1 1; L b 2x 2; R x r2 3; L a 3y 4; R y r3 5; L a - 6; R x - 7; L c 4z 8; R z r4 9; R x r5 4;"
    "L b 5x 1; L - 6x 10; R - r6 11; L b 5x 12; L b 7x 13; R y - 14; R w - 15"
)


def _foreign(kind: str, select: Any = FOREIGN, left: dict[str, Any] = LEFT, **options: Any) -> Calls:
    return [left, RIGHT, do(f"{kind} j l r", foreign_key=select, joiner=LEFT_RIGHT, **options), *table_out("j")]


def _versioned(topic: str, id_: str, history_ms: int = 100) -> dict[str, Any]:
    store = stored("string", name=f"rows-{id_}", kind="versioned", history_ms=history_ms)
    return do(f"table {id_}", topic=topic, key="string", value="string", materialized=store)


FOREIGN_KEYS: dict[str, dict[str, Any]] = {
    f"{kind} {text}": spec(calls, FOREIGN_INPUT)
    for kind in ("join", "left_join")
    for text, calls in {
        "by a foreign key": _foreign(kind),
        "by a foreign key in a store": _foreign(kind, materialized=stored("string", name="joined")),
        "by a foreign key with a name": _foreign(kind, name="joining"),
        "by a foreign key that is null": _foreign(kind, ["if", ["mod", "value", 2, 0], None, FOREIGN]),
        "by a foreign key of the key": _foreign(kind, ["if", ["equal", "key", ["text", "a"]], ["text", "x"], FOREIGN]),
        "by a foreign key of a versioned table": _foreign(kind, left=_versioned("L", "l")),
        "by a foreign key of a mapped table": [
            LEFT, RIGHT, do("map_values m l", to=["concat", ["text", "m"], "value"]),
            do(f"{kind} j m r", foreign_key=FOREIGN, joiner=LEFT_RIGHT), *table_out("j"),
        ],
    }.items()
} | {
    f"{kind} of a table with itself by a foreign key": spec(
        [LEFT, do(f"{kind} j l l", foreign_key=FOREIGN, joiner=LEFT_RIGHT), *table_out("j")],
        "L a 1b 0; L b 2a 1; L c 3c 2; L a 4c 3; L c - 4; L b - 5; L a 5a 6",
    )
    for kind in ("join", "left_join")
}  # fmt: skip

VERSIONED_INPUT = "L k v1 10; L k v2 20; L k v0 5; L k v3 15; L k - 18; L k - 30; L k v4 25; L k v5 200; L k v6 50"

VERSIONED: dict[str, dict[str, Any]] = {
    "a versioned table passes late rows on": spec([_versioned("L", "l"), *table_out("l")], VERSIONED_INPUT),
    "a versioned table without history": spec([_versioned("L", "l", 0), *table_out("l")], VERSIONED_INPUT),
    "filter of a versioned table": spec(
        [_versioned("L", "l"), do("filter f l", predicate=["mod", "value", 2, 0]), *table_out("f")], VERSIONED_INPUT
    ),
    "map_values of a versioned table in a store": spec(
        [_versioned("L", "l"), do("map_values f l", to=["concat", "value", ["text", "!"]], materialized=STRINGS),
         *table_out("f")],
        VERSIONED_INPUT,
    ),
    "a count of a versioned table": spec(
        [_versioned("L", "l"), do("group_by g l", to=["value", "key"], key="string", value="string"), do("count c g"),
         *table_out("c", "long")],
        VERSIONED_INPUT,
    ),
    "a versioned count": spec(
        [*grouped(), do("count c g", materialized=stored("long", name="n", kind="versioned", history_ms=100)),
         *table_out("c", "long")],
        "A k v 10; A k v 5; A k v 20; A k v 12",
    ),
} | {
    f"{kind} of two versioned tables": spec(
        [_versioned("L", "l"), _versioned("R", "r"), do(f"{kind} j l r", joiner=LEFT_RIGHT), *table_out("j")],
        "L k a1 10; R k b1 20; L k a2 15; L k a3 5; R k b2 30; R k - 25; L k - 40; L k a4 35; R k b3 50; L k a5 45",
    )
    for kind in ("join", "left_join", "outer_join")
}  # fmt: skip


def _suppressed(calls: Calls, value: str | None = "long", **options: Any) -> Calls:
    return [*calls, do("suppress s c", **options), *table_out("s", value)]


def _counted(windows: dict[str, Any]) -> Calls:
    """The results, tombstones of sessions too, are final only when the window closes."""
    return [*grouped(), do("windowed_by w g", windows=windows), do("count c w", materialized=stored("long"))]


CLOSING = "A k v 0; A k v 5; A l v 9; A k v 12; A k v 3; A l v 31; A k v 8; A k v 60; A z z 200"
COUNTS: Calls = [*grouped(), do("count c g")]
ROWS: Calls = [do("table c", topic="A", key="string", value="string")]
LIMITED = "A k v1 0; A l w1 1; A k v2 5; A m x1 9; A k - 12; A l w2 3; A n y1 30; A n y2 31; A z z 90"

SUPPRESS: dict[str, dict[str, Any]] = {
    f"until {kind} windows close": spec(
        _suppressed(_counted(windows), None, until="window_closes"), CLOSING
    )
    for kind, windows in {
        "tumbling": time(10),
        "tumbling late": time(10, 20),
        "hopping": time(10, 5, 4),
        "sliding": sliding(10, 5),
        "session": session(5, 5),
        "session late": session(10, 30),
    }.items()
} | {
    "until windows close, with a name": spec(
        _suppressed(_counted(time(10)), None, until="window_closes", name="final"), CLOSING
    ),
    "until windows close, without a changelog": spec(
        _suppressed(_counted(time(10)), None, until="window_closes", logging=False), CLOSING
    ),
    "until windows close, with room for few records": spec(
        _suppressed(_counted(time(10)), None, until="window_closes", max_records=2), CLOSING
    ),
    "until a limit of 0": spec(_suppressed(COUNTS, until="time_limit", limit_ms=0), LIMITED),
    "until a limit": spec(_suppressed(COUNTS, until="time_limit", limit_ms=10), LIMITED),
    "until a limit, or when two records wait": spec(
        _suppressed(COUNTS, until="time_limit", limit_ms=50, max_records=2), LIMITED
    ),
    "until a limit, or when 200 bytes wait": spec(
        _suppressed(COUNTS, until="time_limit", limit_ms=50, max_bytes=200), LIMITED
    ),
    "until a limit, and an end when it is full": spec(
        _suppressed(COUNTS, until="time_limit", limit_ms=50, max_records=1, full="shutdown"), LIMITED
    ),
    "until a limit, of a table": spec(_suppressed(ROWS, None, until="time_limit", limit_ms=10), LIMITED),
    "until a limit, without a changelog": spec(
        _suppressed(ROWS, None, until="time_limit", limit_ms=10, logging=False), LIMITED
    ),
    "until a limit, and then a group": spec(
        [*ROWS, do("suppress s c", until="time_limit", limit_ms=10),
         do("group_by g s", to=["value", "key"], key="string", value="string"), do("count d g"),
         *table_out("d", "long")],
        LIMITED,
    ),
    "until a limit, and then a join": spec(
        [*ROWS, do("suppress s c", until="time_limit", limit_ms=10), RIGHT, do("left_join j s r", joiner=LEFT_RIGHT),
         *table_out("j")],
        LIMITED.replace("A l", "R l") + "; R k r 91; R z r 92",
    ),
    "of a table without windows, until they close": spec(_suppressed(COUNTS, until="window_closes"), LIMITED),
}  # fmt: skip


def _processed(store: dict[str, Any], **options: Any) -> Calls:
    return [
        do("add_state_store -", **({"name": "rows", "key": "string", "value": "string"} | store)),
        do("stream a", topic="A"),
        do("process p a", stores=["rows"], update=["concat", "other", "value"],
           emit=["concat", "value", ["text", "="], "other"], **options),
        *out("p"),
    ]  # fmt: skip


def _valued(**options: Any) -> Calls:
    """As `_processed`, with a processor that keeps keys."""
    calls = _processed(ROW_STORE, **options)
    return [each | {"call": "process_values"} if each["call"] == "process" else each for each in calls]


PROCESSED = "A k a 0; A l b 5; A - c 6; A k - 9; +5; A k d 3; A l e 25; +10; A m f 26; +1; A k g 60"
ROW_STORE = {"kind": "key-value"}


def _ticks(type_: str, interval_ms: int, action: str) -> list[dict[str, Any]]:
    return [{"type": type_, "interval_ms": interval_ms, "action": action}]


PROCESSORS: dict[str, dict[str, Any]] = {
    "a store of rows": spec(_processed(ROW_STORE), PROCESSED),
    "a store in memory": spec(_processed(ROW_STORE | {"persistent": False}), PROCESSED),
    "a store with a cache": spec(_processed(ROW_STORE | {"caching": True}), PROCESSED),
    "a store without a changelog": spec(_processed(ROW_STORE | {"logging": False}), PROCESSED),
    "a store of rows with times": spec(_processed({"kind": "timestamped-key-value"}), PROCESSED),
    "a store of versions": spec(_processed({"kind": "versioned-key-value", "history_ms": 20}), PROCESSED),
    "a store of windows": spec(_processed({"kind": "window", "retention_ms": 30, "window_ms": 10}), PROCESSED),
    "a store of windows with duplicates": spec(
        _processed({"kind": "window", "retention_ms": 100, "window_ms": 10, "retain_duplicates": True}), PROCESSED
    ),
    "a processor with a name": spec(_processed(ROW_STORE, name="own"), PROCESSED),
    "punctuations of stream time": spec(
        _processed(ROW_STORE, punctuate=_ticks("stream_time", 10, "emit")), PROCESSED
    ),
    "punctuations of the wall clock": spec(
        _processed(ROW_STORE, punctuate=_ticks("wall_clock", 10, "emit")), PROCESSED
    ),
    "punctuations that clear the store": spec(
        _processed(ROW_STORE, punctuate=_ticks("stream_time", 5, "emit_and_clear")), PROCESSED
    ),
    "ticks of the wall clock": spec(
        _processed(ROW_STORE, punctuate=_ticks("wall_clock", 3, "tick")), PROCESSED, wall_clock_ms=1000
    ),
    "ticks of stream time": spec(_processed(ROW_STORE, punctuate=_ticks("stream_time", 7, "tick")), PROCESSED),
    "two punctuations": spec(
        _processed(ROW_STORE, punctuate=[*_ticks("stream_time", 7, "tick"), *_ticks("wall_clock", 5, "emit")]),
        PROCESSED,
    ),
    "two processors of one store": spec(
        [*_processed(ROW_STORE),
         do("process q a", stores=["rows"], update=["concat", "other", ["text", "!"]], emit="other"),
         *out("q", topic="out2")],
        PROCESSED,
    ),
    "a processor without a store": spec(
        [do("stream a", topic="A"), do("process p a", stores=[], emit=["concat", "key", "value"]), *out("p")], PROCESSED
    ),
    "a store that does not exist": spec(
        [do("stream a", topic="A"), do("process p a", stores=["rows"], emit="value"), *out("p")], ""
    ),
    "a processor of values, and then a group": spec(
        [*_valued(), do("group_by_key g p", key="string", value="string"), do("count c g"),
         *table_out("c", "long", topic="out2")],
        PROCESSED,
    ),
    "a processor of values with a name": spec(_valued(name="own"), PROCESSED),
    "a processor, and then a group": spec(
        [*_processed(ROW_STORE), do("group_by_key g p", key="string", value="string"), do("count c g"),
         *table_out("c", "long", topic="out2")],
        PROCESSED,
    ),
}  # fmt: skip
