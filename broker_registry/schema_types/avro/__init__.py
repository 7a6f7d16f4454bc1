"""Avro: the parser, the canonical text, the rules of schema resolution, and records.

    model.py       schemas as objects            parser.py   JSON text to objects
    text.py        objects to canonical text     diff.py     what a reader cannot read
    schema.py      the seam to the registry; records by the library fastavro
    bounds.py      records that the library must not read
    encode.py      values to bytes        logical.py     values of logical types

The behaviour is that of Avro's Java library 1.12, by which Confluent's registry stores and compares schemas.
"""

from broker_registry.schema_types.avro.schema import parse

__all__ = ["parse"]
