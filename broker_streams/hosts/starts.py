"""The first offset of each input of a task: what the group has committed, or what auto.offset.reset says."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from broker_cy.admin import AdminClient
from broker_cy.admin.group_offsets import Committed
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.records import Span, Start
from broker_cy.core.java_duration import duration_ms
from broker_streams.hosts.settings import BY_DURATION, LATEST, NO_RESET, HostSettings
from broker_streams.kernel.errors import StreamsError
from broker_streams.plan.topology import Source, Topology

_LOG = logging.getLogger("broker_streams")


class Starts:
    """`positions` asks the cluster for the offsets at which tasks begin."""

    def __init__(self, client: AdminClient, topology: Topology, settings: HostSettings) -> None:
        self._client, self._settings = client, settings
        self._resets = {
            topology.decorated(topic, settings.application_id): self._reset(topology, source, topic)
            for source in topology.nodes
            if isinstance(source, Source) and source.name not in topology.global_nodes
            for topic in source.topics
        }

    def _reset(self, topology: Topology, source: Source, topic: str) -> str:
        return "earliest" if topology.is_internal(topic) else source.offset_reset or self._settings.offset_reset

    async def positions(
        self, inputs: Iterable[TopicPartition], group: Committed, now_ms: int
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, Span]]:
        """The next offset to read of each input, and what its log has. Raises ClientError; StreamsError:
        auto.offset.reset is none.
        """
        keys = list(inputs)
        found = {key: group[key].offset for key in keys if key in group}
        found |= await self._firsts([key for key in keys if key not in found], now_ms)
        spans = await self._client.records.spans(keys, Start.earliest())
        # Committed offsets may be before or behind what the log has.
        for key, span in spans.items():
            if not span.earliest <= (at := found[key]) <= span.end:
                reason = f"the committed offset {at} of {key} is outside of the log, {span.earliest} to {span.end}"
                found |= await self._firsts([key], now_ms, reason)
                _LOG.warning("%s: auto.offset.reset chose %d", reason, found[key])
        return found, spans

    def reset_of(self, topic: str) -> str:
        """The policy of a topic, by its name in the cluster."""
        return self._resets.get(topic, self._settings.offset_reset)

    async def _firsts(self, keys: Iterable[TopicPartition], now_ms: int, reason: str = "") -> dict[TopicPartition, int]:
        by_reset: dict[str, list[TopicPartition]] = {}
        for key in keys:
            by_reset.setdefault(self.reset_of(key.topic), []).append(key)
        found: dict[TopicPartition, int] = {}
        for reset, theirs in by_reset.items():
            if reset == NO_RESET:
                why = reason or f"{theirs[0]} has no committed offset"
                raise StreamsError(f"{why}, and auto.offset.reset is none")
            spans = await self._client.records.spans(theirs, _start(reset, now_ms))
            found |= {key: span.start for key, span in spans.items()}
        return found


def _start(reset: str, now_ms: int) -> Start:
    if reset == LATEST:
        return Start.latest()
    if reset.startswith(BY_DURATION):
        return Start.time(max(0, now_ms - duration_ms(reset.removeprefix(BY_DURATION))))
    return Start.earliest()
