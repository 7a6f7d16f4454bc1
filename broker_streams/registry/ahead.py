"""Schemas are asked for before records are processed: a host calls this while it reads, beside its event loop's work.

While the registry does not answer, reading waits, and nothing is lost or skipped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final
from uuid import UUID

from broker_cy.wire.records import Record
from broker_cy.wire.schema_header import KEY_HEADER, MAGIC_GUID, VALUE_HEADER, read_schema_header
from broker_streams.kernel.settings import TaskSettings
from broker_streams.plan.topology import Sink, Source, Topology
from broker_streams.serdes import SerdeError, SerdeUnavailable
from broker_streams.serdes.schemas.base import RegistrySerde
from broker_streams.serdes.schemas.binding import with_registry

RETRY_S: Final = 1.0
"""The time until the registry is asked again; it doubles, up to RETRY_S_MAX."""
RETRY_S_MAX: Final = 30.0
_ID_BYTES: Final = 5
_GUID_BYTES: Final = 17
_LOG = logging.getLogger("broker_streams")


class Ahead:
    """For one application. It belongs to one event loop."""

    def __init__(self, topology: Topology, settings: TaskSettings) -> None:
        """Raises ValueError: a serde with schemas has no registry."""
        self._registry = settings.registry
        # The topics whose keys, and whose values, name schemas.
        self._read: dict[str, tuple[bool, bool]] = {}
        self._written: list[tuple[str, RegistrySerde]] = []
        for node in topology.nodes:
            if not isinstance(node, Source | Sink):
                continue
            serdes = [
                with_registry(given or default, self._registry, is_key=is_key)
                for given, default, is_key in (
                    (node.key_serde, settings.key_serde, True),
                    (node.value_serde, settings.value_serde, False),
                )
            ]
            is_known = [isinstance(each, RegistrySerde) for each in serdes]
            if not any(is_known):
                continue
            if isinstance(node, Source):
                for name in node.topics:
                    self._read[topology.decorated(name, settings.application_id)] = is_known[0], is_known[1]
            elif node.topic is not None:
                topic = topology.decorated(node.topic, settings.application_id)
                self._written += [(topic, each) for each in serdes if isinstance(each, RegistrySerde)]

    async def prepare(self) -> None:
        """Register or find the schemas of all results. Raises SerdeError: the registry refuses one."""
        for topic, serde in self._written:
            await self._until_answered(partial(serde.prepare_writing, topic))

    async def load(self, topic: str, records: Iterable[Record]) -> None:
        """Ask for the schemas of records. The serdes report those that the registry does not have."""
        parts, registry = self._read.get(topic), self._registry
        if parts is None or registry is None:
            return
        for name in _names(records, *parts):
            if not registry.knows(name):
                try:
                    await self._until_answered(partial(registry.schema, name))
                except SerdeError:
                    continue

    async def _until_answered(self, ask: Callable[[], object]) -> None:
        """Raises SerdeError."""
        retry_s = RETRY_S
        while True:
            try:
                await asyncio.to_thread(ask)
                return
            except SerdeUnavailable as error:
                _LOG.warning("%s; it is asked again in %g s", error, retry_s)
                await asyncio.sleep(retry_s)
                retry_s = min(2 * retry_s, RETRY_S_MAX)


def _names(records: Iterable[Record], of_keys: bool, of_values: bool) -> Iterable[int | UUID]:
    """The schemas that keys, values and headers name."""
    begins: set[bytes] = set()
    for record in records:
        for data in (record.key if of_keys else None, record.value if of_values else None):
            if data:
                begins.add(bytes(data[: _GUID_BYTES if data[0] == MAGIC_GUID else _ID_BYTES]))
        for name, value in record.headers:
            if value and name in (KEY_HEADER, VALUE_HEADER):
                begins.add(bytes(value[:_GUID_BYTES]))
    for each in begins:
        found = read_schema_header(each)
        if found is not None:
            named = found.guid if found.id is None else found.id
            assert named is not None
            yield named
