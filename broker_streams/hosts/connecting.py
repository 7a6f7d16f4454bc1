"""The first connection of an application to its cluster. No broker may answer yet: both may start at the same time."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, Final

from broker_cy.admin import AdminClient
from broker_cy.client.errors import ClientError, Failure
from broker_streams.hosts.task_timeout import TaskTimeout
from broker_streams.kernel.errors import StreamsError

CONNECTION: Final = "the first connection to bootstrap.servers"
PAUSE_S: Final = 0.5


async def connected(client: AdminClient, timeout: TaskTimeout, stopping: asyncio.Event) -> bool:
    """Ask until a broker answers. False: the application stops first. Raises ClientError: none has answered within
    task.timeout.ms, or a login or a certificate is refused.
    """
    stops = asyncio.create_task(stopping.wait())
    try:
        while True:
            asked: asyncio.Task[Any] = asyncio.create_task(client.cluster.describe())
            await asyncio.wait([asked, stops], return_when=asyncio.FIRST_COMPLETED)
            if stops.done():
                asked.cancel()
                await asyncio.gather(asked, return_exceptions=True)
                return False
            error = asked.exception()
            # A broker has answered, if only with an error.
            if error is None or client.caller.pool.has_connected:
                timeout.passed(CONNECTION)
                return True
            if not isinstance(error, ClientError) or not error.retriable or _is_of_tls(error):
                raise error
            try:
                timeout.failed(CONNECTION, error)
            except StreamsError as late:
                raise ClientError(Failure.UNREACHABLE, str(late)) from error
            await asyncio.wait([stops], timeout=PAUSE_S)
    finally:
        stops.cancel()


def _is_of_tls(error: BaseException | None) -> bool:
    """Whether the certificate of one side, or a version of TLS, is the reason: these do not change by themselves."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__context__
    return False
