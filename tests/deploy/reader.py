"""A group member like an application's: librdkafka with default settings, in a separate process on the lab's network.

    python -m tests.deploy.reader CONFIG BOOTSTRAP TOPIC GROUP

It reads until its standard input ends, and then prints one line of JSON: the number of records; the errors that
librdkafka reported to the application, which a client's user sees; and, separately, informational errors from which it
recovered by itself.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException

from broker_cy.client.security import librdkafka_settings, read_command_config

POLL_S = 0.5


def main() -> None:
    config, bootstrap, topic, group = sys.argv[1:]
    failed: Counter[str] = Counter()
    said: Counter[str] = Counter()

    def event(error: KafkaError) -> None:
        # librdkafka recovers from these errors by itself, except from a fatal one.
        (failed if error.fatal() else said)[error.name()] += 1

    settings: dict[str, Any] = {
        **librdkafka_settings(read_command_config(Path(config)), config),
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "error_cb": event,
        # Lines on stderr would also be informational.
        "log_level": 0,
    }
    is_over = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        is_over.set()

    threading.Thread(target=wait, daemon=True).start()
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    read = 0
    while not is_over.is_set():
        try:
            message = consumer.poll(POLL_S)
            if message is None:
                continue
            if (error := message.error()) is None:
                read += 1
            else:
                failed[error.name()] += 1
        except KafkaException as error:
            failed[error.args[0].name()] += 1
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as error:
        if error.args[0].code() != KafkaError._NO_OFFSET:
            failed[error.args[0].name()] += 1
    consumer.close()
    print(json.dumps({"read": read, "failed": failed, "said": said}), flush=True)


if __name__ == "__main__":
    main()
