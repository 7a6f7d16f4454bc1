"""The groups that read each topic: an index over the topics that their members name."""

from __future__ import annotations

from collections.abc import Collection


class Subscribers:
    """Bounded by the subscriptions of all groups. The groups of a topic are in the order of their subscriptions."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, None]] = {}
        self.wide: dict[str, None] = {}
        """The ids of groups with very many topics, or with topics that regular expressions match. These topics are not
        in the index: there may be 10,000 of one group.
        """

    def subscribe(self, group_id: str, topic: str) -> None:
        self._groups.setdefault(topic, {})[group_id] = None

    def unsubscribe(self, group_id: str, topic: str) -> None:
        """Remove a subscription, if there is one."""
        groups = self._groups.get(topic)
        if groups is not None:
            groups.pop(group_id, None)
            if not groups:
                del self._groups[topic]

    def put_wide(self, group_id: str, *, is_wide: bool) -> None:
        if is_wide:
            self.wide[group_id] = None
        else:
            self.wide.pop(group_id, None)

    def of(self, topic: str) -> Collection[str]:
        """The ids of the groups that name the topic."""
        return list(self._groups.get(topic, ()))
