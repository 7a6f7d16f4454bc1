"""A plugin of pytest for confluent-kafka's registry tests: their cluster of one's own has no client for asyncio."""

from __future__ import annotations

from typing import Any

from confluent_kafka.schema_registry._async.schema_registry_client import AsyncSchemaRegistryClient

from tests.integration.cluster_fixture import ByoFixture  # type: ignore[import-not-found]


def async_schema_registry(self: Any, conf: Any = None) -> AsyncSchemaRegistryClient:
    return AsyncSchemaRegistryClient({"url": self._sr_url, **(conf or {})})


ByoFixture.async_schema_registry = async_schema_registry
