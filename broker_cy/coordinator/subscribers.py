"""The groups that subscribe to each topic: an index over the subscriptions of their members."""

from __future__ import annotations

from collections.abc import Collection


class Subscribers:
    """Bounded by the subscriptions of all groups. The groups of a topic are in the order of their subscriptions."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, None]] = {}

    def subscribe(self, group_id: str, topic: str) -> None:
        self._groups.setdefault(topic, {})[group_id] = None

    def unsubscribe(self, group_id: str, topic: str) -> None:
        """Remove a subscription, if there is one."""
        groups = self._groups.get(topic)
        if groups is not None:
            groups.pop(group_id, None)
            if not groups:
                del self._groups[topic]

    def of(self, topic: str) -> Collection[str]:
        """The ids of the groups that subscribe to the topic."""
        return list(self._groups.get(topic, ()))
