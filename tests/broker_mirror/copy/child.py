"""A mirror as a process that a test can kill: `python -m tests.broker_mirror.copy.child SOURCE TARGET TOPIC...`."""

from __future__ import annotations

import asyncio
import sys

from broker_cy.admin.metadata import TopicPartition
from tests.broker_mirror.copy.clusters import clusters, flow_of


async def main(source: str, target: str, *topics: str) -> None:
    """Copy the topics until the process is killed."""
    async with clusters(flow_of(source, target), source, target) as pair:
        found, _ = await pair.source.caller.metadata.refresh(topics, pair.source.caller.deadline())
        copy = pair.copy()
        await copy.start(
            TopicPartition(name, part.partition) for name, topic in found.items() for part in topic.partitions
        )
        print(await copy.ended(), file=sys.stderr)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
