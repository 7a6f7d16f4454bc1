"""Serdes whose schemas are in a schema registry, with the bytes of Confluent's serializers.

    0, schema id int32                  in front of each key and value (Protobuf: message indexes behind it)
    avro, json_schema, protobuf         the three types        base      what they have in common
    options                             their settings         binding   the registry for the serdes of a plan
    lookups                             what a serde asks a registry for, and a registry in memory

A serde does no I/O: it asks a registry that the host gives (broker_streams/registry), once for each schema, and keeps
what it made of the answer.
"""
