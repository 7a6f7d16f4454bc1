"""A member of a group as a process: `python -m bench.drivers.group_member TOPIC`, see bench.drivers.group.

The first line of stdin has librdkafka's settings as JSON, because some are secrets. Lines on stdout:
`assigned PARTITIONS`, `took AT_NS PARTITION FIRST LAST` (offsets, including the last), `failed TEXT`. It leaves the
group in order when its stdin ends, also because its parent ended.
"""

import contextlib
import json
import os
import select
import signal
import sys
import time

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

POLL_S = 0.01
TAKE_RECORDS = 1000  # at most at once: they get the same time of arrival


def serve(consumer: Consumer, topic: str) -> None:
    """Consume until stdin ends. Raises KafkaException."""

    def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
        held.update(at.partition for at in partitions)
        say(f"assigned {len(held)}")

    def revoked(_: Consumer, partitions: list[TopicPartition]) -> None:
        held.difference_update(at.partition for at in partitions)
        say(f"assigned {len(held)}")

    held: set[int] = set()
    consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
    while not select.select([sys.stdin], [], [], 0)[0]:
        first = consumer.poll(POLL_S)
        if first is not None:
            tell([first, *consumer.consume(TAKE_RECORDS - 1, 0)])


def tell(messages: list[Message]) -> None:
    """Print one line for each partition. Raises KafkaException for an error of the target."""
    now_ns = time.monotonic_ns()
    offsets: dict[int, list[int]] = {}
    for message in messages:
        if (error := message.error()) is not None:
            raise KafkaException(error)
        partition, offset = message.partition(), message.offset()
        assert partition is not None  # a record has both
        assert offset is not None
        offsets.setdefault(partition, []).append(offset)
    say("\n".join(f"took {now_ns} {partition} {each[0]} {each[-1]}" for partition, each in offsets.items()))


def _first_line() -> bytes:
    found = b""
    while not found.endswith(b"\n") and (part := os.read(sys.stdin.fileno(), 1)):
        found += part
    return found


def say(text: str) -> None:
    print(text, flush=True)


def main() -> None:
    """Run the member. Ctrl-C is for the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(BrokenPipeError):
        try:
            # Unbuffered: `serve` waits for the end of the descriptor.
            consumer = Consumer(json.loads(_first_line()))
            try:
                serve(consumer, sys.argv[1])
            finally:
                consumer.close()
        except (KafkaException, RuntimeError) as error:
            say(f"failed {error.args[0].str() if isinstance(error, KafkaException) else error}")


if __name__ == "__main__":
    main()
