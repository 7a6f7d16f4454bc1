"""Keys and values of cases as bytes, and bytes as the values that cases have."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from broker_sql.analysis import serdes
from broker_sql.catalog import Format, KeyWindow, SourceInfo
from broker_sql.statements import WindowKind
from broker_sql.types import Column, Kind
from broker_streams.records import Window, Windowed
from tests.broker_sql.query_tests.cases import Case, Record


class Codec:
    """`sources` are the streams and tables by their topics."""

    def __init__(self, sources: Mapping[str, SourceInfo]) -> None:
        self._sources = sources

    def encoded(self, record: Record) -> tuple[bytes | None, bytes | None]:
        source = self._sources.get(record.topic)
        if source is None:
            return _json_bytes(record.key), _json_bytes(record.value)
        return self._key(source, record), self._value(source, record.value)

    def _key(self, source: SourceInfo, record: Record) -> bytes | None:
        found = _bytes(source.key_format, source.schema.key, record.key, source.topic)
        if record.window is None:
            return found
        start, end, kind = record.window
        size = None if kind == "SESSION" else end - start
        serde = serdes.in_windows(_Raw(), KeyWindow(WindowKind[kind if kind == "SESSION" else "TUMBLING"], size))
        return serde.serialize(source.topic, Windowed(found, Window(start, end)))  # type: ignore[no-any-return]

    def _value(self, source: SourceInfo, value: Any) -> bytes | None:
        return _bytes(source.value_format, source.schema.value, value, source.topic)

    def decoded(self, topic: str, key: bytes | None, value: bytes | None) -> tuple[Any, Any, tuple[int, int] | None]:
        source = self._sources.get(topic)
        if source is None:
            return key, value, None
        window = None
        if source.window is not None and key is not None:
            found = serdes.in_windows(_Raw(), source.window).deserialize(topic, key)
            key, window = found.key, tuple(found.window)
        return (
            _plain(source.key_format, source.schema.key, key, topic),
            _plain(source.value_format, source.schema.value, value, topic),
            window,
        )


class _Raw:
    name = "RAW"

    def serialize(self, topic: str, value: Any, headers: Any = ()) -> Any:
        return value

    def deserialize(self, topic: str, data: Any, headers: Any = ()) -> Any:
        return data


def _json_bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    return json.dumps(value, default=_number, ensure_ascii=False).encode()


def _number(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    raise TypeError(value)


def _bytes(given: Format, columns: tuple[Column, ...], value: Any, topic: str) -> bytes | None:
    if value is None:
        return None
    if given.name in ("JSON", "JSON_SR"):
        return _exact(value).encode()
    if given.name == "DELIMITED":
        return str(value).encode()
    if given.name == "KAFKA" and columns:
        row = (value,) if not isinstance(value, dict) else tuple(value.values())
        kind = str(columns[0].type)
        if kind == "DOUBLE":
            row = (float(row[0]),)
        if kind == "STRING":
            row = (str(row[0]),)
        from broker_sql import formats

        return formats.value_serde("KAFKA", {}, [Column("V", columns[0].type, Kind.VALUE)]).serialize(topic, row)
    return _exact(value).encode() if not isinstance(value, str) else value.encode()


def _exact(value: Any) -> str:
    """JSON with decimals as they are written."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{_exact(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_exact, value)) + "]"
    if isinstance(value, Decimal):
        return str(value)
    return json.dumps(value, ensure_ascii=False)


def _plain(given: Format, columns: tuple[Column, ...], data: bytes | None, topic: str) -> Any:
    if data is None:
        return None
    if given.name in ("JSON", "JSON_SR"):
        return json.loads(data, parse_float=Decimal)
    if given.name == "DELIMITED":
        return data.decode()
    if given.name == "KAFKA" and columns:
        from broker_sql import formats

        row = formats.value_serde("KAFKA", {}, [Column("V", columns[0].type, Kind.VALUE)]).deserialize(topic, data)
        return None if row is None else row[0]
    return data


def differences(case: Case, codec: Codec, written: Mapping[str, list[Any]]) -> Iterator[str]:
    """What differs, the first record of each topic first."""
    inputs = {each.topic for each in case.inputs}
    expected: dict[str, list[Record]] = {}
    for each in case.outputs:
        expected.setdefault(each.topic, []).append(each)
    for topic, records in expected.items():
        found = written.get(topic, [])
        if topic in inputs:
            found = found[sum(each.topic == topic for each in case.inputs) :] if len(found) > len(records) else found
        decoded = [(*codec.decoded(topic, key, value), timestamp, headers) for key, value, timestamp, headers in found]
        for at, record in enumerate(records):
            if at >= len(decoded):
                yield f"missing: record {at} of {topic}: {record.key!r} {record.value!r}; found {len(decoded)}"
                return
            key, value, window, timestamp, _headers = decoded[at]
            if not same(record.key, key):
                yield f"key: record {at} is {key!r}; expected {record.key!r}"
            if not same(record.value, value):
                yield f"value: record {at} is {value!r}; expected {record.value!r}"
            if record.timestamp is not None and record.timestamp != timestamp:
                yield f"timestamp: record {at} is {timestamp}; expected {record.timestamp}"
            if record.window is not None and record.window[:2] != window:
                yield f"window: record {at} is {window}; expected {record.window}"
        if len(decoded) > len(records):
            yield f"more: {len(decoded)} records of {topic}; expected {len(records)}: {decoded[len(records)]!r}"


def same(expected: Any, found: Any) -> bool:
    if isinstance(expected, dict) and isinstance(found, dict):
        names = {name.upper(): value for name, value in found.items()}
        wanted = {name.upper(): value for name, value in expected.items()}
        return all(same(wanted.get(each), names.get(each)) for each in wanted.keys() | names.keys())
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(map(same, expected, found))
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    if isinstance(expected, int | Decimal | float) and isinstance(found, int | Decimal | float):
        return float(expected) == float(found) or Decimal(str(expected)) == Decimal(str(found))
    return bool(expected == found)
