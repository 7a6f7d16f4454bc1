"""The parameter `format`: the text of a schema in another form."""

from __future__ import annotations

from broker_cy.security.acls import Operation
from broker_registry.api.requests import Request
from broker_registry.checks import Format
from broker_registry.errors import invalid_schema
from broker_registry.operations.wanted import referenced_subjects, source_of
from broker_registry.schema_types.base import InvalidSchema
from broker_registry.service import Service
from broker_registry.store.values import SchemaValue


async def formatted(service: Service, value: SchemaValue, request: Request) -> str | None:
    """Return the text in the wanted format; None if the request names none. Raises RegistryError."""
    name = (request.text("format") or "").strip()
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
