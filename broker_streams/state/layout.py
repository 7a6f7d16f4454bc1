"""The layout of a store's rows: another layout in a file means that the topology has changed."""

from __future__ import annotations

import json
from typing import Any

from broker_streams.plan.stores import Store, StoreKind

# Stores of one family read each other's changelogs.
_FAMILIES = {
    StoreKind.KEY_VALUE: "keys",
    StoreKind.TIMESTAMPED_KEY_VALUE: "keys",
    StoreKind.VERSIONED_KEY_VALUE: "keys",
    StoreKind.WINDOW: "windows",
    StoreKind.TIMESTAMPED_WINDOW: "windows",
    StoreKind.SESSION: "sessions",
    StoreKind.JOIN_BUFFER: "records that wait for a join",
    StoreKind.JOIN_OUTER: "unmatched records of a join",
}


def layout_of(store: Store) -> bytes:
    """The options that decide where a row lies and how it is written."""
    found: dict[str, Any] = {
        "kind": store.kind.value,
        "retention_ms": store.retention_ms,
        "history_ms": store.history_ms,
        "duplicates": store.retain_duplicates,
        "time_ordered": bool(store.options.get("time_ordered")),
        "segment_interval_ms": store.options.get("segment_interval_ms"),
    }
    return json.dumps(found, sort_keys=True).encode()


def refusal(store: Store, found: bytes) -> str | None:
    """The reason why a changelog that was written in the layout `found` cannot be read by the store; None: it can."""
    try:
        kind = StoreKind(json.loads(found)["kind"])
    except (ValueError, KeyError, TypeError):
        return None
    before, now = _FAMILIES.get(kind), _FAMILIES.get(store.kind)
    if before == now:
        return None
    return (
        f"store {store.name} was a {kind.value} store, and is a {store.kind.value} store now: its changelog has"
        f" {before}, which it cannot read. Give the store another name, or delete its changelog topic and its state"
    )
