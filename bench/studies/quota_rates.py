"""The accuracy of a broker's byte-rate quotas: producers and consumers of librdkafka and Java, compared with Apache
Kafka.

Four concurrent clients, each with its own client id and quota, send or read as fast as they can. After the burst that
the windows allow, the rate of the records is measured over the given time: for producers by the end of their topic, for
consumers by their output or received records. A quota counts about a percent more: requests and answers with their
headers.

Kafka drops windows as a whole, so that its clients alternate between bursts and throttle times of up to all windows. It
is random which of these are within the measured time.
"""

import asyncio
import contextlib
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.launch import kafka_dist
from bench.studies.goals import Figures
from bench.targets.brokers import BrokerCy, Kafka, Target
from broker_cy.admin import AdminClient

RECORD_BYTES = 10_000
# The largest request or answer of librdkafka.
REQUEST_BYTES = 100_000
WARM_UP_S = 20.0  # usage before the first throttling leaves the windows after 11 s
TARGETS: dict[str, Callable[[Path], Target]] = {"": BrokerCy, "kafka_": Kafka}
_TOOLS = "org.apache.kafka.tools."

Bytes = Callable[[], float]


def bootstrap(target: Target) -> str:
    return "{}:{}".format(*target.address)


async def set_quota(target: Target, client_id: str, key: str, rate: float) -> None:
    async with AdminClient(bootstrap(target)) as client:
        await client.quotas.alter({"client-id": client_id}, {key: rate})


@contextlib.contextmanager
def java(name: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """One of Kafka's tools, which is ended with the context."""
    process = subprocess.Popen(
        [*kafka_dist.tool_command(_TOOLS + name), *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def thread(work: Callable[[threading.Event], None]) -> Iterator[None]:
    stop = threading.Event()
    running = threading.Thread(target=work, args=(stop,))
    running.start()
    try:
        yield
    finally:
        stop.set()
        running.join()


@contextlib.contextmanager
def end_of(target: Target, topic: str) -> Iterator[Bytes]:
    """Bytes of the records in the topic, without a quota."""
    watcher = Consumer({"bootstrap.servers": bootstrap(target), "group.id": "watcher", "client.id": "watcher"})
    try:
        yield lambda: watcher.get_watermark_offsets(TopicPartition(topic, 0), 30.0, False)[1] * float(RECORD_BYTES)
    finally:
        watcher.close()


@contextlib.contextmanager
def librdkafka_producer(target: Target, topic: str) -> Iterator[Bytes]:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap(target),
            "client.id": topic,
            "queue.buffering.max.messages": 100,
            "batch.size": REQUEST_BYTES,
        }
    )
    value = os.urandom(RECORD_BYTES)

    def send(stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                producer.produce(topic, value, partition=0)
            except BufferError:
                producer.poll(0.05)
        producer.purge()

    with end_of(target, topic) as end, thread(send):
        yield end


@contextlib.contextmanager
def java_producer(target: Target, topic: str) -> Iterator[Bytes]:
    options = ["--num-records", "100000000", "--record-size", str(RECORD_BYTES), "--throughput", "-1"]
    properties = [f"bootstrap.servers={bootstrap(target)}", f"client.id={topic}", "acks=1"]
    with (
        end_of(target, topic) as end,
        java("ProducerPerformance", "--topic", topic, *options, "--producer-props", *properties) as process,
        thread(lambda stop: _drain(process, [0.0])),
    ):
        yield end
        process.kill()


def fill(target: Target, topic: str, size: float) -> None:
    settings = {"bootstrap.servers": bootstrap(target), "client.id": "filler", "batch.num.messages": 1}
    # The last batch of an answer may be truncated, and that part is wasted, so batches must be small.
    producer = Producer(settings)
    value = os.urandom(RECORD_BYTES // 2).hex().encode()
    for _ in range(int(size / RECORD_BYTES)):
        while True:
            try:
                producer.produce(topic, value, partition=0)
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush(120)


@contextlib.contextmanager
def librdkafka_consumer(target: Target, topic: str) -> Iterator[Bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap(target),
            "client.id": topic,
            "group.id": topic,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    got = [0.0]

    def read(stop: threading.Event) -> None:
        while not stop.is_set():
            got[0] += sum(len(message.value() or b"") for message in consumer.consume(100, 0.1))

    with thread(read):
        yield lambda: got[0]
    consumer.close()


@contextlib.contextmanager
def java_consumer(target: Target, topic: str) -> Iterator[Bytes]:
    options = ["--bootstrap-server", bootstrap(target), "--topic", topic, "--from-beginning"]
    properties = ["--consumer-property", f"client.id={topic}"]
    got = [0.0]
    with (
        java("consumer.ConsoleConsumer", *options, *properties) as process,
        thread(lambda stop: _drain(process, got)),
    ):
        yield lambda: got[0]
        process.kill()


def _drain(process: subprocess.Popen[bytes], got: list[float]) -> None:
    """Count the output of the process until it ends."""
    assert process.stdout is not None
    while part := os.read(process.stdout.fileno(), 1 << 20):
        got[0] += len(part)


CLIENTS = {
    "librdkafka producer": ("producer_byte_rate", librdkafka_producer),
    "Java producer": ("producer_byte_rate", java_producer),
    "librdkafka consumer": ("consumer_byte_rate", librdkafka_consumer),
    "Java consumer": ("consumer_byte_rate", java_consumer),
}


def measure(target: Target, rate: float, seconds: float) -> dict[str, float]:
    """Bytes a second of each client."""
    with contextlib.ExitStack() as stack:
        counts: dict[str, Bytes] = {}
        for name, (key, client) in CLIENTS.items():
            topic = name.replace(" ", "-")
            target.create_topic(topic, 1)
            if key == "consumer_byte_rate":
                fill(target, topic, rate * (seconds + WARM_UP_S + 15) * 1.1)
            asyncio.run(set_quota(target, topic, key, rate))
            counts[name] = stack.enter_context(client(target, topic))
        time.sleep(WARM_UP_S)
        before = {name: (time.monotonic(), count()) for name, count in counts.items()}
        time.sleep(seconds)
        found = {}
        for name, count in counts.items():
            began_s, already = before[name]
            found[name] = (count() - already) / (time.monotonic() - began_s)
        return found


def quota_figures(rate: float, seconds: float) -> Figures:
    """The rates in percent of the quota. Raises ProcessError if Kafka cannot run here."""
    found: Figures = {}
    for name, make in TARGETS.items():
        with tempfile.TemporaryDirectory() as directory, make(Path(directory) / "data").running() as target:
            for client, got in measure(target, rate, seconds).items():
                found[f"{name}quota_{client.replace(' ', '_').lower()}_percent"] = got / rate * 100
    return found
