"""The flows of one process: each runs on its own. After a failure it starts again, with the cause in its status."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from broker_cy import __version__
from broker_cy.admin import AdminClient, ClientError
from broker_cy.admin.event_writer import EventWriter
from broker_cy.client.mirror_status import FlowStatus, MirrorStatus, Restart
from broker_cy.metrics.topics import OWN_CLIENT
from broker_mirror.filters import NameFilter
from broker_mirror.flow_run import CopierOf, FlowRun, connect
from broker_mirror.flows import Flow
from broker_mirror.journal import Journal
from broker_mirror.merged import Pair, Role, Side
from broker_mirror.status import RESTARTS_MAX, Rate

FIRST_PAUSE_S: Final = 1.0
PAUSE_MAX_S: Final = 60.0
"""The longest pause before a restart."""
EVENTS_S: Final = 5.0
"""The interval of looks for events, and how long writing some may take."""
STEADY_S: Final = 60.0
"""A run of this length makes the next pause the first one again."""

WallClock = Callable[[], int]
"""Returns the time in ms since 1970."""
_log = logging.getLogger(__name__)


class Pauses:
    """The pauses between restarts: they double up to PAUSE_MAX_S."""

    def __init__(self) -> None:
        self._next_s = FIRST_PAUSE_S

    def after(self, run_s: float) -> float:
        """Return the pause after a run of a length."""
        if run_s >= STEADY_S:
            self._next_s = FIRST_PAUSE_S
        pause_s = self._next_s
        self._next_s = min(pause_s * 2, PAUSE_MAX_S)
        return pause_s


class FlowKeeper:
    """Keeps one flow running."""

    def __init__(self, flow: Flow, copier_of: CopierOf, returning: NameFilter | None, wall_ms: WallClock) -> None:
        self.flow = flow
        self._copier_of, self._returning, self._wall_ms = copier_of, returning, wall_ms
        self._run: FlowRun | None = None
        self._restarts: deque[Restart] = deque(maxlen=RESTARTS_MAX)
        self._count = 0
        self._rate = Rate()
        self._journal = Journal(flow.source, flow.target)

    async def tell(self) -> None:
        """Write the events of the flow into its target until it is cancelled."""

        def connect_to_target() -> AdminClient:
            return connect(self.flow.clients[Side.TARGET, Role.ADMIN], EVENTS_S, OWN_CLIENT)

        writer = EventWriter(connect_to_target, f"flow {self.flow.pair}")
        try:
            while True:
                await asyncio.sleep(EVENTS_S)
                await writer.write(self._journal.look(self.status()), self._wall_ms())
        finally:
            await writer.close()

    async def keep(self) -> None:
        """Run the flow until it is cancelled."""
        loop = asyncio.get_running_loop()
        pauses = Pauses()
        while True:
            begin_s = loop.time()
            self._run = run = FlowRun(self.flow, self._copier_of, self._returning)
            try:
                cause = await run.run()
            except ClientError as error:
                cause = str(error)
            except Exception as error:
                _log.exception("flow %s", self.flow.pair)
                cause = f"{type(error).__name__}: {error}"
            self._run = None
            self._count += 1
            self._restarts.append(Restart(self._wall_ms(), cause))
            pause_s = pauses.after(loop.time() - begin_s)
            _log.warning("flow %s ended, and starts again in %g s: %s", self.flow.pair, pause_s, cause)
            await asyncio.sleep(pause_s)

    def note_rate(self, now_s: float) -> None:
        """Take the counts for the rates, once a second."""
        self._rate.note(now_s, *((0, 0) if self._run is None else self._run.counts()))

    def status(self) -> FlowStatus:
        if self._run is None:
            problems = {"flow": self._restarts[-1].cause} if self._restarts else {}
            flow = self.flow
            found = FlowStatus(flow.source, flow.target, flow.kind.value, "waiting", problems=problems)
        else:
            found = self._run.status()
        records, size_bytes = self._rate.per_s()
        return replace(
            found,
            records_per_s=records,
            bytes_per_s=size_bytes,
            restarts=self._count,
            last_restarts=tuple(self._restarts),
        )


class Service:
    """Runs flows until it is cancelled. `every` are all flows of the file: two of them may be a circle."""

    def __init__(self, flows: Sequence[Flow], every: Sequence[Flow], copier_of: CopierOf, wall_ms: WallClock) -> None:
        self._keepers = [FlowKeeper(flow, copier_of, returning_of(flow, every), wall_ms) for flow in flows]

    async def run(self) -> None:
        """Run the flows. When it is cancelled, all of them commit and leave their groups, within 5 s."""
        loop = asyncio.get_running_loop()
        keeping = [asyncio.create_task(run()) for each in self._keepers for run in (each.keep, each.tell)]
        try:
            while True:
                await asyncio.sleep(1.0)
                for keeper in self._keepers:
                    keeper.note_rate(loop.time())
        finally:
            for each in keeping:
                each.cancel()
            await asyncio.gather(*keeping, return_exceptions=True)

    def status(self) -> MirrorStatus:
        return MirrorStatus(__version__, tuple(each.status() for each in self._keepers))


def returning_of(flow: Flow, every: Sequence[Flow]) -> NameFilter | None:
    """Return the topics that the flow in the other direction copies; None if none does, or if names show cycles."""
    back = Pair(flow.pair.target, flow.pair.source)
    if not flow.policy.is_identity:
        return None
    return next((each.topics for each in every if each.pair == back and each.copies and each.policy.is_identity), None)
