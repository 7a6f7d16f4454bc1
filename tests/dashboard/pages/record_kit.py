"""Shared helpers of the tests of the pages about topics and records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from broker_cy.admin import AdminClient
from broker_cy.admin.topics import NewTopic
from broker_cy.wire.records import Record
from dashboard.collector.record_jobs import RecordJob
from dashboard.collector.record_request import parse_request
from tests.dashboard.support import Desk
from tests.support.read_group import BEGIN_MS, FOR_EVER


async def make(client: AdminClient, topic: str, records: Sequence[Record], partitions: int = 1) -> None:
    """Create a topic with records, spread over its partitions in turn."""
    (await client.topics.create([NewTopic(topic, partitions, configs=FOR_EVER)])).whole()
    await add(client, topic, records, partitions)


async def add(client: AdminClient, topic: str, records: Sequence[Record], partitions: int = 1) -> None:
    for partition in range(partitions):
        theirs = records[partition::partitions]
        if theirs:
            await client.records.producer().send(topic, theirs, partition=partition)


def numbered(count: int, first: int = 0) -> list[Record]:
    """Return records with the values 0, 1, 2, ..., a second apart."""
    return [
        Record(timestamp=BEGIN_MS + at * 1_000, key=b"k%d" % at, value=b"%d" % at) for at in range(first, first + count)
    ]


def open_job(desk: Desk, topic: str, **query: str) -> RecordJob:
    """Open a job as the page does; `from_` is the parameter `from`."""
    request, problems = parse_request(topic, {name.rstrip("_"): value for name, value in query.items()})
    assert request is not None, problems
    return desk.hub.jobs.open(desk.identity, request)


def of(job: RecordJob) -> dict[str, str]:
    """Return the parameters of the channels of a job."""
    return {"topic": job.request.topic, "job": job.id}


def done(state: Any) -> bool:
    """Whether the progress of a job shows that it has stopped reading."""
    return bool(state["can"] != ["stop"])
