"""The report of broker-analytics that the dashboard shows: a file of another program, served as untrusted content.

GET /report serves it in a sandbox: it has an origin of its own, so its scripts cannot act as the viewer. Only scripts
whose hashes are in its own head run: if the page is modified later, added scripts do not run.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from broker_cy.client.errors import ClientError, Failure
from broker_cy.http.answers import status_of
from dashboard.security.headers import SANDBOXED_PATH, sandbox_policy

if TYPE_CHECKING:
    from dashboard.context import Context

# A report has a few MB (spark_analytics/report/content.py).
BYTES_MAX: Final = 32 << 20
# Where the policy of a report is, and how many scripts it may name.
_HEAD_BYTES: Final = 4_096
_SCRIPTS_MAX: Final = 8
_POLICY = re.compile(rb'<meta http-equiv="Content-Security-Policy" content="[^"]*script-src ([^;"]*)')
_HASH = re.compile(rb"'(sha256-[A-Za-z0-9+/]{43}=)'")


def check(context: Context) -> Path:
    """Return the file if the viewer may see it. Raises ClientError."""
    if context.report is None:
        raise ClientError(Failure.INVALID, "this dashboard shows no report")
    if not context.identity().scope.sees_everything:
        reason = "the report is about all clusters, topics and groups; your account sees only some"
        raise ClientError(Failure.REFUSED, reason)
    return context.report


def problem(path: Path) -> str:
    """Return why the file cannot be shown; empty if it can."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            size = file.seek(0, 2)
    except FileNotFoundError:
        return f"{path.name} does not exist yet."
    except OSError as error:
        return f"{path.name} cannot be read: {error.strerror}."
    if size > BYTES_MAX:
        return f"{path.name} has {size:,} bytes, and at most {BYTES_MAX:,} are shown: it is no report."
    return "" if hashes(head) else f"{path.name} is no report of broker-analytics."


def hashes(head: bytes) -> list[str]:
    """Return the hashes of the scripts that the head of a report names."""
    found = _POLICY.search(head[:_HEAD_BYTES])
    return [] if found is None else [each.decode() for each in _HASH.findall(found[1])[:_SCRIPTS_MAX]]


def routes(context: Context) -> list[Route]:
    """Return the route of the file; none if no report is configured."""

    async def serve(_: Request) -> Response:
        try:
            path = check(context)
            if found := await asyncio.to_thread(problem, path):
                raise ClientError(Failure.INVALID, found)
            body = await asyncio.to_thread(path.read_bytes)
        except ClientError as error:
            return PlainTextResponse(f"{error}\n", status_of(error))
        except OSError as error:
            return PlainTextResponse(f"the report cannot be read: {error.strerror}\n", 409)
        return HTMLResponse(body, headers={"Content-Security-Policy": sandbox_policy(hashes(body))})

    return [] if context.report is None else [Route(SANDBOXED_PATH, serve, methods=["GET"])]
