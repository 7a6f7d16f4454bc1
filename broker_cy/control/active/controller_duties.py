"""The active controller's own duties: it fences brokers whose session has ended, moves leadership back to preferred
replicas, and elects replicas that may lack records if that was allowed since.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from broker_cy.controller.broker_states import FenceBrokers, ReplaceLeaders, Withdrawal
from broker_cy.controller.elections import BalanceLeaders, ElectUnclean
from broker_cy.controller.operation import Operation
from broker_cy.controller.refused_connections import NoteCuts, NoteRefusedConnections
from broker_cy.core.errors import KafkaError
from broker_cy.core.logs import facts
from broker_cy.metadata.fence_reasons import FenceReason

if TYPE_CHECKING:
    from broker_cy.config import BrokerConfig
    from broker_cy.control.active.active_controller import ActiveController
    from broker_cy.control.watch.broker_watch import BrokerWatch
    from broker_cy.core.clock import Clock

LOGGER = logging.getLogger("broker_cy.server.metadata")

# The time between two checks for brokers whose session has ended, while no session can end earlier.
CHECK_S: Final = 1.0
CHECK_S_MIN: Final = 0.01
# The time between two steps of elections if the first one left some, so that clients do not all reconnect together.
STEP_S: Final = 1.0
# Kafka's unclean.leader.election.interval.ms, which is an internal setting.
UNCLEAN_S: Final = 300.0


class ControllerDuties:
    """Runs from `start` to `stop`, while this node is the active controller."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        active: ActiveController,
        watch: BrokerWatch,
    ) -> None:
        self._config = config
        self._clock = clock
        self._loop = loop
        self._active = active
        self._watch = watch
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._is_running = False
        # Brokers whose leadership is being replaced: they are fenced next.
        self._fencing: set[int] = set()

    def start(self) -> None:
        self._is_running = True
        self._active.heartbeats.session_timeout_ms = self._config["broker.session.timeout.ms"]
        self._later("sessions", CHECK_S_MIN, self._check_sessions)
        # The observations of this node before it became active.
        for known, take in (
            (self._watch.dead, self.fence_dead),
            (self._watch.silent, self.fence_silent),
            (self._watch.cut, self.note_cut),
            (self._watch.refused, self.note_refused),
        ):
            if known:
                take(dict(known))
        if self._config["auto.leader.rebalance.enable"]:
            interval_s = self._config["leader.imbalance.check.interval.seconds"]
            self._steps("preferred leaders", interval_s, BalanceLeaders)
        self._steps("unclean elections", UNCLEAN_S, ElectUnclean)

    def stop(self) -> None:
        self._is_running = False
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def fence_dead(self, epochs: Mapping[int, int]) -> None:
        """Fence brokers that are certainly dead, unless they have registered again since."""
        LOGGER.info("fencing brokers whose processes have ended", extra=facts(brokers=list(epochs)))
        self._fence(FenceBrokers(tuple(epochs), FenceReason.PROCESS_ENDED, dict(epochs)))

    def fence_silent(self, epochs: Mapping[int, int]) -> None:
        """Fence brokers that stand still, unless they have registered again since."""
        LOGGER.info("fencing brokers that stand still", extra=facts(brokers=list(epochs)))
        self._fence(FenceBrokers(tuple(epochs), FenceReason.STANDS_STILL, dict(epochs), ended=False))

    def _fence(self, fencing: FenceBrokers) -> None:
        """Other leaders first: in a cluster with thousands of partitions clients have them in a third of the time. Each
        step follows when the one before is committed, and after the last one the brokers are fenced.
        """

        self._fencing.update(fencing.broker_ids)

        def withdraw(step: Withdrawal) -> None:
            submitted = self._submit(step)
            if submitted is None:
                fence()
            else:
                submitted.add_done_callback(go_on)

        def go_on(done: asyncio.Future[Withdrawal | None]) -> None:
            following = None if done.cancelled() or done.exception() is not None else done.result()
            if following is not None and self._is_running:
                withdraw(following)
            else:
                fence()

        def fence() -> None:
            self._fencing.difference_update(fencing.broker_ids)
            if self._is_running:
                self._submit(fencing)

        withdraw(ReplaceLeaders(fencing.broker_ids, fencing.epochs))

    def note_cut(self, epochs: Mapping[int, int]) -> None:
        """The connections of this node to brokers have ended."""
        self._submit(NoteCuts(epochs))

    def note_refused(self, epochs: Mapping[int, int]) -> None:
        """Brokers on other hosts refuse the connections of this node."""
        self.note_report(NoteRefusedConnections(self._config.node_id, None, epochs, self._watch.strangers))

    def note_report(self, report: NoteRefusedConnections) -> None:
        """Brokers refuse the connections of a node."""

        def done(noted: asyncio.Future[dict[int, int]]) -> None:
            if self._is_running and not noted.cancelled() and noted.exception() is None and (gone := noted.result()):
                LOGGER.info("fencing brokers that refuse connections", extra=facts(brokers=list(gone)))
                self._fence(FenceBrokers(tuple(gone), FenceReason.REFUSES_CONNECTIONS, gone))

        noted = self._submit(report)
        if noted is not None:
            noted.add_done_callback(done)

    def _later(self, name: str, delay_s: float, work: Callable[[], None]) -> None:
        self._timers[name] = self._loop.call_later(delay_s, work)

    def _check_sessions(self) -> None:
        # Before the check: an exception in it must not be the end of all checks.
        self._later("sessions", CHECK_S, self._check_sessions)
        now_ms = int(self._clock.monotonic() * 1000)
        brokers = self._active.brokers
        # The broker of this process is alive, although a loop that stood still was late with its heartbeat.
        known = {self._config.node_id, *self._fencing}
        ended = [each for each in self._active.heartbeats.expired(brokers, now_ms) if each not in known]
        if ended:
            LOGGER.warning("the sessions of brokers have ended", extra=facts(brokers=ended))
            self._fence(FenceBrokers(tuple(ended), FenceReason.SESSION_TIMEOUT))
        next_ms = self._active.heartbeats.next_check_ms(brokers)
        if next_ms is not None and self._is_running:
            self._timers["sessions"].cancel()
            self._later("sessions", min(max((next_ms - now_ms) / 1000, CHECK_S_MIN), CHECK_S), self._check_sessions)

    def _steps(self, name: str, interval_s: float, operation: Callable[[], Operation[bool]]) -> None:
        """Run the operation every `interval_s`, and soon again while it leaves something to do."""

        def done(future: asyncio.Future[bool]) -> None:
            if name in self._timers and not future.cancelled() and future.exception() is None and future.result():
                self._timers[name].cancel()
                self._later(name, STEP_S, step)

        def step() -> None:
            self._later(name, interval_s, step)
            submitted = self._submit(operation())
            if submitted is not None:
                submitted.add_done_callback(done)

        self._later(name, interval_s, step)

    def _submit(self, operation: Operation[Any]) -> asyncio.Future[Any] | None:
        try:
            future = self._active.submit(operation)
        except KafkaError as error:
            LOGGER.warning("the controller could not do a duty", extra=facts(operation=operation, reason=error))
            return None
        # The next check retries a failed operation.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        return future
