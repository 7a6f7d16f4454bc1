"""The mirrors of a target, as the settings of its topics name them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from broker_cy.admin import AdminClient
from broker_cy.admin.configs import ConfigResource, ResourceType
from broker_cy.admin.metadata import TopicPartition
from broker_cy.core import mirror_settings as mirror
from broker_cy.core.errors import ErrorCode
from broker_cy.core.mirror_settings import mirror_settings, source_topic_id

# Topics of one request.
DESCRIBED_MAX = 500


class MirrorTopic(NamedTuple):
    """A topic of the target that is a mirror, or was one before it was promoted: then `link` is None. `source_id` is
    the id of the topic `source` in the other cluster, None if it is not known.
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


async def mirrors_in(client: AdminClient, names: Collection[str] | None = None) -> dict[str, MirrorTopic]:
    """Return the mirrors among these topics, None: among all whose settings may be seen; topics that do not exist are
    left out. Raises ClientError.
    """
    wanted = None if names is None else sorted(names)
    infos, failed = await client.caller.metadata.refresh(wanted, client.caller.deadline())
    for error in failed.values():
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise error
    topics = sorted(infos)
    found: dict[str, MirrorTopic] = {}
    for begin in range(0, len(topics), DESCRIBED_MAX):
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in topics[begin : begin + DESCRIBED_MAX]]
        described = await client.configs.describe(resources, names=list(mirror.NAMES))
        for resource, entries in (described.found if names is None else described.whole()).items():
            values = {each.name: each.value or "" for each in entries}
            topic = mirror_topic(resource.name, values, len(infos[resource.name].partitions))
            if topic is not None:
                found[topic.name] = topic
    return found


def mirror_topic(name: str, settings: Mapping[str, str], partitions: int) -> MirrorTopic | None:
    """Return the mirror that settings of a topic describe; None for another topic."""
    found = mirror_settings(name, settings)
    if found is not None:
        return MirrorTopic(name, found.link, found.topic, found.topic_id, partitions, found.is_paused)
    source_id = source_topic_id(settings)
    if source_id is None:
        return None
    return MirrorTopic(name, None, settings.get(mirror.SOURCE_TOPIC, "").strip() or name, source_id, partitions)


def by_source(mirrors: Iterable[MirrorTopic]) -> dict[str, list[MirrorTopic]]:
    """Return the mirrors of each topic of the source: several topics may mirror one."""
    found: dict[str, list[MirrorTopic]] = {}
    for each in mirrors:
        found.setdefault(each.source, []).append(each)
    return found
