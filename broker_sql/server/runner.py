"""The persistent queries of this server: those that should run by the commands are started, all others are stopped.

Changes come as a whole state (`wanted`), so a query that a replay starts and terminates never runs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from broker_cy.admin import AdminClient
from broker_sql.server.engine import WantedQuery
from broker_sql.server.queries.persistent import PersistentQuery, clean_up, prepare
from broker_streams.plan.topology import Topology

_LOG = logging.getLogger(__name__)


class Runner:
    """`config_of` returns the settings of the application of a query, and `make` the query, which is stopped. Use it as
    a context manager.
    """

    def __init__(
        self,
        client: AdminClient,
        wanted: Callable[[], Mapping[str, WantedQuery]],
        config_of: Callable[[WantedQuery], Mapping[str, Any]],
        make: Callable[[str, Topology, Mapping[str, Any]], PersistentQuery] = PersistentQuery,
    ) -> None:
        self._client = client
        self._wanted = wanted
        self._config_of = config_of
        self._make = make
        self.running: dict[str, PersistentQuery] = {}
        # The offset of the command that made each running query: another one means another topology.
        self._made: dict[str, int] = {}
        self._changed = asyncio.Event()
        self._settled = asyncio.Condition()
        self._done = 0
        self._asked = 0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Runner:
        self._task = asyncio.create_task(self._follow())
        self.note()
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.gather(*(each.close() for each in self.running.values()))
        self.running.clear()

    def note(self) -> None:
        """The wanted queries may have changed."""
        self._asked += 1
        self._changed.set()

    async def settled(self) -> None:
        """Wait until the changes that were noted so far are done."""
        asked = self._asked
        async with self._settled:
            await self._settled.wait_for(lambda: self._done >= asked)

    async def _follow(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            asked = self._asked
            try:
                await self._reconcile()
            except Exception:  # the next change is still to be done
                _LOG.exception("queries could not be brought to their wanted state")
            async with self._settled:
                self._done = asked
                self._settled.notify_all()

    async def _reconcile(self) -> None:
        wanted = dict(self._wanted())
        for query_id in [each for each in self.running if each not in wanted]:
            query = self.running.pop(query_id)
            await query.close()
            await clean_up(self._client, query)
        for query_id, each in wanted.items():
            current = self.running.get(query_id)
            if current is not None and self._made[query_id] != each.offset:
                await current.close()
                current = None
            if current is None:
                current = self._make(query_id, each.topology, self._config_of(each))
                # Paused before others see it: preparing takes a while, and SHOW QUERIES would say RUNNING.
                if each.is_paused:
                    current.pause()
                self.running[query_id], self._made[query_id] = current, each.offset
                await prepare(self._client, current)
                current.start()
            elif each.is_paused != (current.state == "PAUSED"):
                (current.pause if each.is_paused else current.resume)()
