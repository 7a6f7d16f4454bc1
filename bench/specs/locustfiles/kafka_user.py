"""A locustfile for locust-plugins' KafkaUser, run by a separate locust: see `bench.launch.kafka_user`.

BENCH_BOOTSTRAP, BENCH_TOPIC and BENCH_FORM select the target and the form in which values of 100 B are sent;
BENCH_RESULT is the file for the figures. They count KafkaUser's own reports of librdkafka's acknowledgements, from
BENCH_WARM_UP_S after its users were spawned.

The forms: `plain` sends with KafkaUser's defaults. (KafkaUser's own example also calls poll(1) after each send, which
waits for a whole second, because `send` has already waited for the only report; locust then does not end in time.)
`linger` sets linger.ms=0 in place of librdkafka's 5 ms. `polled` replaces the producer's `poll`, so that `send` waits
for nothing (SvenskaSpel/locust-plugins#95): librdkafka then sends many records in each request.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

import gevent
from confluent_kafka import Producer
from locust import events, task
from locust_plugins.users.kafka import KafkaUser

FORM = os.environ["BENCH_FORM"]
TOPIC = os.environ["BENCH_TOPIC"]
WARM_UP_S = float(os.environ["BENCH_WARM_UP_S"])
VALUE = b"x" * 100
# The time that a user waits for room in librdkafka's queue.
FULL_S = 0.01

_begun: dict[str, float] = {}


class _Unwaiting(Producer):
    """A producer whose `poll` serves arrived reports and does not wait."""

    def poll(self, timeout: float = 0.0) -> int:
        return int(super().poll(timeout))


class Sender(KafkaUser):  # type: ignore[misc]
    """Sends one value after the other."""

    bootstrap_servers = os.environ["BENCH_BOOTSTRAP"]

    def on_start(self) -> None:
        settings = {"bootstrap.servers": self.bootstrap_servers}
        if FORM == "linger":
            self.client.producer = Producer({**settings, "linger.ms": 0})
        elif FORM == "polled":
            self.client.producer = _Unwaiting(settings)

    @task
    def send(self) -> None:
        try:
            self.client.send(TOPIC, VALUE)
        except BufferError:
            self.client.producer.poll(FULL_S)


def _now(environment: Any) -> dict[str, float]:
    total = environment.stats.total
    return {
        "seconds": time.monotonic(),
        "cpu_s": time.process_time(),
        "acknowledged": total.num_requests - total.num_failures,
        "failed": total.num_failures,
    }


@events.init.add_listener  # type: ignore[untyped-decorator]
def _prepare(environment: Any, **_: Any) -> None:
    environment.events.spawning_complete.add_listener(lambda **_: gevent.spawn_later(WARM_UP_S, _begin, environment))
    environment.events.test_stop.add_listener(lambda **_: _end(environment))


def _begin(environment: Any) -> None:
    _begun.update(_now(environment))


def _end(environment: Any) -> None:
    figures = {name: value - _begun[name] for name, value in _now(environment).items()}
    Path(os.environ["BENCH_RESULT"]).write_text(json.dumps(figures))
