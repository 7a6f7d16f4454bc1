"""Answers of the JSON endpoints: a failure has a status and a sentence."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from broker_cy.client.errors import ClientError, Failure

_STATUS = {Failure.REFUSED: 403, Failure.INVALID: 400, Failure.TIMED_OUT: 504, Failure.UNREACHABLE: 502}


def status_of(error: ClientError) -> int:
    """Return the HTTP status of a failure."""
    return _STATUS.get(error.failure, 409)


async def json_answer(request: Request, run: Callable[[Mapping[str, Any]], Awaitable[Any]]) -> Response:
    """Return the result of `run` for the JSON object in the body, or {"error": sentence} if it raises ClientError."""
    try:
        body = orjson.loads(await request.body())
        if not isinstance(body, dict):
            raise ClientError(Failure.INVALID, "a JSON object is expected")
        return JSONResponse(await run(body))
    except orjson.JSONDecodeError as error:
        return JSONResponse({"error": f"not JSON: {error}"}, 400)
    except ClientError as error:
        return JSONResponse({"error": str(error)}, status_of(error))
