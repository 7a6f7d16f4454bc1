"""The objects of one cluster in the dashboard: its session, its history, its alerts, its channels in use."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from broker_cy.client.clusters import ClusterEntry
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.acts.plan import Command
from broker_cy.console.alerts.watch import Alerting
from broker_cy.console.session import Session
from broker_registry.console.tools import schemas_of
from dashboard.collector.alert_log import AlertLog
from dashboard.collector.channel import Params, channel_class, key_of
from dashboard.collector.group_readings import GroupReadings
from dashboard.collector.history import History
from dashboard.collector.live_channel import LiveChannel, Receiver
from dashboard.collector.move_runs import MoveRuns
from dashboard.collector.record_jobs import RecordJobs
from dashboard.security.audit import Audit
from dashboard.security.masking import Masking
from dashboard.security.roles import Scope

CLIENT_ID = "dashboard"
# Channels in use at once, over all viewers of a cluster.
CHANNELS_MAX = 5_000
# A channel without viewers is kept this long, for viewers who return or whose tab is hidden for a moment. Beyond
# IDLE_MAX, the channels that have been idle for longest are closed.
IDLE_S = 30.0
IDLE_MAX = 200
_SWEEP_S = 5.0


class ClusterHub:
    """One cluster. `environment` colours it: production, staging, test, ... or empty."""

    def __init__(
        self,
        entry: ClusterEntry,
        alerts: Alerting,
        *,
        environment: str = "",
        is_named: bool = True,
        is_readonly: bool = False,
        state_directory: Path | None = None,
        masking: Masking | None = None,
        timeout_s: float | None = None,
    ) -> None:
        self.entry = entry
        self.name = entry.name
        self.environment = environment
        self.is_readonly = is_readonly or entry.is_readonly
        self.session = Session(entry, client_id=CLIENT_ID, timeout_s=timeout_s)
        self.command = Command(entry, is_named)
        self.alerts = alerts
        self.alert_log = AlertLog()
        # The audit log of the dashboard, set when the application is built; None in a hub without one.
        self.audit: Audit | None = None
        self.masking = masking
        # The schema registry; None without one.
        self.schemas = schemas_of(entry if timeout_s is None else replace(entry, timeout_s=timeout_s))
        self.history = History(self.session, state_directory)
        self.group_readings = GroupReadings(self.history)
        self.jobs = RecordJobs(self.session.client, decoder=self.session.decoder)
        self.moves = MoveRuns()
        self._lives: dict[tuple[str, Scope], LiveChannel] = {}
        # Channels without viewers, with the loop time since when, the oldest first.
        self._idle: dict[tuple[str, Scope], float] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def lives(self) -> Mapping[tuple[str, Scope], LiveChannel]:
        return self._lives

    def start(self) -> None:
        self.session.start()
        self.history.start()
        self._tasks = [asyncio.create_task(self._sweep()), asyncio.create_task(self._look())]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for live in list(self._lives.values()):
            await live.close()
        self._lives.clear()
        self._idle.clear()
        await asyncio.gather(*self._ending, return_exceptions=True)
        await self.jobs.close()
        await self.history.close()
        await self.session.close()

    def watch(self, name: str, params: Params, scope: Scope, viewer: Receiver) -> LiveChannel:
        """Add a viewer to a channel, and offer its frame if there is one. Raises ClientError."""
        cls = channel_class(name)
        checked = cls.check(params)
        key = key_of(self.name, name, checked)
        live = self._lives.get((key, scope))
        if live is None:
            if len(self._lives) - len(self._idle) >= CHANNELS_MAX:
                raise ClientError(Failure.INVALID, f"{CHANNELS_MAX:,} channels are in use, which is the limit")
            live = LiveChannel(key, cls(self, checked, scope))
            self._lives[key, scope] = live
            live.start()
        self._idle.pop((key, scope), None)
        live.add(viewer)
        return live

    def unwatch(self, live: LiveChannel, viewer: Receiver) -> None:
        live.viewers.discard(viewer)
        place = (live.key, live.channel.scope)
        if live.viewers or self._lives.get(place) is not live:
            return
        self._idle[place] = asyncio.get_running_loop().time()
        while len(self._idle) > IDLE_MAX:
            self._end(next(iter(self._idle)))

    def _end(self, place: tuple[str, Scope]) -> None:
        """Close a channel without viewers."""
        del self._idle[place]
        task = asyncio.create_task(self._lives.pop(place).close())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _sweep(self) -> None:
        """Close channels that have had no viewers for a while."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_SWEEP_S)
            self.jobs.sweep()
            for place, since_s in list(self._idle.items()):
                if loop.time() - since_s >= IDLE_S:
                    self._end(place)

    async def _look(self) -> None:
        """Evaluate the alert rules, also without viewers."""
        while True:
            with contextlib.suppress(ClientError):
                self.alert_log.add(await self.alerts.look(self.session))
            await asyncio.sleep(self.alerts.interval_s)
