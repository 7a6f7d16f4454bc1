"""The record of each batch of a query in the topic __pipeline_progress: what was read and written, and which
transactions belong to the batch.

The record is the decision about the batch. Before it, nothing of the batch counts. After it, all transactions that it
names are committed, by this driver or by the next one. It is itself written in a transaction of the driver, whose
transactional id, APPLICATION-SUBTOPOLOGY, only one driver has: a former one can decide nothing any more. Another
partition tells consoles of the drivers (broker_cy/admin/streams_drivers.py).
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.admin.records import Start
from broker_cy.admin.streams_drivers import DRIVERS, TOPIC
from broker_cy.admin.topics import NewTopic
from broker_cy.client.errors import ClientError
from broker_cy.core.errors import ErrorCode

PARTITION: Final = TopicPartition(TOPIC, 0)
# Each query has one live record; a driver that starts reads what compaction has left.
_CONFIG: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(8 << 20),
    "segment.ms": "600000",
    "min.cleanable.dirty.ratio": "0.1",
}


@dataclass(frozen=True)
class Open:
    """The transaction of a task, which is committed with the batch."""

    transactional_id: str
    producer_id: int
    epoch: int


@dataclass(frozen=True)
class Progress:
    """`offsets` are the next ones of all inputs that moved, as TOPIC, PARTITION, OFFSET; `written` counts records by
    topic.
    """

    query: str
    batch: int
    time_ms: int
    records: int
    offsets: tuple[tuple[str, int, int], ...]
    written: Mapping[str, int]
    transactions: tuple[Open, ...]

    def value(self) -> bytes:
        found = asdict(self)
        return json.dumps({**found, "crc": _crc(found)}, separators=(",", ":")).encode()

    @staticmethod
    def of(data: bytes) -> Progress:
        """Raises ValueError: no record of a batch, or a damaged one."""
        try:
            found: dict[str, Any] = json.loads(data)
            crc = found.pop("crc")
            made = Progress(
                found["query"],
                found["batch"],
                found["time_ms"],
                found["records"],
                tuple((topic, number, at) for topic, number, at in found["offsets"]),
                found["written"],
                tuple(Open(**each) for each in found["transactions"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{TOPIC} has a record that is none of a batch: {error!r}") from None
        if crc != _crc(asdict(made)):
            raise ValueError(f"{TOPIC}: the record of batch {made.batch} of {made.query} is damaged")
        return made


def _crc(fields: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(fields, sort_keys=True).encode())


async def ensure_topic(client: AdminClient) -> None:
    """Raises ClientError."""
    outcome = await client.topics.create([NewTopic(TOPIC, DRIVERS.partition + 1, configs=_CONFIG)])
    for error in outcome.failed.values():
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise error


async def last(client: AdminClient, query: str) -> Progress | None:
    """The last batch that was decided. Raises ClientError, ValueError."""
    span = (await client.records.spans([PARTITION], Start.earliest(), isolation=Isolation.READ_COMMITTED))[PARTITION]
    if span.start >= span.end:
        return None
    key, found = query.encode(), None
    async with client.records.reader(
        {PARTITION: span.start}, ends={PARTITION: span.end}, isolation=Isolation.READ_COMMITTED
    ) as reader:
        async for chunk in reader:
            for record in chunk.records:
                if record.key == key and record.value is not None:
                    found = record.value
    return None if found is None else Progress.of(found)


__all__ = ["PARTITION", "TOPIC", "ClientError", "Open", "Progress", "ensure_topic", "last"]
