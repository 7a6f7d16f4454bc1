"""The partitions that one follower fetches from one leader, and the requests and answers of their fetch session
(KIP-227).

A pure state: no connection, no clock. A request has only the partitions whose position has changed since the last
one; the leader knows the others. A partition that has something that is not written yet is taken out of the session:
its fetch offset would acknowledge that. So is one that a throttle holds (KIP-73), until its rate allows the next fetch.
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
    from broker_cy.replica.throttle import ReplicaThrottle

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

    def __init__(self, node_id: int, config: BrokerConfig, throttle: ReplicaThrottle) -> None:
        self._node_id = node_id
        self._config = config
        self._throttle = throttle
        self.session_id = 0
        self.epoch = NEW_SESSION
        self.partitions: dict[Key, Partition] = {}
        self.asked: dict[Key, Ask] = {}
        self._changed: set[Key] = set()
        self._paused: set[Key] = set()
        self._forgotten: set[Key] = set()  # no longer in `asked`, of which the leader does not know yet
        self._held: set[Key] = set()  # by the throttle, when the last request was made
        self._is_exceeded = False  # the throttle, when the last request was made
        self._high: dict[Key, int] = {}  # the leader's high watermark, as last answered

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
        self._held.discard(key)
        self._high.pop(key, None)

    def note(self, partition: Partition) -> None:
        """The position of a partition may have changed."""
        key = (partition.topic_id, partition.index)
        if key in self.partitions:
            self._changed.add(key)

    def restart(self) -> None:
        """The leader does not have the session any more, or the connection is another one."""
        self.session_id, self.epoch = 0, NEW_SESSION
        self.asked.clear()
        self._forgotten.clear()
        self._changed.update(self.partitions)

    def request(self, broker_epoch: int, now_ms: int) -> messages.FetchRequest | None:
        """The next request, or None if no partition can be fetched now."""
        self._hold(now_ms)
        config = self._config
        wanted: dict[UUID, list[messages.FetchRequest.FetchPartition]] = {}
        for key in sorted(self._changed):
            ask = self._ask(key)
            if ask is None:
                if self.asked.pop(key, None) is not None:
                    self._forgotten.add(key)
            elif self.asked.get(key) != ask:
                self.asked[key] = ask
                self._forgotten.discard(key)
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
        forgotten: dict[UUID, list[int]] = {}
        for key in sorted(self._forgotten):
            forgotten.setdefault(key[0], []).append(key[1])
        self._forgotten.clear()
        return messages.FetchRequest(
            replica_state=messages.FetchRequest.ReplicaState(replica_id=self._node_id, replica_epoch=broker_epoch),
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
        ask = following.ask(partition.replica, partition.log.epochs)
        if self._is_exceeded and ask is not None and self._waits(key, partition, ask):
            self._held.add(key)
            return None
        return ask

    def _waits(self, key: Key, partition: Partition, ask: Ask) -> bool:
        """Whether the throttle is for this replica: neither in the in-sync set, nor about to join it."""
        in_sync = partition.assigned is not None and self._node_id in partition.assigned.isr
        has_all = ask.offset >= self._high.get(key, ask.offset + 1)
        return not in_sync and not has_all and self._throttle.lists(partition.topic, partition.index)

    def _hold(self, now_ms: int) -> None:
        """Take the partitions out that the throttle holds, or fetch them again."""
        self._is_exceeded = self._throttle.is_exceeded(now_ms)
        self._changed.update(self._held)
        self._held.clear()
        if self._is_exceeded:
            lists = self._throttle.lists
            self._changed.update(key for key in self.asked if lists(self.partitions[key].topic, key[1]))

    def held_ms(self, now_ms: int) -> int | None:
        """The time until partitions can be fetched that were held at the last request; None if none was."""
        return self._throttle.wait_ms(now_ms) if self._held else None

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
                    if data.error_code == ErrorCode.NONE:
                        self._high[key] = data.high_watermark
                    yield Fetched(partition, asked[key], data)

    def ended(self, response: messages.FetchResponse) -> bool:
        """Whether the answer only says that the session has to begin again, at once."""
        return response.error_code in _SESSION_ENDED

    def all(self) -> Iterable[Partition]:
        return self.partitions.values()
