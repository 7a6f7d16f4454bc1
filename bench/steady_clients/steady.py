"""CLIENT BOOTSTRAP TOPIC GROUP PARTITIONS: write and read at a steady rate with a Python client until stdin ends.

A record goes to each partition every 10 ms. The settings are the client's defaults, except that every producer waits
for all replicas (acks=all), and that a group begins at the start of the topic; with the group `-` nothing is read. Each
line of stdout is `acked N PARTITION OFFSET SENT ACKED` (microseconds of the system's clock), `failed N TEXT`, `read N`,
`error TEXT` (an exception of a consumer), or `done`.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from typing import Any

EVERY_S = 0.01
NO_GROUP = "-"
FLUSH_S = 90.0
over = threading.Event()


def say(*words: object) -> None:
    """Print one line; lines of several threads must not be mixed."""
    sys.stdout.write(" ".join(map(str, words)).replace("\n", " ") + "\n")
    sys.stdout.flush()


def say_read(found: dict[Any, list[Any]]) -> None:
    """The records of a poll, by partition."""
    for records in found.values():
        for record in records:
            say("read", record.value.decode())


def now_us() -> int:
    """The system's clock, which the processes of a machine share."""
    return time.time_ns() // 1000


def confluent(bootstrap: str, topic: str, group: str, partitions: int) -> None:
    from confluent_kafka import Consumer, Producer

    quiet = {"bootstrap.servers": bootstrap, "log_level": 2}

    def read() -> None:
        consumer = Consumer({**quiet, "group.id": group, "auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        while not over.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is not None:
                say("error", message.error())
            elif message is not None:
                say("read", (message.value() or b"").decode())
        consumer.close()

    reader = threading.Thread(target=read)
    if group != NO_GROUP:
        reader.start()
    producer = Producer(quiet)
    number = 0
    while not over.is_set():

        def delivered(error: Any, message: Any, number: int = number, sent_us: int = now_us()) -> None:
            if error is not None:
                say("failed", number, error)
            else:
                say("acked", number, message.partition(), message.offset(), sent_us, now_us())

        producer.produce(topic, b"%d" % number, partition=number % partitions, on_delivery=delivered)
        number += 1
        if number % partitions == 0:
            due_s = time.monotonic() + EVERY_S
            # Acknowledgements are reported inside poll, which returns after each of them.
            while (wait_s := due_s - time.monotonic()) > 0:
                producer.poll(wait_s)
    if left := producer.flush(FLUSH_S):
        say("error", f"{left} records were not answered")
    if group != NO_GROUP:
        reader.join()


def kafka_python(bootstrap: str, topic: str, group: str, partitions: int) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    def read() -> None:
        consumer = KafkaConsumer(
            topic, bootstrap_servers=bootstrap.split(","), group_id=group, auto_offset_reset="earliest"
        )
        while not over.is_set():
            try:
                found = consumer.poll(timeout_ms=100)
            except Exception as error:
                say("error", repr(error))
                continue
            say_read(found)
        consumer.close()

    reader = threading.Thread(target=read)
    if group != NO_GROUP:
        reader.start()
    producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), acks="all")
    number = 0
    while not over.is_set():
        sent_us = now_us()
        try:
            future = producer.send(topic, b"%d" % number, partition=number % partitions)
        except Exception as error:
            say("failed", number, repr(error))
        else:

            def acked(found: Any, number: int = number, sent_us: int = sent_us) -> None:
                say("acked", number, found.partition, found.offset, sent_us, now_us())

            def failed(error: BaseException, number: int = number) -> None:
                say("failed", number, repr(error))

            future.add_callback(acked).add_errback(failed)
        number += 1
        if number % partitions == 0:
            time.sleep(EVERY_S)
    producer.flush(FLUSH_S)
    producer.close(FLUSH_S)
    if group != NO_GROUP:
        reader.join()


def aiokafka(bootstrap: str, topic: str, group: str, partitions: int) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async def read() -> None:
        consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest")
        await consumer.start()
        while not over.is_set():
            try:
                found = await consumer.getmany(timeout_ms=100)
            except Exception as error:
                say("error", repr(error))
                continue
            say_read(found)
        await consumer.stop()

    async def write() -> None:
        reading = asyncio.create_task(read()) if group != NO_GROUP else None
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all")
        await producer.start()
        waiting = set()
        number = 0

        async def one(number: int, answer: Any, sent_us: int) -> None:
            try:
                found = await answer
            except Exception as error:
                say("failed", number, repr(error))
            else:
                say("acked", number, found.partition, found.offset, sent_us, now_us())

        while not over.is_set():
            sent_us = now_us()
            try:
                answer = await producer.send(topic, b"%d" % number, partition=number % partitions)
            except Exception as error:
                say("failed", number, repr(error))
            else:
                task = asyncio.create_task(one(number, answer, sent_us))
                waiting.add(task)
                task.add_done_callback(waiting.discard)
            number += 1
            if number % partitions == 0:
                await asyncio.sleep(EVERY_S)
        if waiting:
            await asyncio.wait(waiting, timeout=FLUSH_S)
        await producer.stop()
        if reading is not None:
            await reading

    asyncio.run(write())


CLIENTS = {"confluent-kafka": confluent, "kafka-python": kafka_python, "aiokafka": aiokafka}


def main() -> None:
    name, bootstrap, topic, group, partitions = sys.argv[1:]

    def wait_for_the_end() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    CLIENTS[name](bootstrap, topic, group, int(partitions))
    say("done")


if __name__ == "__main__":
    main()
