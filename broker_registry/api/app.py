"""The ASGI application of an instance: types of content, routes, errors."""

from __future__ import annotations

import logging
import time
from collections.abc import Coroutine, Mapping
from typing import Any, Final

from starlette.types import Receive, Scope, Send

from broker_cy.client.errors import ClientError
from broker_registry.api import compatibility, schemas, server, settings, subjects, versions
from broker_registry.api.forwarding import forwarded
from broker_registry.api.quick import Short
from broker_registry.api.requests import Answer, Request
from broker_registry.api.router import Router, in_context, with_alias
from broker_registry.election import NotLeader
from broker_registry.errors import RegistryError
from broker_registry.service import Service

BODY_BYTES_MAX: Final = 16 << 20
V1: Final = "application/vnd.schemaregistry.v1+json"
# The types that answers may have, the preferred one first.
TYPES: Final = (V1, "application/vnd.schemaregistry+json", "application/json")
_READ_TYPES: Final = (*TYPES, "application/octet-stream")

_log = logging.getLogger(__name__)


def routes() -> Router:
    router = Router()
    for room in (subjects, versions, schemas, compatibility, settings, server):
        room.add_routes(router)
    return router


class App:
    """See the module."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._router = routes()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._run_service(receive, send)
            return
        if scope["type"] != "http":
            raise ValueError(f"requests of type {scope['type']!r} are not served")
        headers = dict(scope["headers"])
        content_type = V1
        began_ns = time.perf_counter_ns()
        try:
            content_type = accepted(headers.get(b"accept", b"").decode("latin-1"))
            body = await read_body(receive, headers)
            raw_path = scope.get("raw_path") or scope["path"].encode()
            if body:
                check_content_type(headers.get(b"content-type", b"").decode("latin-1"))
            answer = await self._answered(scope["method"], raw_path, scope.get("query_string", b""), headers, body)
        except RegistryError as error:
            answer = refusal(error)
        except ConnectionResetError:
            return
        except Exception:
            _log.exception("%s %s", scope["method"], scope["path"])
            answer = Answer({"error_code": 500, "message": "Internal Server Error"}, 500)
        self.service.requests.note(scope["path"], answer.status, time.perf_counter_ns() - began_ns)
        await _send(send, answer, answer.content_type or content_type, is_head=scope["method"] == "HEAD")

    async def _run_service(self, receive: Receive, send: Send) -> None:
        """Open the service before the first request, and close it after the last one."""
        await receive()
        try:
            async with self.service:
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except ClientError as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.shutdown.complete"})

    async def _answered(
        self, method: str, raw_path: bytes, query: bytes, headers: Mapping[bytes, bytes], body: bytes
    ) -> Answer:
        """Return the answer of this instance, or that of the leader to a change. Raises RegistryError."""
        try:
            return await self._answering(method, raw_path, query, body)
        except NotLeader:
            target = (raw_path + (b"?" + query if query else b"")).decode("latin-1")
            return await forwarded(self.service, method, target, headers, body)

    def _answering(self, method: str, raw_path: bytes, query: bytes, body: bytes) -> Coroutine[Any, Any, Answer]:
        """Return the work of the handler. Raises RegistryError."""
        request = Request.of(method, raw_path, query, body)
        request = with_alias(self.service.state, in_context(request))
        return self._router.find(request)(self.service, request)

    def quick(self, request: Short) -> tuple[int, bytes, bytes] | None:
        """Return status, type and body of the answer to a GET; None if it has to wait, or to be logged."""
        path, _, query = request.target.partition(b"?")
        began_ns = time.perf_counter_ns()
        try:
            content_type = accepted(request.accept.decode("latin-1"))
            try:
                work = self._answering("GET", path, query, b"")
                # A handler that does not wait ends in its first step.
                work.send(None)
            except StopIteration as end:
                answer: Answer = end.value
            except RegistryError as error:
                answer = refusal(error)
            else:
                work.close()
                return None
        except Exception:
            # It happens again where it is logged.
            return None
        self.service.requests.note(path.decode(), answer.status, time.perf_counter_ns() - began_ns)
        return answer.status, (answer.content_type or content_type).encode(), answer.encode()


def refusal(error: RegistryError) -> Answer:
    # Messages show parts of schemas, whose escapes may be half of a surrogate pair.
    message = error.message.encode("utf-8", "replace").decode()
    return Answer({"error_code": error.code, "message": message}, error.status)


def accepted(accept: str) -> str:
    """Return the type of the answer that the client likes best (RFC 9110, section 12.5.1). Raises RegistryError 406 if
    it takes none of TYPES.
    """
    if not accept:
        return V1
    best, best_quality = "", 0.0
    for part in accept.split(","):
        name, *parameters = (each.strip().lower() for each in part.split(";"))
        quality = _quality(parameters)
        found = next((each for each in TYPES if _fits(each, name)), "")
        if found and quality > best_quality:
            best, best_quality = found, quality
    if not best:
        raise RegistryError(406, "HTTP 406 Not Acceptable")
    return best


def _quality(parameters: list[str]) -> float:
    for each in parameters:
        name, _, value = each.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


def _fits(offered: str, wanted: str) -> bool:
    kind, _, subtype = wanted.partition("/")
    return wanted == offered or kind == "*" or (subtype == "*" and offered.startswith(f"{kind}/"))


def check_content_type(content_type: str) -> None:
    """Raises RegistryError 415."""
    if content_type and content_type.split(";")[0].strip().lower() not in _READ_TYPES:
        raise RegistryError(415, "HTTP 415 Unsupported Media Type")


async def read_body(receive: Receive, headers: dict[bytes, bytes]) -> bytes:
    """Raises RegistryError 413 for a body above the bound, ConnectionResetError if the client has gone."""
    parts: list[bytes] = []
    size_bytes = int(headers.get(b"content-length") or 0)
    while size_bytes <= BODY_BYTES_MAX:
        message = await receive()
        if message["type"] != "http.request":
            raise ConnectionResetError("the client has gone")
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)
        size_bytes = sum(map(len, parts))
    raise RegistryError(413, f"the body has more than {BODY_BYTES_MAX:,} bytes")


async def _send(send: Send, answer: Answer, content_type: str, *, is_head: bool) -> None:
    body = answer.encode()
    headers = [(b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if is_head else body})
