"""An instance as a member of the group that elects the writer (see `leadership`), and how it reaches the one elected.

The option for a move with Confluent's registry still running: its instances do not fence other writers, so that one of
all must write. Requests to others are forwarded to it.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from broker_cy.admin import AdminClient, ClientError
from broker_cy.client.address import Address
from broker_cy.client.group_member import Assign, GroupMember, Revoke, Send, State
from broker_cy.client.http_exchange import HttpAnswer, Unanswered, exchange
from broker_registry.errors import Code, RegistryError
from broker_registry.leadership import HTTPS, ElectionSettings, Identity, RegistryProtocol

AGAIN_S: Final = 1.0
"""The pause after a failure that does not pass by itself, such as a missing right."""
ANSWER_BYTES_MAX: Final = 64 << 20
FORWARDED: Final = "X-Forward"

_log = logging.getLogger(__name__)


class NotLeader(Exception):
    """Another instance writes: the request is to be forwarded."""


class Election:
    """See the module. `start` it in a running loop, and close it there. `tls` is for requests to a leader with https,
    None for the authorities of the system.
    """

    def __init__(
        self, client: AdminClient, group: str, settings: ElectionSettings, tls: ssl.SSLContext | None = None
    ) -> None:
        self._settings = settings
        self._tls = tls
        self._protocol = RegistryProtocol(settings.own, is_sticky=settings.is_sticky)
        self._member = GroupMember(settings.member(group), self._protocol)
        self._link = client.coordinator_link(self._member)
        self._changed = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Leave the group, so that the others elect another leader at once."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        send = self._member.leave()
        if send is not None:
            with suppress(ClientError):
                await self._link.exchange(send)
        self._link.close()

    # ------------------------------------------------------------------------------------------------ questions

    @property
    def leader(self) -> Identity | None:
        """The instance that writes, if it is known."""
        return next(iter(self._member.owned), None)

    @property
    def leads(self) -> bool:
        """Whether this instance writes."""
        leader = self.leader
        return leader is not None and leader.is_same(self._settings.own)

    @property
    def epoch(self) -> tuple[int, int]:
        """Changes with each election."""
        return self._member.epoch

    async def known(self) -> Identity:
        """Wait until a leader is known. The caller limits the time."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.leader is not None)
        leader = self.leader
        assert leader is not None
        return leader

    def no_leader(self) -> RegistryError:
        return RegistryError(Code.UNKNOWN_LEADER, f"the leader is not known: {self._protocol.problem or 'no election'}")

    # ------------------------------------------------------------------------------------------------ the group

    async def _run(self) -> None:
        while True:
            before, pause_s = (self.leader, self._protocol.problem), 0.0
            try:
                await self._step()
            except ClientError as error:
                _log.warning("%s; this instance joins the group again", error)
                self._member.forget()
                pause_s = AGAIN_S
            await self._told(before)
            await asyncio.sleep(pause_s)

    async def _told(self, before: tuple[Identity | None, str]) -> None:
        now = self.leader, self._protocol.problem
        if now == before:
            return
        if now[1]:
            _log.warning("%s", now[1])
        async with self._changed:
            self._changed.notify_all()

    async def _step(self) -> None:
        """Carry out one action, or wait for one."""
        member = self._member
        loop = asyncio.get_running_loop()
        if member.state is State.FAILED:
            _log.warning("the group refused this instance: %s", member.failure.name)
            member.forget()
            await asyncio.sleep(AGAIN_S)
            return
        action = member.next(loop.time())
        if isinstance(action, Send):
            error = await self._link.exchange(action)
            if error is not None:
                _log.info("%s", error)
        elif isinstance(action, Revoke):
            member.revoked(action.parts)
        elif isinstance(action, Assign):
            member.assigned(action, self._protocol.assignments(action.members))
        else:
            await asyncio.sleep(max(0.0, member.wait_s(loop.time())))

    # ------------------------------------------------------------------------------------------------ forwarding

    def _context(self) -> ssl.SSLContext:
        return self._tls or ssl.create_default_context()

    async def forward(
        self, leader: Identity, method: str, target: str, headers: Sequence[tuple[str, str]], body: bytes
    ) -> HttpAnswer:
        """Return the answer of the leader to a request. Raises RegistryError."""
        try:
            async with asyncio.timeout(self._settings.read_s):
                return await exchange(
                    Address(leader.host, leader.port),
                    method,
                    target,
                    headers=[*headers, (FORWARDED, "true")],
                    body=body,
                    context=self._context() if leader.scheme == HTTPS else None,
                    answer_bytes_max=ANSWER_BYTES_MAX,
                )
        except TimeoutError:
            reason = f"no answer within {self._settings.read_s:g} s"
        except (OSError, Unanswered, ValueError) as error:
            reason = str(error) or type(error).__name__
        text = f"Error while forwarding the request to the leader {leader.url}: {reason}"
        raise RegistryError(Code.FORWARDING_FAILED, text)
