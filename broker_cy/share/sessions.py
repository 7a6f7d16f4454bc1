"""Share sessions, as Kafka's ShareSessionCache: what a member of a share group fetches, over which connection.

A pure state machine. A session belongs to one connection and ends with it; a session that replaces it on another
connection stays. A session that ends tells which share partitions have to release the member's records.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Final
from uuid import UUID

from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode, KafkaError

# Two epochs of a request have another meaning: it opens a session, or closes one.
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
# Partitions of one session; clients may name any topic ids.
PARTITIONS_MAX: Final = 100_000
_EPOCH_MAX: Final = (1 << 31) - 1


# The name of a topic; None if there is none with the id.
Names = Callable[[UUID], "str | None"]


class TopicPartition(NamedTuple):
    topic_id: UUID
    partition: int


class SessionKey(NamedTuple):
    group_id: str
    member_id: str


class Closed(NamedTuple):
    """A session that has ended. `is_group_empty`: the group has no other session here, so that the caller may drop its
    share partitions.
    """

    key: SessionKey
    partitions: tuple[TopicPartition, ...]
    is_group_empty: bool


class SessionPartition:
    """`topic` is the name that the topic had when the partition was added; None: it was unknown. `is_due`: the next
    answer names the partition even without records, because it was added, or had an error.
    """

    __slots__ = ("is_due", "topic")

    def __init__(self, topic: str | None, *, is_due: bool) -> None:
        self.topic = topic
        self.is_due = is_due


class ShareSession:
    """One session. `epoch` is the one of the next request; `partitions` are in the order in which they were added, or
    had records last.
    """

    __slots__ = ("connection", "epoch", "key", "partitions")

    def __init__(
        self, key: SessionKey, connection: Hashable, partitions: Iterable[TopicPartition], names: Names
    ) -> None:
        self.key = key
        self.connection = connection
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.partitions = {each: SessionPartition(names(each.topic_id), is_due=False) for each in partitions}

    def is_answered(self, partition: TopicPartition, *, has_records: bool, has_error: bool) -> bool:
        """Return whether the answer of a request after the first one names the partition, and note that it does."""
        known = self.partitions.get(partition)
        if known is None:
            # A request on another connection has removed it meanwhile.
            return has_records or has_error
        was_due, known.is_due = known.is_due, has_error
        if has_records:
            # All partitions get their turn.
            self.partitions[partition] = self.partitions.pop(partition)
        return has_records or has_error or was_due


def no_names(topic_id: UUID) -> str | None:
    return None


def next_epoch(epoch: int) -> int:
    """Return the epoch of the request after this one."""
    return 1 if epoch == _EPOCH_MAX else epoch + 1


class ShareSessions:
    """All share sessions of a node, at most `sessions_max`."""

    def __init__(self, sessions_max: int) -> None:
        self._max = sessions_max
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._of_connection: dict[Hashable, dict[SessionKey, None]] = {}
        self._members: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, key: SessionKey) -> ShareSession | None:
        return self._sessions.get(key)

    def members(self, group_id: str) -> int:
        """Return the number of sessions of a group."""
        return self._members.get(group_id, 0)

    def open(
        self,
        key: SessionKey,
        connection: Hashable,
        partitions: Iterable[TopicPartition],
        names: Names = no_names,
    ) -> ShareSession:
        """Open a session for a request with epoch 0; it replaces the member's session, whose records stay locked.

        Raises KafkaError if the node has too many sessions; then the member has none.
        """
        wanted = list(partitions)
        _check_size(len(wanted))
        if key in self._sessions:
            self._remove(key)
        if len(self._sessions) >= self._max:
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED, f"at most {self._max} share sessions")
        session = self._sessions[key] = ShareSession(key, connection, wanted, names)
        self._of_connection.setdefault(connection, {})[key] = None
        self._members[key.group_id] = self.members(key.group_id) + 1
        return session

    def take(self, key: SessionKey, epoch: int) -> ShareSession:
        """Return the session of a request with an epoch other than 0, and count the request. Raises KafkaError."""
        session = self._sessions.get(key)
        if epoch == INITIAL_EPOCH:
            # Only a fetch opens a session.
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, "a share session begins with a ShareFetch")
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND, f"member {key.member_id} has no share session")
        if epoch != FINAL_EPOCH:
            if epoch != session.epoch:
                raise KafkaError(
                    ErrorCode.INVALID_SHARE_SESSION_EPOCH, f"share session epoch {epoch}, expected {session.epoch}"
                )
            session.epoch = next_epoch(epoch)
        return session

    def update(
        self,
        key: SessionKey,
        epoch: int,
        added: Iterable[TopicPartition],
        forgotten: Iterable[TopicPartition],
        names: Names = no_names,
    ) -> ShareSession:
        """`take`, for a fetch that changes the partitions of the session. Raises KafkaError, also for too many."""
        session = self.take(key, epoch)
        if epoch != FINAL_EPOCH:
            new = [partition for partition in added if partition not in session.partitions]
            _check_size(len(session.partitions) + len(new))
            for partition in new:
                session.partitions[partition] = SessionPartition(names(partition.topic_id), is_due=True)
            for partition in forgotten:
                session.partitions.pop(partition, None)
        return session

    def close(self, key: SessionKey) -> Closed:
        """End the session of a member, after its request with epoch -1. Raises KafkaError if it has none."""
        if key not in self._sessions:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND, f"member {key.member_id} has no share session")
        return self._remove(key)

    def disconnect(self, connection: Hashable) -> list[Closed]:
        """End the sessions of a connection that is closed."""
        return [self._remove(key) for key in list(self._of_connection.get(connection, ()))]

    def clear(self) -> list[Closed]:
        """End all sessions: share groups are no longer enabled."""
        return [self._remove(key) for key in list(self._sessions)]

    def _remove(self, key: SessionKey) -> Closed:
        session = self._sessions.pop(key)
        keys = self._of_connection[session.connection]
        del keys[key]
        if not keys:
            del self._of_connection[session.connection]
        left = self._members.pop(key.group_id) - 1
        if left:
            self._members[key.group_id] = left
        return Closed(key, tuple(session.partitions), not left)


def _check_size(partitions: int) -> None:
    """Raises KafkaError."""
    if partitions > PARTITIONS_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"a share session has at most {PARTITIONS_MAX} partitions")


def rotated(partitions: Collection[TopicPartition], epoch: int) -> list[TopicPartition]:
    """Return the partitions in the order of one fetch: each begins with another, so that all of them get their turn."""
    order = list(partitions)
    at = epoch % len(order) if order and epoch >= 1 else 0
    return order[at:] + order[:at]


def bytes_each(max_bytes: int, partitions: int) -> list[int]:
    """Return the bytes that each of the partitions of a fetch may have, in its order; the first ones get the rest."""
    each, rest = divmod(max_bytes, partitions)
    return [each + rest] + [each] * (partitions - 1) if each else [1] * rest + [0] * (partitions - rest)
