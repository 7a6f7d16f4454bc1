"""A client's side of a fetch session (KIP-227): after the first request, only what has changed is named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID

from broker_cy.admin.metadata import TopicPartition
from broker_cy.core.classes import NamedTuple

NO_SESSION: Final = (0, -1)
_FIRST_EPOCH: Final = 0
_EPOCH_MAX: Final = 0x7FFFFFFF


class SessionRequest(NamedTuple):
    """The fields of one request: `changed` has the offsets to name, `forgotten` partitions with the ids of topics."""

    session_id: int
    epoch: int
    changed: Mapping[TopicPartition, int]
    forgotten: tuple[tuple[TopicPartition, UUID], ...]


class FetchSessionHandler:
    """The session of one connection to a leader. One request at a time."""

    def __init__(self) -> None:
        self._id, self._epoch = 0, _FIRST_EPOCH
        # Partitions that the broker knows, with the offset and the id of the topic.
        self._known: dict[TopicPartition, tuple[int, UUID]] = {}

    def next(self, wanted: Mapping[TopicPartition, int], topic_id: Callable[[str], UUID]) -> SessionRequest:
        """Return the next request for these partitions and offsets."""
        if self._epoch == _FIRST_EPOCH:
            self._known = {}
        changed = {
            key: offset for key, offset in wanted.items() if self._known.get(key) != (offset, topic_id(key.topic))
        }
        gone = [
            key
            for key, (_, known_id) in self._known.items()
            if key not in wanted or (key in changed and known_id != topic_id(key.topic))
        ]
        forgotten = tuple((key, self._known.pop(key)[1]) for key in gone)
        self._known.update((key, (offset, topic_id(key.topic))) for key, offset in changed.items())
        return SessionRequest(self._id, self._epoch, changed, forgotten)

    def took(self, session_id: int) -> None:
        """Take the session of an answer without an error; 0 if the broker has no room for one."""
        if session_id == 0:
            self.reset()
            return
        self._id = session_id
        self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1

    def reset(self) -> None:
        """Begin another session: the broker has lost this one, or it is not known what the broker took."""
        self._id, self._epoch = 0, _FIRST_EPOCH
