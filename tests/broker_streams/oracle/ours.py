"""Runs a spec on our DSL and our test driver, with answers in the form of spec.py."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from broker_streams import Topology, TopologyTestDriver
from broker_streams.records import NO_HEADERS, Headers, ValueAndTimestamp, VersionedRecord, Windowed
from tests.broker_streams.oracle.our_calls import OurCalls
from tests.broker_streams.oracle.spec import Spec

_DEFAULTS = {
    "application.id": "app",
    "default.key.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
    "default.value.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
}


def answer_of(spec: Spec) -> dict[str, Any]:
    """Return our answer."""
    config = _DEFAULTS | dict(spec.get("config", {}))
    found: dict[str, Any] = {}
    try:
        topology = topology_of(spec, config)
        # As in Java, the name of a lambda says nothing.
        found["description"] = re.sub(r"\(extractor class: .*\)", "(extractor)", topology.describe())
    except Exception as error:
        return found | _failed("build", error)
    try:
        driver = TopologyTestDriver(topology, config, spec.get("wall_clock_ms", 0))
    except Exception as error:
        return found | _failed("start", error)
    found |= _driven(driver, spec)
    try:
        driver.close()
    except Exception as error:
        return _failed("close", error) | found
    return found


def topology_of(spec: Spec, config: Mapping[str, Any]) -> Topology:
    calls = OurCalls()
    for each in spec["calls"]:
        calls.make(each)
    return calls.builder.build(config)


def _failed(at: Any, error: Exception) -> dict[str, Any]:
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    return {
        "error": {
            "at": at,
            "class": type(error).__name__,
            "message": str(error),
            "cause": type(cause).__name__,
            "cause_message": str(cause),
        }
    }


def _driven(driver: TopologyTestDriver, spec: Spec) -> dict[str, Any]:
    found: dict[str, Any] = {"records": []}
    keys: dict[Any, None] = {}
    for number, given in enumerate(spec["inputs"]):
        before = len(driver.produced)
        error = None
        try:
            if "advance_ms" in given:
                driver.advance_wall_clock_time(given["advance_ms"])
            else:
                if isinstance(given["key"], str | int):
                    keys[given["key"]] = None
                key, value = _bytes(given["key"]), _bytes(given["value"])
                driver.pipe_raw(given["topic"], key, value, given["at"], _headers(given))
        except Exception as raised:
            error = raised
        found["records"].append([_shown_record(each) for each in driver.produced[before:]])
        if error is not None:
            found |= _failed(number, error)
            break
    found["dropped"] = driver.dropped_records
    found["stores"] = {name: _rows(store, list(keys)) for name, store in driver.get_all_state_stores().items()}
    return found


def _headers(given: Mapping[str, Any]) -> Headers:
    if "headers" not in given:
        return NO_HEADERS
    return tuple((name, None if value is None else bytes.fromhex(value)) for name, value in given["headers"])


def _bytes(of: Any) -> bytes | None:
    if of is None:
        return None
    if isinstance(of, dict):
        return bytes.fromhex(of["hex"])
    return of.to_bytes(8, "big", signed=True) if isinstance(of, int) else str(of).encode()


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def _shown_record(record: Any) -> list[Any]:
    topic, partition, key, value, timestamp, headers = record
    # Changelogs of buffers have the time of the producer: null in Kafka, -1 here.
    at = None if timestamp == -1 else timestamp
    return [topic, partition, _hex(key), _hex(value), at, [[name, _hex(each)] for name, each in headers]]


def _shown(value: Any) -> Any:
    """As StreamsOracle.java shows keys and values of stores."""
    if isinstance(value, Windowed):
        return {"end_ms": value.window.end_ms, "key": _shown(value.key), "start_ms": value.window.start_ms}
    if isinstance(value, ValueAndTimestamp):
        return {"timestamp": value.timestamp, "value": _shown(value.value)}
    if isinstance(value, VersionedRecord):
        return {"timestamp": value.timestamp, "valid_to": value.valid_to, "value": _shown(value.value)}
    if value is None or isinstance(value, str | int):
        return value
    raise _InternalRowError


class _InternalRowError(Exception):
    """The row of an internal store, as those of subscriptions of a join by foreign keys."""


def _rows(store: Any, keys: list[Any]) -> list[Any] | None:
    """The rows of a store in its order; None for a kind without reads."""
    try:
        return _plain_rows(store, keys)
    except _InternalRowError:
        return None


def _plain_rows(store: Any, keys: list[Any]) -> list[Any] | None:
    if hasattr(store, "get_as_of"):
        found = []
        for key in keys:
            try:
                row = store.get(key)
            except ValueError:
                # The key is of another topic, whose keys have another type.
                continue
            if row is not None:
                found.append([_shown(key), _shown(row)])
        return found
    if hasattr(store, "find_sessions"):
        rows = store.fetch_keys(None, None)
    elif hasattr(store, "fetch") or hasattr(store, "range"):
        rows = store.all()
    else:
        return None
    return [[_shown(key), _shown(value)] for key, value in rows]
