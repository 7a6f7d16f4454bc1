"""A member of a consumer group: reads records, handles each, and commits every second."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from time import monotonic

from confluent_kafka import Consumer, KafkaError, KafkaException

COMMIT_EACH_S = 1.0
# Limit of read-ahead: the lag of a slow member stays in the log, not in its memory.
READ_AHEAD_KB = 512
# Bytes that are fetched from a partition at a time: about ten records.
SLOW_FETCH_BYTES = 4_096
_PASSING = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN})

Wait = Callable[[float], bool]


def member(
    bootstrap: str,
    group: str,
    topics: Sequence[str],
    name: str,
    per_s: float | None,
    session_timeout_ms: int,
    wait: Wait,
) -> None:
    """Run until it is time to stop, then leave the group."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": session_timeout_ms,
            "heartbeat.interval.ms": session_timeout_ms // 5,
            "queued.max.messages.kbytes": READ_AHEAD_KB,
            # Otherwise a slow member would read one partition for minutes while the others wait.
            **({} if per_s is None else {"max.partition.fetch.bytes": SLOW_FETCH_BYTES, "queued.min.messages": 1}),
            "isolation.level": "read_committed",
            "topic.metadata.refresh.interval.ms": 5_000,
        }
    )
    consumer.subscribe(list(topics))
    try:
        commit_at_s = monotonic() + COMMIT_EACH_S
        handled = 0
        while not wait(0.0 if per_s is None else 1 / per_s):
            messages = consumer.consume(500 if per_s is None else 1, 0.2)
            for message in messages:
                error = message.error()
                if error is not None:
                    if error.code() not in _PASSING and not error.retriable():
                        raise KafkaException(error)
                    continue
                if message.value() is not None:
                    json.loads(message.value() or b"")
                handled += 1
            if handled and monotonic() >= commit_at_s:
                _commit(consumer)
                handled, commit_at_s = 0, monotonic() + COMMIT_EACH_S
    finally:
        consumer.close()


def _commit(consumer: Consumer) -> None:
    """Commit the handled records. Records of partitions that a rebalance has moved are read again by the new owner."""
    try:
        consumer.commit(asynchronous=True)
    except KafkaException as error:
        if error.args[0].code() != KafkaError._NO_OFFSET:
            raise
