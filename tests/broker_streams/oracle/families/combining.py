"""Pieces of families that combine streams and tables: joins, groups of tables, suppression."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.broker_streams.oracle.families import blocks
from tests.broker_streams.oracle.families.maker import LONG, STRING, Made, Maker


def _joiner(maker: Maker, type_: str, with_key: bool = False) -> Any:
    return maker.expression(type_, ("key", "value", "other") if with_key else ("value", "other"), 0.1)


def streams_joined(maker: Maker, left: Made, right: Made) -> Made:
    """The join of two streams with keys of one type."""
    result = Made("", "stream", left.key, maker.type())
    windows = {
        "before_ms": maker.ms(0, 5, 10, 20),
        "after_ms": maker.ms(0, 5, 10, 20),
        "grace_ms": maker.ms(0, 5, 30),
    }
    return maker.call(
        maker.random.choice(("join", "left_join", "outer_join")),
        left,
        result,
        windows=windows,
        joiner=_joiner(maker, result.value, with_key=True),
        key=left.key,
        left=left.value,
        right=right.value,
        name=maker.name(),
        store=maker.new("store-") if maker.chance(0.2) else None,
        logging=False if maker.chance(0.1) else None,
        **{"with": right.id},
    )


def joined_with_table(maker: Maker, stream: Made, table: Made, waits: bool = False) -> Made:
    """The join of a stream with a table of keys of one type; `waits`: with a grace period, for a versioned table."""
    kind = maker.random.choice(("join", "left_join"))
    if waits and kind == "left_join":
        # Kafka fails for a null key.
        stream = maker.call("filter", stream, stream, predicate=["not", ["is_null", "key"]])
    result = Made("", "stream", stream.key, maker.type())
    return maker.call(
        kind,
        stream,
        result,
        joiner=_joiner(maker, result.value, with_key=True),
        key=stream.key,
        left=stream.value,
        right=table.value,
        name=maker.name(),
        grace_ms=maker.ms(5, 20) if waits else None,
        **{"with": table.id},
    )


def joined_with_global_table(maker: Maker, stream: Made, table: Made) -> Made:
    result = Made("", "stream", stream.key, maker.type())
    select = maker.expression(table.key, ("key", "value"), 0.2)
    if maker.chance(0.5):
        select = ["text", "a"] if table.key == STRING else ["hash", "value", 3]
    joiner = _joiner(maker, result.value, with_key=True)
    kind = maker.random.choice(("join", "left_join"))
    return maker.call(kind, stream, result, select=select, joiner=joiner, name=maker.name(), **{"with": table.id})


def tables_joined(maker: Maker, left: Made, right: Made, stored: float = 0.5) -> Made:
    """The join of two tables with keys of one type."""
    result = Made("", "table", left.key, maker.type())
    return maker.call(
        maker.random.choice(("join", "left_join", "outer_join")),
        left,
        result,
        joiner=_joiner(maker, result.value),
        name=maker.name(),
        materialized=maker.materialized(result, stored),
        **{"with": right.id},
    )


def joined_by_foreign_key(maker: Maker, left: Made, right: Made) -> Made:
    """The left table needs a serde, as the join writes hashes of its values."""
    result = Made("", "table", left.key, maker.type())
    # Foreign keys that are keys of the input.
    keys: list[Any] = ["if", ["mod", "value", 3, 0], ["text", "a"], ["text", "b"]]
    if right.key != STRING:
        keys = ["hash", "value", 3]
    if maker.chance(0.5):
        keys = ["if", ["mod", "value", 4, 0], None, keys]
    return maker.call(
        maker.random.choice(("join", "left_join")),
        left,
        result,
        foreign_key=keys,
        joiner=_joiner(maker, result.value),
        name=maker.name(),
        materialized=maker.required(result),
        **{"with": right.id},
    )


def grouped_table(maker: Maker, table: Made) -> Made:
    """A table of groups of a table."""
    grouped = replace(table, kind="grouped-table", key=maker.type(), value=maker.type())
    to = [maker.expression(each, ("key", "value"), 0.1) for each in (grouped.key, grouped.value)]
    made = maker.call("group_by", table, grouped, to=to, key=grouped.key, value=grouped.value, name=maker.name(0.2))
    result = replace(grouped, kind="table")
    kind = maker.random.choice(("count", "reduce", "aggregate"))
    options: dict[str, Any] = {}
    if kind == "count":
        result = replace(result, value=LONG)
    elif kind == "reduce":
        options["reducer"] = maker.expression(grouped.value, ("value", "other"), 0.05)
        options["subtractor"] = maker.expression(grouped.value, ("value", "other"), 0.05)
    else:
        result = replace(result, value=maker.type())
        options["initial"] = ["text", "i"] if result.value == STRING else 0
        options["aggregator"] = maker.expression(result.value, ("key", "value", "other"), 0.05)
        options["subtractor"] = maker.expression(result.value, ("key", "value", "other"), 0.05)
    return maker.call(kind, made, result, materialized=maker.required(result), name=maker.name(), **options)


def suppressed(maker: Maker, table: Made) -> Made:
    """Until windows close, mostly, if the table has windows; else until a time limit."""
    bounds: dict[str, Any] = maker.random.choice(
        ({}, {"max_records": maker.random.choice((1, 2, 4))}, {"max_bytes": 200})
    )
    options: dict[str, Any]
    if table.window and maker.chance(0.8):
        options = {"until": "window_closes"} | (bounds if maker.chance(0.2) else {})
    else:
        options = {"until": "time_limit", "limit_ms": maker.ms(0, 10, 40)} | bounds
        if bounds and maker.chance(0.1):
            options["full"] = "shutdown"
    if maker.chance(0.1):
        options["logging"] = False
    return maker.call("suppress", table, table, name=maker.name(), **options)


def windowed_table(maker: Maker, on: Made, kinds: tuple[str, ...] = blocks.WINDOWS) -> Made:
    """A windowed aggregation of a stream."""
    return blocks.aggregated(maker, blocks.windowed(maker, blocks.group(maker, on), maker.random.choice(kinds)))
