"""Ten applications for hosts and the test driver. Each reads NAME-a, and some also NAME-b, and writes NAME-out.

Tests copy this module beside the files of applications, so that it is also an application's own module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker_streams import (
    STRING,
    JoinWindows,
    Processor,
    SessionWindows,
    Store,
    StoreKind,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)


def config_of(name: str) -> dict[str, Any]:
    return {
        "application.id": name,
        "default.key.serde": STRING,
        "default.value.serde": STRING,
        # Each change is passed on, not only the last one of a batch.
        "statestore.cache.max.bytes": 0,
        # Joins look for results that became final at each record, whatever the clock says.
        "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__": 0,
    }


def chain(builder: StreamsBuilder, name: str) -> None:
    words = builder.stream(f"{name}-a").flat_map_values(lambda value: [value, value.upper()])
    words.filter(lambda key, value: not value.endswith("3")).to(f"{name}-out")


def counted(builder: StreamsBuilder, name: str) -> None:
    counts = builder.stream(f"{name}-a").group_by(lambda key, value: value[-1]).count()
    counts.to_stream().map_values(str).to(f"{name}-out")


def windowed(builder: StreamsBuilder, name: str) -> None:
    counts = builder.stream(f"{name}-a").group_by_key().windowed_by(TimeWindows.of("1s").grace("1s")).count()
    counts.to_stream(lambda key, count: f"{key.key}@{key.window.start_ms}").map_values(str).to(f"{name}-out")


def final(builder: StreamsBuilder, name: str) -> None:
    grouped = builder.stream(f"{name}-a").group_by_key().windowed_by(TimeWindows.of("1s").grace("0s"))
    counts = grouped.count().suppress(Suppressed.until_window_closes())
    counts.to_stream(lambda key, count: f"{key.key}@{key.window.start_ms}").map_values(str).to(f"{name}-out")


def sessions(builder: StreamsBuilder, name: str) -> None:
    counts = builder.stream(f"{name}-a").group_by_key().windowed_by(SessionWindows.of("300ms").grace("0s")).count()
    told = counts.to_stream(lambda key, count: f"{key.key}@{key.window.start_ms}-{key.window.end_ms}")
    told.map_values(str).to(f"{name}-out")


def streams(builder: StreamsBuilder, name: str) -> None:
    one, other = builder.stream(f"{name}-a"), builder.stream(f"{name}-b")
    one.left_join(other, lambda left, right: f"{left}+{right}", JoinWindows.of("200ms")).to(f"{name}-out")


def tables(builder: StreamsBuilder, name: str) -> None:
    one, other = builder.table(f"{name}-a"), builder.table(f"{name}-b")
    one.outer_join(other, lambda left, right: f"{left}+{right}").to_stream().to(f"{name}-out")


def enriched(builder: StreamsBuilder, name: str) -> None:
    one, other = builder.stream(f"{name}-a"), builder.table(f"{name}-b")
    one.left_join(other, lambda left, right: f"{left}+{right}").to(f"{name}-out")


def summed(builder: StreamsBuilder, name: str) -> None:
    grouped = builder.table(f"{name}-a").group_by(lambda key, value: (value[-1], value))
    totals = grouped.aggregate(
        lambda: "",
        lambda key, value, total: "".join(sorted(total + value[-1])),
        lambda key, value, total: total.replace(value[-1], "", 1),
    )
    totals.to_stream().to(f"{name}-out")


class Once(Processor):
    """Passes the first record of each value on."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.seen = context.state_store("seen")

    def process(self, record: Any) -> None:
        if self.seen.get(record.value) is None:
            self.seen.put(record.value, record.key)
            self.context.forward(record)


def once(builder: StreamsBuilder, name: str) -> None:
    builder.add_state_store(Store("seen", StoreKind.KEY_VALUE, STRING, STRING))
    builder.stream(f"{name}-a").process(Once, "seen").to(f"{name}-out")


ALL: dict[str, Callable[[StreamsBuilder, str], None]] = {
    made.__name__: made for made in (chain, counted, windowed, final, sessions, streams, tables, enriched, summed, once)
}
WITH_TWO_INPUTS = ("streams", "tables", "enriched")


def builder_of(name: str) -> StreamsBuilder:
    builder = StreamsBuilder()
    ALL[name](builder, name)
    return builder
