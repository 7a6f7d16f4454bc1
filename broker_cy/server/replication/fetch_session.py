"""The partitions that one follower fetches from one leader, and the requests and answers of their fetch session
(KIP-227).

A pure state: no connection, no clock. A request has only the partitions whose position has changed since the last
one; the leader knows the others. A partition that has something that is not written yet is taken out of the session:
its fetch offset would acknowledge that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker_cy.core.errors import ErrorCode
from broker_cy.replica import following
from broker_cy.wire import messages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from uuid import UUID

    from broker_cy.config import BrokerConfig
    from broker_cy.replica.following import Ask
    from broker_cy.replica.partition import Partition

NEW_SESSION = 0
EPOCH_MAX = 0x7FFFFFFF
# Answers after which a session has to begin again.
_SESSION_ENDED = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)

Key = tuple["UUID", int]  # topic id and partition index


class Fetched(NamedTuple):
    """An answer for one partition, and what it was asked."""

    partition: Partition
    asked: Ask
    data: messages.FetchResponse.PartitionData


class FetchSession:
    """Invariant: `asked` is what the leader has in the session, if `epoch` is not NEW_SESSION."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self.session_id = 0
        self.epoch = NEW_SESSION
        self.partitions: dict[Key, Partition] = {}
        self.asked: dict[Key, Ask] = {}
        self._changed: set[Key] = set()
        self._paused: set[Key] = set()

    def add(self, partition: Partition) -> None:
        """Fetch a partition, or fetch it again after `pause`. A topic created again has another id."""
        key = (partition.topic_id, partition.index)
        self.partitions[key] = partition
        self._paused.discard(key)
        self._changed.add(key)

    def pause(self, partition: Partition) -> None:
        """Do not fetch a partition until `add`."""
        key = (partition.topic_id, partition.index)
        self._paused.add(key)
        self._changed.add(key)

    def remove(self, partition: Partition) -> None:
        key = (partition.topic_id, partition.index)
        if self.partitions.pop(key, None) is not None:
            self._changed.add(key)
        self._paused.discard(key)

    def note(self, partition: Partition) -> None:
        """The position of a partition may have changed."""
        key = (partition.topic_id, partition.index)
        if key in self.partitions:
            self._changed.add(key)

    def restart(self) -> None:
        """The leader does not have the session any more, or the connection is another one."""
        self.session_id, self.epoch = 0, NEW_SESSION
        self.asked.clear()
        self._changed.update(self.partitions)

    def request(self, broker_id: int, broker_epoch: int) -> messages.FetchRequest | None:
        """The next request, or None if no partition can be fetched now."""
        config = self._config
        wanted: dict[UUID, list[messages.FetchRequest.FetchPartition]] = {}
        forgotten: dict[UUID, list[int]] = {}
        for key in sorted(self._changed):
            ask = self._ask(key)
            if ask is None:
                if self.asked.pop(key, None) is not None:
                    forgotten.setdefault(key[0], []).append(key[1])
            elif self.asked.get(key) != ask:
                self.asked[key] = ask
                wanted.setdefault(key[0], []).append(
                    messages.FetchRequest.FetchPartition(
                        partition=key[1],
                        current_leader_epoch=ask.leader_epoch,
                        fetch_offset=ask.offset,
                        last_fetched_epoch=ask.last_fetched_epoch,
                        log_start_offset=self.partitions[key].log.log_start_offset,
                        partition_max_bytes=config["replica.fetch.max.bytes"],
                    )
                )
        self._changed.clear()
        if not self.asked:
            return None
        return messages.FetchRequest(
            replica_state=messages.FetchRequest.ReplicaState(replica_id=broker_id, replica_epoch=broker_epoch),
            max_wait_ms=config["replica.fetch.wait.max.ms"],
            min_bytes=config["replica.fetch.min.bytes"],
            max_bytes=config["replica.fetch.response.max.bytes"],
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[
                messages.FetchRequest.FetchTopic(topic_id=topic_id, partitions=each)
                for topic_id, each in wanted.items()
            ],
            forgotten_topics_data=[
                messages.FetchRequest.ForgottenTopic(topic_id=topic_id, partitions=each)
                for topic_id, each in forgotten.items()
            ],
        )

    def _ask(self, key: Key) -> Ask | None:
        partition = self.partitions.get(key)
        if partition is None or key in self._paused or partition.closed or partition.offline is not None:
            return None
        return following.ask(partition.replica, partition.log.epochs)

    def take(self, response: messages.FetchResponse) -> Iterator[Fetched]:
        """Note an answer, and return what it has for partitions that are still fetched."""
        code = ErrorCode(response.error_code)
        if code is not ErrorCode.NONE or response.session_id == 0:
            # Without a session, each request names all partitions.
            asked = dict(self.asked)
            self.restart()
            return iter(()) if code is not ErrorCode.NONE else self._parts(response, asked)
        self.session_id = response.session_id
        self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1
        return self._parts(response, self.asked)

    def _parts(self, response: messages.FetchResponse, asked: dict[Key, Ask]) -> Iterator[Fetched]:
        for topic in response.responses:
            for data in topic.partitions:
                key = (topic.topic_id, data.partition_index)
                partition = self.partitions.get(key)
                if partition is not None and key in asked and key not in self._paused:
                    yield Fetched(partition, asked[key], data)

    def ended(self, response: messages.FetchResponse) -> bool:
        """Whether the answer only says that the session has to begin again, at once."""
        return response.error_code in _SESSION_ENDED

    def all(self) -> Iterable[Partition]:
        return self.partitions.values()
