"""The effect on clients when a node is killed: the longest time without an acknowledgement, and errors.

A producer with librdkafka's default settings (acks=all) writes a small record to each partition of a topic in turn. The
leaders of its partitions are spread over all nodes, so some partitions lose their leader whichever node is killed.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from time import monotonic
from typing import Any

from confluent_kafka import Producer

from demo.topics import HEARTBEATS

# A gap is known to this precision.
EVERY_S = 0.01
FLUSH_S = 2.0
# While no node answers, records wait here; further ones are not sent.
QUEUE_MAX = 10_000


@dataclass(slots=True)
class Gaps:
    """The measurements: `last_s` is the last acknowledgement of each partition, `longest_s` the longest time between
    two, `after` the partitions that acknowledged a record which was sent after `since_s`, when the node was gone.
    """

    since_s: float
    last_s: list[float]
    longest_s: list[float]
    after: set[int] = field(default_factory=set)
    errors: int = 0
    error: str = ""

    def acknowledged(self, partition: int, sent_s: float, now_s: float) -> None:
        self.longest_s[partition] = max(self.longest_s[partition], now_s - self.last_s[partition])
        self.last_s[partition] = now_s
        if sent_s >= self.since_s:
            self.after.add(partition)

    @property
    def is_over(self) -> bool:
        """Whether every partition takes records again."""
        return len(self.after) == len(self.last_s)

    @property
    def worst(self) -> tuple[float, int]:
        """The longest gap in seconds, and its partition."""
        return max((each, partition) for partition, each in enumerate(self.longest_s))


class Heartbeats:
    """The producer, in a thread of its own."""

    def __init__(self, bootstrap: str, partitions: int, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        now_s = clock()
        self._gaps = Gaps(now_s, [now_s] * partitions, [0.0] * partitions)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": "heartbeats",
                "queue.buffering.max.messages": QUEUE_MAX,
                # Brokers that are down are expected here: librdkafka would log them each second.
                "log_level": 0,
            }
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeats", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def watch(self) -> None:
        """Begin to measure again: a node is about to be killed, and `killed` follows."""
        with self._lock:
            self._gaps = Gaps(inf, list(self._gaps.last_s), [0.0] * len(self._gaps.last_s))

    def killed(self) -> None:
        """The node is gone: records acknowledged from now on were written by other nodes."""
        with self._lock:
            self._gaps.since_s = self._clock()

    def noticed(self) -> Gaps | None:
        """The measurements since `watch`; None until every partition takes records again."""
        with self._lock:
            return self._gaps if self._gaps.is_over else None

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            sent_s = self._clock()
            partition = number % len(self._gaps.last_s)
            number += 1
            with contextlib.suppress(BufferError):
                self._producer.produce(
                    HEARTBEATS, b"%d" % number, partition=partition, on_delivery=self._answer(partition, sent_s)
                )
            # Acknowledgements are called from here; the wait is also the pace.
            until_s = sent_s + EVERY_S
            while (left_s := until_s - self._clock()) > 0:
                self._producer.poll(left_s)
        self._producer.flush(FLUSH_S)

    def _answer(self, partition: int, sent_s: float) -> Callable[[Any, Any], None]:
        def answer(error: Any, message: Any) -> None:
            with self._lock:
                if error is None:
                    self._gaps.acknowledged(partition, sent_s, self._clock())
                else:
                    self._gaps.errors += 1
                    self._gaps.error = str(error)

        return answer
