"""Runs whose values have a schema, with a running registry."""

from __future__ import annotations

import asyncio
import json
import uuid
from pathlib import Path

import pytest

from broker_cy.admin import AdminClient
from broker_cy.admin.address import parse_addresses
from broker_cy.client.clusters import ClusterEntry
from broker_cy.client.decoded import Seen
from broker_cy.client.program import EXIT_USAGE
from broker_registry.serdes.tools import decoder_of
from tests.loadgen.run.kit import UNDISTURBED, load, producers
from tests.support.broker import Target
from tests.support.registry import running_registry

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    ],
}
PROTO = 'syntax = "proto3"; message Order { int32 id = 1; repeated string tags = 2; }'
JSON = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
SCHEMAS = {"AVRO": json.dumps(AVRO), "PROTOBUF": PROTO, "JSON": json.dumps(JSON)}


async def seen(cluster: ClusterEntry, topic: str) -> list[Seen]:
    """Return the decoded records of a topic."""
    decoder = decoder_of(cluster)
    assert decoder is not None
    async with AdminClient(cluster.bootstrap) as client:
        keys = await client.records.partitions(topic)
        ends = (await client.offsets.latest(keys)).whole()
        async with client.records.reader(dict.fromkeys(keys, 0), ends=ends) as reader:
            return [each async for chunk in reader for each in await decoder.seen(topic, chunk.records)]


@pytest.mark.parametrize("kind", SCHEMAS)
def test_a_run_sends_records_that_consumers_decode(own_broker: Target, tmp_path: Path, kind: str) -> None:
    """If this fails, `broker-load` cannot test consumers of records with schemas."""
    topic = f"load-{uuid.uuid4().hex[:8]}"
    with running_registry(own_broker.bootstrap, tmp_path) as registry:
        registry.register("orders-value", SCHEMAS[kind], schemaType=kind)
        scenario = producers(tmp_path, topic, seconds=1, users=3, rate=300)
        options = ("--registry", registry.url, "--value-subject", "orders-value", "--keep", "true")
        run = load(tmp_path, own_broker.bootstrap, "--scenario", scenario, *options)
        assert run.code in UNDISTURBED, run.stdout + run.stderr
        assert run.of.verification is not None
        assert run.of.verification.is_good
        cluster = ClusterEntry("a", parse_addresses(own_broker.bootstrap), registry=registry.url)
        found = asyncio.run(seen(cluster, topic))
        assert len(found) >= 300
        assert all(each.value.schema is not None and not each.value.problem for each in found)
        assert len({each.value.data for each in found}) > 100
        unknown = load(tmp_path, own_broker.bootstrap, "--scenario", scenario, "--value-subject", "orders-value")
        assert unknown.code == EXIT_USAGE
        assert "its values have a schema: name the registry: --registry" in unknown.stderr
