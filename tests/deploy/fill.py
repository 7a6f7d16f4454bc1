"""Fills a topic: python -m tests.deploy.fill CONFIG BOOTSTRAP TOPIC PARTITIONS GB, on the network of a lab."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from broker_cy.client.security import librdkafka_settings, read_command_config

RECORD_BYTES = 100_000
FLUSH_S = 300.0
SETTINGS = {"linger.ms": 5, "batch.size": 1_000_000, "queue.buffering.max.kbytes": 200_000}


def main(config: str, bootstrap: str, topic: str, partitions: str, gigabytes: str) -> None:
    producer = Producer(
        {**librdkafka_settings(read_command_config(Path(config)), config), "bootstrap.servers": bootstrap, **SETTINGS}
    )
    value = os.urandom(RECORD_BYTES)
    refused: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            refused.append(error)

    for number in range(int(float(gigabytes) * 1e9 / RECORD_BYTES)):
        while True:
            try:
                producer.produce(topic, value, partition=number % int(partitions), on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    left = producer.flush(FLUSH_S)
    if left or refused:
        raise SystemExit(f"{left} records without an answer, {len(refused)} refused: {refused[:3]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
