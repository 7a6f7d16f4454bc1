"""/config and /mode, of the registry, of a context (`:.test:`) or of a subject."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from broker_cy.security.acls import Operation
from broker_registry.api.permissions import alters, reads
from broker_registry.api.requests import Answer, Request
from broker_registry.api.router import Router
from broker_registry.errors import Code, RegistryError, invalid_subject
from broker_registry.json_types import InvalidObject, as_text
from broker_registry.operations.settings import (
    checked_changes,
    delete_config,
    delete_mode,
    parse_mode,
    set_mode,
    update_config,
)
from broker_registry.service import Service
from broker_registry.store.values import JSON_NAMES, Config, parse_config
from broker_registry.subject_names import is_default_context, is_valid, normalized

# The name of the level in requests, and in their answers.
_LEVEL = "compatibility"


def add_routes(router: Router) -> None:
    for path in ("/config", "/config/{subject}"):
        router.add("GET", path, get_config, reads)
        router.add("PUT", path, put_config, alters)
        router.add("DELETE", path, remove_config, alters)
    for path in ("/mode", "/mode/{subject}"):
        router.add("GET", path, get_mode, reads)
        router.add("PUT", path, put_mode, alters)
        router.add("DELETE", path, remove_mode, alters)


def _subject(request: Request, *, is_checked: bool = False) -> str | None:
    """Return the subject of the path; None for the registry. Raises RegistryError for a name that no subject has."""
    name = request.path.get("subject")
    if name is None or is_default_context(name):
        return None
    if is_checked and not is_valid(name, for_settings=True):
        raise invalid_subject(name)
    return normalized(name)


async def get_config(service: Service, request: Request) -> Answer:
    subject = _subject(request)
    state = service.state
    found = state.config_in_scope(subject) if request.flag("defaultToGlobal") else state.config(subject)
    if found is None:
        text = f"Subject '{subject}' does not have subject-level compatibility configured"
        raise RegistryError(Code.SUBJECT_COMPATIBILITY_NOT_CONFIGURED, text)
    return Answer(found.to_json())


async def put_config(service: Service, request: Request) -> Answer:
    subject = _subject(request, is_checked=True)
    changes = checked_changes(_changes(request.json()))
    config = await service.write(lambda state, ids: update_config(state, subject, changes))
    return Answer(config.to_json(level_name=_LEVEL))


def _changes(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that a request names; one that it names as null is unset. Raises RegistryError."""
    members = dict(found)
    level = members.pop(_LEVEL, members.get("compatibilityLevel"))
    if level is not None or _LEVEL in found:
        members["compatibilityLevel"] = level
    try:
        config: Config = parse_config(members)
    except InvalidObject as error:
        raise RegistryError(400, str(error)) from None
    return {each.name: getattr(config, each.name) for each in fields(config) if JSON_NAMES[each.name] in members}


async def remove_config(service: Service, request: Request) -> Answer:
    subject = _subject(request)
    config = await service.write(lambda state, ids: delete_config(state, subject))
    return Answer(config.to_json())


async def get_mode(service: Service, request: Request) -> Answer:
    subject = _subject(request)
    state = service.state
    found = state.mode_in_scope(subject) if request.flag("defaultToGlobal") else state.mode(subject)
    if found is None:
        text = f"Subject '{subject}' does not have subject-level mode configured"
        raise RegistryError(Code.SUBJECT_MODE_NOT_CONFIGURED, text)
    return Answer({"mode": found.value})


async def put_mode(service: Service, request: Request) -> Answer:
    subject, is_forced = _subject(request, is_checked=True), request.flag("force")
    found = request.json()
    try:
        text = as_text(found.get("mode"), "mode")
    except InvalidObject as error:
        raise RegistryError(400, str(error)) from None
    mode = parse_mode(text, subject)
    if mode is not None and mode.is_import:
        request.access.require(Operation.ALTER, None)
    await service.write(lambda state, ids: set_mode(state, subject, mode, is_forced=is_forced))
    return Answer({"mode": text} if "mode" in found else {})


async def remove_mode(service: Service, request: Request) -> Answer:
    subject, is_recursive = _subject(request), request.flag("recursive")
    mode = await service.write(lambda state, ids: delete_mode(state, subject, is_recursive=is_recursive))
    return Answer({} if mode is None else {"mode": mode.value})
