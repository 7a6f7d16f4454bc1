"""A process as a member of the group of a flow (see sharing.py)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from broker_cy.admin import AdminClient, ClientError, Failure
from broker_cy.client.group_member import Assign, GroupMember, Revoke, Send, State
from broker_mirror.merged import Pair
from broker_mirror.sharing import Share, ShareProtocol, member_settings

LEAVE_S: Final = 1.0
"""How long the end of a process waits for the answer to LeaveGroup; without it, others wait for the session timeout."""


class FlowMember:
    """Runs the membership. `prepare` is called in the leader before shares are given out, `take` with a new share, and
    `give_up` before the share is given up: when it returns, this process copies nothing more.
    """

    def __init__(
        self,
        client: AdminClient,
        pair: Pair,
        prepare: Callable[[], Awaitable[None]],
        take: Callable[[Share], Awaitable[None]],
        give_up: Callable[[], Awaitable[None]],
    ) -> None:
        self._protocol = ShareProtocol()
        self._member = GroupMember(member_settings(pair), self._protocol)
        self._link = client.coordinator_link(self._member)
        self._prepare, self._take, self._give_up = prepare, take, give_up
        self._taken: Share | None = None
        # A share is taken beside the heartbeats of the member.
        self._taking: asyncio.Task[None] | None = None

    @property
    def share(self) -> Share | None:
        return next(iter(self._member.owned), None)

    async def run(self) -> None:
        """Take part in the group until it is cancelled. Raises ClientError."""
        try:
            while True:
                await self._step()
                if self._taking is not None and self._taking.done():
                    await self._taking
                if self.share != self._taken:
                    # The share was lost with the generation, or is new.
                    await self._gave_up()
                    if (share := self.share) is not None:
                        self._taken = share
                        self._taking = asyncio.ensure_future(self._take(share))
        finally:
            await self._gave_up()

    async def _gave_up(self) -> None:
        taking, self._taking, self._taken = self._taking, None, None
        if taking is not None:
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)
            await self._give_up()

    async def leave(self) -> None:
        """Leave the group, so that others take the partitions at once."""
        send = self._member.leave()
        if send is not None:
            with suppress(ClientError, TimeoutError):
                async with asyncio.timeout(LEAVE_S):
                    await self._link.exchange(send)
        self._link.close()

    async def _step(self) -> None:
        """Carry out one action, or wait for one."""
        member = self._member
        loop = asyncio.get_running_loop()
        if member.state is State.FAILED:
            raise ClientError(
                Failure.REFUSED,
                "the group refuses this process",
                code=member.failure,
                what=f"group {member.settings.group_id}",
            )
        action = member.next(loop.time())
        if isinstance(action, Send):
            await self._link.exchange(action)
        elif isinstance(action, Revoke):
            await self._gave_up()
            member.revoked(action.parts)
        elif isinstance(action, Assign):
            await self._prepare()
            member.assigned(action, self._protocol.assignments(action.members))
        else:
            await asyncio.sleep(max(0.0, member.wait_s(loop.time())))
