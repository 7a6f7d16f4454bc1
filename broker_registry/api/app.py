"""The ASGI application of an instance: types of content, clients, routes, errors."""

from __future__ import annotations

import logging
import time
from typing import Final, NamedTuple

from starlette.types import Receive, Scope, Send

from broker_cy.client.errors import ClientError
from broker_cy.http.accept import preferred
from broker_cy.http.bounds import certificate_of
from broker_cy.http.requests import Headers
from broker_registry.api import compatibility, schemas, server, settings, subjects, versions
from broker_registry.api.forwarding import forwarded
from broker_registry.api.quick import Peer, Short
from broker_registry.api.requests import Answer, Request
from broker_registry.api.router import Route, Router, in_context, with_alias
from broker_registry.election import NotLeader
from broker_registry.errors import Code, RegistryError
from broker_registry.security.access import Access
from broker_registry.security.guard import Guard
from broker_registry.service import Service

BODY_BYTES_MAX: Final = 16 << 20
V1: Final = "application/vnd.schemaregistry.v1+json"
# The types that answers may have, the preferred one first.
TYPES: Final = (V1, "application/vnd.schemaregistry+json", "application/json")
_READ_TYPES: Final = (*TYPES, "application/octet-stream")
# The answers to these are logged, or have more headers.
_REFUSED: Final = (401, 403, 405, 429)

_log = logging.getLogger(__name__)


class Sender(NamedTuple):
    """See security.guard."""

    segments: tuple[str, ...]
    authorization: tuple[bytes, ...]
    address: str
    certificate: bytes | None

    @classmethod
    def of(cls, scope: Scope, segments: tuple[str, ...]) -> Sender:
        client = scope.get("client")
        values = tuple(value for name, value in scope["headers"] if name == b"authorization")
        return cls(segments, values, str(client[0]) if client else "", certificate_of(scope))


def routes() -> Router:
    router = Router()
    for room in (subjects, versions, schemas, compatibility, settings, server):
        room.add_routes(router)
    return router


class App:
    """See the module."""

    def __init__(self, service: Service, guard: Guard) -> None:
        self.service = service
        # Why the service could not be opened.
        self.failure: ClientError | None = None
        self._guard = guard
        self._router = routes()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._run_service(receive, send)
            return
        if scope["type"] != "http":
            raise ValueError(f"requests of type {scope['type']!r} are not served")
        content_type = V1
        more: Headers = []
        began_ns = time.perf_counter_ns()
        try:
            content_type = accepted(dict(scope["headers"]).get(b"accept", b"").decode("latin-1"))
            answer = await self._answered(scope, receive)
        except RegistryError as error:
            answer = refusal(error)
            if error.status == 401 and self._guard.challenge:
                more.append((b"www-authenticate", self._guard.challenge.encode()))
            if error.retry_s is not None:
                more.append((b"retry-after", str(error.retry_s).encode()))
            if error.methods:
                more.append((b"allow", ", ".join(error.methods).encode()))
        except ConnectionResetError:
            return
        except Exception:
            _log.exception("%s %s", scope["method"], scope["path"])
            answer = Answer({"error_code": 500, "message": "Internal Server Error"}, 500)
        self.service.requests.note(scope["path"], answer.status, time.perf_counter_ns() - began_ns)
        content_type = answer.content_type or content_type
        await _send(send, answer, content_type, more, is_head=scope["method"] == "HEAD")

    async def _run_service(self, receive: Receive, send: Send) -> None:
        """Open the service before the first request, and close it after the last one."""
        await receive()
        try:
            async with self.service, self._guard:
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except ClientError as error:
            self.failure = error
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.shutdown.complete"})

    async def _answered(self, scope: Scope, receive: Receive) -> Answer:
        """Return the answer of this instance, or that of the leader to a change. The body is read when it is known that
        the client may send it. Raises RegistryError.
        """
        raw_path, query = scope.get("raw_path") or scope["path"].encode(), scope.get("query_string", b"")
        request = Request.of(scope["method"], raw_path, query)
        sender = Sender.of(scope, request.segments)
        access = await self._guard.access_of(sender)
        headers = dict(scope["headers"])
        try:
            request, route = self._permitted(request, access)
            request.body = await read_body(receive, headers)
            if request.body:
                check_content_type(headers)
            return await route.handler(self.service, request)
        except RegistryError as error:
            if error.code == Code.ACCESS_DENIED:
                self._guard.denied(sender, access, error)
            raise
        except NotLeader:
            target = (raw_path + (b"?" + query if query else b"")).decode("latin-1")
            return await forwarded(self.service, scope["method"], target, headers, request.body)

    def _permitted(self, request: Request, access: Access) -> tuple[Request, Route]:
        """Return the request as its handler sees it, and the route of it. Raises RegistryError, also if the client may
        not send it.
        """
        request = with_alias(self.service.state, in_context(request))
        route = self._router.find(request)
        request.access = access
        route.permission(request)
        return request, route

    def quick(self, short: Short, peer: Peer) -> tuple[int, bytes, bytes] | None:
        """Return status, type and body of the answer to a GET; None if it has to wait, or to be logged."""
        path, _, query = short.target.partition(b"?")
        began_ns = time.perf_counter_ns()
        try:
            content_type = accepted(short.accept.decode("latin-1"))
            try:
                request = Request.of("GET", path, query)
                access = self._guard.known_access_of(Sender(request.segments, short.authorization, *peer))
                if access is None:
                    return None
                request, route = self._permitted(request, access)
                work = route.handler(self.service, request)
                # A handler that does not wait ends in its first step.
                work.send(None)
            except StopIteration as end:
                answer: Answer = end.value
            except RegistryError as error:
                if error.status in _REFUSED:
                    return None
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
    return Answer({"error_code": error.code, "message": error.message}, error.status)


def accepted(accept: str) -> str:
    """Return the type of the answer that the client likes best. Raises RegistryError 406 if it takes none of TYPES."""
    best = preferred(accept, TYPES)
    if not best:
        raise RegistryError(406, "HTTP 406 Not Acceptable")
    return best


def check_content_type(headers: dict[bytes, bytes]) -> None:
    """Raises RegistryError 415. Only a page of another origin sends a body without a type from a browser: with one of
    these types the browser would ask first.
    """
    content_type = headers.get(b"content-type", b"").decode("latin-1")
    if not content_type and b"origin" not in headers:
        return
    if content_type.split(";")[0].strip().lower() not in _READ_TYPES:
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


async def _send(send: Send, answer: Answer, content_type: str, more: Headers, *, is_head: bool) -> None:
    body = answer.encode()
    headers: Headers = [(b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode()), *more]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if is_head else body})
