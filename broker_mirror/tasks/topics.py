"""The remote topics of a flow: those to create and to grow, their settings, and the partitions to copy, as
MirrorSourceConnector of Kafka 4.3.1 plans them. Nothing shrinks, and nothing is deleted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from broker_cy.admin.configs import AlterOp, ConfigChange, ConfigEntry
from broker_cy.admin.metadata import TopicPartition
from broker_cy.core import mirror_settings as mirror
from broker_cy.core.configs import ConfigSource
from broker_mirror.filters import NameFilter
from broker_mirror.flows import Flow, Verdict

# The name of a topic: a dot is the only character of regular expressions in it.
_NAME: Final = re.compile(r"[\w.-]+")


@dataclass(frozen=True, slots=True)
class ClusterTopics:
    """The topics of a cluster: their numbers of partitions, and the reasons why some cannot be described."""

    partitions: Mapping[str, int]
    failed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """`create` has the topic of the source and the number of partitions by remote topic; `grow` has the new number of
    partitions by remote topic. `partitions` are those of the source to copy. `problems` are sentences by topic of the
    source, and `cycles` the topics that were copied from the target.
    """

    create: Mapping[str, tuple[str, int]]
    grow: Mapping[str, int]
    partitions: tuple[TopicPartition, ...]
    problems: Mapping[str, str]
    cycles: tuple[str, ...]

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of the source that are copied."""
        return tuple(dict.fromkeys(each.topic for each in self.partitions))


def plan_topics(
    flow: Flow, source: ClusterTopics, target: ClusterTopics, returning: NameFilter | None = None
) -> TopicPlan:
    """Return the plan for the topics of both clusters.

    `returning` has the topics that a flow of the same file copies back under the same names
    (IdentityReplicationPolicy): a topic of both flows would be copied in a circle, so neither copies it.
    """
    create: dict[str, tuple[str, int]] = {}
    grow: dict[str, int] = {}
    copied: list[TopicPartition] = []
    problems: dict[str, str] = {}
    cycles = []
    for topic, count in sorted(source.partitions.items()):
        verdict = flow.verdict(topic)
        if verdict is Verdict.CYCLE:
            cycles.append(topic)
        if verdict is not Verdict.COPIED:
            continue
        remote = flow.remote_topic(topic)
        if remote == topic and returning is not None and returning.takes(topic):
            cycles.append(topic)
            problems[topic] = f"{flow.target}->{flow.source} copies the topic {topic} back: it is not copied"
            continue
        copied += [TopicPartition(topic, partition) for partition in range(count)]
        found = target.partitions.get(remote)
        if remote in target.failed:
            problems[topic] = f"the target answers for the topic {remote}: {target.failed[remote]}"
        elif found is None:
            create[remote] = topic, count
        elif found < count:
            grow[remote] = count
        elif found > count:
            problems[topic] = f"topic {remote} of the target has {found} partitions, and its source has {count}"
    for topic, reason in source.failed.items():
        if flow.verdict(topic) is Verdict.COPIED:
            problems[topic] = f"the source answers for the topic {topic}: {reason}"
    problems |= {name: f"the source has no topic {name}, or denies DESCRIBE on it" for name in _absent(flow, source)}
    return TopicPlan(create, grow, tuple(copied), problems, tuple(cycles))


def _absent(flow: Flow, source: ClusterTopics) -> Iterator[str]:
    """Yield the topics that the flow names, and that the source does not show: those that the principal may not
    describe are hidden, too.
    """
    for name in flow.values["topics"]:
        known = name in source.partitions or name in source.failed
        if known or not _NAME.fullmatch(name) or not flow.copies_topic(name):
            continue
        if not any(re.fullmatch(name, topic) for topic in source.partitions):
            yield name


def configs_of_new(flow: Flow, entries: Iterable[ConfigEntry]) -> dict[str, str | None]:
    """Return the settings of a new remote topic, from those of its source."""
    return {
        each.name: each.value
        for each in entries
        if _is_copied(flow, each) and (not each.is_default or flow.properties.uses_source_defaults)
    }


def plan_configs(flow: Flow, source: Iterable[ConfigEntry], target: Iterable[ConfigEntry]) -> tuple[ConfigChange, ...]:
    """Return the changes that give a remote topic the settings of its source; those it has already are left out.

    With use.defaults.from=target, a setting that has its default in the source loses its own value in the target.
    """
    own = {each.name: each.value for each in target if each.source is ConfigSource.DYNAMIC_TOPIC_CONFIG}
    changes = []
    for each in source:
        if not _is_copied(flow, each):
            continue
        if each.is_default and not flow.properties.uses_source_defaults:
            if each.name in own:
                changes.append(ConfigChange(each.name, AlterOp.DELETE))
        elif each.name not in own or own[each.name] != each.value:
            changes.append(ConfigChange(each.name, AlterOp.SET, each.value))
    return tuple(changes)


def _is_copied(flow: Flow, entry: ConfigEntry) -> bool:
    if entry.is_read_only or entry.is_sensitive or entry.source is ConfigSource.STATIC_BROKER_CONFIG:
        return False
    if entry.name in mirror.NAMES:
        # A copied setting would make a mirror of the remote topic.
        return False
    return flow.properties.takes(entry.name)
