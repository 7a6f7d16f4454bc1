"""The settings that a task needs, as values, and their reading from an application's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from broker_streams import settings
from broker_streams.kernel.errors import HANDLERS, Handler, log_and_fail, retry_or_fail
from broker_streams.plan.functions import Function
from broker_streams.plan.timestamps import TimestampExtractor
from broker_streams.serdes import Serde, names
from broker_streams.serdes.lists import ListSerde
from broker_streams.serdes.primitives import BYTES
from broker_streams.serdes.schemas.binding import with_registry
from broker_streams.serdes.schemas.lookups import SchemaRegistry
from broker_streams.settings import Found

_HANDLERS: Final = {
    "deserialization.exception.handler": "deserialization_handler",
    "production.exception.handler": "production_handler",
    "processing.exception.handler": "processing_handler",
}
# Fields whose setting has no other name, and the same default.
_FIELDS: Final = {
    "global_processing_handler": "processing.exception.handler.global.enabled",
    "dead_letter_topic": "errors.dead.letter.queue.topic.name",
    "max_task_idle_ms": "max.task.idle.ms",
    "join_emit_interval_ms": "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__",
    "window_emit_interval_ms": "__emit.interval.ms.kstreams.windowed.aggregation__",
}
# Versions for upgrade.from that cannot read two changes in one record.
_OLD_VERSIONS: Final = ("2.4", "2.5", "2.6", "2.7", "2.8", "3.0", "3.1", "3.2", "3.3", "3.4")
_LIST_SERDE: Final = "ListSerde"


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """Defaults are Kafka's; the names of the settings are Kafka's with another spelling."""

    application_id: str
    # default.key.serde, default.value.serde: for sources, sinks and stores without serdes of their own. Other than in
    # Kafka Streams, keys without any serde are bytes: many applications only group by them.
    key_serde: Any = BYTES
    value_serde: Any = None
    # default.timestamp.extractor
    timestamp_extractor: TimestampExtractor | Function = TimestampExtractor.FAIL_ON_INVALID
    # deserialization.exception.handler, production.exception.handler, processing.exception.handler
    deserialization_handler: Handler = log_and_fail
    production_handler: Handler = retry_or_fail
    processing_handler: Handler = log_and_fail
    # processing.exception.handler.global.enabled
    global_processing_handler: bool = False
    # errors.dead.letter.queue.topic.name
    dead_letter_topic: str | None = None
    # max.task.idle.ms; -1: process without waiting.
    max_task_idle_ms: int = 0
    # statestore.cache.max.bytes, for all stores of one task.
    cache_bytes: int = 10 * 1024 * 1024
    # dsl.store.suppliers.class: stores of the DSL that do not say it themselves are kept in memory.
    in_memory_stores: bool = False
    # Joins and windows look for results that became final at most this often (Kafka's internal settings
    # __emit.interval.ms.kstreams.outer.join.spurious.results.fix__ and ...windowed.aggregation__).
    join_emit_interval_ms: int = 1000
    window_emit_interval_ms: int = 1000

    # upgrade.from of a version before 3.5: groups of tables write two records for a row that stays in its group, as
    # instances of that version cannot read both in one.
    splits_changes: bool = False
    # metrics.recording.level is DEBUG or TRACE: the records of each processor are counted.
    counts_nodes: bool = False
    # schema.registry.url: what serdes with schemas ask; a host opens it.
    registry: SchemaRegistry | None = None

    @staticmethod
    def of(config: Mapping[str, Any] | Found, registry: SchemaRegistry | None = None) -> TaskSettings:
        """Read the settings of a task by Kafka's names; all others are left alone. Values may be texts, as in a file.

        Serdes, extractors and handlers may be objects, functions, or names of Kafka's classes. Raises ValueError.
        """
        given = config if isinstance(config, Found) else settings.read(config)
        application_id = given.get("application.id")
        if not application_id:
            raise ValueError("application.id is missing; it names the application's topics and its group")
        found: dict[str, Any] = {field: given.get(name) for field, name in _FIELDS.items()}
        for side in ("key", "value"):
            if (serde := _default_serde(given, side)) is not None:
                found[f"{side}_serde"] = with_registry(serde, registry, is_key=side == "key")
        if (extractor := given.given("default.timestamp.extractor")) is not None:
            found["timestamp_extractor"] = _extractor(extractor)
        for name, field in _HANDLERS.items():
            if (handler := given.given(name, f"default.{name}")) is not None:
                found[field] = _handler(name, handler)
        caches = given.given("statestore.cache.max.bytes", "cache.max.bytes.buffering")
        if caches is not None:
            found["cache_bytes"] = caches
        suppliers = given.given("dsl.store.suppliers.class")
        found["in_memory_stores"] = (
            given.get("default.dsl.store") == "in_memory" if suppliers is None else _in_memory(suppliers)
        )
        found["splits_changes"] = given.get("upgrade.from") in _OLD_VERSIONS
        found["counts_nodes"] = given.get("metrics.recording.level").upper() != "INFO"
        return TaskSettings(application_id, registry=registry, **found)


def _default_serde(given: Found, side: str) -> Serde | None:
    """Raises ValueError: it is no serde, or a list without its inner one."""
    name = f"default.{side}.serde"
    serde = given.get(name)
    if isinstance(serde, str) and _short(serde).rpartition("$")[2] == _LIST_SERDE:
        inner = names.of(given.get(f"default.list.{side}.serde.inner"))
        if inner is None:
            raise ValueError(f"{name} is {serde}, which needs default.list.{side}.serde.inner")
        return ListSerde(inner)
    try:
        return names.of(serde)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _short(name: object) -> str:
    """The last part of the name of a Java class."""
    return str(name).rpartition(".")[2]


_SUPPLIERS: Final = {"RocksDBDslStoreSuppliers": False, "InMemoryDslStoreSuppliers": True}


def _in_memory(given: Any) -> bool:
    """The names of Kafka's classes; its RocksDB is what this package calls persistent."""
    found = _SUPPLIERS.get(_short(given).rpartition("$")[2])
    if found is None:
        raise ValueError(f"dsl.store.suppliers.class is {given!r}; allowed are {', '.join(_SUPPLIERS)}")
    return found


def _extractor(given: Any) -> TimestampExtractor | Function:
    if isinstance(given, TimestampExtractor):
        return given
    if callable(given):
        return Function("default.timestamp.extractor", given)
    try:
        return TimestampExtractor(_short(given))
    except ValueError:
        allowed = ", ".join(each.value for each in TimestampExtractor)
        raise ValueError(f"default.timestamp.extractor is {given!r}; allowed are a function, or {allowed}") from None


def _handler(name: str, given: Any) -> Handler:
    if callable(given):
        return given  # type: ignore[no-any-return]  # its calls are checked by `ask`
    found = HANDLERS.get(_short(given))
    if found is None:
        raise ValueError(f"{name} is {given!r}; allowed are a function, or {', '.join(HANDLERS)}")
    return found
