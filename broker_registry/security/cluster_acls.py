"""The ACLs of the cluster, as DescribeAcls answers them.

They are read every REFRESH_S: so a right that is taken away counts that long at most, and the time of one answer. While
the brokers cannot be reached, the ACLs that were read last count for STALE_S; after that no right is granted.

The registry needs Describe on the cluster to read them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from broker_cy.client.errors import ClientError, Failure
from broker_cy.core.errors import ErrorCode
from broker_cy.security.acls import Binding, ResourceType, host_text
from broker_cy.security.explain import authorizer_of

REFRESH_S: Final = 5.0
STALE_S: Final = 60.0

_LOG = logging.getLogger(__name__)


class AclsUnknown(Exception):
    """The ACLs could not be read for STALE_S."""


class ClusterAcls:
    """See the module. `describe` returns the ACLs, and raises ClientError; `now_s` is a monotonic clock."""

    def __init__(
        self,
        describe: Callable[[], Awaitable[Sequence[Binding]]],
        super_users: Iterable[str],
        *,
        allow_if_no_acl: bool,
        now_s: Callable[[], float],
    ) -> None:
        self._describe = describe
        self.super_users = frozenset(super_users)
        self._allow_if_no_acl = allow_if_no_acl
        self._now_s = now_s
        self._bindings: Sequence[Binding] | None = None
        self._authorizer = authorizer_of((), self.super_users)
        self._read_s: float | None = None
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Read the ACLs, and follow them. Raises ClientError."""
        try:
            await self.read()
        except ClientError as error:
            raise _explained(error) from None
        self._task = asyncio.get_running_loop().create_task(self._follow())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def read(self) -> None:
        """Raises ClientError, and the ACLs stay as they were."""
        # The time of the question: ACLs may change after the brokers have read them for the answer.
        asked_s = self._now_s()
        bindings = await self._describe()
        if bindings != self._bindings:
            # Decisions are kept by the authorizer, so it is exchanged only for other ACLs.
            self._authorizer = authorizer_of(bindings, self.super_users, allow_if_no_acl=self._allow_if_no_acl)
            self._bindings = bindings
        self._read_s = asked_s

    async def _follow(self) -> None:
        is_known = True
        while True:
            await asyncio.sleep(REFRESH_S)
            try:
                await self.read()
            except ClientError as error:
                if is_known:
                    _LOG.warning("the ACLs of the cluster cannot be read; those of before count for now: %s", error)
                is_known = False
            else:
                if not is_known:
                    _LOG.warning("the ACLs of the cluster are read again")
                is_known = True

    def mask(self, principal: str, host: str, resource_type: ResourceType, name: str) -> int:
        """Return the operations that are allowed, as bits `1 << Operation`. Raises AclsUnknown, unless the principal is
        a super user.
        """
        if principal not in self.super_users and not self._is_known():
            raise AclsUnknown
        return self._authorizer.mask(principal, host_text(host), resource_type, name)

    def _is_known(self) -> bool:
        return self._read_s is not None and self._now_s() - self._read_s < STALE_S


def _explained(error: ClientError) -> ClientError:
    if error.code is ErrorCode.SECURITY_DISABLED:
        reason = "the brokers have no authorizer, so there are no ACLs to decide by"
    elif error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        reason = "the registry's own principal needs the right Describe on the cluster"
    else:
        return error
    return ClientError(Failure.REFUSED, reason, what="the ACLs of the cluster", code=error.code)
