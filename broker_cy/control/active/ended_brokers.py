"""Brokers that have ended, as this node learns of it: from its connections to them, from the parent of shards, and, on
the active controller, from the reports of other nodes.

The active controller fences them; any other node reports them to the active controller.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from broker_cy.control.watch.broker_watch import BrokerWatch
from broker_cy.core.logs import facts

if TYPE_CHECKING:
    from broker_cy.client.outgoing import Outgoing
    from broker_cy.config import BrokerConfig
    from broker_cy.control.active.leadership import Leadership
    from broker_cy.controller.refused_connections import NoteRefusedConnections

LOGGER = logging.getLogger("broker_cy.server.metadata")


class Reporter(Protocol):
    """Reports to the active controller on another node (NodeMembership)."""

    def report_end(self, broker_id: int, epoch: int) -> None: ...
    def hurry(self) -> None: ...


def _ignore(_: int) -> None:
    """This node answers no clients."""


class EndedBrokers:
    """`watch` has the connections. `on_suspect(broker_id)`: it is probably gone; `on_clear(broker_id)`: it is not;
    `on_gone(broker_id)`: it certainly is.
    """

    def __init__(
        self,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        to_brokers: Outgoing,
        to_controllers: Outgoing,
        leadership: Leadership,
        reporter: Callable[[], Reporter],
        on_leader_gone: Callable[[int, int], None],
    ) -> None:
        """`on_leader_gone` as in BrokerWatch."""
        self.on_suspect: Callable[[int], None] = _ignore
        self.on_clear: Callable[[int], None] = _ignore
        self.on_gone: Callable[[int], None] = _ignore
        self._leadership = leadership
        self._reporter = reporter
        interval_ms = config["brokercy.liveness.interval.ms"]
        self.watch = BrokerWatch(
            config.node_id,
            loop,
            config.network.inter_broker,
            to_brokers,
            to_controllers,
            self._suspect,
            lambda broker_id: self.on_clear(broker_id),
            self._fence_dead,
            self._note_refused,
            on_leader_gone,
            leadership.fence_silent,
            broker_interval_ms=interval_ms if config.is_controller else None,
            leader_interval_ms=interval_ms,
        )

    def note_report(self, report: NoteRefusedConnections) -> None:
        """Another node reports brokers that refuse its connections. No caller waits: the node repeats the report."""
        self._leadership.note_report(report)

    def process_ended(self, broker_id: int, epoch: int) -> None:
        """The parent of the shards of this host reports that this incarnation of one of them has ended."""
        LOGGER.warning("the process of a broker on this host has ended", extra=facts(broker=broker_id, epoch=epoch))
        if not self.watch.process_ended(broker_id, epoch):
            # A fenced broker is not watched, but has a session.
            self._report_end(broker_id, epoch)

    def _suspect(self, broker_id: int, epoch: int) -> None:
        self.on_suspect(broker_id)
        self._leadership.note_cut(broker_id, epoch)

    def _fence_dead(self, epochs: Mapping[int, int]) -> None:
        """Brokers are certainly dead: fence them, or ask the active controller to fence exactly these incarnations, so
        that no session has to end for them.
        """
        for broker_id, epoch in epochs.items():
            self.on_gone(broker_id)
            self._report_end(broker_id, epoch)
        self._leadership.fence_dead(epochs)

    def _report_end(self, broker_id: int, epoch: int) -> None:
        if self._leadership.active is None:
            self._reporter().report_end(broker_id, epoch)

    def _note_refused(self, broker_id: int, epoch: int, is_new: bool) -> None:
        """A broker on another host refuses connections: the active controller judges."""
        if is_new:
            self.on_gone(broker_id)
        self._leadership.note_refused(broker_id, epoch)
        if self._leadership.active is None:
            self._reporter().hurry()
