"""Routes of the REST API, over the parts of a path. `{name}` in a pattern is a variable."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from broker_sql.server.api.requests import Answer, Request, Streamed, Whole
from broker_sql.server.errors import ApiError, Code

if TYPE_CHECKING:
    from broker_sql.server.service import Service

Handler = Callable[["Service", Request], Coroutine[Any, Any, Answer | Streamed | Whole]]


class Router:
    """Finds the handler of a request; the first pattern that fits decides."""

    def __init__(self) -> None:
        self._routes: list[tuple[str, tuple[str, ...], Handler]] = []

    def add(self, method: str, pattern: str, handler: Handler) -> None:
        self._routes.append((method, tuple(pattern.strip("/").split("/")), handler))

    def find(self, request: Request) -> Handler:
        """Return the handler, and set the variables of the path. Raises ApiError."""
        known = set()
        for method, parts, handler in self._routes:
            if len(parts) != len(request.segments):
                continue
            pairs = list(zip(parts, request.segments, strict=True))
            if not all(part[:1] == "{" or part == each for part, each in pairs):
                continue
            known.add(method)
            if method == ("GET" if request.method == "HEAD" else request.method):
                request.path = {part[1:-1]: each for part, each in pairs if part[:1] == "{"}
                return handler
        if known:
            allowed = (b"allow", ", ".join(sorted(known)).encode())
            raise ApiError(Code.METHOD_NOT_ALLOWED, f"{request.method} is not allowed here", headers=[allowed])
        raise ApiError(Code.NOT_FOUND, f"The path /{'/'.join(request.segments)} does not exist")
