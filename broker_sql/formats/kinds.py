"""The formats of keys and values, and what each one offers. Facts: ksqlDB's `Format` classes.

A format with its settings is a name and `properties`, whose names are ksqlDB's:

    delimiter               one character, TAB or SPACE (DELIMITED)
    fullSchemaName          the record or message (AVRO, PROTOBUF, JSON_SR)
    schemaId                the id of a schema that is written (AVRO, PROTOBUF, JSON_SR)
    nullableRepresentation  optional, wrapper: null in a field of Protobuf
    unwrapPrimitives        true: a wrapper message of Protobuf is the value in it
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from broker_sql import types
from broker_sql.errors import AnalysisError
from broker_sql.types import SqlType

DELIMITER: Final = "delimiter"
FULL_SCHEMA_NAME: Final = "fullSchemaName"
SCHEMA_ID: Final = "schemaId"
NULLABLE: Final = "nullableRepresentation"
UNWRAP_PRIMITIVES: Final = "unwrapPrimitives"
SUBJECT: Final = "subjectName"

_DELIMITERS: Final = {"TAB": "\t", "SPACE": " "}
_KAFKA_TYPES: Final = frozenset({types.INTEGER, types.BIGINT, types.DOUBLE, types.STRING, types.BYTES})


@dataclass(frozen=True)
class Kind:
    """A format. `wraps`: a single column may be a field of a record; `unwraps`: it may be the whole record. `infers`:
    schemas are in a registry. `has_many_keys`: a key may have several columns. `inherited` properties pass from a
    source to the sink of a query.
    """

    name: str
    properties: frozenset[str] = frozenset()
    inherited: frozenset[str] = frozenset()
    wraps: bool = False
    unwraps: bool = False
    infers: bool = False
    has_many_keys: bool = True

    @property
    def unwraps_key(self) -> bool:
        """A key of one column is never wrapped if the format has the choice."""
        return self.wraps and self.unwraps

    def takes_key(self, kind: SqlType) -> bool:
        """Return whether a key column may have the type. Other queries repartition by JSON."""
        if self.name == "NONE":
            return False
        if self.name == "KAFKA":
            return kind in _KAFKA_TYPES
        return self.name != "DELIMITED" or isinstance(kind, types.Primitive)


_OF_SCHEMAS: Final = frozenset({FULL_SCHEMA_NAME, SCHEMA_ID})
_KINDS: Final = (
    Kind("NONE", has_many_keys=False),
    Kind("KAFKA", unwraps=True, has_many_keys=False),
    Kind("DELIMITED", frozenset({DELIMITER}), frozenset({DELIMITER}), unwraps=True),
    Kind("JSON", wraps=True, unwraps=True),
    Kind("JSON_SR", _OF_SCHEMAS, wraps=True, unwraps=True, infers=True),
    Kind("AVRO", _OF_SCHEMAS, wraps=True, unwraps=True, infers=True),
    Kind(
        "PROTOBUF",
        _OF_SCHEMAS | {UNWRAP_PRIMITIVES, NULLABLE, SUBJECT},
        frozenset({FULL_SCHEMA_NAME}),
        wraps=True,
        infers=True,
    ),
    Kind("PROTOBUF_NOSR", frozenset({UNWRAP_PRIMITIVES, NULLABLE}), wraps=True, unwraps=True),
)
KINDS: Final[Mapping[str, Kind]] = {each.name: each for each in _KINDS}


def kind_of(name: str) -> Kind:
    """Return the format of a name, in any case. Raises AnalysisError."""
    found = KINDS.get(name.upper())
    if found is None:
        near = difflib.get_close_matches(name.upper(), KINDS, 1)
        hint = f"; {near[0]} is similar" if near else ""
        raise AnalysisError(f"{name} is no format: {', '.join(KINDS)} are allowed{hint}")
    return found


def check(name: str, properties: Mapping[str, str]) -> None:
    """Check that a format takes the properties. Raises AnalysisError."""
    kind = kind_of(name)
    for each, value in properties.items():
        if each not in kind.properties:
            allowed = ", ".join(sorted(kind.properties)) or "it has none"
            raise AnalysisError(f"format {kind.name} does not have the setting {each} ({value}): {allowed}")
        if not value.strip():
            raise AnalysisError(f"format {kind.name}: {each} is empty")
    if DELIMITER in properties:
        delimiter_of(properties)


def delimiter_of(properties: Mapping[str, str]) -> str:
    """Return the character between the fields of DELIMITED. Raises AnalysisError."""
    text = properties.get(DELIMITER, ",")
    if len(text) == 1 and text.strip():
        return text
    found = _DELIMITERS.get(text)
    if found is None:
        raise AnalysisError(f"{text!r} is no delimiter: one character, TAB or SPACE is expected")
    return found
