"""Endpoints that answer with JSON: a failure has a status and a sentence."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from broker_cy.client.errors import ClientError, Failure
from broker_cy.core.classes import NamedTuple

_STATUS = {Failure.REFUSED: 403, Failure.INVALID: 400, Failure.TIMED_OUT: 504, Failure.UNREACHABLE: 502}


class JsonRequest(NamedTuple):
    """A request of an endpoint: the variables of its path, and the JSON object of its body."""

    path: Mapping[str, str]
    body: Mapping[str, Any]


def status_of(error: ClientError) -> int:
    """Return the HTTP status of a failure."""
    return _STATUS.get(error.failure, 409)


def json_route(path: str, run: Callable[[JsonRequest], Awaitable[Any]]) -> Route:
    """Return the route of an endpoint that takes a JSON object (POST). The answer is the result of `run`, or {"error":
    sentence} if it raises ClientError.
    """

    async def answer(request: Request) -> Response:
        try:
            body = orjson.loads(await request.body())
            if not isinstance(body, dict):
                raise ClientError(Failure.INVALID, "a JSON object is expected")
            return JSONResponse(await run(JsonRequest(request.path_params, body)))
        except orjson.JSONDecodeError as error:
            return JSONResponse({"error": f"not JSON: {error}"}, 400)
        except ClientError as error:
            return JSONResponse({"error": str(error)}, status_of(error))

    return Route(path, answer, methods=["POST"])
