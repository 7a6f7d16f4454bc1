"""The trial of a schema on records of Apache Kafka, by requests and from its segments."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker_cy.admin import AdminClient
from broker_registry.client import RegistryClient, Schema
from broker_registry.client_settings import settings_of
from broker_registry.impact.preview import Question, preview
from broker_registry.impact.result import Impact
from tests.support import needs
from tests.support.kafka_peer import KafkaPeer
from tests.support.registry import running_registry
from tests.support.schema_records import BAD, OLD, TWO, commit, framed, new_topic, produce, registered

pytestmark = [pytest.mark.full, needs.kafka]


def test_records_of_kafka_are_tried(tmp_path: Path) -> None:
    """If this fails, users of Apache Kafka cannot try a schema, or get another result from segments."""
    kafka = KafkaPeer(tmp_path)
    try:
        kafka.start()
        with running_registry(kafka.bootstrap, tmp_path) as registry:
            new_topic(kafka.bootstrap, "orders", 2)
            one, two = registered(registry, "orders-value", OLD, TWO)
            values = [framed(one, OLD, {"x": 1})] * 5 + [framed(two, TWO, {"x": 1, "y": 2})] * 7
            produce(kafka.bootstrap, "orders", values)
            commit(kafka.bootstrap, "orders", "billing", 3)

            async def tried(*directories: Path) -> Impact:
                async with AdminClient(kafka.bootstrap) as client:
                    question = Question("orders-value", Schema("AVRO", BAD), directories=directories)
                    return await preview(RegistryClient(settings_of(registry.url)), client, question)

            by_requests = asyncio.run(tried())
            assert (by_requests.new.tried, by_requests.new.broken) == (12, 5)
            assert [(each.group, each.tried, each.broken, each.read) for each in by_requests.groups] == [
                ("billing", 9, 2, (one,))
            ]
            assert asyncio.run(tried(kafka.data_dir)) == by_requests
    finally:
        kafka.close()
