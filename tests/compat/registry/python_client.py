"""Writes and reads records of an Avro schema with confluent-kafka, in an environment with its registry extra.

    python_client.py write REGISTRY BOOTSTRAP TOPIC SCHEMA ITEM COUNT
    python_client.py read REGISTRY BOOTSTRAP TOPIC RECORDS

`read` prints the records as a JSON list of [id, item, count].
"""

from __future__ import annotations

import json
import sys
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

TIMEOUT_S = 60.0


def main() -> None:
    mode, registry, bootstrap, topic, *rest = sys.argv[1:]
    client = SchemaRegistryClient({"url": registry})
    context = SerializationContext(topic, MessageField.VALUE)
    if mode == "write":
        schema, item, count = rest
        serializer = AvroSerializer(client, schema)
        producer = Producer({"bootstrap.servers": bootstrap})
        producer.produce(topic, serializer({"item": item, "count": int(count)}, context))
        assert producer.flush(TIMEOUT_S) == 0
        return
    deserializer = AvroDeserializer(client)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"python-{topic}"})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[list[Any]] = []
    while len(found) < int(rest[0]):
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert message.error() is None, message.error()
        value = message.value()
        assert value is not None
        order = deserializer(value, context)
        found.append([int.from_bytes(value[1:5], "big"), order["item"], order["count"]])
    consumer.close()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
