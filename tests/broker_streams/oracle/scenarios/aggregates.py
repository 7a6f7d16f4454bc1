"""Groups of streams: count, reduce, aggregate, cogroup, without windows."""

from __future__ import annotations

from typing import Any

from tests.broker_streams.oracle.scenarios.kit import APPENDED, Calls, do, grouped, out, spec, stored, table_out

INPUT = "A k v1 0; A l w 1; A k v2 5; A - v3 6; A k - 7; A k v4 3 h=01"
STRINGS = stored("string")
ANY_SERDES = {"key": "string", "value": "string"}


def _count(**options: Any) -> Calls:
    return [*grouped(), do("count c g", **options), *table_out("c", "long")]


def _reduce(**options: Any) -> Calls:
    return [*grouped(), do("reduce c g", reducer=["concat", "value", "other"], **options), *table_out("c")]


def _aggregate(aggregator: Any, **options: Any) -> Calls:
    return [
        *grouped(),
        do("aggregate c g", initial=["text", "0"], aggregator=aggregator, **options),
        *table_out("c", "string"),
    ]


def _rekeyed(**options: Any) -> Calls:
    return [do("stream a", topic="A"), do("select_key b a", to="value"), do("group_by_key g b", **options)]


SCENARIOS: dict[str, dict[str, Any]] = {
    "count drops null keys and null values": spec(_count(), INPUT),
    "count in a store with a name": spec(_count(materialized=stored("long", name="counts")), INPUT),
    "count in memory": spec(_count(materialized=stored("long", name="counts", kind="memory")), INPUT),
    "count without a changelog": spec(_count(materialized=stored("long", name="counts", logging=False)), INPUT),
    "count without a cache": spec(_count(materialized=stored("long", name="counts", caching=False)), INPUT),
    "count with the name of a processor": spec(_count(name="counting"), INPUT),
    "a cache passes one change on for a record": spec(
        [
            do("stream a", topic="A"),
            do("flat_map_values b a", to=["value", "value", "value"]),
            do("group_by_key g b", **ANY_SERDES),
            do("count c g", materialized=stored("long", caching=True)),
            *table_out("c", "long"),
        ],
        INPUT,
    ),
    "without a cache each change is passed on": spec(
        [
            do("stream a", topic="A"),
            do("flat_map_values b a", to=["value", "value", "value"]),
            do("group_by_key g b", **ANY_SERDES),
            do("count c g", materialized=stored("long", caching=False)),
            *table_out("c", "long"),
        ],
        INPUT,
    ),
    "a cache of no bytes": spec(_count(), INPUT, {"statestore.cache.max.bytes": "0"}),
    "reduce begins with the value": spec(_reduce(), INPUT),
    "reduce in a store with a name": spec(_reduce(materialized=stored("string", name="all")), INPUT),
    "reduce to null deletes the row": spec(
        [*grouped(), do("reduce c g", reducer=None, materialized=STRINGS), *table_out("c")], INPUT
    ),
    "aggregate of a late record keeps the larger time": spec(_aggregate(APPENDED, materialized=STRINGS), INPUT),
    "aggregate to null deletes the row": spec(
        _aggregate(["if", ["mod", "value", 2, 0], None, APPENDED], materialized=STRINGS), INPUT
    ),
    "aggregate from null": spec(
        [*grouped(), do("aggregate c g", initial=None, aggregator=APPENDED, materialized=STRINGS), *table_out("c")],
        INPUT,
    ),
    "aggregate to another type": spec(
        [
            *grouped(),
            do("aggregate c g", initial=0, aggregator=["add", "other", 10], materialized=stored("long")),
            *table_out("c", "long"),
        ],
        INPUT,
    ),
    "group_by repartitions and drops null keys": spec(
        [
            do("stream a", topic="A"),
            do("group_by g a", to="value", **ANY_SERDES),
            do("count c g"),
            *table_out("c", "long"),
        ],
        INPUT,
    ),
    "group_by with a name": spec(
        [
            do("stream a", topic="A"),
            do("group_by g a", to="value", name="again", **ANY_SERDES),
            do("count c g"),
            *table_out("c", "long"),
        ],
        INPUT,
    ),
    "group_by with default serdes": spec(
        [do("stream a", topic="A"), do("group_by g a", to="value"), do("count c g"), *table_out("c", "long")], INPUT
    ),
    "a new key repartitions": spec([*_rekeyed(**ANY_SERDES), do("count c g"), *table_out("c", "long")], INPUT),
    "two aggregations of a new key have two topics": spec(
        [
            *_rekeyed(**ANY_SERDES),
            do("count c g"),
            do("reduce d g", reducer="other"),
            *table_out("c", "long"),
            *table_out("d", topic="out2"),
        ],
        INPUT,
    ),
    "two aggregations of a new key with optimization have one topic": spec(
        [
            *_rekeyed(**ANY_SERDES),
            do("count c g"),
            do("reduce d g", reducer="other"),
            *table_out("c", "long"),
            *table_out("d", topic="out2"),
        ],
        INPUT,
        {"topology.optimization": "all"},
    ),
    "two aggregations of a group with a name share its topic": spec(
        [
            *_rekeyed(name="shared", **ANY_SERDES),
            do("count c g"),
            do("reduce d g", reducer="other"),
            *table_out("c", "long"),
            *table_out("d", topic="out2"),
        ],
        INPUT,
    ),
    "two groups with one name are an error": spec(
        [
            *_rekeyed(name="shared", **ANY_SERDES),
            do("count c g"),
            do("group_by_key h b", name="shared", **ANY_SERDES),
            do("count d h"),
        ],
        INPUT,
    ),
    "a repartition of one's own needs no other": spec(
        [
            do("stream a", topic="A"),
            do("select_key b a", to="value"),
            do("repartition r b"),
            do("group_by_key g r", **ANY_SERDES),
            do("count c g"),
            *table_out("c", "long"),
        ],
        INPUT,
    ),
    "cogroup of two streams": spec(
        [
            *grouped(),
            do("stream b", topic="B"),
            do("group_by_key h b", **ANY_SERDES),
            do("cogroup x g", aggregator=APPENDED),
            do("cogroup y x h", aggregator=["concat", "value", ["text", "&"], "other"]),
            do("aggregate c y", initial=["text", "0"], materialized=STRINGS),
            *table_out("c"),
        ],
        "A k a1 0; B k b1 1; B l b2 2; A k a2 3; A - a3 4; B k - 5; A l a4 1",
    ),
    "cogroup of one stream": spec(
        [
            *grouped(),
            do("cogroup x g", aggregator=APPENDED),
            do("aggregate c x", initial=["text", "0"], materialized=STRINGS),
            *table_out("c"),
        ],
        INPUT,
    ),
    "cogroup of a stream that is repartitioned": spec(
        [
            *_rekeyed(**ANY_SERDES),
            do("stream d", topic="B"),
            do("group_by_key h d", **ANY_SERDES),
            do("cogroup x g", aggregator=APPENDED),
            do("cogroup y x h", aggregator=APPENDED),
            do("aggregate c y", initial=["text", "0"], materialized=STRINGS),
            *table_out("c"),
        ],
        "A k a1 0; B a1 b1 1; B k b2 2; A l a1 3",
    ),
    "cogroup without a cache, in a store with a name": spec(
        [
            *grouped(),
            do("cogroup x g", aggregator=APPENDED),
            do(
                "aggregate c x",
                initial=["text", "0"],
                name="co",
                materialized=stored("string", name="co", caching=False),
            ),
            *table_out("c"),
        ],
        INPUT,
    ),
    "the stream of an aggregation goes on": spec(
        [*grouped(), do("count c g"), do("to_stream s c", to=["concat", "key", "value"]), *out("s", "long", "string")],
        INPUT,
    ),
    "to_table keeps the last value": spec(
        [do("stream a", topic="A"), do("to_table t a", materialized=stored("string", name="rows")), *table_out("t")],
        INPUT,
    ),
    "to_table without a store": spec([do("stream a", topic="A"), do("to_table t a"), *table_out("t")], INPUT),
    "to_table of a new key repartitions": spec(
        [do("stream a", topic="A"), do("select_key b a", to="value"), do("to_table t b", name="rows"), *table_out("t")],
        INPUT,
    ),
}
