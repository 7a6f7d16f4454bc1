"""Cases of SQL in YAML: statements, records that go in, and records, a schema or an error that come out.

    - name: rows of a stream are filtered
      statements: |
        CREATE STREAM orders (id INT KEY, total INT) WITH (kafka_topic='orders', value_format='JSON');
        CREATE STREAM large AS SELECT * FROM orders WHERE total > 10;
      inputs:
        - {topic: orders, key: [1], value: [12], at: 5}
      outputs:
        - {topic: LARGE, key: [1], value: [12], at: 5}
      schema: "`ID` INTEGER KEY, `TOTAL` INTEGER"        # of the last statement's result
      error: "line 2:9: ..."                             # in place of the others: a part of the error of a statement

Keys and values are lists of columns in the order of the schema; null is no key, or a tombstone. `window` has the times
of start and end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml

from broker_sql import types
from broker_sql.analysis import serdes
from broker_sql.analysis.settings import Settings
from broker_sql.catalog import Catalog, SourceInfo
from broker_sql.dialect import parse
from broker_sql.functions import standard
from broker_sql.planner import Planned, plan
from broker_sql.types import Column
from broker_streams.records import Window, Windowed
from broker_streams.testing.topology_test_driver import TopologyTestDriver

SETTINGS = Settings(standard())


@dataclass(frozen=True)
class CaseRecord:
    topic: str
    key: list[Any] | None = None
    value: list[Any] | None = None
    at: int = 0
    window: tuple[int, int] | None = None


@dataclass(frozen=True)
class SqlCase:
    name: str
    statements: str
    inputs: tuple[CaseRecord, ...] = ()
    outputs: tuple[CaseRecord, ...] = ()
    schema: str | None = None
    error: str | None = None
    properties: dict[str, str] = field(default_factory=dict)


def load(path: Path) -> list[SqlCase]:
    return [_case(each) for each in yaml.safe_load(path.read_text())]


def _case(given: dict[str, Any]) -> SqlCase:
    inputs, outputs = (tuple(_record(each) for each in given.pop(name, ())) for name in ("inputs", "outputs"))
    return SqlCase(**given, inputs=inputs, outputs=outputs)


def _record(given: dict[str, Any]) -> CaseRecord:
    window = given.pop("window", None)
    return CaseRecord(**given, window=None if window is None else (window[0], window[1]))


class Session:
    """Statements one after the other, and the queries that they start."""

    def __init__(self, properties: dict[str, str] | None = None) -> None:
        self.catalog = Catalog()
        self.settings = Settings(SETTINGS.functions, properties or {})
        self.queries: list[Planned] = []
        self.last: Planned | None = None

    def run(self, text: str) -> Planned:
        """Returns what the last statement does. Raises SqlError."""
        for statement in parse(text):
            self.last = plan(statement, self.catalog, self.settings)
            self.catalog = self.catalog.apply_all(self.last.changes)
            if self.last.topology is not None:
                self.queries.append(self.last)
        assert self.last is not None
        return self.last

    def source_of(self, topic: str) -> SourceInfo:
        return next(each for each in self.catalog.sources.values() if each.topic == topic)

    def records(self, inputs: Sequence[CaseRecord]) -> list[CaseRecord]:
        """Give records to the queries; returns what the queries wrote to their sinks."""
        drivers = [
            TopologyTestDriver(each.topology, {"statestore.cache.max.bytes": 0})
            for each in self.queries
            if each.topology is not None
        ]
        written: list[CaseRecord] = []

        def give(topic: str, key: bytes | None, value: bytes | None, at: int) -> None:
            for driver, query in zip(drivers, self.queries, strict=True):
                assert query.analysis is not None
                assert query.sink is not None
                if topic not in {each.info.topic for each in query.analysis.sources}:
                    continue
                seen = len(driver.produced)
                driver.pipe_raw(topic, key, value, at)
                for name, _, new_key, new_value, new_at, _ in driver.produced[seen:]:
                    if name == query.sink.topic:
                        written.append(self.decoded(name, new_key, new_value, new_at))
                        give(name, new_key, new_value, new_at)

        try:
            for each in inputs:
                give(each.topic, *self.encoded(each), each.at)
        finally:
            for driver in drivers:
                driver.close()
        return written

    def encoded(self, record: CaseRecord) -> tuple[bytes | None, bytes | None]:
        source = self.source_of(record.topic)
        key: Any = _row(record.key, source.schema.key)
        if record.window is not None:
            key = Windowed(key, Window(*record.window))
        value = _row(record.value, source.schema.value)
        return (
            serdes.source_key_serde(source).serialize(source.topic, key),
            serdes.source_value_serde(source).serialize(source.topic, value),
        )

    def decoded(self, topic: str, key: bytes | None, value: bytes | None, at: int) -> CaseRecord:
        source = self.source_of(topic)
        found = serdes.source_key_serde(source).deserialize(topic, key)
        window = (found.window.start_ms, found.window.end_ms) if isinstance(found, Windowed) else None
        row = found.key if isinstance(found, Windowed) else found
        values = serdes.source_value_serde(source).deserialize(topic, value)
        return CaseRecord(topic, _shown(row), _shown(values), at, window)


def _row(values: list[Any] | None, columns: Sequence[Column]) -> tuple[Any, ...] | None:
    if values is None:
        return None
    return tuple(_value(value, column) for value, column in zip(values, columns, strict=True))


def _value(value: Any, column: Column) -> Any:
    if value is not None and isinstance(column.type, types.Decimal):
        return Decimal(str(value))
    return value


def _shown(row: tuple[Any, ...] | None) -> list[Any] | None:
    if row is None:
        return None
    return [str(each) if isinstance(each, Decimal) else each for each in row]
