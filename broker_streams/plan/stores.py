"""State stores in a plan."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


class StoreKind(enum.Enum):
    """The value that a store keeps for a key. Its formats are those of Kafka Streams (kernel/stores)."""

    KEY_VALUE = "key-value"
    TIMESTAMPED_KEY_VALUE = "timestamped-key-value"
    VERSIONED_KEY_VALUE = "versioned-key-value"
    WINDOW = "window"
    TIMESTAMPED_WINDOW = "timestamped-window"
    SESSION = "session"
    # The buffer of `suppress`, and of a stream-table join with a grace period.
    SUPPRESSION_BUFFER = "suppression-buffer"
    JOIN_BUFFER = "join-buffer"
    # The unmatched records of a left or outer stream-stream join.
    JOIN_OUTER = "join-outer"


@dataclass(frozen=True)
class Store:
    """A state store. A serde of None is the application's default. `retention_ms`, `window_ms`, `retain_duplicates`
    belong to windows and sessions; `history_ms` to versioned stores.

    `caching` keeps back changes of a row until a commit or until the cache is full; `logging` writes a changelog.
    """

    name: str
    kind: StoreKind
    key_serde: Any = None
    value_serde: Any = None
    # None: as dsl.store.suppliers.class of the application says.
    persistent: bool | None = True
    logging: bool = True
    caching: bool = False
    retention_ms: int | None = None
    window_ms: int | None = None
    retain_duplicates: bool = False
    history_ms: int | None = None
    # Settings of the changelog topic.
    topic_config: Mapping[str, str] = field(default_factory=dict)
    # A topic of the user that serves as the changelog (topology.optimization), instead of APPLICATION-NAME-changelog.
    source_topic: str | None = None
    # Further settings of one kind; kernel/stores/factory.py names them.
    options: Mapping[str, Any] = field(default_factory=dict)
