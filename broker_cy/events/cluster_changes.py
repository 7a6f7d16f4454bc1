"""The failures that a change of the metadata shows: lost and returned brokers, leaders elected because of them, and
in-sync sets below min.insync.replicas. Pure: the events follow from the images before and after.

Each broker sees every change; one of them writes the events (`writer`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from broker_cy.controller.partition_change import RECOVERING
from broker_cy.metadata.fence_reasons import FenceReason
from broker_cy.metadata.topic_names import CLUSTER_EVENTS
from broker_cy.metrics.events import (
    PARTITIONS_REPORTED_MAX,
    BrokerFenced,
    BrokerUnfenced,
    Event,
    InSyncBelowMin,
    LeadersElected,
)

if TYPE_CHECKING:
    from broker_cy.metadata.image import BrokerImage, ImageDelta, MetadataImage, PartitionImage

NO_LEADER: Final = -1


def writer(image: MetadataImage) -> int:
    """The broker that writes the events of this change: the leader of the topic, which may be unreachable; without a
    leader, the active broker with the lowest id, where the events wait for a leader. -1 without an active broker.
    """
    topic = image.topics.by_name(CLUSTER_EVENTS)
    leader = topic.partitions[0].leader if topic is not None and 0 in topic.partitions else NO_LEADER
    if leader != NO_LEADER:
        return leader
    return min((each for each, broker in image.brokers.items() if broker.is_active), default=NO_LEADER)


def failures(
    before: Mapping[int, BrokerImage], delta: ImageDelta, image: MetadataImage, min_isr: Callable[[str], int]
) -> list[Event]:
    """`before` are the brokers before the change, `min_isr` returns min.insync.replicas of a topic."""
    return [*_brokers(before, delta, image), *_partitions(delta, image, min_isr)]


def _brokers(before: Mapping[int, BrokerImage], delta: ImageDelta, image: MetadataImage) -> Iterator[Event]:
    for broker_id in sorted(delta.brokers):
        old, new = before.get(broker_id), image.brokers.get(broker_id)
        was_in, is_in = old is not None and not old.fenced, new is not None and not new.fenced
        if was_in and not is_in:
            yield BrokerFenced(broker_id, old.epoch if old is not None else -1, *_cause(old, new))
        elif is_in and not was_in and new is not None:
            yield BrokerUnfenced(broker_id, new.epoch)


def _cause(old: BrokerImage | None, new: BrokerImage | None) -> tuple[str, str]:
    """The cause, and for a lost broker the reason, empty if the controller did not name it."""
    if new is None:
        return "unregistered", ""
    if old is None or old.incarnation_id != new.incarnation_id:
        return "started_again", ""
    reason = new.fence_reason
    if reason is FenceReason.UNKNOWN:
        # A controller of Apache Kafka. A broker that leads no partition stops without a controlled shutdown: it looks
        # lost.
        return ("stopped" if old.in_controlled_shutdown or new.in_controlled_shutdown else "lost"), ""
    return ("stopped", "") if reason is FenceReason.STOPPED else ("lost", reason.name.lower())


def _partitions(delta: ImageDelta, image: MetadataImage, min_isr: Callable[[str], int]) -> Iterator[Event]:
    """One event of each kind, because a broker that is lost may have led thousands."""
    elected: list[str] = []
    unclean: list[str] = []
    offline: list[str] = []
    below: list[str] = []
    for topic in delta.topics:
        if topic.before is None or topic.after is None or topic.before.topic_id != topic.after.topic_id:
            continue
        name, least = topic.after.name, min_isr(topic.after.name)
        for number, new in topic.after.partitions.items():
            old = topic.before.partitions.get(number)
            if old is None or old is new:
                continue
            key = f"{name}-{number}"
            if old.leader != new.leader:
                if new.leader == NO_LEADER:
                    offline.append(key)
                elif _is_unclean(old, new):
                    unclean.append(key)
                elif _has_failed(old, new, image):
                    elected.append(key)
            if len(new.isr) < min(least, len(new.replicas)) <= len(old.isr):
                below.append(key)
    for kind, found in (("failure", elected), ("unclean", unclean), ("no_leader", offline)):
        if found:
            yield LeadersElected(kind, found[:PARTITIONS_REPORTED_MAX], len(found))
    if below:
        yield InSyncBelowMin(below[:PARTITIONS_REPORTED_MAX], len(below))


def _is_unclean(old: PartitionImage, new: PartitionImage) -> bool:
    """Whether the new leader may lack acknowledged records: the controller marks the partition (KIP-704). The end of a
    reassignment also elects a leader that was not in sync in the image before, but has everything by now.
    """
    return new.leader_recovery_state == RECOVERING and new.leader not in (*old.isr, *old.elr)


def _has_failed(old: PartitionImage, new: PartitionImage, image: MetadataImage) -> bool:
    """Whether the leader was replaced because it failed. The controller elects others before it fences a broker
    (broker_states.ReplaceLeaders): the broker is still active then, but leaves the in-sync set, which it does not in an
    election of the preferred leader.
    """
    broker = image.brokers.get(old.leader)
    if broker is None or not broker.is_active:
        return True
    return old.leader in old.isr and old.leader in new.replicas and old.leader not in new.isr
