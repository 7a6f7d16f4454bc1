"""The store of a table or of an aggregation, as users choose it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from broker_streams.dsl.graph import Graph, checked_name
from broker_streams.plan.durations import milliseconds
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.plan.windows import MAX_MS
from broker_streams.serdes.names import of as serde_of


@dataclass(frozen=True)
class Materialized:
    """`name` makes the store known to users: without one it gets a generated name, and cannot be queried. A serde of
    None is that of the stream, or the application's default.

    `retention` is for windows and sessions: the time that a row is kept, at least the size and the grace period.
    `history` makes the store versioned: values of the last `history` are kept. `in_memory` stores have no files; None:
    as dsl.store.suppliers.class of the application says.
    `caching` passes one change on for many of a row. `topic_config` are settings of the changelog topic.
    """

    name: str | None = None
    key: Any = None
    value: Any = None
    retention: int | str | None = None
    history: int | str | None = None
    in_memory: bool | None = None
    caching: bool = True
    logging: bool = True
    topic_config: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises TopologyError: the name cannot be part of a topic's name. ValueError: options exclude each other."""
        if self.name is not None:
            checked_name(self.name)
        for what, duration in (("retention", self.retention), ("history", self.history)):
            if duration is not None and not 0 <= (found := milliseconds(duration, what)) <= MAX_MS:
                raise ValueError(f"{what} is {found} ms; 0 to {MAX_MS} are allowed")
        object.__setattr__(self, "key", serde_of(self.key))
        object.__setattr__(self, "value", serde_of(self.value))
        if self.history is not None and self.in_memory:
            raise ValueError("a store with a history is not kept in memory; leave one of history and in_memory out")
        if self.topic_config and not self.logging:
            raise ValueError("topic_config is for the changelog topic, and logging=False leaves that out")

    @property
    def retention_ms(self) -> int | None:
        return None if self.retention is None else milliseconds(self.retention, "retention")

    def completed(self, graph: Graph, prefix: str, key: Any, value: Any) -> Materialized:
        """With a name, which is counted as a call only if it is generated, and with serdes where there are none."""
        name = self.name or graph.new_store_name(prefix)
        return replace(self, name=name, key=self.key or key, value=self.value or value)

    def _store(self, kind: StoreKind, **options: Any) -> Store:
        assert self.name is not None
        chosen: dict[str, Any] = {
            "key_serde": self.key,
            "value_serde": self.value,
            "persistent": None if self.in_memory is None else not self.in_memory,
            "logging": self.logging,
            "caching": self.caching,
            "topic_config": dict(self.topic_config),
        }
        return Store(self.name, kind, **(chosen | options))

    def key_value_store(self) -> Store:
        """Raises ValueError: a retention is given."""
        if self.retention is not None:
            raise ValueError(f"store {self.name} has no windows, so a retention of {self.retention} is not allowed")
        if self.history is None:
            return self._store(StoreKind.TIMESTAMPED_KEY_VALUE)
        history_ms = milliseconds(self.history, "history")
        return self._store(StoreKind.VERSIONED_KEY_VALUE, persistent=True, history_ms=history_ms, caching=False)

    def _retention_of(self, least_ms: int, parts: str) -> int:
        if self.history is not None:
            raise ValueError(f"store {self.name} has windows, so a history of {self.history} is not allowed")
        retention_ms = least_ms if self.retention_ms is None else self.retention_ms
        if retention_ms < least_ms:
            raise ValueError(
                f"the retention of store {self.name} is {retention_ms} ms; at least {parts} = {least_ms} ms is allowed"
            )
        return retention_ms

    def window_store(self, window_ms: int, least_ms: int, parts: str, options: Mapping[str, Any]) -> Store:
        """`least_ms` is the shortest retention, the sum of `parts`. Raises ValueError: the retention is shorter."""
        return self._store(
            StoreKind.TIMESTAMPED_WINDOW,
            retention_ms=self._retention_of(least_ms, parts),
            window_ms=window_ms,
            options=dict(options),
        )

    def session_store(self, least_ms: int, parts: str, options: Mapping[str, Any]) -> Store:
        retention_ms = self._retention_of(least_ms, parts)
        return self._store(StoreKind.SESSION, retention_ms=retention_ms, options=dict(options))

    def without_cache(self) -> Materialized:
        return replace(self, caching=False)
