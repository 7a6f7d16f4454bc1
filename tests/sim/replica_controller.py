"""The controller of the replication simulation: elections and in-sync sets as KIP-497, KIP-841, KIP-903 and KIP-966
say.
"""

from __future__ import annotations

from broker_cy.core.errors import ErrorCode
from broker_cy.metadata.image import PartitionImage
from broker_cy.replica.broker_status import BrokerStatus
from broker_cy.replica.in_sync import Altered, Proposal


class Broker:
    def __init__(self) -> None:
        self.epoch = -1
        self.fenced = True
        self.stopping = False


class Controller:
    """All decisions are committed immediately; `version` counts them."""

    def __init__(self, replicas: tuple[int, ...], min_isr: int) -> None:
        self.brokers = {each: Broker() for each in replicas}
        self.image = PartitionImage(replicas, replicas, replicas[0], 0, 0)
        self.min_isr = min_isr
        self.version = 0
        self.broker_epochs = 100
        self.elections = 0

    def broker_statuses(self) -> dict[int, BrokerStatus]:
        return {
            each: BrokerStatus(broker.epoch, not broker.fenced and not broker.stopping)
            for each, broker in self.brokers.items()
            if broker.epoch >= 0
        }

    def may_lead(self, broker_id: int) -> bool:
        broker = self.brokers[broker_id]
        return not broker.fenced and not broker.stopping

    def register(self, broker_id: int) -> int:
        """A process starts; returns its broker epoch. It is fenced until `unfence`."""
        self.broker_epochs += 1
        self.fence(broker_id)
        broker = self.brokers[broker_id]
        broker.epoch, broker.stopping = self.broker_epochs, False
        self.version += 1
        return broker.epoch

    def unfence(self, broker_id: int) -> None:
        self.brokers[broker_id].fenced = False
        self.commit(self.image.isr, self.image.elr)

    def fence(self, broker_id: int, *, lost_records: bool = False) -> None:
        self.brokers[broker_id].fenced = True
        self.remove(broker_id, lost_records=lost_records)

    def stop(self, broker_id: int) -> None:
        self.brokers[broker_id].stopping = True
        self.remove(broker_id)

    def remove(self, broker_id: int, *, lost_records: bool = False) -> None:
        isr = tuple(each for each in self.image.isr if each != broker_id)
        elr = self.eligible(isr, self.image.isr + self.image.elr)
        if lost_records:
            elr = tuple(each for each in elr if each != broker_id)
        self.commit(isr, elr)

    def eligible(self, isr: tuple[int, ...], before: tuple[int, ...]) -> tuple[int, ...]:
        """While the set is too small nothing is committed, so those that were in it stay eligible to lead."""
        return tuple(each for each in before if each not in isr) if len(isr) < self.min_isr or not isr else ()

    def commit(self, isr: tuple[int, ...], elr: tuple[int, ...]) -> None:
        image = self.image
        leader, epoch = image.leader, image.leader_epoch
        if leader not in isr or not self.may_lead(leader):
            leader = next((each for each in (*isr, *elr) if self.may_lead(each)), -1)
        if leader >= 0 and leader not in isr:
            isr, elr = (*isr, leader), tuple(each for each in elr if each != leader)
        if leader != image.leader:
            epoch += 1
            self.elections += 1
        new = image._replace(isr=isr, elr=elr, leader=leader, leader_epoch=epoch)
        if new != image:
            self.image = new._replace(partition_epoch=image.partition_epoch + 1)
        self.version += 1

    def alter(self, sender: int, broker_epoch: int, proposal: Proposal) -> Altered:
        image = self.image
        if self.brokers[sender].epoch != broker_epoch:
            return Altered(ErrorCode.STALE_BROKER_EPOCH)
        if proposal.leader_epoch != image.leader_epoch or sender != image.leader:
            return Altered(ErrorCode.FENCED_LEADER_EPOCH)
        if proposal.partition_epoch != image.partition_epoch:
            return Altered(ErrorCode.INVALID_UPDATE_VERSION)
        for broker_id, epoch in proposal.isr:
            broker = self.brokers[broker_id]
            if not self.may_lead(broker_id) or epoch not in (-1, broker.epoch):
                return Altered(ErrorCode.INELIGIBLE_REPLICA)
        isr = tuple(broker_id for broker_id, _ in proposal.isr)
        self.commit(isr, self.eligible(isr, image.isr + image.elr))
        return Altered(ErrorCode.NONE, self.image.leader_epoch, self.image.partition_epoch, self.image.isr)
