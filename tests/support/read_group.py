"""A group that has read a part of a topic, and every rule for resetting its offsets, for both consoles."""

from __future__ import annotations

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.topics import NewTopic
from broker_cy.wire.records import Record

# Old records are not removed while a test reads them.
FOR_EVER = {"retention.ms": "-1"}
BEGIN_MS = 1_700_000_000_000
# The typed fields of the form (NAME is the topic), the offsets afterwards by partition, and the texts of the plan.
RESETS: list[tuple[dict[str, str], dict[int, int], str]] = [
    ({"rule": "earliest"}, {0: 0, 1: 0}, "--to-earliest"),
    ({"rule": "latest"}, {0: 100, 1: 100}, "--to-latest"),
    ({"rule": "offset", "value": "70"}, {0: 70, 1: 70}, "--to-offset 70"),
    ({"rule": "offset", "value": "500"}, {0: 100, 1: 100}, "limited to the log, 0 to 100"),
    ({"rule": "time", "value": str(BEGIN_MS + 5_500)}, {0: 6, 1: 6}, f"--to-time {BEGIN_MS + 5_500}"),
    ({"rule": "duration ago", "value": "1h"}, {0: 100, 1: 100}, "--to-time"),
    ({"rule": "shift", "value": "-10"}, {0: 40, 1: 50}, "--shift-by=-10"),
    ({"rule": "latest", "topics": "NAME:1"}, {0: 50, 1: 100}, "--topic NAME:1"),
    ({"rule": "listed", "value": "NAME:0=3"}, {0: 3, 1: 60}, "--from-file /dev/stdin"),
    ({"rule": "as group", "value": "NAME-other"}, {0: 11, 1: 60}, "--from-group NAME-other"),
]


async def with_group(client: AdminClient, name: str, group: str = "") -> None:
    """Create a topic of two partitions with 100 records each, a second apart, and a group that read 50 and 60."""
    (await client.topics.create([NewTopic(name, 2, configs=FOR_EVER)])).whole()
    records = [Record(timestamp=BEGIN_MS + at * 1_000, value=b"%d" % at) for at in range(100)]
    for partition in range(2):
        await client.records.producer().send(name, records, partition=partition)
    offsets = {TopicPartition(name, 0): 50, TopicPartition(name, 1): 60}
    (await client.group_offsets.alter(group or name, offsets)).whole()
