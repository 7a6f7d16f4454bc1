"""/compatibility: a schema against one version of a subject, or against those that its level names."""

from __future__ import annotations

from broker_registry.api.permissions import reads
from broker_registry.api.requests import Answer, Request, version_of, wanted_of
from broker_registry.api.router import Router
from broker_registry.errors import Code, RegistryError, version_not_found
from broker_registry.operations.register import check_compatibility
from broker_registry.operations.wanted import LATEST
from broker_registry.service import Service
from broker_registry.store.values import SchemaValue
from broker_registry.subject_names import normalized


def add_routes(router: Router) -> None:
    router.add("POST", "/compatibility/subjects/{subject}/versions", check_all, reads)
    router.add("POST", "/compatibility/subjects/{subject}/versions/{version}", check_one, reads)


async def check_one(service: Service, request: Request) -> Answer:
    version = version_of(request.path["version"])
    value = service.state.version(normalized(request.path["subject"]), version)
    if value is None and version != LATEST:
        raise version_not_found(version)
    return await _check(service, request, [value] if value is not None else [])


async def check_all(service: Service, request: Request) -> Answer:
    versions = service.state.versions(normalized(request.path["subject"]))
    return await _check(service, request, [value for value in versions if not value.is_deleted])


async def _check(service: Service, request: Request, previous: list[SchemaValue]) -> Answer:
    subject, is_verbose = normalized(request.path["subject"]), request.flag("verbose")
    wanted = wanted_of(request, subject)
    normalizes = request.flag("normalize") or service.state.config_in_scope(subject).normalize is True
    try:
        found = await service.check(check_compatibility(service.state, wanted, previous, normalizes=normalizes))
    except RegistryError as error:
        if not is_verbose or error.code != Code.INVALID_SCHEMA:
            raise
        found = [error.message]
    return Answer({"is_compatible": not found, **({"messages": found} if is_verbose else {})})
