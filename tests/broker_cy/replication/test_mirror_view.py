"""The page /mirrors of a node with several shards."""

from __future__ import annotations

import asyncio
import json

from broker_cy.replication.mirror_view import MirrorView, merged, mirrors_page


def view(partition: int) -> MirrorView:
    return MirrorView(
        topic="orders",
        partition=partition,
        link="east",
        source_topic="orders",
        source_topic_id="GwdKkBAzTqmDQxlIqXGwKg",
        state="active",
        cause="",
        reason="",
        source_leader=1,
        source_epoch=4,
        source_end=100,
        end=90,
        lag_records=10,
        lag_ms=None,
        records=90,
        bytes=9_000,
        records_per_s=2.5,
        bytes_per_s=250.0,
    )


def test_the_page_of_a_node_has_the_mirrors_of_all_shards() -> None:
    """If this fails, a node with several shards shows a part of its mirrors."""

    async def pages() -> list[bytes]:
        return [await mirrors_page([view(0)]), await mirrors_page([]), await mirrors_page([view(1)])]

    rows = json.loads(merged(asyncio.run(pages())))["partitions"]
    assert rows == [view(0)._asdict(), view(1)._asdict()]
