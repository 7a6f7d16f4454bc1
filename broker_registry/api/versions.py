"""/subjects/{subject}/versions: register, list, get, delete, and the schemas that refer to a version."""

from __future__ import annotations

from broker_registry.api.formats import format_of, formatted
from broker_registry.api.objects import registered, schema_of_subject
from broker_registry.api.permissions import deletes, reads, registers
from broker_registry.api.requests import Answer, Request, version_of, wanted_of
from broker_registry.api.router import Router
from broker_registry.errors import (
    Code,
    RegistryError,
    invalid_subject,
    subject_not_found,
    version_not_found,
)
from broker_registry.operations.delete import delete_version
from broker_registry.operations.register import RegisterSettings, register
from broker_registry.service import Service
from broker_registry.store.state import Place, State
from broker_registry.store.values import SchemaValue
from broker_registry.subject_names import SubjectName, is_valid, normalized


def add_routes(router: Router) -> None:
    router.add("GET", "/subjects/{subject}/versions", list_versions, reads)
    router.add("POST", "/subjects/{subject}/versions", register_schema, registers)
    router.add("GET", "/subjects/{subject}/versions/{version}", get_version, reads)
    router.add("DELETE", "/subjects/{subject}/versions/{version}", delete, deletes)
    router.add("GET", "/subjects/{subject}/versions/{version}/schema", get_text, reads)
    router.add("GET", "/subjects/{subject}/versions/{version}/referencedby", referenced_by, reads)


async def list_versions(service: Service, request: Request) -> Answer:
    subject, only_deleted = normalized(request.path["subject"]), request.flag("deletedOnly")
    with_deleted, as_negative = request.flag("deleted"), request.flag("deletedAsNegative")
    if not service.state.has_subjects(subject, with_deleted=with_deleted or only_deleted):
        raise subject_not_found(subject)
    found = []
    for value in service.state.versions(subject):
        if as_negative:
            found.append(-value.version if value.is_deleted else value.version)
        elif value.is_deleted if only_deleted else with_deleted or not value.is_deleted:
            found.append(value.version)
    return Answer(request.page(found))


async def register_schema(service: Service, request: Request) -> Answer:
    format_of(request)
    name = request.path["subject"]
    wanted = wanted_of(request, normalized(name))
    if wanted.content.rule_set is not None and (problem := wanted.content.rule_set.problem()):
        raise RegistryError(Code.INVALID_RULE_SET, problem)
    if not is_valid(name, may_be_empty=False):
        raise invalid_subject(name)
    normalizes = request.flag("normalize") or service.state.config_in_scope(wanted.subject).normalize is True
    settings = RegisterSettings(normalizes, request.flag("force"))
    found = await service.write(lambda state, ids: register(state, ids, wanted, settings))
    return Answer(registered(found.value, await formatted(service, found.value, request)))


def find(state: State, request: Request, *, with_deleted: bool) -> SchemaValue:
    """Return the version that a path names; of any context if the subject names none. Raises RegistryError."""
    subject, version = normalized(request.path["subject"]), version_of(request.path["version"])
    name = SubjectName.parse(subject)
    names = [subject]
    if name.is_default:
        names += [SubjectName(context, name.subject).text for context in state.contexts]
    for each in names:
        value = state.version(each, version, with_deleted=with_deleted)
        if value is not None:
            return value
    if not state.has_subjects(subject, with_deleted=with_deleted):
        raise subject_not_found(subject)
    raise version_not_found(version)


async def get_version(service: Service, request: Request) -> Answer:
    value = find(service.state, request, with_deleted=request.flag("deleted"))
    text = await formatted(service, value, request)
    return Answer(schema_of_subject(value, text, request.text("referenceFormat")))


async def get_text(service: Service, request: Request) -> Answer:
    value = find(service.state, request, with_deleted=request.flag("deleted"))
    text = await formatted(service, value, request)
    return Answer(text=(value.content.text if text is None else text).encode())


async def referenced_by(service: Service, request: Request) -> Answer:
    value = find(service.state, request, with_deleted=True)
    place = Place(value.subject, value.version)
    found = service.state.referrers(place, with_deleted=request.flag("deleted"))
    found = [each for each in found if any(map(request.access.sees, service.state.holders(*each)))]
    return Answer(
        [each.id for each in request.page(found, service.settings.schemas_default, service.settings.schemas_max)]
    )


async def delete(service: Service, request: Request) -> Answer:
    subject, version = normalized(request.path["subject"]), version_of(request.path["version"])
    is_permanent = request.flag("permanent")
    return Answer(
        await service.write(lambda state, ids: delete_version(state, subject, version, is_permanent=is_permanent))
    )
