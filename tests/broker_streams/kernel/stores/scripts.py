"""Random calls of stores, for Kafka's and ours (StoreOracle.java has the form), and our answers to them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from broker_streams.kernel.stores.maps import OpenMaps, in_memory
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.records import Record, ValueAndTimestamp, VersionedRecord, Window, Windowed
from tests.broker_streams.kernel.stores.support import TEXT, Opened

Json = Any
RETENTION_MS: Final = 130_000
WINDOW_MS: Final = 10_000
KEYS: Final = ("a", "aa", "ab", "b", "bb\x7f", "c", "d")
_WINDOWS: Final = {"retention_ms": RETENTION_MS, "window_ms": WINDOW_MS}
_CACHED: Final = {"caching": True, "listens": True}

STORES: Final[dict[str, dict[str, Json]]] = {
    "rows": {"kind": "key-value"},
    "rows in memory": {"kind": "key-value", "persistent": False},
    "rows cached": {"kind": "key-value", **_CACHED, "old": True, "cache_bytes": 100_000},
    "rows in a small cache": {"kind": "timestamped-key-value", **_CACHED, "cache_bytes": 500},
    "timestamped rows": {"kind": "timestamped-key-value"},
    "timestamped rows cached": {"kind": "timestamped-key-value", **_CACHED, "old": True, "cache_bytes": 100_000},
    "rows cached without a listener": {"kind": "timestamped-key-value", "caching": True, "cache_bytes": 400},
    "windows": {"kind": "window", **_WINDOWS},
    "windows with duplicates": {"kind": "window", **_WINDOWS, "duplicates": True},
    "windows in memory": {"kind": "timestamped-window", **_WINDOWS, "persistent": False},
    "windows in memory with duplicates": {"kind": "window", **_WINDOWS, "persistent": False, "duplicates": True},
    "windows by time": {"kind": "timestamped-window", **_WINDOWS, "time_ordered": True},
    "windows by time with an index": {
        "kind": "timestamped-window",
        **_WINDOWS,
        "time_ordered": True,
        "indexed": True,
    },
    "windows cached": {"kind": "timestamped-window", **_WINDOWS, **_CACHED, "old": True, "cache_bytes": 100_000},
    "windows in a small cache": {"kind": "window", **_WINDOWS, **_CACHED, "cache_bytes": 700},
    "windows in memory cached": {
        "kind": "timestamped-window",
        **_WINDOWS,
        **_CACHED,
        "persistent": False,
        "cache_bytes": 100_000,
    },
    "windows by time cached": {
        "kind": "timestamped-window",
        **_WINDOWS,
        **_CACHED,
        "time_ordered": True,
        "cache_bytes": 100_000,
    },
    "windows by time with an index cached": {
        "kind": "timestamped-window",
        **_WINDOWS,
        **_CACHED,
        "time_ordered": True,
        "indexed": True,
        "cache_bytes": 100_000,
    },
    "sessions": {"kind": "session", "retention_ms": RETENTION_MS},
    "sessions in memory": {"kind": "session", "retention_ms": RETENTION_MS, "persistent": False},
    "sessions by time": {"kind": "session", "retention_ms": RETENTION_MS, "time_ordered": True},
    "sessions cached": {
        "kind": "session",
        "retention_ms": RETENTION_MS,
        **_CACHED,
        "old": True,
        "cache_bytes": 100_000,
    },
    "sessions in a small cache": {"kind": "session", "retention_ms": RETENTION_MS, **_CACHED, "cache_bytes": 700},
    "versions": {"kind": "versioned-key-value", "history_ms": 60_000, "interval_ms": 20_000},
    "versions in short segments": {"kind": "versioned-key-value", "history_ms": 60_000, "interval_ms": 5_000},
    "versions in one segment": {"kind": "versioned-key-value", "history_ms": 60_000, "interval_ms": 1_000_000},
}


def request(name: str, batches: int = 10, calls: int = 25) -> Json:
    """A store, and the calls for it: equal ones for equal names."""
    store = STORES[name]
    draw = random.Random(name)
    make = _makers()[store["kind"].removeprefix("timestamped-")]
    step = 0
    found = []
    for _ in range(batches):
        batch = []
        for _ in range(calls):
            step += 1
            now = step * 1_000
            batch.append([now, *make(draw, store, now, step)])
        found.append(batch)
    return {**store, "batches": found}


def _value(draw: random.Random, store: Json, now: int, step: int) -> Json:
    if draw.random() < 0.2:
        return None
    return [step, max(0, now - draw.randrange(3_000))] if store["kind"].startswith("timestamped") else step


def _row_call(draw: random.Random, store: Json, now: int, step: int) -> list[Json]:
    key = draw.choice(KEYS)
    low, high = draw.choice([None, *KEYS]), draw.choice([None, *KEYS])
    choices: list[list[Json]] = [
        ["put", key, _value(draw, store, now, step)],
        ["put", key, _value(draw, store, now, step)],
        ["put_if_absent", key, _value(draw, store, now, step)],
        ["put_all", [[other, _value(draw, store, now, step)] for other in draw.sample(KEYS, 2)]],
        ["delete", key],
        ["get", key],
        ["get", key],
        ["range", low, high],
        ["all"],
        ["prefix_scan", draw.choice(["a", "b", "x"])],
    ]
    # Kafka forgets deleted rows of a cache backwards (merge.py).
    if not store.get("caching"):
        choices += [["reverse_range", low, high], ["reverse_all"]]
    return draw.choice(choices)


def _window_call(draw: random.Random, store: Json, now: int, step: int) -> list[Json]:
    key = draw.choice(KEYS)
    start = max(0, now - draw.randrange(0, 230_000, 5_000))
    # Kafka shows cached rows once for each segment if a bound is missing.
    bounds = KEYS if store.get("caching") else (None, *KEYS)
    low, high = draw.choice(bounds), draw.choice(bounds)
    first = max(0, start - draw.randrange(60_000))
    last = start + draw.choice([0, 20_000, 1 << 61])
    if draw.random() < 0.6:
        return ["put", key, _value(draw, store, now, step), draw.choice([start, now])]
    choices: list[list[Json]] = [
        ["fetch", key, start],
        ["fetch_range", key, first, last],
        ["fetch_keys", low, high, first, last],
        ["fetch_all", first, last],
        ["all"],
    ]
    if not store.get("caching"):
        choices += [["backward_" + each[0], *each[1:]] for each in choices[1:]]
    return draw.choice(choices)


def _session_call(draw: random.Random, store: Json, now: int, step: int) -> list[Json]:
    key = draw.choice(KEYS)
    end = max(0, now - draw.randrange(0, 230_000, 10_000))
    start = max(0, end - draw.choice([0, 5_000, 20_000]))
    low, high = draw.choice([None, *KEYS]), draw.choice([None, *KEYS])
    first = max(0, start - draw.randrange(60_000))
    last = end + draw.choice([0, 20_000, 1 << 61])
    if draw.random() < 0.6:
        return draw.choice(
            [["put", key, start, end, step], ["put", key, start, end, step], ["remove", key, start, end]]
        )
    choices: list[list[Json]] = [
        ["fetch_session", key, start, end],
        ["find_sessions", key, first, last],
        ["find_sessions_of_keys", low, high, first, last],
        ["fetch", key],
    ]
    if not store.get("caching"):
        choices += [["backward_" + each[0], *each[1:]] for each in choices[1:]]
    if store.get("time_ordered") or store.get("persistent") is False:
        choices.append(["find_sessions_by_end", max(0, now - RETENTION_MS), last])
    return draw.choice(choices)


def _version_call(draw: random.Random, store: Json, now: int, step: int) -> list[Json]:
    key = draw.choice(KEYS[:3])
    timestamp = max(0, now - draw.choice([0, 0, draw.randrange(80_000)]))
    return draw.choice(
        [
            ["put", key, _value(draw, store, now, step), timestamp],
            ["put", key, _value(draw, store, now, step), timestamp],
            ["delete", key, timestamp],
            ["get", key],
            ["get_as_of", key, timestamp],
        ]
    )


def _makers() -> dict[str, Callable[[random.Random, Json, int, int], list[Json]]]:
    return {
        "key-value": _row_call,
        "window": _window_call,
        "session": _session_call,
        "versioned-key-value": _version_call,
    }


def our_answer(asked: Json) -> Json:
    """Our answer to a request, in the form of Kafka's."""
    ours = Ours(asked)
    return {"batches": [ours.batch(calls) for calls in asked["batches"]]}


def store_of(asked: Json) -> Store:
    """The store of a request."""
    options = {name: asked[name] for name in ("time_ordered", "indexed") if name in asked}
    if "interval_ms" in asked:
        options["segment_interval_ms"] = asked["interval_ms"]
    return Store(
        "rows",
        StoreKind(asked["kind"]),
        persistent=asked.get("persistent", True),
        caching=asked.get("caching", False),
        retention_ms=asked.get("retention_ms"),
        window_ms=asked.get("window_ms"),
        retain_duplicates=asked.get("duplicates", False),
        history_ms=asked.get("history_ms"),
        options=options,
    )


class Ours:
    """Our store of a request, and what it answers."""

    def __init__(self, asked: Json, open_maps: OpenMaps = in_memory) -> None:
        self.kind = StoreKind(asked["kind"])
        self.timestamped = self.kind.value.startswith("timestamped")
        self.opened = Opened(store_of(asked), cache_bytes=asked.get("cache_bytes", 0), open_maps=open_maps)
        self.flushed: list[Json] = []
        if asked.get("listens"):
            self.opened.store.set_flush_listener(self._flush, asked.get("old", False))

    def _flush(self, record: Record) -> None:
        change = record.value
        self.flushed.append([_shown(record.key), change.new, change.old, record.timestamp])

    def batch(self, calls: Json) -> Json:
        results = []
        # All calls of a batch belong to one input record.
        self.opened.at(calls[0][0])
        for timestamp, name, *arguments in calls:
            self.opened.task.timestamp = timestamp
            results.append(_shown(self._call(name, arguments)))
        self.opened.task.timestamp = calls[0][0]
        self.opened.store.flush()
        log = [[key.hex(), None if value is None else value.hex(), at] for _, key, value, at in self.opened.log]
        found = {"results": results, "flushed": self.flushed, "log": log}
        self.flushed = []
        self.opened.log.clear()
        return found

    def _value(self, value: Json) -> Any:
        return ValueAndTimestamp(*value) if self.timestamped and value is not None else value

    def _call(self, name: str, arguments: list[Json]) -> Any:
        call = getattr(self.opened.store, name)
        if name == "put_all":
            return call([(key, self._value(value)) for key, value in arguments[0]])
        if name == "prefix_scan":
            return call(arguments[0], TEXT)
        if self.kind is StoreKind.SESSION and name in ("put", "remove"):
            key, start, end, *value = arguments
            return call(Windowed(key, Window(start, end)), *value)
        if name in ("put", "put_if_absent"):
            key, value, *rest = arguments
            return call(key, self._value(value), *rest)
        return call(*arguments)


def _shown(value: Any) -> Json:
    """A result in the form of StoreOracle.java."""
    match value:
        case None | int() | str():
            return value
        case VersionedRecord(inner, timestamp):
            return [inner, timestamp]
        case Windowed(key, window):
            return [key, *window]
        case ValueAndTimestamp():
            return list(value)
    return [[_shown(key), _shown(inner)] for key, inner in value]
