"""A member of a consumer group as a process: python -m tests.support.group_member BOOTSTRAP GROUP TOPIC FILE.

Appends every record to FILE (in the form of `clients.pack`), then commits; until it is killed.
"""

from __future__ import annotations

import sys

from confluent_kafka import Consumer, KafkaError

from tests.support.clients import pack, pair_of

# Longer than a busy machine delays a member: only a killed member loses its session.
SESSION_MS = 10_000


def main(bootstrap: str, group: str, topic: str, path: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 200,
            "topic.metadata.refresh.interval.ms": 200,
            "allow.auto.create.topics": False,
            "fetch.wait.max.ms": 50,
            "max.partition.fetch.bytes": 50_000,
            "fetch.message.max.bytes": 50_000,
        }
    )
    consumer.subscribe([topic])
    with open(path, "ab", buffering=0) as out:
        while True:
            messages = consumer.consume(200, 0.2)
            records = []
            for message in messages:
                error = message.error()
                if error is None:
                    records.append(pair_of(message))
                elif error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise SystemExit(f"{error}")
            if records:
                out.write(pack(records))
                consumer.commit(asynchronous=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
