"""Routes of the REST API, over the parts of a path. `{name}` in a pattern is a variable.

A router of its own: those of frameworks decode the path first, and subjects have slashes (`%2F`). Two rewrites come
before the routes. `/contexts/.test/subjects/orders` is `/subjects/:.test:orders`; and a subject whose settings have an
alias is the subject that the alias names.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from broker_registry.api.permissions import Permission
from broker_registry.api.requests import Answer, Request
from broker_registry.errors import RegistryError
from broker_registry.service import Service
from broker_registry.store.state import State
from broker_registry.subject_names import ALL_CONTEXTS, DEFAULT_CONTEXT, qualified

Handler = Callable[[Service, Request], Coroutine[Any, Any, Answer]]

_SETTINGS: Final = ("config", "mode")
_CONTEXTS: Final = "contexts"


class Route(NamedTuple):
    """A handler, and the permission that its clients need."""

    handler: Handler
    permission: Permission


class Router:
    """Finds the route of a request; the first pattern that fits decides."""

    def __init__(self) -> None:
        self._routes: dict[int, list[tuple[tuple[str, ...], dict[str, Route]]]] = {}

    def add(self, method: str, pattern: str, handler: Handler, permission: Permission) -> None:
        parts, route = tuple(part for part in pattern.strip("/").split("/")), Route(handler, permission)
        for known, routes in self._routes.setdefault(len(parts), []):
            if known == parts:
                routes[method] = route
                return
        self._routes[len(parts)].append((parts, {method: route}))

    def all(self) -> list[tuple[str, str, Route]]:
        """Return each method and pattern with its route."""
        return [
            (method, "/" + "/".join(parts), route)
            for patterns in self._routes.values()
            for parts, routes in patterns
            for method, route in routes.items()
        ]

    def find(self, request: Request) -> Route:
        """Return the route, and set the variables of the path. Raises RegistryError."""
        known: set[str] = set()
        for parts, routes in self._routes.get(len(request.segments), ()):
            if not all(part[:1] == "{" or part == each for part, each in zip(parts, request.segments, strict=True)):
                continue
            known |= routes.keys() | ({"HEAD"} if "GET" in routes else set())
            route = routes.get("GET" if request.method == "HEAD" else request.method)
            if route is not None:
                pairs = zip(parts, request.segments, strict=True)
                request.path = {part[1:-1]: each for part, each in pairs if part[:1] == "{"}
                return route
        if known:
            raise RegistryError(405, "HTTP 405 Method Not Allowed", methods=sorted(known))
        raise RegistryError(404, "HTTP 404 Not Found")


def context_text(name: str) -> str:
    """Return the prefix of a context that a path names as `test`, `.test` or `:.test:`. Raises RegistryError."""
    name = name.removeprefix(":").removesuffix(":")
    if ":" in name:
        raise RegistryError(400, f"Context name '{name}' cannot contain a colon")
    name = name if name.startswith(".") else f".{name}"
    return "" if name == DEFAULT_CONTEXT else f":{name}:"


def _has_context(text: str) -> bool:
    return text.startswith((":.", ALL_CONTEXTS))


def in_context(request: Request) -> Request:
    """Return the request without `/contexts/{context}` before its path; the names in it have the context then. Without
    more path, the context is named as `:.test:`; the default one is the root.
    """
    segments = request.segments
    if segments[0] != _CONTEXTS or len(segments) < 2:
        return request
    prefix, rest = context_text(segments[1]), list(segments[2:])
    if not rest:
        return replace(request, segments=(_CONTEXTS, prefix) if prefix else ("",))
    at = rest.index("subjects") + 1 if "subjects" in rest else 1 if rest[0] in _SETTINGS else None
    if at is not None and at < len(rest):
        if not _has_context(rest[at]):
            rest[at] = prefix + rest[at]
    elif rest[0] in _SETTINGS and prefix:
        rest.append(prefix)
    query = request.query
    name = "subject" if rest[:2] == ["schemas", "ids"] else "subjectPrefix" if len(rest) == 1 else None
    if name is not None and rest[0] in ("schemas", "subjects"):
        value = request.text(name) or ""
        if not _has_context(value):
            others = [(key, each) for key, found in request.parameters.items() if key != name for each in found]
            query = urlencode([*others, (name, prefix + value)])
    return Request(request.method, tuple(rest), query)


def with_alias(state: State, request: Request) -> Request:
    """Return the request with the subject that the settings of the named one have as alias."""

    def real(subject: str) -> str:
        config = state.configs.get(subject) if subject else None
        return subject if config is None or not config.alias else qualified(subject, config.alias)

    segments = list(request.segments)
    if "subjects" in segments[:-1]:
        at = segments.index("subjects") + 1
        asked, segments[at] = segments[at], real(segments[at])
        return replace(request, segments=tuple(segments), asked=asked)
    subject = request.text("subject")
    if segments[:2] == ["schemas", "ids"] and subject:
        others = [(key, each) for key, found in request.parameters.items() if key != "subject" for each in found]
        return Request(request.method, request.segments, urlencode([*others, ("subject", real(subject))]))
    return request
