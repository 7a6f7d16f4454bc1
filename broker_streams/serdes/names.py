"""Serdes by the name that stands in a plan, by Kafka's class names, and by what users write in their place."""

from __future__ import annotations

import json
import re
from importlib import import_module
from typing import Any, Final

from broker_streams.serdes import Serde
from broker_streams.serdes.changes import ChangeSerde
from broker_streams.serdes.delimited import DelimitedSerde
from broker_streams.serdes.json_values import JSON
from broker_streams.serdes.lists import ListSerde
from broker_streams.serdes.primitives import (
    BOOLEAN,
    BYTES,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    UUID,
    VOID,
)
from broker_streams.serdes.subscriptions import ResponseSerde, SubscriptionSerde
from broker_streams.serdes.windowed import SessionWindowedSerde, TimeWindowedSerde

_SIMPLE: Final[dict[str, Serde]] = {
    each.name: each for each in (BOOLEAN, BYTES, DOUBLE, FLOAT, INTEGER, JSON, LONG, SHORT, STRING, UUID, VOID)
}
_CLASSES: Final[dict[str, Serde]] = {
    "BooleanSerde": BOOLEAN,
    "ByteArraySerde": BYTES,
    "ByteBufferSerde": BYTES,
    "BytesSerde": BYTES,
    "DoubleSerde": DOUBLE,
    "FloatSerde": FLOAT,
    "IntegerSerde": INTEGER,
    "LongSerde": LONG,
    "ShortSerde": SHORT,
    "StringSerde": STRING,
    "UUIDSerde": UUID,
    "VoidSerde": VOID,
}
_PACKAGE: Final = "org.apache.kafka.common.serialization.Serdes$"
# The rooms of serdes with schemas, which need libraries of the extra `registry`.
_SCHEMAS: Final = {
    "AVRO": ("avro", "AvroSerde"),
    "JSON_SCHEMA": ("json_schema", "JsonSchemaSerde"),
    "PROTOBUF": ("protobuf", "ProtobufSerde"),
}
_CONFLUENT: Final = {
    "io.confluent.kafka.streams.serdes.avro.GenericAvroSerde": "AVRO",
    "io.confluent.kafka.streams.serdes.avro.PrimitiveAvroSerde": "AVRO",
    "io.confluent.kafka.streams.serdes.json.KafkaJsonSchemaSerde": "JSON_SCHEMA",
    "io.confluent.kafka.streams.serdes.protobuf.KafkaProtobufSerde": "PROTOBUF",
}
_OF_CLASSES: Final = {
    "io.confluent.kafka.streams.serdes.avro.SpecificAvroSerde": "AvroSerde with the schema of the class",
    "io.confluent.kafka.streams.serdes.avro.ReflectionAvroSerde": "AvroSerde with the schema of the class",
}
_WITH_SCHEMA: Final = re.compile(rf"({'|'.join(_SCHEMAS)})(?:\((\{{.*\}})\))?", re.DOTALL)
_OUTER: Final = re.compile(
    r"(LIST|TIME_WINDOWED|SESSION_WINDOWED|DELIMITED|CHANGE|SUBSCRIPTION|RESPONSE)\((.*)\)", re.DOTALL
)


def by_name(name: str) -> Serde:
    """Return the serde that has this name in a plan. Raises LookupError."""
    if (simple := _SIMPLE.get(name)) is not None:
        return simple
    if (of_schema := _WITH_SCHEMA.fullmatch(name)) is not None:
        return _with_schema(of_schema[1], json.loads(of_schema[2] or "{}"))
    found = _OUTER.fullmatch(name)
    if found is None:
        raise LookupError(f"no serde has the name {name!r}")
    kind, inner = found.groups()
    if kind in ("CHANGE", "SUBSCRIPTION", "RESPONSE"):
        return _of_tables(kind, inner)
    if kind == "LIST":
        return ListSerde(by_name(inner))
    if kind == "SESSION_WINDOWED":
        return SessionWindowedSerde(by_name(inner) if inner else None)
    if kind == "TIME_WINDOWED":
        before, comma, size = inner.rpartition(",")
        window_ms = int(size) if comma and size.isdecimal() else None
        key = inner if window_ms is None else before
        return TimeWindowedSerde(by_name(key) if key else None, window_ms)
    columns = (column.partition(":") for column in inner[2:].split(","))
    return DelimitedSerde({name: kind for name, _, kind in columns}, inner[:1])


def _with_schema(label: str, options: dict[str, Any]) -> Serde:
    room, kind = _SCHEMAS[label]
    found: Serde = getattr(import_module(f"broker_streams.serdes.schemas.{room}"), kind)(**options)
    return found


def _of_tables(kind: str, parts: str) -> Serde:
    """A serde of topics between tables. An inner serde without a name is the application's default."""
    if kind == "SUBSCRIPTION":
        topic, store, parts = parts.split(",", 2)
    inner = by_name(parts) if parts else None
    if kind == "SUBSCRIPTION":
        return SubscriptionSerde(inner, topic, store)
    return ChangeSerde(inner) if kind == "CHANGE" else ResponseSerde(inner)


def of(given: Any) -> Serde | None:
    """Return what a user gave as a serde: an object with `serialize`, the module `json`, a name, a class of Kafka, or
    None. Raises ValueError.
    """
    if given is None or (hasattr(given, "serialize") and hasattr(given, "deserialize")):
        return given  # type: ignore[no-any-return]  # a user's object
    if given is json:
        return JSON
    if isinstance(given, str):
        short = given.removeprefix(_PACKAGE)
        if short in _CLASSES:
            return _CLASSES[short]
        if given in _CONFLUENT:
            return _with_schema(_CONFLUENT[given], {})
        if given in _OF_CLASSES:
            raise ValueError(f"{given} is about a class of Java; give {_OF_CLASSES[given]}")
        try:
            return by_name(given)
        except (LookupError, ValueError):
            allowed = ", ".join((*_SIMPLE, *_SCHEMAS, *(_PACKAGE + each for each in _CLASSES), *_CONFLUENT))
            raise ValueError(f"{given!r} is no serde; allowed are {allowed}") from None
    raise ValueError(f"{given!r} is no serde: it has no methods serialize and deserialize")
