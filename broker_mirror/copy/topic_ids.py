"""Topics that were deleted and created again, by their ids: the committed offset of such a topic is that of other
records, or its copies are gone.
"""

from __future__ import annotations

from uuid import UUID

from broker_cy.core.uuid import ZERO, to_text
from broker_mirror.copy.partition import Key
from broker_mirror.filters import NameFilter
from broker_mirror.flows import RECREATED
from broker_mirror.formats.source_offsets import TopicIds


class KnownIds:
    """The ids with which partitions of the source are copied. Those of clusters before Kafka 2.8 are not known (ZERO),
    and equal all others. `recreated` has the topics that may be created again: they are copied from their first record.
    """

    def __init__(self, recreated: NameFilter) -> None:
        self._recreated = recreated
        self._known: dict[Key, TopicIds] = {}

    def of(self, key: Key) -> TopicIds:
        """Return the ids for the committed offset of a partition."""
        return self._known.get(key, TopicIds())

    def begin(self, key: Key, ids: TopicIds) -> None:
        """The partition is copied with these ids from now on."""
        self._known[key] = ids

    def may_begin_again(self, topic: str) -> bool:
        return self._recreated.takes(topic)

    def problem(self, key: Key, remote: str, present: TopicIds) -> str | None:
        """Return the sentence about a partition whose topic has other ids now; None if they are equal. An id that was
        not known when copying began is known from now on.
        """
        known = self.of(key)
        text = difference(known, present, key[0], remote)
        if text is None and key in self._known and lacks(known, present):
            source = present.source if known.source == ZERO else known.source
            self._known[key] = TopicIds(source, present.target if known.target == ZERO else known.target)
        return text


def difference(known: TopicIds, present: TopicIds, topic: str, remote: str) -> str | None:
    """Return the sentence about a topic whose known ids differ from the present ones; None if they do not."""
    sides = ((known.source, present.source, topic, "source"), (known.target, present.target, remote, "target"))
    for before, after, name, side in sides:
        if _differ(before, after):
            return (
                f"topic {name} of the {side} was deleted and created again: its id is {to_text(after)}, and was"
                f" {to_text(before)}; add {topic} to {RECREATED} to copy it from its first record"
            )
    return None


def lacks(ids: TopicIds, others: TopicIds) -> bool:
    """Return whether an id is not known that the others have."""
    pairs = ((ids.source, others.source), (ids.target, others.target))
    return any(mine == ZERO != other for mine, other in pairs)


def _differ(before: UUID, after: UUID) -> bool:
    return ZERO not in (before, after) and before != after
