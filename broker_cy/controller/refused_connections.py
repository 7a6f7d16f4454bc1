"""Brokers on other hosts that refuse connections: the reports of nodes, and when these reports prove a broker dead.

A connection that the host of the address refuses shows that no process listens there. Between two hosts, a firewall
rule or a network device may have refused it instead. So a broker is fenced if it refused the active controller and
another host, and has sent nothing since. Each of these nodes had connections to this incarnation before, and was
refused by all of its listeners, twice.

    the controller was not refused            nothing happens: the node that was refused may itself be cut off
    no other host can report                  the controller's own refusals decide, if they last for ALONE_MS
    the broker sends a heartbeat              earlier reports are void

A host can report if it has a broker of broker-cy in service that is not the broker in question, and if it is not the
controller's own host; hosts are those of `placement.host_of`. The nodes repeat their reports as long as they are
refused.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final

from broker_cy.controller.broker_records import check_epoch
from broker_cy.controller.heartbeats import Contact
from broker_cy.controller.operation import MetadataStep, Operation, OperationContext
from broker_cy.controller.placement import host_of
from broker_cy.core.classes import dataclass
from broker_cy.metadata.image import BrokerImage, MetadataImage

# How long the controller's connections must be refused if no other host can report.
ALONE_MS: Final = 50
# The tagged field of BrokerHeartbeat with the brokers that refuse the sender. It is sent to controllers of broker-cy
# only: Kafka's specification does not have it.
TAG: Final = 10_000
_ENTRY: Final = struct.Struct(">iq")
# A cluster does not lose more brokers at the same time.
ENTRIES_MAX: Final = 1_000


def tag_of(epochs: Mapping[int, int]) -> tuple[tuple[int, bytes], ...]:
    """The tagged field for brokers that refuse connections, with their epochs; empty without such brokers."""
    if not epochs:
        return ()
    return ((TAG, b"".join(_ENTRY.pack(*each) for each in sorted(epochs.items())[:ENTRIES_MAX])),)


def read_tag(tags: Iterable[tuple[int, bytes]]) -> dict[int, int]:
    """The argument of `tag_of`; empty without the field, or if it is not understood."""
    data = dict(tags).get(TAG, b"")
    if len(data) % _ENTRY.size or len(data) > ENTRIES_MAX * _ENTRY.size:
        return {}
    return dict(_ENTRY.iter_unpack(data))


@dataclass(frozen=True, slots=True)
class NoteRefusedConnections(Operation[dict[int, int]]):
    """The node `observer` is refused by brokers, given with their epochs. The reply is those of them that are gone, and
    are to be fenced (broker_states.FenceBrokers). `observer_epoch` is its broker epoch, None: it is the active
    controller. `strangers` are the brokers that are known not to report anything.

    Raises KafkaError(STALE_BROKER_EPOCH).
    """

    observer: int
    observer_epoch: int | None
    epochs: Mapping[int, int]
    strangers: frozenset[int] = frozenset()

    def run(self, state: MetadataImage, step: MetadataStep, context: OperationContext) -> dict[int, int]:
        if self.observer_epoch is not None:
            check_epoch(state, self.observer, self.observer_epoch)
        gone = {}
        for broker_id, epoch in self.epochs.items():
            broker = state.brokers.get(broker_id)
            # A process does not refuse its own node.
            own = broker_id in (self.observer, context.config.node_id)
            if broker is None or broker.epoch != epoch or broker.fenced or own:
                continue
            contact = context.heartbeats.contact(broker)
            contact.refuse(self.observer, context.monotonic_ms)
            if self._is_gone(state, context, broker, contact):
                gone[broker_id] = epoch
        return gone

    def _is_gone(self, state: MetadataImage, context: OperationContext, broker: BrokerImage, contact: Contact) -> bool:
        controller, now_ms = context.config.node_id, context.monotonic_ms
        if not contact.is_refused(controller, now_ms):
            return False
        here = _host_of_node(state, controller)
        if here is None:
            return False
        elsewhere = [each for each in state.brokers.values() if host_of(each) != here]
        if any(contact.is_refused(each.broker_id, now_ms) for each in elsewhere):
            return True
        silent = {broker.broker_id, *self.strangers}
        if any(each.is_active and each.broker_id not in silent for each in elsewhere):
            return False
        own = contact.refused_by[controller]
        return own.last_ms - own.first_ms >= ALONE_MS


def _host_of_node(state: MetadataImage, node_id: int) -> str | None:
    """The host of a broker or of a controller; None if its registration is not known."""
    broker = state.brokers.get(node_id)
    if broker is not None:
        return host_of(broker)
    controller = state.controllers.get(node_id)
    if controller is None or not controller.end_points:
        return None
    return str(min(controller.end_points, key=lambda each: each.name).host)


@dataclass(frozen=True, slots=True)
class NoteCuts(Operation[None]):
    """The connections of the active controller to brokers, given with their epochs, have ended."""

    epochs: Mapping[int, int]

    def run(self, state: MetadataImage, step: MetadataStep, context: OperationContext) -> None:
        for broker_id, epoch in self.epochs.items():
            broker = state.brokers.get(broker_id)
            if broker is not None and broker.epoch == epoch:
                context.heartbeats.contact(broker).is_cut = True
