"""The base of all clients of a workload: a thread that makes random steps, and settings of confluent-kafka."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Any

from confluent_kafka import Message

if TYPE_CHECKING:
    from tests.history.workload import Workload

TIMEOUT_S = 60.0
# The longest time of one client call before the client checks whether the workload is over.
CALL_S = 5.0
UNANSWERED_MAX = 300
SOON: dict[str, Any] = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 100,
    # Without this, librdkafka 2.16 closes its handle while the only broker is down, and may wait for that forever.
    "metadata.recovery.strategy": "none",
    # Refused connections are expected in these tests.
    "log_level": 2,
}


class Client(threading.Thread):
    """Makes random steps until the workload is over; an exception in it fails the test."""

    def __init__(self, work: Workload, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.work = work
        self.random = random.Random(f"{work.seed} {name}")
        self.failure: BaseException | None = None
        self.steps = 0

    def run(self) -> None:
        try:
            self.begin()
            while not self.work.over.is_set():
                self.step()
                self.steps += 1
            self.end()
        except BaseException as error:
            self.failure = error

    def begin(self) -> None: ...
    def step(self) -> None: ...
    def end(self) -> None: ...


# Codes after which a record may have been written: REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS_AFTER_APPEND.
UNSURE = (7, 20)


def value_of(message: Message) -> str:
    value = message.value()
    assert value is not None
    return value.split(b":", 1)[0].decode()
