"""The mirrors that this broker leads, as programs see them: /mirrors of the metrics listener.

{"partitions": [{"topic", "partition", "link", "source_topic", "source_topic_id", "state", "cause", "reason",
  "source_leader", "source_epoch", "source_end", "end", "lag_records", "lag_ms", "records", "bytes",
  "records_per_s", "bytes_per_s"}]}
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from enum import Enum
from typing import Any, Final

from broker_cy.core.classes import NamedTuple

# Partitions between two turns of the loop.
ROWS_A_TURN: Final = 1_000


class State(Enum):
    ACTIVE = "active"
    WAITING = "waiting"
    PAUSED = "paused"
    FAILED = "failed"
    PROMOTED = "promoted"


class MirrorView(NamedTuple):
    """A mirror on its leader. `cause` and `reason` say why it waits or has failed (replica.mirror.Cause), else they are
    empty. None: not known. `source_end` is the high watermark of the source at its last answer, `end` that of the
    mirror. `lag_ms` is the time since the mirror had everything that the source had committed; None if it never had,
    since this broker leads it. `records` and `bytes` are counted since then.
    """

    topic: str
    partition: int
    link: str
    source_topic: str
    source_topic_id: str | None
    state: str
    cause: str
    reason: str
    source_leader: int | None
    source_epoch: int | None
    source_end: int | None
    end: int
    lag_records: int | None
    lag_ms: int | None
    records: int
    bytes: int
    records_per_s: float
    bytes_per_s: float


async def mirrors_page(views: Iterable[MirrorView]) -> bytes:
    """Return the page of a broker; the loop runs between parts of it."""
    rows: list[dict[str, Any]] = []
    for view in views:
        rows.append(view._asdict())
        if len(rows) % ROWS_A_TURN == 0:
            await asyncio.sleep(0)
    return _page(rows)


def merged(pages: Iterable[bytes]) -> bytes:
    """Return the page of a node from those of its shards."""
    return _page([row for page in pages for row in json.loads(page)["partitions"]])


def _page(rows: list[dict[str, Any]]) -> bytes:
    return json.dumps({"partitions": rows}).encode()
