"""The pieces that families share: steps without a store, groups, windows, aggregations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.broker_streams.oracle.families.maker import LONG, STRING, Made, Maker

WINDOWS = ("time", "hopping", "sliding", "session", "unlimited")


def stateless(maker: Maker, on: Made) -> Made:
    """One step of a stream, which may repartition it."""
    kinds = ["filter", "filter_not", "map_values", "flat_map_values", "peek"]
    if on.window is None:
        kinds += ["map", "flat_map", "select_key", "repartition"]
    kind = maker.random.choice(kinds)
    name = maker.name()
    both = ("key", "value")
    match kind:
        case "filter" | "filter_not":
            return maker.call(kind, on, on, predicate=maker.condition(both), name=name)
        case "map_values":
            with_key = maker.chance(0.5)
            result = replace(on, value=maker.type())
            to: Any = maker.expression(result.value, both if with_key else ("value",))
            return maker.call(kind, on, result, to=to, with_key=with_key, name=name)
        case "flat_map_values":
            with_key = maker.chance(0.5)
            result = replace(on, value=maker.type())
            seen = both if with_key else ("value",)
            to = [maker.expression(result.value, seen) for _ in range(maker.random.randrange(3))]
            return maker.call(kind, on, result, to=to, with_key=with_key, name=name)
        case "peek":
            return maker.call(kind, on, on, name=name)
        case "repartition":
            partitions = 1 if maker.chance(0.3) else None
            return maker.call(kind, on, on, key=on.key, value=on.value, name=name, partitions=partitions)
    result = replace(on, key=maker.type())
    if kind == "select_key":
        return maker.call(kind, on, result, to=maker.expression(result.key, both, 0.05), name=name)
    result = replace(result, value=maker.type())
    if kind == "map":
        to = [maker.expression(result.key, both, 0.05), maker.expression(result.value, both)]
    else:
        to = [
            [maker.expression(result.key, both, 0.05), maker.expression(result.value, both), maker.condition(both)]
            for _ in range(maker.random.randrange(1, 3))
        ]
    return maker.call(kind, on, result, to=to, name=name)


def steps(maker: Maker, on: Made, most: int) -> Made:
    for _ in range(maker.random.randrange(most + 1)):
        on = stateless(maker, on)
    return on


def group(maker: Maker, on: Made, key: str | None = None, named: float = 0.2) -> Made:
    """Group a stream by its key or by another one; in a share of `named`, the repartition topic has a name."""
    name = maker.name(named)
    if key in (None, on.key) and maker.chance(0.6):
        result = replace(on, kind="group")
        return maker.call("group_by_key", on, result, key=on.key, value=on.value, name=name)
    result = replace(on, kind="group", key=key or maker.type())
    to = maker.expression(result.key, ("key", "value"), 0.05)
    return maker.call("group_by", on, result, to=to, key=result.key, value=on.value, name=name)


def windows(maker: Maker, kind: str) -> dict[str, Any]:
    grace = maker.ms(0, 0, 5, 15, 50)
    size = maker.ms(5, 10, 20, 40)
    match kind:
        case "time":
            return {"kind": "time", "size_ms": size, "grace_ms": grace}
        case "hopping":
            return {"kind": "time", "size_ms": size, "advance_ms": max(1, size // 3), "grace_ms": grace}
        case "sliding":
            return {"kind": "sliding", "difference_ms": maker.ms(1, 5, 10, 20), "grace_ms": grace}
        case "session":
            return {"kind": "session", "gap_ms": maker.ms(1, 5, 10, 20), "grace_ms": grace}
    return {"kind": "unlimited", "start_ms": maker.ms(0, 20)}


def windowed(maker: Maker, on: Made, kind: str, emit_final: bool = False) -> Made:
    """Window a group or a cogroup."""
    result = replace(on, kind="windowed" if on.kind == "group" else "windowed-cogroup", window=kind)
    found = maker.call("windowed_by", on, result, windows=windows(maker, kind))
    if emit_final and kind != "unlimited" and on.kind == "group":
        found = maker.call("emit_strategy", found, found, strategy="on_window_close")
    return found


def aggregated(maker: Maker, on: Made, store: dict[str, Any] | None = None) -> Made:
    """A table of a group, with windows or without: count, reduce or aggregate."""
    kind = maker.random.choice(("count", "reduce", "aggregate"))
    result = replace(on, kind="table")
    name = maker.name()
    is_windowed = on.window is not None
    if kind == "count":
        result = replace(result, value=LONG)
        options: dict[str, Any] = {}
    elif kind == "reduce":
        options = {"reducer": maker.expression(on.value, ("value", "other"), 0.1)}
    else:
        result = replace(result, value=maker.type())
        options = {"initial": initial(maker, result.value)}
        options["aggregator"] = maker.expression(result.value, ("key", "value", "other"), 0.1)
        if on.window == "session":
            options["merger"] = maker.expression(result.value, ("value", "other"), 0.05)
    if store is None:
        store = maker.required(result, is_windowed and on.window != "unlimited")
    return maker.call(kind, on, result, name=name, materialized=store, **options)


def initial(maker: Maker, type_: str) -> Any:
    if maker.chance(0.1):
        return None
    return ["text", "i"] if type_ == STRING else 0


def table_step(maker: Maker, on: Made, stored: float = 0.4) -> Made:
    """filter, filter_not or map_values of a table; in a share of `stored` with a store and its serdes."""
    kind = maker.random.choice(("filter", "filter_not", "map_values"))
    both = ("key", "value")
    if kind == "map_values":
        result = replace(on, value=maker.type())
        store = _of_table(maker, result, stored)
        to = maker.expression(result.value, both)
        return maker.call(kind, on, result, to=to, materialized=store, name=maker.name())
    store = _of_table(maker, on, stored)
    return maker.call(kind, on, on, predicate=maker.condition(both), materialized=store, name=maker.name())


def _of_table(maker: Maker, made: Made, share: float) -> dict[str, Any] | None:
    # The serde of a windowed key is not in the language: such a table keeps no store of its own.
    return None if made.window else maker.materialized(made, share)
