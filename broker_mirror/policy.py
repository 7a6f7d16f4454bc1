"""The names of remote topics: DefaultReplicationPolicy and IdentityReplicationPolicy of Kafka (KIP-382, KIP-690)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SEPARATOR: Final = "."
HEARTBEATS: Final = "heartbeats"
_INTERNAL: Final = "internal"
_CHECKPOINTS: Final = "checkpoints"
_OFFSET_SYNCS: Final = "mm2-offset-syncs"
_MM2: Final = "mm2"


@dataclass(frozen=True, slots=True)
class Policy:
    """The names of topics in one flow.

    `separator` is between the alias of a cluster and a topic; `internal_separator` is that of the internal topics.
    With `is_identity`, topics keep their names, except those of heartbeats. `source` is the alias that the identity
    policy gives to each topic; None if the policy knows no alias.
    """

    separator: str = SEPARATOR
    internal_separator: str = SEPARATOR
    is_identity: bool = False
    source: str | None = None

    def remote_topic(self, source: str, topic: str) -> str:
        """Return the name in the target of a topic in the cluster `source`."""
        if self.is_identity and not topic.endswith(HEARTBEATS):
            return topic
        return f"{source}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        """Return the alias of the cluster that a topic was copied from; None if its name has none."""
        if self.is_identity and not topic.endswith(HEARTBEATS):
            return self.source
        if not self.separator:
            # Java splits a text at an empty separator into characters.
            return topic[0] if len(topic) > 1 else None
        alias, separator, rest = topic.partition(self.separator)
        # Java drops empty parts at the end: `a..` has one part.
        return alias if separator and any(rest.split(self.separator)) else None

    def upstream_topic(self, topic: str) -> str | None:
        """Return the name of a topic in the cluster that it was copied from; None if its name has no alias."""
        if self.is_identity and not topic.endswith(HEARTBEATS):
            return topic
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def original_topic(self, topic: str) -> str:
        """Return the name of a topic in the cluster in which it was created."""
        while (upstream := self.upstream_topic(topic)) is not None and upstream != topic:
            topic = upstream
        return topic

    def offset_syncs_topic(self, alias: str) -> str:
        """Return the name of the topic with offset syncs; `alias` is the other cluster of the flow."""
        return f"{_OFFSET_SYNCS}{self.internal_separator}{alias}{self._internal_suffix}"

    def checkpoints_topic(self, source: str) -> str:
        """Return the name of the topic in the target with the checkpoints of the flow from `source`."""
        return f"{source}{self._checkpoints_suffix}"

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Whether the topic has heartbeats, also after several copies."""
        return self.original_topic(topic) == HEARTBEATS

    def is_checkpoints_topic(self, topic: str) -> bool:
        """Whether the topic has checkpoints of a flow."""
        return topic.endswith(self._checkpoints_suffix)

    def is_internal_topic(self, topic: str) -> bool:
        """Whether the topic belongs to Kafka or to MirrorMaker 2, and is never copied."""
        if topic.startswith(("__", ".")) or self.is_checkpoints_topic(topic):
            return True
        return topic.startswith(_MM2) and topic.endswith(self._internal_suffix)

    def is_cycle(self, topic: str, target: str) -> bool:
        """Whether a topic of the source has been copied from the cluster `target`, directly or over others."""
        while (source := self.topic_source(topic)) is not None:
            if source == target:
                return True
            upstream = self.upstream_topic(topic)
            if upstream is None or upstream == topic:
                # The identity policy cannot see cycles in names.
                return False
            topic = upstream
        return False

    @property
    def _internal_suffix(self) -> str:
        return f"{self.internal_separator}{_INTERNAL}"

    @property
    def _checkpoints_suffix(self) -> str:
        return f"{self.internal_separator}{_CHECKPOINTS}{self._internal_suffix}"
