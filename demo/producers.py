"""Three producers: an idempotent one that writes most records, a plain one with headers, and a transactional one."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from time import monotonic

from confluent_kafka import KafkaException, Producer

from demo.packages import Package
from demo.topics import AUDIT, INDEX, PACKAGES, UPDATES

# Records that wait to be sent; while the broker is unavailable, the producer waits, so that memory is bounded.
QUEUE_MAX = 10_000
TRANSACTION_RECORDS = 20
# One in ABORT_EACH transactions is aborted, and one in LINGER_EACH is left open for a while.
ABORT_EACH = 5
LINGER_EACH = 8
LINGER_S = 12.0
TIMEOUT_S = 30.0

Wait = Callable[[float], bool]
"""Waits for the given seconds; returns whether to stop."""


def _producer(bootstrap: str, name: str, **settings: object) -> Producer:
    common = {"bootstrap.servers": bootstrap, "client.id": name, "queue.buffering.max.messages": QUEUE_MAX}
    return Producer({**common, **settings})


def _write(
    producer: Producer, topic: str, key: bytes, value: bytes | None, headers: dict[str, bytes] | None = None
) -> None:
    while True:
        try:
            producer.produce(topic, value, key, headers=list((headers or {}).items()))
            producer.poll(0)
        except BufferError:
            producer.poll(0.5)
        else:
            return


def _paced(per_s: float, wait: Wait, write: Callable[[int], None]) -> None:
    """Call `write` with 0, 1, 2 ... at this rate, until it is time to stop."""
    begun = monotonic()
    for number in itertools.count():
        ahead_s = begun + number / per_s - monotonic()
        # Short waits are combined: each is a system call, and 200 per second would take most of the demo's CPU.
        if wait(ahead_s if ahead_s > 0.02 else 0.0):
            return
        write(number)


def mirror(bootstrap: str, found: Sequence[Package], per_s: float, wait: Wait) -> None:
    """Write every package repeatedly; idempotent, zstd."""
    producer = _producer(
        bootstrap, "mirror", **{"enable.idempotence": True, "compression.type": "zstd", "linger.ms": 50}
    )

    def write(number: int) -> None:
        package = found[number % len(found)]
        _write(producer, PACKAGES, package.key, package.record(number))

    _paced(per_s, wait, write)
    producer.flush(TIMEOUT_S)


def watcher(bootstrap: str, found: Sequence[Package], per_s: float, wait: Wait) -> None:
    """Write news of random packages, with headers; acks=1, and an occasional tombstone."""
    producer = _producer(bootstrap, "watcher", acks=1, **{"compression.type": "gzip", "linger.ms": 20})
    dice = random.Random(7)

    def write(number: int) -> None:
        package = dice.choice(found)
        headers = {"content-type": b"application/json", "trace-id": f"{dice.getrandbits(64):016x}".encode()}
        value = package.record(number, kind=dice.choice(("checked", "rebuilt", "upgraded")))
        _write(producer, UPDATES, package.key, None if number % 50 == 49 else value, headers)

    _paced(per_s, wait, write)
    producer.flush(TIMEOUT_S)


def publisher(bootstrap: str, found: Sequence[Package], per_s: float, wait: Wait) -> None:
    """Write the newest version of packages and an audit record in transactions; some are aborted, some stay open for
    long.
    """
    settings: dict[str, object] = {"transactional.id": "publisher", "transaction.timeout.ms": 60_000, "linger.ms": 20}
    numbers = itertools.count()
    for attempt in itertools.count():
        producer = _producer(bootstrap, "publisher", **settings)
        try:
            producer.init_transactions(TIMEOUT_S)
            while not wait(TRANSACTION_RECORDS / per_s):
                if _transaction(producer, found, next(numbers), wait):
                    return
            return
        except KafkaException:
            # Fenced, or its transaction timed out: a new producer continues.
            if wait(min(5.0, 0.5 * (attempt + 1))):
                return


def _transaction(producer: Producer, found: Sequence[Package], number: int, wait: Wait) -> bool:
    """Run one transaction; returns whether to stop."""
    producer.begin_transaction()
    stop = False
    first = number * TRANSACTION_RECORDS
    for at in range(first, first + TRANSACTION_RECORDS):
        package = found[at % len(found)]
        _write(producer, INDEX, package.key, package.record(at))
    _write(producer, AUDIT, b"publisher", f"published packages {first} to {at}".encode())
    if number % LINGER_EACH == LINGER_EACH - 1:
        producer.flush(TIMEOUT_S)
        stop = wait(LINGER_S)
    if stop or number % ABORT_EACH == ABORT_EACH - 1:
        producer.abort_transaction(TIMEOUT_S)
    else:
        producer.commit_transaction(TIMEOUT_S)
    return stop


KINDS: dict[str, Callable[[str, Sequence[Package], float, Wait], None]] = {
    "mirror": mirror,
    "watcher": watcher,
    "publisher": publisher,
}
