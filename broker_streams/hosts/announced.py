"""A topology as a member announces it to its streams group (KIP-1071). The coordinator creates the internal topics.

Settings of internal topics are Kafka's: a repartition topic keeps its records until they are processed, a changelog is
compacted, and that of a windowed store also loses what is older than the retention of the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from broker_cy.admin.topics import NewTopic
from broker_cy.wire import messages
from broker_streams.plan.partitions import copartitioned_topics
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.plan.topology import Subtopology, Topology

Request = messages.StreamsGroupHeartbeatRequest
DAY_MS: Final = 24 * 60 * 60 * 1000
_ALL: Final = {"message.timestamp.type": "CreateTime"}
_REPARTITION: Final = {"cleanup.policy": "delete", "segment.bytes": "52428800", "retention.ms": "-1"}
_WINDOWED: Final = (StoreKind.WINDOW, StoreKind.TIMESTAMPED_WINDOW, StoreKind.SESSION)


def announced(
    topology: Topology,
    application_id: str,
    *,
    replication_factor: int = -1,
    topic_config: Mapping[str, str] | None = None,
    additional_retention_ms: int = DAY_MS,
) -> Request.Topology:
    """`topic_config` are the application's settings with the prefix `topic.`; those of a store win over them."""
    parts = topology.subtopologies()
    internal = {topology.decorated(each.name, application_id) for each in topology.repartition_topics}

    def decorated(topics: Iterable[str]) -> list[str]:
        return [topology.decorated(topic, application_id) for topic in topics]

    groups = [sorted(decorated(group)) for group in copartitioned_topics(topology)]
    made = []
    for part in parts:
        topics = decorated(topic for source in part.sources for topic in source.topics)
        plain = sorted(topic for topic in topics if topic not in internal)
        patterns = sorted(source.pattern for source in part.sources if source.pattern is not None)
        repartition = sorted(topic for topic in topics if topic in internal)
        if not topics and not patterns:
            continue
        made.append(
            Request.Subtopology(
                subtopology_id=str(part.number),
                source_topics=plain,
                source_topic_regex=patterns,
                repartition_sink_topics=sorted(
                    {topic for topic in decorated(sink.topic for sink in part.sinks if sink.topic) if topic in internal}
                ),
                repartition_source_topics=[
                    _repartition(topology, topic, application_id, replication_factor, topic_config or {})
                    for topic in repartition
                ],
                state_changelog_topics=_changelogs(
                    topology, part, application_id, replication_factor, topic_config or {}, additional_retention_ms
                ),
                copartition_groups=[
                    Request.CopartitionGroup(
                        source_topics=[plain.index(topic) for topic in group if topic in plain],
                        repartition_source_topics=[repartition.index(topic) for topic in group if topic in repartition],
                    )
                    for group in groups
                    if set(group) <= set(topics)
                ],
            )
        )
    return Request.Topology(epoch=0, subtopologies=made)


def changelog_config(
    store: Store, topic_config: Mapping[str, str], additional_retention_ms: int = DAY_MS
) -> dict[str, str]:
    """The settings of a store's changelog topic."""
    found = _ALL | {"cleanup.policy": "compact"}
    if store.kind is StoreKind.VERSIONED_KEY_VALUE:
        found["min.compaction.lag.ms"] = str((store.history_ms or 0) + DAY_MS)
    elif store.kind in _WINDOWED:
        found |= {
            "cleanup.policy": "compact,delete",
            "retention.ms": str((store.retention_ms or 0) + additional_retention_ms),
        }
    return found | dict(topic_config) | dict(store.topic_config)


def _changelogs(
    topology: Topology,
    part: Subtopology,
    application_id: str,
    replication_factor: int,
    topic_config: Mapping[str, str],
    additional_retention_ms: int,
) -> list[Request.TopicInfo]:
    found = {}
    for store in part.stores:
        topic = topology.changelog(store, application_id)
        if topic is not None and store.source_topic is None:
            config = changelog_config(store, topic_config, additional_retention_ms)
            found[topic] = _topic(topic, 0, replication_factor, config)
    return [found[topic] for topic in sorted(found)]


def _repartition(
    topology: Topology, topic: str, application_id: str, replication_factor: int, topic_config: Mapping[str, str]
) -> Request.TopicInfo:
    plain = next(each for each in topology.repartition_topics if f"{application_id}-{each.name}" == topic)
    config = _ALL | _REPARTITION | dict(topic_config) | dict(plain.config)
    return _topic(topic, plain.partitions or 0, replication_factor, config)


def new_topic(topic: Request.TopicInfo, partitions: int) -> NewTopic:
    """An internal topic, for a host that creates it in place of the coordinator."""
    config: dict[str, str | None] = {each.key: each.value for each in topic.topic_configs}
    return NewTopic(topic.name, partitions, topic.replication_factor, config)


def _topic(name: str, partitions: int, replication_factor: int, config: Mapping[str, str]) -> Request.TopicInfo:
    pairs = [Request.KeyValue(key=key, value=config[key]) for key in sorted(config)]
    return Request.TopicInfo(
        name=name, partitions=partitions, replication_factor=replication_factor, topic_configs=pairs
    )
