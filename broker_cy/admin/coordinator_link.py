"""The connection of a member of a classic group to its coordinator."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any, Final

from broker_cy.admin.caller import Caller
from broker_cy.admin.coordinators import Coordinators
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import ClientError, problem_of, refused
from broker_cy.client.group_member import GroupMember, Send, code_of

_lanes: Final = itertools.count()


class CoordinatorLink:
    """Sends the requests of a member, over a connection of its own: no heartbeat waits behind another request."""

    def __init__(self, caller: Caller, coordinators: Coordinators, member: GroupMember[Any]) -> None:
        self._caller, self._coordinators, self._member = caller, coordinators, member
        self._lane = f"group-{next(_lanes)}"
        self._failing_since_s: float | None = None

    async def exchange(self, send: Send) -> ClientError | None:
        """Send a request to the coordinator, and pass the answer to the member; returns the error of the answer, or why
        it has none. Raises ClientError for errors that do not pass, and if the coordinator does not answer for as long
        as a call may take.
        """
        group_id = self._member.settings.group_id
        loop = asyncio.get_running_loop()
        try:
            places, failed = await self._coordinators.locate([group_id], self._caller.deadline())
            for failure in failed.values():
                raise failure
            (peer,) = places
            deadline = Deadline(self._caller.timeout_s + send.more_s)
            answer, _ = await self._caller.pool.ask(
                peer._replace(lane=self._lane), send.request, send.answer, deadline, at_most=send.at_most
            )
        except ClientError as error:
            now_s = loop.time()
            self._failing_since_s = self._failing_since_s or now_s
            if not self._caller.may_retry(error, 1) or now_s - self._failing_since_s >= self._caller.timeout_s:
                raise error.about(f"group {group_id}") from None
            self._coordinators.forget([group_id])
            self._member.no_answer(send, now_s)
            return error
        self._failing_since_s = None
        name = self._member.take(send, answer, loop.time())
        if self._member.is_coordinator_lost:
            self._member.is_coordinator_lost = False
            self._coordinators.forget([group_id])
        problem = problem_of(code_of(send.api, answer)) if name else None
        return None if problem is None else refused(problem, peer.name, send.api, f"group {group_id}")

    def close(self) -> None:
        self._caller.pool.leave(self._lane)
