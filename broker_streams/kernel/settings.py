"""The settings that a task needs, as values, and their reading from an application's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from broker_streams.kernel.errors import HANDLERS, Handler, log_and_fail
from broker_streams.plan.functions import Function
from broker_streams.plan.timestamps import TimestampExtractor
from broker_streams.serdes import names

_HANDLERS: Final = {
    "deserialization.exception.handler": "deserialization_handler",
    "production.exception.handler": "production_handler",
    "processing.exception.handler": "processing_handler",
}
_OLD_VERSIONS: Final = ("2.4", "2.5", "2.6", "2.7", "2.8", "3.0", "3.1", "3.2", "3.3", "3.4")
_VERSIONS: Final = (*_OLD_VERSIONS, "3.5", "3.6", "3.7", "3.8", "3.9", "4.0", "4.1", "4.2")
_LEVELS: Final = ("INFO", "DEBUG", "TRACE")
_NUMBERS: Final = {
    "max.task.idle.ms": "max_task_idle_ms",
    "statestore.cache.max.bytes": "cache_bytes",
    "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__": "join_emit_interval_ms",
    "__emit.interval.ms.kstreams.windowed.aggregation__": "window_emit_interval_ms",
}


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """Defaults are Kafka's; the names of the settings are Kafka's with another spelling."""

    application_id: str
    # default.key.serde, default.value.serde: for sources, sinks and stores without serdes of their own.
    key_serde: Any = None
    value_serde: Any = None
    # default.timestamp.extractor
    timestamp_extractor: TimestampExtractor | Function = TimestampExtractor.FAIL_ON_INVALID
    # deserialization.exception.handler, production.exception.handler, processing.exception.handler
    deserialization_handler: Handler = log_and_fail
    production_handler: Handler = log_and_fail
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

    @staticmethod
    def of(config: Mapping[str, Any], **changed: Any) -> TaskSettings:
        """Read the settings of a task by Kafka's names; all others are left alone. Values may be texts, as in a file.

        Serdes, extractors and handlers may be objects, functions, or names of Kafka's classes. Raises ValueError.
        """
        found: dict[str, Any] = {"application_id": config.get("application.id")}
        found["key_serde"] = names.of(config.get("default.key.serde"))
        found["value_serde"] = names.of(config.get("default.value.serde"))
        if (extractor := config.get("default.timestamp.extractor")) is not None:
            found["timestamp_extractor"] = _extractor(extractor)
        for name, field in _HANDLERS.items():
            given = config.get(name, config.get(f"default.{name}"))
            if given is not None:
                found[field] = _handler(name, given)
        if (given := config.get("processing.exception.handler.global.enabled")) is not None:
            found["global_processing_handler"] = str(given).lower() == "true"
        if (topic := config.get("errors.dead.letter.queue.topic.name")) is not None:
            found["dead_letter_topic"] = str(topic)
        if (version := config.get("upgrade.from")) is not None:
            if version not in _VERSIONS:
                raise ValueError(f"upgrade.from is {version!r}; allowed are {', '.join(_VERSIONS)}")
            found["splits_changes"] = version in _OLD_VERSIONS
        level = str(config.get("metrics.recording.level") or _LEVELS[0]).upper()
        if level not in _LEVELS:
            raise ValueError(f"metrics.recording.level is {level!r}; allowed are {', '.join(_LEVELS)}")
        found["counts_nodes"] = level != _LEVELS[0]
        for name, field in _NUMBERS.items():
            if (given := config.get(name)) is not None:
                try:
                    found[field] = int(given)
                except (TypeError, ValueError):
                    raise ValueError(f"{name} is {given!r}; a number is allowed") from None
        if (suppliers := config.get("dsl.store.suppliers.class")) is not None:
            found["in_memory_stores"] = _in_memory(suppliers)
        found.update(changed)
        if not found["application_id"]:
            raise ValueError("application.id is missing; it names the application's topics and its group")
        return TaskSettings(**found)


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
        return given  # type: ignore[no-any-return]
    found = HANDLERS.get(_short(given))
    if found is None:
        raise ValueError(f"{name} is {given!r}; allowed are a function, or {', '.join(HANDLERS)}")
    return found
