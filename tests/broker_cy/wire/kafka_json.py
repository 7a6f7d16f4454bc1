"""A message as the JSON that Kafka's own converters and its dump tool make of it."""

import base64
from typing import Any

from broker_cy.core import uuid
from broker_cy.schemas import tables


def as_json(message: Any, version: int) -> dict[str, Any]:
    """Return Kafka's JSON form of `message`: tagged fields only if they differ from their default, uuids as text."""
    spec = tables.load(type(message).__name__)
    return struct_as_json(spec, spec.root, message, version)


def struct_as_json(spec: tables.MessageSpec, struct: tables.StructSpec, message: Any, version: int) -> dict[str, Any]:
    default = type(message)()
    out: dict[str, Any] = {}
    for field in struct.fields:
        value = getattr(message, field.attribute)
        at_default = value == getattr(default, field.attribute)
        if version not in field.versions or (version in field.tagged and at_default):
            continue
        name = field.name[0].lower() + field.name[1:]
        if value is None:
            out[name] = None
        elif field.is_array:
            out[name] = [scalar(spec, field, element, version) for element in value]
        else:
            out[name] = scalar(spec, field, value, version)
    return out


def scalar(spec: tables.MessageSpec, field: tables.FieldSpec, value: Any, version: int) -> Any:
    if field.type not in tables.SCALARS:
        return struct_as_json(spec, spec.structs[field.type], value, version)
    if field.type == "uuid":
        return uuid.to_text(value)
    if field.type == "records":
        # The converter never shows them; the comparison of bytes covers them.
        return ""
    if field.type == "bytes":
        return base64.b64encode(value).decode()
    return value
