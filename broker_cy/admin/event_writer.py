"""Writes the events of a program into `__cluster_events` of a cluster, which only clusters of broker-cy have.

None delays the program: while the cluster does not answer, the newest WAITING_MAX of them wait. One whose answer is
lost is written again. Brokers take them from the client id of their own writes. With an authorizer, the principal needs
ClusterAction; without that, nothing is written.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from broker_cy.admin.client import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.produce import Producer
from broker_cy.client.errors import ClientError
from broker_cy.core.errors import ErrorCode
from broker_cy.metrics.events import TOPIC, Event, Stamped, encode
from broker_cy.wire.records import Record

WAITING_MAX: Final = 200
NO_BROKER: Final = -1
"""The id of the broker in events that no broker wrote."""
_DENIED: Final = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION})
_log = logging.getLogger(__name__)


class EventWriter:
    """Writes with the client that `connect` returns, which is created with the first event. `what` names the program,
    such as `flow A->B`.
    """

    def __init__(self, connect: Callable[[], AdminClient], what: str) -> None:
        self._connect, self._what = connect, what
        self._client: AdminClient | None = None
        self._producer: Producer | None = None
        self._waiting: deque[tuple[int, Event]] = deque(maxlen=WAITING_MAX)
        self._is_denied = False

    async def write(self, events: Iterable[Event], now_ms: int) -> None:
        """Write events, and those that wait; returns if they cannot be written now."""
        if self._is_denied:
            return
        self._waiting.extend((now_ms, each) for each in events)
        if not self._waiting:
            return
        records = []
        for time_ms, event in self._waiting:
            key, value = encode(Stamped(time_ms, NO_BROKER, event))
            records.append(Record(timestamp=time_ms, key=key, value=value))
        try:
            if self._client is None or self._producer is None:
                self._client = self._connect()
                self._producer = Producer(self._client.caller)
            await self._producer.send_batch(TopicPartition(TOPIC, 0), records)
        except ClientError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                # The cluster is one of Apache Kafka, or writes no events.
                self._waiting.clear()
            elif error.code in _DENIED:
                self._is_denied = True
                _log.warning("%s writes no events: %s", self._what, error)
            return
        self._waiting.clear()

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
