"""Tables: sources, operations, groups with subtractors, and joins by key."""

from __future__ import annotations

from typing import Any

from tests.broker_streams.oracle.scenarios.kit import (
    APPENDED,
    CUT,
    LEFT_RIGHT,
    Calls,
    do,
    out,
    spec,
    stored,
    table_out,
)

INPUT = "A k v1 0; A l w1 1; A k v2 2; A k - 3; A k - 4; A - v3 5; A l w2 0; A k v4 6 h=01; A k v4 7"
STRINGS = stored("string")
ANY_SERDES = {"key": "string", "value": "string"}


def _table(**options: Any) -> Calls:
    return [do("table t", topic="A", key="string", value="string", **options)]


def _one(text: str, **options: Any) -> Calls:
    return [*_table(), do(text, **options), *table_out(text.split()[1])]


def _grouped(to: Any, text: str, **options: Any) -> Calls:
    return [*_table(), do("group_by g t", to=to, **ANY_SERDES), do(text, **options)]


def _joined(kind: str, left: Calls = (), right: Calls = (), **options: Any) -> Calls:  # type: ignore[assignment]
    return [
        do("table l", topic="A", key="string", value="string"),
        do("table r", topic="B", key="string", value="string"),
        *left,
        *right,
        do(f"{kind} j {'m' if left else 'l'} {'n' if right else 'r'}", joiner=LEFT_RIGHT, **options),
        *table_out("j"),
    ]


BOTH = (
    "A k a1 0; B k b1 1; B k b2 2; A k a2 3; A k - 4; B k b3 5; A k a3 6; B k - 7; B k - 8; A k - 9;"
    "B l b4 10; A l a4 2; A - a5 11; B l b5 1; A m - 12; A l - 3"
)
HALF = ["mod", "value", 2, 0]

TABLES: dict[str, dict[str, Any]] = {
    "a table writes tombstones, and drops null keys": spec([*_table(), *table_out("t")], INPUT),
    "a table in a store with a name": spec(
        [*_table(materialized=stored("string", name="rows")), *table_out("t")], INPUT
    ),
    "a table without a reader of its rows has no store": spec([*_table(), *table_out("t")], INPUT),
    "a table with optimization": spec(
        [*_table(materialized=stored("string", name="rows")), *table_out("t")], INPUT, {"topology.optimization": "all"}
    ),
    "a table with the name of its source": spec([*_table(name="source"), *table_out("t")], INPUT),
    "a table in memory without a changelog": spec(
        [*_table(materialized=stored("string", name="rows", kind="memory", logging=False)), *table_out("t")], INPUT
    ),
    "a table without a cache": spec(
        [*_table(materialized=stored("string", name="rows", caching=False)), *table_out("t")], INPUT
    ),
    "filter of a table": spec(_one("filter f t", predicate=HALF), INPUT),
    "filter of a table in a store": spec(
        _one("filter f t", predicate=HALF, materialized=stored("string", name="f")), INPUT
    ),
    "filter_not of a table": spec(_one("filter_not f t", predicate=HALF), INPUT),
    "filter of a filter": spec(
        [
            *_table(),
            do("filter f t", predicate=HALF),
            do("filter h f", predicate=["mod", "value", 3, 0]),
            *table_out("h"),
        ],
        INPUT,
    ),
    "map_values of a table": spec(_one("map_values f t", to=["concat", "key", "value"]), INPUT),
    "map_values of a table in a store": spec(
        _one("map_values f t", to=["concat", "key", "value"], materialized=stored("string", name="f")), INPUT
    ),
    "map_values of a table to null": spec(_one("map_values f t", to=["if", HALF, None, "value"]), INPUT),
    "two operations of one table in stores": spec(
        [
            *_table(),
            do("filter f t", predicate=HALF, materialized=STRINGS),
            do("map_values m f", to=["length", "value"], materialized=stored("long")),
            *table_out("m", "long"),
        ],
        INPUT,
    ),
    "to_stream with a new key": spec([*_table(), do("to_stream s t", to="value"), *out("s")], INPUT),
    "group_by counts with a subtractor": spec(
        [*_grouped(["value", "key"], "count c g"), *table_out("c", "long")], INPUT
    ),
    "group_by without a new key": spec([*_grouped(["key", "value"], "count c g"), *table_out("c", "long")], INPUT),
    "group_by to null keys drops the rows": spec(
        [*_grouped([["if", HALF, None, "value"], "key"], "count c g"), *table_out("c", "long")], INPUT
    ),
    "group_by to null values": spec(
        [*_grouped(["key", ["if", HALF, None, "value"]], "count c g"), *table_out("c", "long")], INPUT
    ),
    "reduce adds and subtracts": spec(
        [
            *_grouped(
                [["text", "x"], "value"],
                "reduce c g",
                reducer=LEFT_RIGHT,
                subtractor=["concat", "value", ["text", "-"], "other"],
            ),
            *table_out("c"),
        ],
        INPUT,
    ),
    "reduce to null": spec(
        [*_grouped([["text", "x"], "value"], "reduce c g", reducer="other", subtractor=None), *table_out("c")], INPUT
    ),
    "aggregate adds and subtracts": spec(
        [
            *_grouped(
                [["text", "x"], "value"],
                "aggregate c g",
                initial=["text", "0"],
                aggregator=APPENDED,
                subtractor=CUT,
                materialized=stored("string", name="all"),
            ),
            *table_out("c"),
        ],
        INPUT,
    ),
    "aggregate without a cache": spec(
        [
            *_grouped(
                [["text", "x"], "value"],
                "aggregate c g",
                initial=["text", "0"],
                aggregator=APPENDED,
                subtractor=CUT,
                materialized=stored("string", caching=False),
            ),
            *table_out("c"),
        ],
        INPUT,
    ),
    "group_by with a name": spec(
        [
            *_table(),
            do("group_by g t", to=["value", "key"], name="again", **ANY_SERDES),
            do("count c g", name="counting"),
            *table_out("c", "long"),
        ],
        INPUT,
    ),
    "two aggregations of one group of a table": spec(
        [
            *_grouped(["value", "key"], "count c g"),
            do("reduce d g", reducer="other", subtractor="value"),
            *table_out("c", "long"),
            *table_out("d", topic="out2"),
        ],
        INPUT,
    ),
    "a count of counts": spec(
        [
            *_grouped(["value", "key"], "count c g"),
            do("group_by h c", to=[["text_of", "value"], "key"], **ANY_SERDES),
            do("count d h"),
            *table_out("d", "long"),
        ],
        INPUT,
    ),
    "a table of a topic that is a stream too": spec(
        [do("stream a", topic="A"), *_table(), *out("a"), *table_out("t", topic="out2")], INPUT
    ),
    "two tables of one topic": spec(
        [
            *_table(),
            do("table u", topic="A", key="string", value="string"),
            *table_out("t"),
            *table_out("u", topic="out2"),
        ],
        INPUT,
    ),
    "a table read from a table's output": spec(
        [
            *_table(),
            *table_out("t", topic="B"),
            do("table u", topic="B", key="string", value="string"),
            do("map_values m u", to=["concat", "value", ["text", "!"]]),
            *table_out("m"),
        ],
        INPUT,
    ),
    "transform_values of a table": spec(_one("transform_values f t", to=["concat", "key", "value"]), INPUT),
    "transform_values of a table in a store, and then a group": spec(
        [
            *_table(),
            do(
                "transform_values f t",
                to=["if", HALF, None, ["end", "value", 1]],
                materialized=stored("string", name="f"),
            ),
            do("group_by g f", to=["value", "key"], name="again", **ANY_SERDES),
            do("count c g"),
            *table_out("c", "long"),
        ],
        INPUT,
    ),
    "transform_values of a table without a store, and then a group": spec(
        [
            *_table(),
            do("transform_values f t", to=["if", HALF, None, ["end", "value", 1]], name="transforming"),
            do("group_by g f", to=["value", "key"], **ANY_SERDES),
            do("count c g"),
            *table_out("c", "long"),
        ],
        INPUT,
    ),
    "a global table has no output": spec(
        [
            do("global_table t", topic="A", key="string", value="string", materialized=stored("string", name="rows")),
            do("stream s", topic="B"),
            *out("s"),
        ],
        INPUT.replace("- v3", "m v3") + "; B k v 9",
    ),
}

JOINS: dict[str, dict[str, Any]] = (
    {
        f"{kind} {text}": spec(_joined(kind, **options), BOTH)  # type: ignore[arg-type]
        for kind in ("join", "left_join", "outer_join")
        for text, options in {
            "of two tables": {},
            "in a store": {"materialized": stored("string", name="joined")},
            "with a name": {"name": "joining"},
            "of filtered tables": {
                "left": [do("filter m l", predicate=["not", ["equal", "value", ["text", "a2"]]])],
                "right": [do("map_values n r", to=["if", ["equal", "value", ["text", "b2"]], None, "value"])],
            },
            "of tables in stores": {
                "left": [do("filter m l", predicate=True, materialized=stored("string", name="left"))],
                "right": [do("filter n r", predicate=True, materialized=stored("string", name="right", caching=False))],
            },
            "that is joined again": {
                "left": [
                    do("table o", topic="C", key="string", value="string"),
                    do("outer_join m l o", joiner=LEFT_RIGHT),
                ],
            },
        }.items()
    }
    | {
        "join to null": spec(
            [
                *_joined("join")[:2],
                do("join j l r", joiner=["if", ["equal", "value", ["text", "a2"]], None, LEFT_RIGHT]),
                *table_out("j"),
            ],
            BOTH,
        ),
        "join of a table with itself": spec([*_table(), do("join j t t", joiner=LEFT_RIGHT), *table_out("j")], INPUT),
        "a group of a join": spec(
            [
                *_joined("outer_join")[:3],
                do("group_by g j", to=["value", "key"], **ANY_SERDES),
                do("count c g"),
                *table_out("c", "long"),
            ],
            BOTH,
        ),
        "a join of counts": spec(
            [
                do("stream a", topic="A"),
                do("group_by_key g a", **ANY_SERDES),
                do("count c g"),
                do("table r", topic="B", key="string", value="string"),
                do("left_join j c r", joiner=LEFT_RIGHT),
                *table_out("j"),
            ],
            BOTH,
        ),
    }
)
