"""Joins of streams with streams, tables and global tables."""

from __future__ import annotations

from typing import Any

from tests.broker_streams.oracle.scenarios.kit import LEFT_RIGHT, Calls, do, out, spec, stored

WITH_KEY = ["concat", "key", ["text", ":"], "value", ["text", "+"], "other"]
SERDES = {"key": "string", "left": "string", "right": "string"}
SIDES = [do("stream a", topic="A"), do("stream b", topic="B")]
KINDS = ("join", "left_join", "outer_join")


def within(before_ms: int, after_ms: int | None = None, grace_ms: int = 0) -> dict[str, int]:
    return {"before_ms": before_ms, "after_ms": before_ms if after_ms is None else after_ms, "grace_ms": grace_ms}


def _joined(kind: str, windows: dict[str, int], **options: Any) -> Calls:
    return [*SIDES, do(f"{kind} j a b", windows=windows, joiner=WITH_KEY, **SERDES, **options), *out("j")]


INPUTS = {
    "in order": "A k a1 0; B k b1 5; A k a2 10; B k b2 21; A l a3 22; B m b3 23; A k a4 60; B k b4 100",
    "out of order": "A k a1 50; B k b1 45; B k b2 70; A k a2 52; B k b3 10; A k a3 12; A k a4 81; B k b4 30",
    "with duplicates": "A k a1 5; A k a2 5; B k b1 5; B k b2 5; A k a1 5; A k x 50; B k y 90",
    "of null keys and values": "A - a1 0; B - b1 1; A k - 2; B k - 3; A k a2 4; B k b2 5; A z z 90",
    "at the bounds": "A k a1 100; B k b0 89; B k b1 90; B k b2 110; B k b3 111; A k a2 120; A z z 200; B z z 300",
    "late": "A k a1 0; B k b0 100; A k a2 85; B k b1 70; A k a3 60; B k b2 84; A z a 200",
}

STREAMS: dict[str, dict[str, Any]] = (
    {
        f"{kind} {text}, grace {grace} ms": spec(_joined(kind, within(10, grace_ms=grace)), records)
        for kind in KINDS
        for text, records in INPUTS.items()
        for grace in (0, 15)
    }
    | {
        f"{kind} {text}": spec(
            _joined(kind, windows, **options), INPUTS["out of order"] + "; A k last 300; B k last 400"
        )
        for kind in KINDS
        for text, windows, options in (
            ("of times that only precede", within(10, 0, 30), {}),
            ("of times that only follow", within(0, 10, 30), {}),
            ("of equal times", within(0, 0, 30), {}),
            ("of times not before a distance", within(-5, 20, 30), {}),
            ("with a name and a store", within(10), {"name": "joining", "store": "rows"}),
            ("without changelogs", within(10), {"logging": False}),
        )
    }
    | {
        "a stream joined with itself": spec(
            [SIDES[0], do("join j a a", windows=within(10), joiner=WITH_KEY, **SERDES), *out("j")],
            INPUTS["in order"].replace("B", "A"),
        ),
        "a stream joined with itself, with optimization": spec(
            [SIDES[0], do("join j a a", windows=within(10), joiner=WITH_KEY, **SERDES), *out("j")],
            INPUTS["in order"].replace("B", "A"),
            {"topology.optimization": "all"},
        ),
        "join of streams with new keys": spec(
            [
                *SIDES,
                do("select_key c a", to=["end", "value", 1]),
                do("select_key d b", to=["end", "value", 1]),
                do("left_join j c d", windows=within(10), joiner=WITH_KEY, **SERDES),
                *out("j"),
            ],
            INPUTS["in order"],
        ),
        "outer_join of streams with new keys and null keys": spec(
            [
                *SIDES,
                do("select_key c a", to=["if", ["mod", "value", 2, 0], None, "key"]),
                do("outer_join j c b", windows=within(10), joiner=WITH_KEY, **SERDES),
                *out("j"),
            ],
            INPUTS["in order"],
        ),
        "join of streams with new keys and a name": spec(
            [
                *SIDES,
                do("select_key c a", to=["end", "value", 1]),
                do("select_key d b", to=["end", "value", 1]),
                do("join j c d", windows=within(10), joiner=WITH_KEY, name="joining", **SERDES),
                *out("j"),
            ],
            INPUTS["in order"],
        ),
        "a joiner that returns null": spec(
            [*SIDES, do("outer_join j a b", windows=within(10), joiner=None, **SERDES), *out("j")], INPUTS["in order"]
        ),
        "a join that is joined again": spec(
            [
                *SIDES,
                do("stream c", topic="C"),
                do("left_join j a b", windows=within(10), joiner=WITH_KEY, **SERDES),
                do("join i j c", windows=within(10), joiner=WITH_KEY, **SERDES),
                *out("i"),
            ],
            "A k a1 0; B k b1 5; C k c1 6; A k a2 30; C k c2 35; A k a3 60; C z z 100",
        ),
        "a join and a count of one stream": spec(
            [
                *SIDES,
                do("select_key c a", to=["end", "value", 1]),
                do("join j c b", windows=within(10), joiner=WITH_KEY, **SERDES),
                *out("j"),
                do("group_by_key g c", key="string", value="string"),
                do("count n g"),
                do("to_stream s n"),
                *out("s", "long", topic="out2"),
            ],
            INPUTS["in order"],
            {"topology.optimization": "all"},
        ),
        "headers of both sides": spec(
            _joined("outer_join", within(10)), "A k a1 0 h=01; B k b1 5 g=02; B l b2 30 i=03; A z z 80 j=04"
        ),
        "windows with no room are an error": spec(_joined("join", within(-5, 4)), ""),
    }
)

TABLE_INPUT = (
    "A k a0 0; T k t1 1; A k a1 2; T k t2 5; A k a2 3; T k - 6; A k a3 7; A - a4 8; A k - 9; T - t3 10;"
    "T l t4 11; A l a5 1; A m a6 12"
)
TABLE = do("table t", topic="T", key="string", value="string")
VERSIONED = do(
    "table t", topic="T", key="string", value="string",
    materialized=stored("string", name="rows", kind="versioned", history_ms=100),
)  # fmt: skip
GLOBAL = do("global_table t", topic="T", key="string", value="string")
A = SIDES[0]


def _with_table(kind: str, table: dict[str, Any] = TABLE, **options: Any) -> Calls:
    return [A, table, do(f"{kind} j a t", joiner=WITH_KEY, **SERDES, **options), *out("j")]


def _with_global(kind: str, select: Any = "key", **options: Any) -> Calls:
    return [A, GLOBAL, do(f"{kind} j a t", joiner=WITH_KEY, select=select, **options), *out("j")]


TABLES: dict[str, dict[str, Any]] = {
    f"{kind} {text}": one
    for kind in ("join", "left_join")
    for text, one in {
        "of a stream with a table": spec(_with_table(kind), TABLE_INPUT),
        "with a name": spec(_with_table(kind, name="joining"), TABLE_INPUT),
        "with a filtered table": spec(
            [
                A,
                TABLE,
                do("filter f t", predicate=["mod", "value", 2, 0]),
                do(f"{kind} j a f", joiner=LEFT_RIGHT, **SERDES),
                *out("j"),
            ],
            TABLE_INPUT,
        ),
        "with a mapped table": spec(
            [
                A,
                TABLE,
                do("map_values f t", to=["concat", "key", "value"]),
                do(f"{kind} j a f", joiner=LEFT_RIGHT, **SERDES),
                *out("j"),
            ],
            TABLE_INPUT,
        ),
        "of a stream with a new key": spec(
            [
                A,
                TABLE,
                do("select_key b a", to=["if", ["equal", "value", ["text", "a1"]], None, ["text", "k"]]),
                do(f"{kind} j b t", joiner=LEFT_RIGHT, **SERDES),
                *out("j"),
            ],
            TABLE_INPUT,
        ),
        "with a versioned table": spec(_with_table(kind, VERSIONED), TABLE_INPUT),
        "with a versioned table and grace": spec(_with_table(kind, VERSIONED, grace_ms=5), TABLE_INPUT + "; A z z 40"),
        "with grace, out of order": spec(
            _with_table(kind, VERSIONED, grace_ms=10),
            "A k a1 5; A k a2 3; T k t1 4; A k a3 20; A k a4 9; A k a5 10; T k t2 12; A k a6 40; A k a7 15; A z z 90",
        ),
        "with grace and a table without versions": spec(_with_table(kind, grace_ms=5), TABLE_INPUT),
        "with grace above the history": spec(_with_table(kind, VERSIONED, grace_ms=500), TABLE_INPUT),
        "of a stream with a global table": spec(_with_global(kind), TABLE_INPUT.replace("T - t3", "T m t3")),
        "with a global table by value": spec(
            _with_global(kind, ["if", ["equal", "value", ["text", "a1"]], None, ["text", "k"]]),
            TABLE_INPUT.replace("T - t3", "T m t3"),
        ),
        "with a global table and a name": spec(_with_global(kind, name="joining"), "T k t1 1; A k a1 2; A l a2 3"),
    }.items()
} | {
    "a stream and a table of one topic": spec(
        [
            A,
            do("table t", topic="A", key="string", value="string"),
            do("join j a t", joiner=WITH_KEY, **SERDES),
            *out("j"),
        ],
        "A k a1 0",
    ),
    "a table that a stream feeds": spec(
        [
            A,
            do("to_table t a", materialized=stored("string", name="rows")),
            do("join j a t", joiner=WITH_KEY, **SERDES),
            *out("j"),
        ],
        "A k a1 0; A k a2 1; A k - 2",
    ),
}
