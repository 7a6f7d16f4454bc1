"""A copy flow with transforms between two brokers."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.produce import Producer
from broker_cy.wire.records import Record
from broker_mirror.copy.positions import committed_positions
from broker_mirror.copy.status import CopyState
from broker_mirror.formats import offset_syncs
from broker_mirror.formats.source_offsets import CONNECTOR
from tests.broker_mirror.copy.clusters import Clusters, create, fill, plain, records_of, run

PACKAGE = "org.apache.kafka.connect.transforms."
SETTINGS = {
    "A->B.header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter",
    "A->B.transforms": "empty, other, origin, secret",
    "A->B.transforms.empty.type": f"{PACKAGE}Filter",
    "A->B.transforms.empty.predicate": "tombstone",
    "A->B.transforms.other.type": f"{PACKAGE}Filter",
    "A->B.transforms.other.predicate": "ours",
    "A->B.transforms.other.negate": "true",
    "A->B.transforms.origin.type": f"{PACKAGE}InsertHeader",
    "A->B.transforms.origin.header": "origin",
    "A->B.transforms.origin.value.literal": "eu-west-1",
    "A->B.transforms.secret.type": f"{PACKAGE}DropHeaders",
    "A->B.transforms.secret.headers": "secret",
    "A->B.predicates": "tombstone, ours",
    "A->B.predicates.tombstone.type": f"{PACKAGE}predicates.RecordIsTombstone",
    "A->B.predicates.ours.type": f"{PACKAGE}predicates.TopicNameMatches",
    "A->B.predicates.ours.pattern": "A\\.t-.*",
}


async def add_tombstones(pair: Clusters, keys: Sequence[TopicPartition]) -> None:
    """Produce a batch with a record to keep, and one without."""
    producer = Producer(pair.source.caller)
    for key in keys:
        secret = (("h", b"v"), ("secret", b"s"))
        mixed = [Record(timestamp=5, key=b"k", value=value, headers=secret) for value in (None, b"v", None)]
        await producer.send(key.topic, mixed, partition=key.partition)
        await producer.send(key.topic, [Record(timestamp=6, key=b"k")] * 3, partition=key.partition)


def changed(records: Sequence[Record]) -> list[tuple[object, ...]]:
    """The copies of the records that the flow keeps."""
    return [
        (
            each.timestamp,
            each.key,
            each.value,
            (*((name, base64.b64encode(value or b"")) for name, value in each.headers if name != "secret"), MARK),
        )
        for each in records
        if each.value is not None
    ]


MARK = ("origin", b"eu-west-1")


def test_a_flow_filters_and_changes_records(brokers: tuple[str, str], topic: str) -> None:
    """A second process takes the flow over in the middle. If this fails, records that were to be left out are copied,
    others are lost or copied twice, or groups fail over to other records.
    """

    async def job(pair: Clusters) -> None:
        keys = await create(pair, topic)
        first = pair.copy()
        await first.start(keys)
        await fill(pair, topic)
        await add_tombstones(pair, keys)
        await pair.copied(first, topic)
        second = pair.copy()
        await second.start(keys)
        await fill(pair, topic, 1_000)
        await add_tombstones(pair, keys)
        await pair.copied(second, topic)
        assert (await first.ended()).state is CopyState.FENCED
        await second.stop()
        await first.stop()
        source, target = await records_of(pair.source, topic), await records_of(pair.target, f"A.{topic}")
        assert {part: plain(records) for part, records in target.items()} == {
            part: changed(records) for part, records in source.items()
        }
        committed = await committed_positions(pair.target, pair.flow.offsets_topic, "A", CONNECTOR)
        assert {key: committed[key].offset for key in keys} == {
            key: source[key.partition][-1].offset + 1 for key in keys
        }
        copies = {
            (sync.partition, sync.source_offset - index): sync.target_offset - index
            for record in (await records_of(pair.source, pair.flow.offset_syncs_topic))[0]
            for sync in [offset_syncs.decode(record.key, record.value, record.headers)]
            if sync.topic == topic
            for index in range(sync.count)
        }
        for part, records in source.items():
            kept = [each.offset for each in records if each.value is not None]
            assert [copies.get((part, offset)) for offset in kept] == [each.offset for each in target[part]]
        assert len(copies) == sum(map(len, target.values()))

    run(brokers, job, **SETTINGS)
