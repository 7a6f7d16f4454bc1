"""/subjects and /subjects/{subject}: list, look up, delete."""

from __future__ import annotations

from broker_registry.api.formats import format_of, formatted
from broker_registry.api.objects import schema_of_subject
from broker_registry.api.permissions import deletes, listed, reads
from broker_registry.api.requests import Answer, Request, wanted_of
from broker_registry.api.router import Router
from broker_registry.errors import schema_not_found, subject_not_found
from broker_registry.operations.delete import delete_subject
from broker_registry.operations.register import look_up
from broker_registry.service import Service
from broker_registry.store.state import State
from broker_registry.subject_names import ALL_CONTEXTS, normalized


def add_routes(router: Router) -> None:
    router.add("GET", "/subjects", list_subjects, listed)
    router.add("POST", "/subjects/{subject}", look_up_schema, reads)
    router.add("DELETE", "/subjects/{subject}", delete, deletes)
    router.add("GET", "/subjects/{subject}/metadata", latest_with_metadata, reads)


async def list_subjects(service: Service, request: Request) -> Answer:
    state, wants_only_deleted = service.state, request.flag("deletedOnly")
    found = []
    for subject in state.subjects_with_prefix(request.text("subjectPrefix") or _prefix(request)):
        if not request.access.sees(subject):
            continue
        is_deleted = all(value.is_deleted for value in state.versions(subject))
        if is_deleted if wants_only_deleted else request.flag("deleted") or not is_deleted:
            found.append(subject)
    return Answer(request.page(found))


def _prefix(request: Request) -> str:
    """Without the parameter all contexts are listed; with an empty one, the default context."""
    return ALL_CONTEXTS if request.text("subjectPrefix") is None else ""


async def look_up_schema(service: Service, request: Request) -> Answer:
    format_of(request)
    subject, with_deleted = normalized(request.path["subject"]), request.flag("deleted")
    wanted = wanted_of(request, subject)
    normalizes = request.flag("normalize") or service.state.config_in_scope(subject).normalize is True
    found = await service.check(look_up(service.state, wanted, normalizes=normalizes, with_deleted=with_deleted))
    if found is None:
        raise _missing(service.state, subject, with_deleted)
    return Answer(schema_of_subject(found, await formatted(service, found, request)))


def _missing(state: State, subject: str, with_deleted: bool) -> Exception:
    has_any = state.has_subjects(subject, with_deleted=with_deleted)
    return schema_not_found() if has_any else subject_not_found(subject)


async def latest_with_metadata(service: Service, request: Request) -> Answer:
    """The newest version whose metadata have the properties `key`, `value`."""
    subject, with_deleted = normalized(request.path["subject"]), request.flag("deleted")
    wanted = dict(zip(request.texts("key"), request.texts("value"), strict=False))
    for value in reversed(service.state.versions(subject)):
        metadata = value.content.metadata
        properties = dict(metadata.properties) if metadata is not None else {}
        if (with_deleted or not value.is_deleted) and wanted.items() <= properties.items():
            return Answer(schema_of_subject(value, await formatted(service, value, request)))
    raise _missing(service.state, subject, with_deleted)


async def delete(service: Service, request: Request) -> Answer:
    subject, is_permanent = normalized(request.path["subject"]), request.flag("permanent")
    return Answer(await service.write(lambda state, ids: delete_subject(state, subject, is_permanent=is_permanent)))
