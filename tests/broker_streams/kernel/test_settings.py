"""Settings of a task by Kafka's names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from broker_streams import (
    BYTES,
    LONG,
    STRING,
    StreamsBuilder,
    StreamsError,
    TimestampExtractor,
    TimeWindowedSerde,
    TimeWindows,
    TopologyTestDriver,
    Window,
    Windowed,
)
from broker_streams.kernel.errors import log_and_continue, retry_or_fail
from broker_streams.kernel.settings import TaskSettings
from broker_streams.plan.functions import Function

HANDLERS = "org.apache.kafka.streams.errors."


def test_settings_are_read_by_their_names() -> None:
    """If this fails, an application does not do what its configuration says."""
    found = TaskSettings.of(
        {
            "application.id": "app",
            "bootstrap.servers": "localhost:9092",
            "default.key.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
            "default.value.serde": LONG,
            "default.timestamp.extractor": "org.apache.kafka.streams.processor.WallclockTimestampExtractor",
            "default.deserialization.exception.handler": f"{HANDLERS}LogAndContinueExceptionHandler",
            "processing.exception.handler": f"{HANDLERS}LogAndContinueProcessingExceptionHandler",
            "production.exception.handler": f"{HANDLERS}DefaultProductionExceptionHandler",
            "processing.exception.handler.global.enabled": "true",
            "errors.dead.letter.queue.topic.name": "dead",
            "max.task.idle.ms": "-1",
            "upgrade.from": "3.4",
            "statestore.cache.max.bytes": 0,
            "dsl.store.suppliers.class": (
                "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers"
            ),
            "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__": 7,
            "__emit.interval.ms.kstreams.windowed.aggregation__": "8",
        },
    )
    assert found == TaskSettings(
        "app",
        STRING,
        LONG,
        TimestampExtractor.WALL_CLOCK,
        log_and_continue,
        retry_or_fail,
        log_and_continue,
        True,
        "dead",
        -1,
        0,
        True,
        7,
        8,
        True,
    )
    assert not TaskSettings.of({"application.id": "app", "upgrade.from": "3.5"}).splits_changes


def test_settings_may_be_functions() -> None:
    """If this fails, users cannot write handlers and extractors."""

    def mine(*args: Any) -> Any:
        return None

    names = ("deserialization", "production", "processing")
    config = {f"{name}.exception.handler": mine for name in names}
    found = TaskSettings.of({"application.id": "app", "default.timestamp.extractor": mine, **config})
    assert (found.deserialization_handler, found.production_handler, found.processing_handler) == (mine, mine, mine)
    assert isinstance(found.timestamp_extractor, Function)
    assert found.timestamp_extractor.call is mine
    chosen = TaskSettings.of({"application.id": "app", "default.timestamp.extractor": TimestampExtractor.WALL_CLOCK})
    assert chosen.timestamp_extractor is TimestampExtractor.WALL_CLOCK


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({}, "application.id is missing"),
        (
            {"application.id": "a", "default.timestamp.extractor": "Mine"},
            "default.timestamp.extractor is 'Mine'; allowed",
        ),
        ({"application.id": "a", "processing.exception.handler": "Mine"}, "processing.exception.handler is 'Mine'"),
        ({"application.id": "a", "upgrade.from": "1.0"}, "1.0 for configuration upgrade.from: .* one of: 2.4, .*, 4.2"),
        ({"application.id": "a", "max.task.idle.ms": "soon"}, "soon for configuration max.task.idle.ms: Not a number"),
        ({"application.id": "a", "default.key.serde": "Mine"}, "default.key.serde: 'Mine' is no serde"),
        (
            {"application.id": "app", "dsl.store.suppliers.class": "Mine"},
            "dsl.store.suppliers.class is 'Mine'; allowed",
        ),
    ],
)
def test_wrong_settings_are_named(config: dict[str, Any], text: str) -> None:
    """If this fails, a typing error in a configuration has a default in its place."""
    with pytest.raises(ValueError, match=text):
        TaskSettings.of(config)


def test_keys_without_serdes_are_bytes() -> None:
    """If this fails, an application that only groups by its keys does not start without a serde of keys."""
    builder = StreamsBuilder()
    orders = builder.stream("orders", value=json)
    minutes = orders.group_by_key().windowed_by(TimeWindows.of("1m").grace("10s"))
    minutes.count().to_stream().to("orders-per-minute")
    with TopologyTestDriver(builder.build(), {"application.id": "app"}) as driver:
        driver.create_input_topic("orders", value=json).pipe_input(b"ann", {"item": "tea"}, 61_000)
        counts = driver.create_output_topic("orders-per-minute", key=TimeWindowedSerde(BYTES, 60_000), value=LONG)
        assert counts.read_key_values() == [(Windowed(b"ann", Window(60_000, 120_000)), 1)]


def test_values_need_serdes() -> None:
    """If this fails, an application without a serde of values fails at its first record, not at its start."""
    builder = StreamsBuilder()
    builder.stream("orders").to("copies")
    with pytest.raises(StreamsError, match=r"has no value serde: give it one, or set default\.value\.serde"):
        TopologyTestDriver(builder.build(), {"application.id": "app"})
