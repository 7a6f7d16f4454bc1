"""Opens the stores of a task."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, assert_never

from broker_streams.kernel.processor import TaskState
from broker_streams.kernel.stores.bound import Bound, Changed, TimestampedBound
from broker_streams.kernel.stores.cache import Cache
from broker_streams.kernel.stores.join_buffer import JoinBuffer
from broker_streams.kernel.stores.key_rows import KeyRows
from broker_streams.kernel.stores.key_value import (
    KeyValueBytes,
    KeyValueStore,
    LoggedKeyValue,
    TimestampedKeyValueStore,
)
from broker_streams.kernel.stores.lru import LoggedLru, LruRows
from broker_streams.kernel.stores.maps import MEMORY, Maps, OpenMaps, in_memory
from broker_streams.kernel.stores.outer_join import OuterJoinStore
from broker_streams.kernel.stores.session import SessionStore
from broker_streams.kernel.stores.sessions import (
    CachingSessions,
    LoggedSessions,
    MemorySessions,
    SegmentedSessions,
    SessionBytes,
    SessionRoot,
    TimeOrderedSessions,
)
from broker_streams.kernel.stores.suppression import SuppressionBuffer
from broker_streams.kernel.stores.versioned import VersionedStore, Versions, version_interval
from broker_streams.kernel.stores.window import WindowStore
from broker_streams.kernel.stores.window_cache import CachingWindows
from broker_streams.kernel.stores.windows import (
    LoggedWindows,
    MemoryWindows,
    SegmentedWindows,
    TimeOrderedWindows,
    WindowBytes,
    WindowRoot,
)
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.serdes import Serde


def changelog_topic(store: Store, application_id: str) -> str:
    """The topic that a store is restored from; its name is in schemas and texts of serdes too."""
    return store.source_topic or f"{application_id}-{store.name}-changelog"


def is_kept(store: Store) -> bool:
    """Whether the rows of a store may be on disk. The buffer of `suppress` is in memory, as in Kafka."""
    return bool(store.persistent) and store.kind is not StoreKind.SUPPRESSION_BUFFER


class StoreOpener:
    """Opens stores that share a task, defaults of serdes, and one cache."""

    def __init__(
        self,
        task: TaskState,
        changed: Changed,
        key_serde: Serde,
        value_serde: Serde | None,
        cache_bytes: int,
        open_maps: OpenMaps = in_memory,
    ) -> None:
        self.task = task
        self.changed = changed
        self.key_serde = key_serde
        self.value_serde = value_serde
        self._open_maps = open_maps
        # Kafka caches nothing if the cache has no bytes, whatever the stores say.
        self.cache = Cache(cache_bytes) if cache_bytes > 0 else None

    def maps(self, store: Store) -> Maps:
        return self._open_maps(store) if is_kept(store) else MEMORY

    def bound(self, store: Store, kind: type[Bound]) -> Bound:
        """Raises ValueError: neither the store nor the application names a serde."""
        key_serde = store.key_serde or self.key_serde
        value_serde = store.value_serde or self.value_serde
        if value_serde is None:
            raise ValueError(f"store {store.name} has no serde of its values: give it one, or set default.value.serde")
        # A serde of windowed keys, or of subscriptions, takes its inner serde from the defaults.
        key_serde, value_serde = (
            each.with_defaults(self.key_serde, self.value_serde) if hasattr(each, "with_defaults") else each
            for each in (key_serde, value_serde)
        )
        topic = changelog_topic(store, self.task.application_id)
        return kind(store.name, topic, key_serde, value_serde, self.task)

    def key_value(self, store: Store) -> KeyValueStore:
        """Options: `logs_headers` (subscriptions of a foreign-key join), and `max_rows` of a store in memory, which
        drops the row that was used longest ago.
        """
        timestamped = store.kind is StoreKind.TIMESTAMPED_KEY_VALUE
        if "max_rows" in store.options:
            return self._bounded(store)
        below = self.maps(store).open("rows")
        layers: KeyValueBytes = below
        if store.logging:
            logs_headers = bool(store.options.get("logs_headers"))
            layers = LoggedKeyValue(store.name, layers, self.task, self.changed, timestamped, logs_headers)
        if store.caching and self.cache is not None:
            layers = KeyRows(layers, self.cache, self.task)
        if timestamped:
            return TimestampedKeyValueStore(self.bound(store, TimestampedBound), below, layers, True)
        return KeyValueStore(self.bound(store, Bound), below, layers, False)

    def _bounded(self, store: Store) -> KeyValueStore:
        """Raises ValueError: a store of this kind has no bound."""
        if store.kind is not StoreKind.KEY_VALUE or store.persistent:
            raise ValueError(f"store {store.name} has max_rows, which is for key-value stores with persistent=False")
        rows = LruRows(store.options["max_rows"])
        layers: KeyValueBytes = LoggedLru(store.name, rows, self.task, self.changed) if store.logging else rows
        if store.caching and self.cache is not None:
            layers = KeyRows(layers, self.cache, self.task)
        return KeyValueStore(self.bound(store, Bound), rows, layers, False)

    def window(self, store: Store) -> WindowStore:
        """Options: `time_ordered` (the store emits when windows close), `indexed` (and its windows slide), and
        `logs_headers` (changes have the headers of their record).
        """
        if store.retention_ms is None or store.window_ms is None:
            raise ValueError(f"window store {store.name} has no retention_ms or no window_ms; give it both")
        if store.window_ms > store.retention_ms:
            raise ValueError(
                f"window store {store.name} keeps rows for {store.retention_ms} ms, but its windows have"
                f" {store.window_ms} ms; the retention must be at least the size of a window"
            )
        timestamped = store.kind is StoreKind.TIMESTAMPED_WINDOW
        # Kafka's stores in memory have no order of their own for windows that emit when they close.
        by_time = bool(store.persistent and store.options.get("time_ordered"))
        root: WindowRoot
        maps = self.maps(store)
        if not store.persistent:
            root = MemoryWindows(self.task, store.retention_ms, store.retain_duplicates)
        elif by_time:
            indexed = bool(store.options.get("indexed"))
            root = TimeOrderedWindows(self.task, store.retention_ms, store.retain_duplicates, indexed, maps)
        else:
            root = SegmentedWindows(self.task, store.retention_ms, store.retain_duplicates, maps)
        layers: WindowBytes = root
        if store.logging:
            layers = LoggedWindows(
                store.name,
                layers,
                self.task,
                self.changed,
                timestamped,
                store.retain_duplicates,
                bool(store.options.get("logs_headers")),
                maps,
            )
        # A cache would keep one of the duplicates.
        if store.caching and self.cache is not None and not store.retain_duplicates:
            layers = CachingWindows(layers, self.cache, self.task, root.cache_interval_ms, by_time)
        bound = self.bound(store, TimestampedBound if timestamped else Bound)
        return WindowStore(bound, root, layers, store.window_ms, timestamped)

    def session(self, store: Store) -> SessionStore:
        """Option: `time_ordered` (the store emits when windows close)."""
        if store.retention_ms is None:
            raise ValueError(f"session store {store.name} has no retention_ms; give it one")
        by_time = bool(store.options.get("time_ordered"))
        root: SessionRoot
        if not store.persistent:
            root = MemorySessions(self.task, store.retention_ms)
        else:
            kind = TimeOrderedSessions if by_time else SegmentedSessions
            root = kind(self.task, store.retention_ms, self.maps(store))
        layers: SessionBytes = root
        if store.logging:
            layers = LoggedSessions(store.name, layers, self.task, self.changed)
        # Sessions that are emitted when they close are read below the cache, so Kafka gives them none.
        if store.caching and self.cache is not None and not by_time:
            layers = CachingSessions(layers, self.cache, self.task, root.cache_interval_ms)
        return SessionStore(self.bound(store, Bound), root, layers)

    def versioned(self, store: Store) -> VersionedStore:
        """Option: `segment_interval_ms`; without it, Kafka's for this history."""
        if store.history_ms is None:
            raise ValueError(f"versioned store {store.name} has no history_ms; give it one")
        interval_ms = store.options.get("segment_interval_ms") or version_interval(store.history_ms)
        versions = Versions(store.history_ms, interval_ms, self.maps(store))
        return VersionedStore(self.bound(store, Bound), versions, self.task, self.changed if store.logging else None)

    def outer_join(self, store: Store) -> OuterJoinStore:
        """Options: `left_serde` and `right_serde` of the values."""
        left, right = (
            self.bound(replace(store, value_serde=store.options.get(side) or store.value_serde), Bound)
            for side in ("left_serde", "right_serde")
        )
        return OuterJoinStore(left, right, self.task, self.changed if store.logging else None, self.maps(store))

    def join_buffer(self, store: Store) -> JoinBuffer:
        """Option: `grace_ms`."""
        grace_ms = store.options.get("grace_ms")
        if grace_ms is None:
            raise ValueError(f"buffer {store.name} has no grace_ms; give it one")
        changed = self.changed if store.logging else None
        return JoinBuffer(self.bound(store, Bound), grace_ms, self.task, changed, self.maps(store))

    def open(self, store: Store) -> Any:
        """Raises ValueError: a store of this kind lacks a setting."""
        match store.kind:
            case StoreKind.KEY_VALUE | StoreKind.TIMESTAMPED_KEY_VALUE:
                return self.key_value(store)
            case StoreKind.WINDOW | StoreKind.TIMESTAMPED_WINDOW:
                return self.window(store)
            case StoreKind.SESSION:
                return self.session(store)
            case StoreKind.VERSIONED_KEY_VALUE:
                return self.versioned(store)
            case StoreKind.SUPPRESSION_BUFFER:
                return SuppressionBuffer(self.bound(store, Bound), self.task, self.changed if store.logging else None)
            case StoreKind.JOIN_BUFFER:
                return self.join_buffer(store)
            case StoreKind.JOIN_OUTER:
                return self.outer_join(store)
        assert_never(store.kind)


def open_stores(
    stores: Iterable[Store],
    task: TaskState,
    changed: Changed,
    key_serde: Serde,
    value_serde: Serde | None = None,
    cache_bytes: int = 0,
    open_maps: OpenMaps = in_memory,
) -> dict[str, Any]:
    """The stores of a task by name, in the order of `stores`: a commit flushes them in this order.

    `changed` takes each record for a changelog: store, key, value or None, timestamp, headers. `key_serde` and
    `value_serde` are the application's defaults. `cache_bytes` bounds the cache of all stores together; 0: no caching.
    `open_maps` opens the maps of persistent stores.
    """
    opener = StoreOpener(task, changed, key_serde, value_serde, cache_bytes, open_maps)
    return {store.name: opener.open(store) for store in stores}
