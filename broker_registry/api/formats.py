"""The parameter `format`: the text of a schema in another form."""

from __future__ import annotations

from typing import Final

from broker_cy.security.acls import Operation
from broker_registry.api.requests import Request
from broker_registry.checks import Format
from broker_registry.errors import RegistryError, invalid_schema
from broker_registry.operations.wanted import referenced_subjects, source_of
from broker_registry.schema_types.base import InvalidSchema
from broker_registry.service import Service
from broker_registry.store.values import SchemaValue

_LOGICAL: Final = "logical"


def format_of(request: Request) -> str:
    """Return the wanted format, empty for that of the schema. Raises RegistryError for what is left out: the format in
    which a registration would mean something else, and the tags of the schema.
    """
    if request.text("findTags"):
        raise RegistryError(404, "findTags is not supported")
    name = (request.text("format") or "").strip()
    if name.lower() == _LOGICAL:
        raise RegistryError(404, f"the format {_LOGICAL} is not supported")
    return name


async def formatted(service: Service, value: SchemaValue, request: Request) -> str | None:
    """Return the text in the wanted format; None if the request names none. Raises RegistryError."""
    name = format_of(request)
    if not name:
        return None
    if not request.access.sees_everything:
        # It may have the texts of schemas that this one refers to.
        for subject in referenced_subjects(service.state, value):
            request.access.require(Operation.DESCRIBE, subject)
    try:
        found: str = await service.checker.run(Format(source_of(service.state, value), name))
    except InvalidSchema as error:
        raise invalid_schema(str(error)) from None
    return found
