"""The records of one share group in flight on this node, as JSON: /share-groups of the metrics listener.

    {"partitions": [{"topic", "partition", "status", "start_offset", "end_offset", "finished_records", "is_blocked",
      "waiting_fetches", "delivery_limit", "throttled_from", "left_out", "in_flight": [{"first_offset", "last_offset",
      "state", "deliveries", "member_id", "lock_left_ms", "is_pending"}]}],
     "archived": {cause: records}, "returned": {cause: records}}

Offsets are those of the log. Available records with `throttled_from` deliveries or more are delivered in smaller parts
than the others. `left_out` is the number of entries of `in_flight` beyond RUNS_MAX of the page.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from broker_cy.share_service.counts import GroupCounts
from broker_cy.share_service.inspection import view_of

if TYPE_CHECKING:
    from broker_cy.share_service.share_service import ShareService

# Entries of a page, about 150 bytes each.
RUNS_MAX: Final = 20_000


async def in_flight_page(service: ShareService, group_id: str) -> bytes:
    """Return the page of a group; the loop runs between two share partitions."""
    partitions: list[dict[str, Any]] = []
    counts = service.counts.by_group().get(group_id, GroupCounts())
    left = RUNS_MAX
    for key in service.table.keys_of_group(group_id):
        view, topic = view_of(service, key), service.topic_name(key.topic)
        share = service.table.get(key)
        if view is None or topic is None or share is None:
            continue
        counts.archived_by(share)
        shown = view.in_flight[:left]
        left -= len(shown)
        partitions.append(
            {
                "topic": topic,
                "partition": key.topic.partition,
                "status": view.status,
                "start_offset": view.start_offset,
                "end_offset": view.end_offset,
                "finished_records": view.finished_records,
                "is_blocked": view.is_blocked,
                "waiting_fetches": view.waiting_fetches,
                "delivery_limit": share.delivery_limit,
                "throttled_from": share.throttled_from(),
                "left_out": len(view.in_flight) - len(shown),
                "in_flight": [run._asdict() for run in shown],
            }
        )
        await asyncio.sleep(0)
    return _page(
        partitions,
        {cause.value: number for cause, number in counts.archived.items()},
        {cause.value: number for cause, number in counts.returned.items()},
    )


def merged(pages: Iterable[bytes]) -> bytes:
    """Return the page of a node from those of its shards."""
    partitions: list[dict[str, Any]] = []
    archived: Counter[str] = Counter()
    returned: Counter[str] = Counter()
    for page in pages:
        content = json.loads(page)
        partitions += content["partitions"]
        archived.update(content["archived"])
        returned.update(content["returned"])
    return _page(partitions, archived, returned)


def _page(partitions: list[dict[str, Any]], archived: dict[str, int], returned: dict[str, int]) -> bytes:
    return json.dumps({"partitions": partitions, "archived": archived, "returned": returned}).encode()
