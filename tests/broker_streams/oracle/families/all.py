"""The families of random specs: each makes the spec of a seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from tests.broker_streams.oracle.families import blocks, combining
from tests.broker_streams.oracle.families.chains import chains
from tests.broker_streams.oracle.families.maker import STRING, Made, Maker


def stateless(maker: Maker) -> None:
    streams = [maker.stream() for _ in range(maker.random.choice((1, 1, 2)))]
    found = [blocks.steps(maker, each, 4) for each in streams]
    if maker.chance(0.4):
        found += _split(maker, found[0])
    if maker.chance(0.4):
        one = found[0]
        # The types of both sides are equal, and it is another stream.
        other = maker.stream(one.key, one.value)
        found.append(maker.call("merge", one, one, name=maker.name(), **{"with": other.id}))
    for each in found:
        maker.to(blocks.steps(maker, each, 2))
    if maker.chance(0.15):
        made = maker.random.choice(found)
        maker.call(
            "to", made, topic_of=["concat", ["text", "dynamic-"], ["hash", "value", 2]], key=made.key, value=made.value
        )
    maker.fill(14)


def _split(maker: Maker, on: Made) -> list[Made]:
    branches = [
        {"id": maker.new("r"), "predicate": maker.condition(("key", "value"))}
        for _ in range(maker.random.randrange(1, 4))
    ]
    named = maker.chance(0.3)
    for at, each in enumerate(branches):
        if named and maker.chance(0.6):
            each["name"] = f"-part{at}"
    default = {"id": maker.new("r")} if maker.chance(0.5) else None
    if default and named:
        default["name"] = "-rest"
    maker.call("split", on, branches=branches, default=default, name=maker.new("split-") if named else None)
    return [replace(on, id=str(each["id"])) for each in (*branches, *([default] if default else []))]


def aggregates(maker: Maker) -> None:
    on = blocks.steps(maker, maker.stream(), 2)
    table = blocks.aggregated(maker, blocks.group(maker, on))
    for _ in range(maker.random.randrange(2)):
        table = blocks.table_step(maker, table)
    maker.to(table)
    maker.fill(16)


def _windowed(kind: str | None = None, emit_final: bool = False) -> Callable[[Maker], None]:
    def make(maker: Maker) -> None:
        chosen = kind or maker.random.choice(("time", "hopping"))
        on = blocks.steps(maker, maker.stream(), 1)
        windowed = blocks.windowed(maker, blocks.group(maker, on), chosen, emit_final)
        maker.to(blocks.aggregated(maker, windowed))
        maker.fill(22)

    return make


def emit_final(maker: Maker) -> None:
    kind = maker.random.choice(("time", "hopping", "sliding", "session"))
    _windowed(kind, emit_final=True)(maker)


def cogroup(maker: Maker) -> None:
    key, value = maker.type(), maker.type()
    # Two groups without names, whose streams are repartitioned, are an error if the store has a name.
    groups = [
        blocks.group(maker, blocks.steps(maker, maker.stream(), 1), key, named=0.85)
        for _ in range(maker.random.randrange(1, 4))
    ]
    seen = ("key", "value", "other")
    result = Made("", "cogroup", key, value)
    made = maker.call("cogroup", groups[0], result, aggregator=maker.expression(value, seen))
    for each in groups[1:]:
        made = maker.call("cogroup", made, result, aggregator=maker.expression(value, seen), **{"with": each.id})
    options: dict[str, Any] = {"initial": blocks.initial(maker, value)}
    kind = maker.random.choice((None, *blocks.WINDOWS))
    if kind is not None:
        made = blocks.windowed(maker, made, kind)
        if kind == "session":
            options["merger"] = maker.expression(value, ("value", "other"))
    table = replace(made, kind="table")
    store = maker.required(table, kind not in (None, "unlimited"))
    maker.to(maker.call("aggregate", made, table, materialized=store, name=maker.name(), **options))
    maker.fill(20)


def tables(maker: Maker) -> None:
    table = maker.table()
    if maker.chance(0.3):
        stream = blocks.steps(maker, maker.stream(), 2)
        table = maker.call(
            "to_table", stream, replace(stream, kind="table"), name=maker.name(), materialized=maker.required(stream)
        )
    for _ in range(maker.random.randrange(3)):
        table = blocks.table_step(maker, table)
    if maker.chance(0.7):
        table = combining.grouped_table(maker, table)
    maker.to(table)
    maker.fill(18)


def _table_joins(maker: Maker, versioned: float) -> None:
    key = maker.type()
    left, right = (maker.table(key, versioned=maker.chance(versioned)) for _ in range(2))
    if maker.chance(0.3):
        left = blocks.table_step(maker, left)
    if maker.chance(0.3):
        right = blocks.table_step(maker, right)
    made = combining.tables_joined(maker, left, right)
    if maker.chance(0.3):
        made = blocks.table_step(maker, made)
    if maker.chance(0.2):
        made = combining.grouped_table(maker, made)
    maker.to(made)
    maker.fill(20)


def _foreign_keys(maker: Maker, versioned: float) -> None:
    left = maker.table(versioned=maker.chance(versioned))
    right = maker.table(versioned=maker.chance(versioned))
    if maker.chance(0.2):
        left = blocks.table_step(maker, left, stored=1.0)
    maker.to(combining.joined_by_foreign_key(maker, left, right))
    maker.fill(22)


def _stream_table_joins(maker: Maker, versioned: float) -> None:
    key = maker.type()
    stream = maker.stream(key)
    if maker.chance(0.3):
        stream = maker.call("select_key", stream, stream, to=maker.expression(key, ("key", "value"), 0.1))
    if not versioned and maker.chance(0.4):
        made = combining.joined_with_global_table(maker, stream, maker.global_table())
    else:
        is_versioned = maker.chance(versioned)
        table = maker.table(key, versioned=is_versioned)
        made = combining.joined_with_table(maker, stream, table, waits=is_versioned and maker.chance(0.5))
    maker.to(blocks.steps(maker, made, 1))
    maker.fill(22)


def stream_joins(maker: Maker) -> None:
    key = maker.type()
    left, right = maker.stream(key), maker.stream(key)
    if maker.chance(0.3):
        left = maker.call("select_key", left, left, to=maker.expression(key, ("key", "value"), 0.1))
    if maker.chance(0.3):
        right = maker.call("map_values", right, right, to=maker.expression(right.value, ("value",)))
    made = combining.streams_joined(maker, left, left if maker.chance(0.1) else right)
    maker.to(blocks.steps(maker, made, 1))
    maker.fill(24, advances=0.05)


def suppress(maker: Maker) -> None:
    if maker.chance(0.5):
        table = combining.windowed_table(maker, maker.stream(), ("time", "hopping", "sliding", "session"))
    else:
        table = maker.table() if maker.chance(0.5) else blocks.aggregated(maker, blocks.group(maker, maker.stream()))
    maker.to(combining.suppressed(maker, table))
    maker.fill(20, advances=0.05)


def table_joins(maker: Maker) -> None:
    _table_joins(maker, 0.0)


def foreign_keys(maker: Maker) -> None:
    _foreign_keys(maker, 0.0)


def stream_table_joins(maker: Maker) -> None:
    _stream_table_joins(maker, 0.0)


def versioned(maker: Maker) -> None:
    maker.random.choice((_table_joins, _foreign_keys, _stream_table_joins))(maker, 0.8)


def processors(maker: Maker) -> None:
    on = blocks.steps(maker, maker.stream(), 1)
    kind = maker.random.choice(("key-value", "timestamped-key-value", "window", "versioned-key-value"))
    store: dict[str, Any] = {"kind": kind, "name": maker.new("store-"), "key": on.key, "value": maker.type()}
    if kind == "window":
        store |= {"retention_ms": maker.ms(50, 100), "window_ms": maker.ms(10)}
    elif kind == "versioned-key-value":
        store["history_ms"] = maker.ms(20, 100_000)
    if kind != "versioned-key-value":
        store |= {"persistent": maker.chance(0.5), "caching": maker.chance(0.3)}
    if maker.chance(0.2):
        store["logging"] = False
    maker.call("add_state_store", None, **store)
    # A punctuation passes rows on: their type is that of the results.
    result = replace(on, value=store["value"])
    punctuate: list[dict[str, Any]] = [
        {
            "type": maker.random.choice(("stream_time", "wall_clock")),
            "interval_ms": maker.ms(1, 7, 20),
            "action": maker.random.choice(("emit", "emit_and_clear")),
        }
        for _ in range(maker.random.randrange(3))
    ]
    if on.key == STRING and result.value == STRING and maker.chance(0.5):
        punctuate.append({"type": "wall_clock", "interval_ms": maker.ms(5), "action": "tick"})
    made = maker.call(
        "process",
        on,
        result,
        stores=[store["name"]],
        step_ms=10 * maker.scale,
        name=maker.name(),
        punctuate=punctuate or None,
        update=maker.expression(store["value"], ("key", "value", "other"), 0.2),
        emit=maker.expression(store["value"], ("key", "value", "other"), 0.1),
    )
    maker.to(made)
    maker.fill(18, advances=0.2)


def mixed(maker: Maker) -> None:
    """Several parts with shared sources, and with topology.optimization."""
    if maker.chance(0.7):
        maker.config["topology.optimization"] = "all"
    stream = maker.stream()
    changed = blocks.steps(maker, stream, 2)
    tables = [blocks.aggregated(maker, blocks.group(maker, changed, changed.key)) for _ in range(2)]
    if maker.chance(0.5):
        tables.append(combining.tables_joined(maker, tables[0], tables[1]))
    if maker.chance(0.5):
        tables.append(blocks.table_step(maker, maker.table()))
    if maker.chance(0.4):
        kind = maker.random.choice(("time", "session"))
        tables.append(blocks.aggregated(maker, blocks.windowed(maker, blocks.group(maker, stream), kind)))
    for each in tables:
        maker.to(each)
    maker.fill(18)


FAMILIES: Final[dict[str, Callable[[Maker], None]]] = {
    "stateless": stateless,
    "aggregates": aggregates,
    "time_windows": _windowed(),
    "sliding_windows": _windowed("sliding"),
    "session_windows": _windowed("session"),
    "unlimited_windows": _windowed("unlimited"),
    "emit_final": emit_final,
    "cogroup": cogroup,
    "tables": tables,
    "table_joins": table_joins,
    "foreign_keys": foreign_keys,
    "stream_joins": stream_joins,
    "stream_table_joins": stream_table_joins,
    "versioned": versioned,
    "suppress": suppress,
    "processors": processors,
    "mixed": mixed,
    "chains": chains,
}


def spec_of(family: str, seed: int) -> dict[str, Any]:
    """Return the spec of a seed, always the same one."""
    maker = Maker(f"{family} {seed}")
    if maker.chance(0.1):
        maker.config["statestore.cache.max.bytes"] = "0"
    if maker.chance(0.1):
        maker.config["topology.optimization"] = "all"
    FAMILIES[family](maker)
    return maker.spec()
