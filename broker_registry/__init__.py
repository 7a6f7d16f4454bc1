"""A schema registry with the REST API of Confluent's, over a topic in any Kafka cluster: the command `broker-registry`.

schema_types/     Avro, JSON Schema and Protobuf: parse, canonical text, differences          pure
compatibility.py  the seven levels over the differences of two schemas                        pure
differences.py    the differences of two schemas for people                                   pure
store/            the records of `_schemas`, their replay, and the operations on them         pure
writer.py         the write right, append, own read
api/              one file for each resource of the REST API
serdes/           the 5-byte header, and records by their schemas
client.py         a client of the REST API, of this registry or another
impact/           what a new schema would break: it is tried on the records of its topic
console/          the schemas of a registry in both consoles
commands/         `broker-cy schemas`
"""
