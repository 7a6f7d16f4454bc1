"""The topics, groups and members of the demo."""

from __future__ import annotations

from dataclasses import dataclass

PACKAGES = "packages"
UPDATES = "package-updates"
INDEX = "package-index"
AUDIT = "audit-trail"
# Written by the application (application.py).
SECTIONS = "updates-per-minute"
APPLICATION = "section-statistics"
# Only with several nodes: see outage.py. Each node has some of its partitions.
HEARTBEATS = "heartbeats"
HEARTBEATS_OF_A_NODE = 2
HEARTBEATS_CONFIGS = {"retention.bytes": str(1 << 20), "segment.bytes": str(1 << 20)}

# Each partition is bounded, so that a demo that runs for a long time does not fill the disk: 1 GiB in total.
_BOUNDED = {"retention.bytes": str(64 << 20), "segment.bytes": str(8 << 20)}
TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    PACKAGES: (6, {**_BOUNDED, "retention.ms": "86400000"}),
    UPDATES: (3, {**_BOUNDED, "compression.type": "zstd"}),
    INDEX: (3, {"cleanup.policy": "compact", "segment.bytes": str(8 << 20), "min.cleanable.dirty.ratio": "0.3"}),
    AUDIT: (2, {**_BOUNDED, "message.timestamp.type": "LogAppendTime"}),
    SECTIONS: (2, _BOUNDED),
}


@dataclass(frozen=True, slots=True)
class Group:
    """A group: its topics, its members, and how many records per second each member handles (None: all)."""

    group_id: str
    topics: tuple[str, ...]
    members: tuple[str, ...]
    per_s: float | None


QUICK = Group("search-index", (PACKAGES, UPDATES), ("indexer-1", "indexer-2", "indexer-3"), None)
SLOW = Group("license-audit", (PACKAGES,), ("auditor-1",), 10.0)
GROUPS = (QUICK, SLOW)
# The member that is killed now and then.
CRASHING = "indexer-3"

# Client id, and records per second at the usual rate.
PRODUCERS: dict[str, float] = {"mirror": 200.0, "watcher": 20.0, "publisher": 10.0}
