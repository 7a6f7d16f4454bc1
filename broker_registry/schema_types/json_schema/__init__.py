"""JSON Schema, drafts 4 to 2020-12: canonical text, the rules of Confluent's registry for changes, and records.

model.py       schemas as shapes                 loader.py   JSON to shapes, with references
kinds.py       kinds of differences and texts    diff.py     the differences of two shapes
schema.py      the seam to the registry; values are checked by the library jsonschema-rs
"""

from broker_registry.schema_types.json_schema.schema import parse

__all__ = ["parse"]
