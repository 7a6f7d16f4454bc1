"""Topics that mirror topics of other clusters (docs/mirror.md, Link flows), by their settings, and what their leaders
report: broker-cy does so at /mirrors of its metrics listener. Apache Kafka has neither.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from broker_cy.admin.caller import Caller
from broker_cy.admin.configs import ConfigCalls, ConfigResource, ResourceType
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.metrics_listener import pages_of
from broker_cy.core.classes import NamedTuple, dataclass
from broker_cy.core.mirror_settings import NAMES, SOURCE_TOPIC, mirror_settings, source_topic_id

TOPICS_A_CALL: Final = 200
"""Topics of one DescribeConfigs, so that a broker with thousands of topics answers others in between."""
PROMOTED: Final = "promoted"


class MirrorTopic(NamedTuple):
    """A topic that is a mirror, or was one before it was promoted: then `link` is None. `source_id` is the id of the
    topic `source` in the other cluster, None if it is not known.
    """

    name: str
    link: str | None
    source: str
    source_id: UUID | None
    partitions: int
    is_paused: bool = False

    @property
    def keys(self) -> list[TopicPartition]:
        return [TopicPartition(self.name, index) for index in range(self.partitions)]

    @property
    def sources(self) -> list[TopicPartition]:
        """The partitions of the source, in the order of `keys`."""
        return [TopicPartition(self.source, index) for index in range(self.partitions)]


@dataclass(frozen=True, slots=True)
class LinkPartition:
    """A mirror partition as its leader reports it. `state` is active, waiting, paused, failed or promoted; `cause` and
    `reason` say why it waits or has failed, else they are empty. `source_end` is the high watermark of the source,
    `end` that of the mirror. `lag_ms` is the time since the mirror had everything that the source had committed. None:
    not known.
    """

    topic: str
    partition: int
    link: str
    source_topic: str
    state: str
    cause: str = ""
    reason: str = ""
    source_end: int | None = None
    end: int | None = None
    lag_records: int | None = None
    lag_ms: int | None = None
    records_per_s: float = 0.0
    bytes_per_s: float = 0.0


_FIELDS: Final = frozenset(each.name for each in fields(LinkPartition))


async def link_partitions(
    caller: Caller, token_file: Path | None = None, context: ssl.SSLContext | None = None
) -> dict[TopicPartition, LinkPartition] | None:
    """Return the mirror partitions that brokers report; None if no broker does. Promoted ones are no mirrors any
    longer. `token_file` and `context` as in `pages_of`.
    """
    pages = await pages_of(caller, "/mirrors", token_file, context)
    found: dict[TopicPartition, LinkPartition] = {}
    has_answer = False
    for page in pages.values():
        try:
            rows = [_partition(row) for row in json.loads(page)["partitions"]]
        except (ValueError, KeyError, TypeError):
            # Another program answers at this address.
            continue
        has_answer = True
        found |= {TopicPartition(each.topic, each.partition): each for each in rows if each.state != PROMOTED}
    return found if has_answer else None


def _partition(row: Mapping[str, Any]) -> LinkPartition:
    return LinkPartition(**{name: value for name, value in row.items() if name in _FIELDS})


async def mirror_topics(
    configs: ConfigCalls, partitions: Mapping[str, int], *, is_strict: bool = False
) -> list[MirrorTopic]:
    """Return those of some topics that are mirrors, or were promoted, by their settings. `partitions` are the topics
    with their number of partitions. Topics whose settings may not be seen are left out, unless `is_strict`. Raises
    ClientError.
    """
    names = sorted(partitions)
    found: list[MirrorTopic] = []
    for begin in range(0, len(names), TOPICS_A_CALL):
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names[begin : begin + TOPICS_A_CALL]]
        outcome = await configs.describe(resources, names=NAMES)
        described = outcome.whole() if is_strict else outcome.found
        if described and not any(described.values()):
            # The cluster does not know these settings.
            return []
        for resource, entries in described.items():
            settings = {entry.name: entry.value or "" for entry in entries}
            topic = mirror_topic(resource.name, settings, partitions[resource.name])
            if topic is not None:
                found.append(topic)
    return found


def mirror_topic(name: str, settings: Mapping[str, str], partitions: int) -> MirrorTopic | None:
    """Return the mirror that settings of a topic describe; None for another topic."""
    found = mirror_settings(name, settings)
    if found is not None:
        return MirrorTopic(name, found.link, found.topic, found.topic_id, partitions, found.is_paused)
    source_id = source_topic_id(settings)
    if source_id is None:
        return None
    return MirrorTopic(name, None, settings.get(SOURCE_TOPIC, "").strip() or name, source_id, partitions)


def topics_of(found: Iterable[LinkPartition], partitions: Mapping[str, int]) -> list[MirrorTopic]:
    """Return the mirror topics of reported partitions; `partitions` as in mirror_topics."""
    by_topic: dict[str, list[LinkPartition]] = {}
    for each in found:
        by_topic.setdefault(each.topic, []).append(each)
    return [
        MirrorTopic(
            name,
            parts[0].link,
            parts[0].source_topic,
            None,
            max(partitions.get(name, 0), *(part.partition + 1 for part in parts)),
            all(part.state == "paused" for part in parts),
        )
        for name, parts in sorted(by_topic.items())
    ]
