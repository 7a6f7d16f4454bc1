"""The users of the cluster, with their passwords: each is checked by a login at a broker, so that the registry keeps
none.

Bounds: CHECKS_AT_ONCE_MAX logins in threads of their own, because SCRAM computes for some milliseconds; WAITING_MAX
more wait; CHECK_S for one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from broker_cy.admin import AdminClient
from broker_cy.client.errors import ClientError
from broker_cy.client.login import ClientLogin
from broker_cy.core.errors import ErrorCode
from broker_cy.http.logins import Delayed, Unchecked, User
from broker_cy.security.sasl.exchange import Login

CHECKS_AT_ONCE_MAX: Final = 2
WAITING_MAX: Final = 32
CHECK_S: Final = 5.0
BUSY_S: Final = 1


class ClusterUsers:
    """See the module. `connect` returns a client that logs in so, for the running loop."""

    def __init__(self, mechanism: str, connect: Callable[[ClientLogin], AdminClient]) -> None:
        self._mechanism = mechanism
        self._connect = connect
        self._threads = ThreadPoolExecutor(CHECKS_AT_ONCE_MAX, thread_name_prefix="login")
        self._checks = 0

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def version(self) -> None:
        """The brokers do not say when users change: see http.logins."""

    async def check(self, name: str, password: str) -> User | None:
        if self._checks >= CHECKS_AT_ONCE_MAX + WAITING_MAX:
            raise Delayed(BUSY_S)
        self._checks += 1
        try:
            loop = asyncio.get_running_loop()
            is_right = await loop.run_in_executor(self._threads, lambda: asyncio.run(self._logs_in(name, password)))
        finally:
            self._checks -= 1
        return User(name) if is_right else None

    async def _logs_in(self, name: str, password: str) -> bool:
        """Raises Unchecked."""
        client = self._connect(ClientLogin(Login(self._mechanism, name, password))).with_timeout(CHECK_S)
        try:
            await client.cluster.describe()
        except ClientError as error:
            if error.code is ErrorCode.SASL_AUTHENTICATION_FAILED:
                return False
            raise Unchecked(str(error)) from None
        finally:
            await client.close()
        return True
