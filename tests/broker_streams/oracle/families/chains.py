"""Topologies of many calls in a row: each call takes any of the streams and tables made before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.broker_streams.oracle.families import blocks, combining
from tests.broker_streams.oracle.families.maker import STRING, Made, Maker


class Chain:
    """`open` are results that no call has taken yet: they are written to topics at the end."""

    def __init__(self, maker: Maker) -> None:
        self.maker = maker
        self.streams: list[Made] = []
        self.tables: list[Made] = []
        self.open: dict[str, Made] = {}

    def add(self, made: Made, *taken: Made) -> None:
        for each in taken:
            self.open.pop(each.id, None)
        self.open[made.id] = made
        (self.streams if made.kind == "stream" else self.tables).append(made)

    def a_stream(self) -> Made:
        if not self.streams:
            self.add(self.maker.stream())
        return self.maker.random.choice(self.streams)

    def a_table(self, key: str | None = None) -> Made:
        """A table with keys of a type."""
        found = [each for each in self.tables if key in (None, each.key)]
        if not found or self.maker.chance(0.2):
            found = [self.maker.table(key)]
            self.add(found[0])
        return self.maker.random.choice(found)

    # The calls.

    def step(self) -> None:
        on = self.a_stream()
        self.add(blocks.stateless(self.maker, on), on)

    def merge(self) -> None:
        on = self.a_stream()
        others = [each for each in self.streams if (each.key, each.value) == (on.key, on.value)]
        other = self.maker.random.choice(others)
        self.add(self.maker.call("merge", on, on, name=self.maker.name(), **{"with": other.id}), on, other)

    def aggregate(self) -> None:
        on = self.a_stream()
        self.add(blocks.aggregated(self.maker, blocks.group(self.maker, on)), on)

    def windows(self) -> None:
        """A windowed aggregation, and the stream of its results under keys that are texts."""
        on, maker = self.a_stream(), self.maker
        table = combining.windowed_table(maker, on)
        if table.window != "unlimited" and maker.chance(0.4):
            table = combining.suppressed(maker, table)
        stream = maker.call("to_stream", table, replace(table, kind="stream"), name=maker.name())
        named = maker.call("select_key", stream, replace(stream, key=STRING, window=None), to=["text_of", "key"])
        self.add(named, on)

    def table_step(self) -> None:
        on = self.a_table()
        self.add(blocks.table_step(self.maker, on, stored=1.0), on)

    def group_table(self) -> None:
        on = self.a_table()
        self.add(combining.grouped_table(self.maker, on), on)

    def suppress(self) -> None:
        on = self.a_table()
        self.add(combining.suppressed(self.maker, on), on)

    def to_stream(self) -> None:
        on = self.a_table()
        self.add(self.maker.call("to_stream", on, replace(on, kind="stream"), name=self.maker.name()), on)

    def to_table(self) -> None:
        on = self.a_stream()
        table = replace(on, kind="table")
        self.add(self.maker.call("to_table", on, table, materialized=self.maker.required(table)), on)

    def join_streams(self) -> None:
        left = self.a_stream()
        others = [each for each in self.streams if each.key == left.key]
        right = self.maker.random.choice(others)
        if right == left or self.maker.chance(0.2):
            right = self.maker.stream(left.key)
            self.add(right)
        self.add(combining.streams_joined(self.maker, left, right), left, right)

    def join_table(self) -> None:
        stream = self.a_stream()
        table = self.a_table(stream.key)
        self.add(combining.joined_with_table(self.maker, stream, table), stream, table)

    def join_global_table(self) -> None:
        stream = self.a_stream()
        self.add(combining.joined_with_global_table(self.maker, stream, self.maker.global_table()), stream)

    def join_tables(self) -> None:
        left = self.a_table()
        right = self.a_table(left.key)
        self.add(combining.tables_joined(self.maker, left, right, stored=1.0), left, right)

    def join_foreign(self) -> None:
        left, right = self.a_table(), self.a_table()
        self.add(combining.joined_by_foreign_key(self.maker, left, right), left, right)


CALLS: tuple[Callable[[Chain], None], ...] = (
    Chain.step,
    Chain.step,
    Chain.merge,
    Chain.aggregate,
    Chain.aggregate,
    Chain.windows,
    Chain.table_step,
    Chain.group_table,
    Chain.suppress,
    Chain.to_stream,
    Chain.to_table,
    Chain.join_streams,
    Chain.join_table,
    Chain.join_global_table,
    Chain.join_tables,
    Chain.join_foreign,
)


def chains(maker: Maker) -> None:
    chain = Chain(maker)
    chain.add(maker.stream())
    if maker.chance(0.5):
        chain.add(maker.table())
    for _ in range(maker.random.randrange(3, 9)):
        maker.random.choice(CALLS)(chain)
    for made in chain.open.values():
        maker.to(made)
    maker.fill(24, advances=0.04)
