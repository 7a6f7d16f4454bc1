"""/schemas: by id and guid, their subjects and versions, types, and all schemas."""

from __future__ import annotations

from uuid import UUID

from broker_cy.security.acls import Operation
from broker_registry.api.formats import formatted
from broker_registry.api.objects import aliases_of, schema_of_id, schema_of_subject
from broker_registry.api.permissions import anyone, listed
from broker_registry.api.requests import Answer, Request, id_of
from broker_registry.api.router import Router
from broker_registry.errors import schema_not_found
from broker_registry.schema_types.base import Kind
from broker_registry.service import Service
from broker_registry.store.values import SchemaValue
from broker_registry.subject_names import ALL_CONTEXTS, context_of


def add_routes(router: Router) -> None:
    router.add("GET", "/schemas", list_schemas, listed)
    router.add("GET", "/schemas/types", list_types, anyone)
    router.add("GET", "/schemas/ids/{id}", get_by_id, listed)
    router.add("GET", "/schemas/ids/{id}/schema", get_text, listed)
    router.add("GET", "/schemas/ids/{id}/subjects", list_subjects, listed)
    router.add("GET", "/schemas/ids/{id}/versions", list_versions, listed)
    router.add("GET", "/schemas/guids/{guid}", get_by_guid, listed)
    router.add("GET", "/schemas/guids/{guid}/ids", list_ids, listed)


async def list_types(service: Service, request: Request) -> Answer:
    return Answer([kind.value for kind in (Kind.JSON, Kind.PROTOBUF, Kind.AVRO)])


async def list_schemas(service: Service, request: Request) -> Answer:
    """All versions of subjects with a prefix; the newest ones only, or those with a rule of a type, if so wanted."""
    state, with_deleted = service.state, request.flag("deleted")
    prefix = request.text("subjectPrefix")
    prefix = ALL_CONTEXTS if prefix is None else prefix
    found = [value for value in state.all_values(prefix) if with_deleted or not value.is_deleted]
    aliases = aliases_of(state, prefix, request.access.sees) if request.flag("aliases") else {}
    listed = {value.subject for value in found}
    for subject in sorted(aliases.keys() - listed):
        found += [value for value in state.versions(subject) if with_deleted or not value.is_deleted]
    found = [value for value in found if request.access.sees(value.subject)]
    if request.flag("latestOnly"):
        found = list({value.subject: value for value in found}.values())
    rule_type = request.text("ruleType")
    if rule_type:
        found = [
            value
            for value in found
            if value.content.rule_set is not None and value.content.rule_set.has_type(rule_type)
        ]
    found.sort(key=lambda value: (value.subject, value.version))
    objects = []
    for value in request.page(found, service.settings.schemas_default, service.settings.schemas_max):
        members = schema_of_subject(value)
        if value.subject in aliases:
            members["aliases"] = aliases[value.subject]
        objects.append(members)
    return Answer(objects)


def find(service: Service, request: Request) -> SchemaValue:
    """Return a version with the id of the path, of a subject that the client may read. Raises RegistryError."""
    schema_id = id_of(request.path["id"])
    value = service.state.by_id(schema_id, request.text("subject"))
    if value is None:
        raise schema_not_found(schema_id)
    return _readable(service, request, value)


def _readable(service: Service, request: Request, value: SchemaValue) -> SchemaValue:
    """Return this version, or one with the same id that the client may read. Raises RegistryError: that an id exists is
    no secret, because ids are consecutive.
    """
    if request.access.sees(value.subject):
        return value
    for place in service.state.holders(context_of(value.subject), value.id).items():
        other = service.state.version(*place, with_deleted=True)
        if other is not None and request.access.sees(other.subject):
            return other
    raise request.access.denied(Operation.DESCRIBE, f"Schema: {value.id}")


async def get_by_id(service: Service, request: Request) -> Answer:
    value = find(service, request)
    text = await formatted(service, value, request)
    max_id = service.state.max_id(context_of(value.subject)) if request.flag("fetchMaxId") else None
    with_subject = request.text("subject") is not None
    reference_format = request.text("referenceFormat")
    return Answer(schema_of_id(value, text, reference_format, with_subject=with_subject, max_id=max_id))


async def get_text(service: Service, request: Request) -> Answer:
    value = find(service, request)
    text = await formatted(service, value, request)
    return Answer(text=(value.content.text if text is None else text).encode())


def _versions(service: Service, request: Request) -> list[SchemaValue]:
    """Return the versions with the id of the path, those that are deleted if so wanted. Raises RegistryError."""
    schema_id = id_of(request.path["id"])
    value = service.state.by_id(schema_id, request.text("subject"))
    if value is None:
        raise schema_not_found()
    holders = service.state.holders(context_of(_readable(service, request, value).subject), schema_id)
    found = (service.state.version(*each, with_deleted=request.flag("deleted")) for each in holders.items())
    return [each for each in found if each is not None and request.access.sees(each.subject)]


async def list_subjects(service: Service, request: Request) -> Answer:
    return Answer(request.page([value.subject for value in _versions(service, request)]))


async def list_versions(service: Service, request: Request) -> Answer:
    found = [{"subject": value.subject, "version": value.version} for value in _versions(service, request)]
    return Answer(request.page(found))


def _md5(guid: str) -> bytes:
    try:
        return UUID(guid).bytes
    except ValueError:
        raise schema_not_found(guid) from None


async def get_by_guid(service: Service, request: Request) -> Answer:
    guid = request.path["guid"]
    for each in service.state.ids_of_hash(_md5(guid)):
        for place in service.state.holders(*each).items():
            value = service.state.version(*place, with_deleted=True)
            if value is not None and request.access.sees(value.subject):
                return Answer(schema_of_id(value, await formatted(service, value, request)))
    raise schema_not_found(guid)


async def list_ids(service: Service, request: Request) -> Answer:
    found = service.state.ids_of_hash(_md5(request.path["guid"]))
    seen = [each for each in sorted(found) if any(map(request.access.sees, service.state.holders(*each)))]
    return Answer([{"context": each.context, "id": each.id} for each in seen])
